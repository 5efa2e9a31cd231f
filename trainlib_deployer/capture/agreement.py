"""The captured step against plain eager PyTorch: catches whatever tracing lost."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

from golden.masks import Masks, keep
from golden.precision import InOrder
from golden.reference import named_outputs
from trainlib_deployer.capture import remedies
from trainlib_deployer.capture.slots import Captured
from trainlib_deployer.capture.trace import mkldnn_off
from trainlib_deployer.errors import Unsupported
from trainlib_deployer.user.model import UserModel
from trainlib_deployer.user.samples import cloned

TINY = 1e-6  # what float32 may differ by in a step of ordinary size
AGREEMENT = 1e-3  # of the largest gradient: both are float32, in another order of summation


class Dense(fx.Interpreter):  # type: ignore[misc]
    """Runs a graph without mutation on tensors that lie in order: kernels that ask for a common order of their operands
    got it when the graph was traced, but real operations leave other strides than the traced ones."""

    def run_node(self, n: fx.Node) -> Any:
        return pytree.tree_map(lambda v: v.contiguous() if isinstance(v, torch.Tensor) else v, super().run_node(n))


def check_against_eager(user: UserModel, captured: Captured) -> None:
    """Run the graph on the example and compare with eager autograd: catches whatever tracing lost."""
    module, loss_function = user.module, user.loss
    saved = {n: b.detach().clone() for n, b in module.named_buffers()}
    with torch.random.fork_rng(), mkldnn_off(), InOrder():
        results = Dense(captured.graph).run(*[s.value.clone() for s in captured.inputs])
        parameters = trainable_parameters(module)
        with Masks(lambda shape, q, call: keep(shape, q, call, 0)):
            output = module(*cloned(user.inputs))
            loss = loss_function(output, cloned(user.target))
            gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    expected = {("loss", "loss"): loss, **{("output", n): v for n, v in named_outputs(output)}}
    expected |= {("gradient", n): g for n, g in zip(parameters, gradients, strict=True) if g is not None}
    expected |= {("buffer", n): b.detach().clone() for n, b in module.named_buffers()}
    restore(module, saved)
    largest: dict[str, float] = {}
    for (kind, _), value in expected.items():
        largest[kind] = max(largest.get(kind, 0.0), size(value))
    for out, found in zip(captured.outputs, results, strict=True):
        error = apart(found, expected[out.kind, out.name])
        if not error <= AGREEMENT * largest[out.kind] + TINY:
            raise Unsupported(
                f"the captured graph and eager PyTorch disagree on {out.kind} '{out.name}' (by {error:.3g}); "
                "is there randomness or hidden state in forward?",
                remedy=remedies.STATE,
            )


def trainable_parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    return {n: p for n, p in module.named_parameters() if p.requires_grad}


def restore(module: nn.Module, saved: dict[str, torch.Tensor]) -> None:
    with torch.no_grad():
        for name, buffer in module.named_buffers():
            buffer.copy_(saved[name])


def size(value: torch.Tensor) -> float:
    """The largest finite element."""
    return float(value.detach().double().abs().nan_to_num(0.0, 0.0).max()) if value.numel() else 0.0


def apart(found: torch.Tensor, reference: torch.Tensor) -> float:
    """The largest difference; the same infinity, or NaN in both, is none."""
    x, y = found.detach().double(), reference.detach().double()
    different = ~((x == y) | (x.isnan() & y.isnan()))
    return float((x - y)[different].abs().max()) if different.any() else 0.0
