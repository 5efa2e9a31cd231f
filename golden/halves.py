"""Mixed precision: what a program rounds to half precision that keeps activations and their gradients so.

What an operation reads of others has lain in memory as halves, and so have both operands of convolutions and matrix
products, weights as well; products of a vector, or of one term, take weights as they are. Everything inside of an
operation is float (of the precision of the run), and so are parameters, their gradients, buffers, samples, statistics,
states of optimizers, single numbers, outputs, what losses read and make, and all that layers do which are kept so. A
program may do a chain of pointwise operations in one loop: with `chains`, no operation of one rounds what the one
before it has made.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from golden.composed import AT_ONCE, STEPS
from golden.doubt import CERTAIN, Branches
from golden.layers import Inside
from golden.memory import EMPTY, Found
from golden.mode import Mode, address, among_ourselves, leaves, mapped
from golden.rounding import EXACT, NORM, is_choice, written_to
from golden.tiles import Signature, Tiles
from golden.wide import is_bounded, is_sum, is_wide

PRODUCTS = frozenset(("mm", "bmm", "addmm", "baddbmm"))  # of their last two operands
CONVOLUTIONS = {"convolution": 2, "convolution_backward": 3}  # operands that are multiplied
LOSSES = frozenset(
    (
        "_log_softmax _log_softmax_backward_data nll_loss_forward nll_loss_backward nll_loss2d_forward "
        "nll_loss2d_backward mse_loss mse_loss_backward smooth_l1_loss smooth_l1_loss_backward huber_loss "
        "huber_loss_backward binary_cross_entropy binary_cross_entropy_backward binary_cross_entropy_with_logits "
        "soft_margin_loss soft_margin_loss_backward multi_margin_loss multi_margin_loss_backward "
        "multilabel_margin_loss_forward multilabel_margin_loss_backward _ctc_loss _ctc_loss_backward"
    ).split()
)
REDUCTIONS = frozenset("sum mean var std var_mean std_mean amax amin prod logsumexp linalg_vector_norm norm".split())
BATCH_NORMS = ("native_batch_norm", "_native_batch_norm_legit")
MARKS = {"statistic", "in_chain", "bounded", "in_parts"}  # attributes of what a dispatch has made
NORMS = {  # the first of their operands; the others are statistics and parameters
    **dict.fromkeys((*BATCH_NORMS, "native_layer_norm", "native_group_norm"), 1),
    **dict.fromkeys("native_batch_norm_backward native_layer_norm_backward native_group_norm_backward".split(), 2),
}
WHOLE = PRODUCTS | CONVOLUTIONS.keys() | REDUCTIONS | NORMS.keys()  # whose results a program rounds once


class Halves(Mode):
    """Everything that PyTorch computes in `dtype` while this is on, as a program of mixed precision does."""

    def __init__(
        self,
        dtype: torch.dtype,
        floats: Iterable[Any],
        chains: bool,
        kept: Inside | None = None,
        branches: Branches | None = None,
        tiles: Iterable[Signature] = (),
        memory: Found | None = None,
        network: Inside | None = None,
    ) -> None:
        """`floats`: parameters, buffers, samples; `memory`: what the program had in this step; `network`: all that is
        not its loss."""
        super().__init__()
        self.branches = CERTAIN.of(0) if branches is None else branches
        self.tiles = Tiles(tiles)
        self.memory = EMPTY.of(None) if memory is None else memory
        self.dtype, self.chains, self.kept = dtype, chains, Inside() if kept is None else kept
        self.network = Inside() if network is None else network
        self.floats: dict[int, torch.Tensor] = {}  # by where they lie, kept so that nothing else comes to lie there
        self.of_losses: dict[int, torch.Tensor] = {}  # floats for whoever calculates with floats alone
        self.given: dict[int, torch.Tensor] = {}  # by the loss function: for loops as well
        self.had: dict[int, torch.Tensor] = {}  # by the program, as halves: rounded already
        self.chosen: dict[int, torch.Tensor] = {}  # among others: autograd looks for them there, bit by bit
        self.chained: dict[int, torch.Tensor] = {}  # with `chains`: what autograd keeps comes back without its mark
        self.leave(floats)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        views = any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)
        node = torch._C._current_autograd_node()
        if views or (node is not None and node.name().endswith("AccumulateGrad")):
            return seen_as(func(*args, **(kwargs or {})), args[0] if args else None)
        if func in STEPS:
            with self:
                return STEPS[func](*args, **(kwargs or {}))
        name, alone, given = func._schema.name.partition("::")[2], torch.Tag.pointwise in func.tags, args
        in_loss = bool(self.network.made) and not self.network
        self.leave(pytree.tree_leaves(self.network.made) if in_loss else ())  # outputs
        choice = is_choice(name, args)
        wide = node is None and is_wide(name)
        self.leave(t for t in leaves(args) if (wide or is_sum(name)) and getattr(t, "bounded", False))
        if not in_loss and name not in LOSSES:
            count = NORMS.get(name, len(args))
            args = (*self.found(func, args[:count], alone, choice), *args[count:])
        args = self.branches.taken(name, args, next((t for t in leaves(given[:1]) if self.is_made(t)), None))
        if name in BATCH_NORMS:
            self.leave(args[3:5])  # an InstanceNorm counts in copies of its statistics
        call = AT_ONCE.get(func, func)
        out = in_memory(call(*(args if self.kept else self.multiplied(name, args)), **(kwargs or {})))
        if name in CONVOLUTIONS and not self.kept:
            out = self.tiles.instead(name, args, out)
        for changed in places(leaves(written_to(func, args, kwargs or {}))):
            self.had.pop(changed, None)
        chosen = choice or (name in EXACT and not self.chosen.keys().isdisjoint(places(leaves(given))))
        if chosen:
            among = given[:1] if name == NORM else ()  # autograd looks among their sizes
            self.chosen |= {p: t for p, t in places(leaves((out, *among))).items() if t.is_floating_point()}
        statistics = {a.shape for a in leaves(args) if is_statistic(a)} if alone else ()
        for made in leaves((out,)):
            if isinstance(made, torch.Tensor):
                self.go_on(made, chosen, backward=node is not None)
                made.statistic = name in REDUCTIONS or made.shape in statistics  # type: ignore[attr-defined]
                made.in_chain = alone  # type: ignore[attr-defined]
                made.bounded = is_bounded(name)  # type: ignore[attr-defined]
                made.in_parts = not alone and name not in WHOLE  # type: ignore[attr-defined]
        if alone and self.chains:
            self.chained |= places(leaves((out,)))
        if self.kept or wide:
            self.leave(leaves((out,)))
        elif in_loss or name in LOSSES:
            (self.given if in_loss else self.of_losses).update(places(leaves((out,))))
        return out

    def go_on(self, made: torch.Tensor, chosen: bool, backward: bool) -> None:
        """With what the program had, if that is there. An element that is one of others stays that one."""
        if not self.is_made(made):
            return
        if chosen or (not (backward and self.branches.passes_on()) and self.memory.follow(made) and is_all(made)):
            self.had |= places((made,))

    def leave(self, floats: Iterable[Any]) -> None:
        """What lies where these lie is never a half."""
        self.floats |= places(floats)

    def multiplied(self, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Operands as a product has them."""
        if name in CONVOLUTIONS:
            return (*mapped(self.half, list(args[: CONVOLUTIONS[name]])), *args[CONVOLUTIONS[name] :])
        if name in PRODUCTS and min(*args[-2].shape[-2:], args[-1].shape[-1]) > 1:
            return (*args[:-2], self.half(args[-2]), self.half(args[-1]))
        return args

    def found(self, func: Any, args: tuple[Any, ...], alone: bool, choice: bool) -> tuple[Any, ...]:
        """Operands as an operation finds them; what it changes in place is changed before. So is what it chooses
        from, which lies in memory as that: autograd compares it with what was chosen."""
        out = []
        for value, argument in zip(args, func._schema.arguments, strict=False):
            read = mapped(lambda v: self.read(v, alone, choice), value)
            if argument.alias_info is None and not choice:
                out.append(read)
                continue
            out.append(value)
            for t, r in zip(leaves((value,)), leaves((read,)), strict=True):
                if r is not t:
                    write(t, r)
        return tuple(out)

    def read(self, value: Any, alone: bool, choice: bool = False) -> Any:
        """What memory holds of one."""
        if not isinstance(value, torch.Tensor) or value.numel() < 2 or is_statistic(value):
            return value
        in_chain = getattr(value, "in_chain", False) or address(value) in self.chained
        passed_on = in_chain and not choice and ((alone and self.chains) or self.branches.passes_on())
        if passed_on or value.layout is not torch.strided:
            return value
        place = address(value)
        looped = alone and place in self.given  # one loop does what the loss passes back and what goes on with it
        stays = looped or place in self.floats or (self.kept and (place in self.of_losses or place in self.given))
        return value if stays else self.half(value)

    def is_made(self, value: Any) -> bool:
        """Here, and nothing that lasts."""
        return isinstance(value, torch.Tensor) and address(value) not in self.floats

    def half(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype is not self.dtype or address(value) in self.had:
            return value
        parts, made = getattr(value, "in_parts", False), self.is_made(value)
        with among_ourselves():
            kept = self.branches.rounded(value, parts) if made else self.branches.half.rounded(value)
            return kept.to(self.dtype)


def places(tensors: Iterable[Any]) -> dict[int, torch.Tensor]:
    return {address(t): t for t in tensors if isinstance(t, torch.Tensor)}


def in_memory(out: Any) -> Any:
    """The gradient of sgn, all zeros, lies nowhere."""
    zeros = isinstance(out, torch.Tensor) and out._is_zerotensor()
    return torch.zeros(out.shape, dtype=out.dtype) if zeros else out


def is_all(value: torch.Tensor) -> bool:
    """Of what lies there."""
    return value.untyped_storage().nbytes() == value.numel() * value.element_size()


def write(place: torch.Tensor, value: torch.Tensor) -> None:
    """Also where elements are repeated in the same place."""
    once = tuple(slice(1 if step == 0 else None) for step in place.stride())
    place[once].copy_(value[once])


def seen_as(out: Any, of: Any) -> Any:
    """All elements of a statistic in another shape are one."""
    if isinstance(out, torch.Tensor) and is_statistic(of) and out.numel() == of.numel():
        out.statistic = True  # type: ignore[attr-defined]
    return out


def unmark(tensors: Iterable[Any]) -> None:
    """What is the user's, and was written to in place, goes back as it came."""
    for t in tensors:
        for mark in MARKS & vars(t).keys() if isinstance(t, torch.Tensor) else ():
            delattr(t, mark)


def is_statistic(value: Any) -> bool:
    return getattr(value, "statistic", False)
