"""Sequences of lengths that are known only when the step runs: alignment losses, reductions over segments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from trainlib_deployer.capture.recurrent import PACKED
from trainlib_deployer.capture.rewrites_linalg import IMPOSSIBLE as LINALG

Tensor = torch.Tensor
NEVER = -1e30  # the logarithm of no probability: sums of it stay finite, and differences are no NaN
REDUCTIONS = ("none", "mean", "sum")


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """The forward pass over log-alpha [batch, 2 labels + 1]; autograd makes the backward pass of it."""
    lengths, counts = (torch.as_tensor(v).reshape(-1) for v in (input_lengths, target_lengths))
    steps = log_probs if log_probs.dim() == 3 else log_probs.unsqueeze(1)
    labels = padded(targets, counts, blank)
    extended = F.pad(labels.unsqueeze(-1), [1, 0], value=blank).flatten(1)
    extended = F.pad(extended, [0, 1], value=blank)
    positions = torch.arange(extended.shape[1])
    repeats = extended == F.pad(extended, [2, 0], value=-1)[:, :-2]
    forbidden = torch.stack([repeats, torch.zeros_like(repeats), torch.zeros_like(repeats)], -1)
    barred = torch.where(forbidden, NEVER, 0.0)  # a label may follow another one without a blank if it is not the same
    emitted = steps.gather(2, extended.expand(len(steps), -1, -1)).clamp(min=NEVER)
    alpha = torch.where(positions == 0, 0.0, NEVER).expand(extended.shape)
    for t in range(len(steps)):
        sources = F.pad(alpha, [2, 0], value=NEVER).unfold(1, 3, 1)  # from two before, one before, and itself
        moved = (sources + barred).logsumexp(-1) + emitted[t]
        alpha = torch.where((t < lengths).unsqueeze(1), moved, alpha)
    ends = (2 * counts).unsqueeze(1)
    loss = -torch.where((positions == ends) | (positions == ends - 1), alpha, NEVER).logsumexp(-1)
    impossible = loss > -0.5 * NEVER
    loss = loss + of_distributions(steps, lengths)
    loss = torch.where(impossible, 0.0 if zero_infinity else math.inf, loss)
    if reduction == "mean":
        return (loss / counts.clamp(min=1)).mean()
    return loss.sum() if reduction == "sum" else loss if log_probs.dim() == 3 else loss.squeeze(0)


def padded(targets: Tensor, counts: Tensor, blank: int) -> Tensor:
    """Labels [batch, most], blanks behind the last one. Those that lie one after the other are taken apart."""
    many = len(counts)
    if targets.dim() == 2 or many == 1:
        rows = targets.reshape(many, -1)
        places = torch.arange(rows.shape[1])
    else:
        places = torch.arange(len(targets))
        first = (counts.cumsum(0) - counts).unsqueeze(1)
        rows = targets[(first + places).clamp(max=len(targets) - 1)]
    return torch.where(places < counts.unsqueeze(1), rows.to(torch.int64), blank)


def of_distributions(steps: Tensor, lengths: Tensor) -> Tensor:
    """Zero, with the slope that PyTorch's gradient has beyond the loss's own: what log-softmax makes nothing of."""
    within = torch.arange(len(steps)).unsqueeze(1) < lengths
    total = (steps.exp() * within.unsqueeze(-1)).sum((0, 2))
    return total - total.detach()


def torch_ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, REDUCTIONS[reduction], zero_infinity)


# ---- segments

EMPTY = {"sum": 0.0, "mean": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0}


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Any:
    """Every segment looks at all elements: [..., segments, elements, ...]."""
    if lengths is not None:
        ends = lengths.cumsum(axis)
        starts = ends - lengths
    elif offsets is not None:
        starts, ends = (offsets.narrow(axis, i, offsets.shape[axis] - 1) for i in (0, 1))
    else:
        return NotImplemented
    places = torch.arange(data.shape[axis])
    inside = (places >= starts.unsqueeze(-1)) & (places < ends.unsqueeze(-1))
    shown = inside.reshape(*inside.shape, *[1] * (data.dim() - axis - 1))
    start = EMPTY[reduce] if initial is None else float(initial)
    chosen = torch.where(shown, data.unsqueeze(axis), EMPTY[reduce])
    if reduce in ("max", "min"):
        found = chosen.amax(axis + 1) if reduce == "max" else chosen.amin(axis + 1)
        return found.clamp(min=start) if reduce == "max" else found.clamp(max=start)
    if reduce == "prod":
        return chosen.prod(axis + 1) * start
    total = chosen.sum(axis + 1) + start
    if reduce == "sum":
        return total
    many = shown.sum(axis + 1)
    return torch.where(many == 0, math.nan if initial is None else start, total / many.clamp(min=1))


# ---- attention


def attention(*args: Any, **kwargs: Any) -> Tensor:
    """By operations that have rules, also where the user's own context asks for a kernel."""
    with sdpa_kernel([SDPBackend.MATH]):
        return F.scaled_dot_product_attention(*args, **kwargs)


# ---- packed sequences


def packed(*_: Any) -> Any:
    raise NotImplementedError(PACKED)


REWRITES: dict[Any, Callable[..., Any]] = {
    F.ctc_loss: ctc_loss,
    torch.ctc_loss: torch_ctc_loss,
    torch.segment_reduce: segment_reduce,
    F.scaled_dot_product_attention: attention,
}

# They have forms where the lengths are known, in rewrites_packed.
IMPOSSIBLE: dict[Any, Callable[..., Any]] = LINALG | dict.fromkeys(
    (torch._VF._pack_padded_sequence, torch._VF._pad_packed_sequence), packed
)
