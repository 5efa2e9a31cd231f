"""UserModel to one torch.fx graph of the whole training step.

make_fx traces loss and torch.autograd.grad over a functional call of the module, on fake tensors. Three taps name the
nodes (namer.py): module hooks keep the current layer path; a TorchFunctionMode sees every torch call and the user's
line that made it; the autograd nodes which that call created carry the same origin into the backward pass.
Functionalization then removes mutation (trace.py): what was written to a buffer becomes an output of the graph.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx.traceback as annotations_of_nodes
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from golden.masks import Masks
from golden.reference import named_outputs
from trainlib_deployer.capture import remedies
from trainlib_deployer.capture.batch_counts import batch_counts, counted_by
from trainlib_deployer.capture.masks import tidy_masks
from trainlib_deployer.capture.namer import TAG, Namer, Origin, WithLoss
from trainlib_deployer.capture.slots import Captured, Out, Slot, rebuilt, slots_of
from trainlib_deployer.capture.tidy import name_untagged, take_buffer_writes, tidy
from trainlib_deployer.capture.trace import functional, trace
from trainlib_deployer.capture.user_line import user_line_of_error
from trainlib_deployer.errors import DeployError, Unsupported
from trainlib_deployer.ops.dropout import keep as keep_op
from trainlib_deployer.user.model import UserModel


def capture(user: UserModel) -> Captured:
    """Trace one training step of the user's model."""
    whole = WithLoss(user.module, user.loss)
    slots = slots_of(user, whole)
    trained = [s.name for s in slots if s.trainable]
    step = Step(user, whole, slots, trained, batch_counts(whole.net))
    try:
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
            warnings.simplefilter("ignore")
            graph = trace(step, [s.value for s in slots])
            outputs = step.outputs
            graph = functional(graph, [s.value for s in slots])
    except DeployError:
        raise
    except Exception as error:
        raise explained(error) from error
    outputs = (*outputs, *take_buffer_writes(graph, slots))
    tidy(graph)
    tidy_masks(graph, TAG)
    name_untagged(graph)
    return Captured(graph, tuple(slots), outputs)


@dataclass
class Step:
    """The function that is traced: all tensors in, (loss, outputs, gradients) out."""

    user: UserModel
    whole: WithLoss
    slots: list[Slot]
    trained: list[str]
    counts: dict[_BatchNorm, int]
    outputs: tuple[Out, ...] = ()

    def __call__(self, *values: torch.Tensor) -> list[torch.Tensor]:
        leaves: dict[str, torch.Tensor] = {}
        state: dict[str, torch.Tensor] = {}
        for (name, _), slot, value in zip(self.named_state(), self.slots, values, strict=False):
            if slot.kind == "parameter" or isinstance(value, nn.Parameter):
                value = value.detach().requires_grad_() if slot.trainable else value.detach()
                leaves[slot.name] = value
            state[name] = value
        given = dict(zip([s.kind + s.name for s in self.slots], values, strict=True))
        inputs = rebuilt(self.user.inputs, iter([v for k, v in given.items() if k.startswith("inputinput")]))
        target = rebuilt(self.user.target, iter([v for k, v in given.items() if k.startswith("targettarget")]))

        def run() -> list[torch.Tensor]:
            masks = Masks(lambda shape, q, call: keep_op(values[-1], list(shape), q, call, 1.0))
            with masks, counted_by(values[-1], self.counts):
                return self.run(inputs, target, leaves)

        result: list[torch.Tensor] = torch.func.functional_call(self.whole, state, (run,), tie_weights=True)
        return result

    def named_state(self) -> list[tuple[str, torch.Tensor]]:
        return [*self.whole.named_parameters(), *self.whole.named_buffers()]

    def run(self, inputs: Any, target: Any, leaves: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        namer = Namer(self.whole)
        with namer.layers():
            with namer:
                output = self.whole.net(*inputs)
                with namer.layer("loss"):
                    loss = self.whole.loss(output, target)
            namer.arm()
            with annotations_of_nodes.annotate({TAG: Origin("backward", "loss", "seed", 0, None)}):
                seed = torch.ones_like(loss)
            wanted = [leaves[n] for n in self.trained]
            found = torch.autograd.grad(loss, wanted, seed, allow_unused=True)
        gradients = [(n, g) for n, g in zip(self.trained, found, strict=True) if g is not None]
        shown = named_outputs(output)
        self.outputs = (
            Out("loss", "loss"),
            *(Out("output", n) for n, _ in shown),
            *(Out("gradient", n) for n, _ in gradients),
        )
        return [loss.detach(), *(v.detach() for _, v in shown), *(g for _, g in gradients)]


def explained(error: Exception) -> DeployError:
    """What tracing could not follow, in the user's terms."""
    source = user_line_of_error(error)
    kind = type(error).__name__
    if kind in ("DataDependentOutputException", "GuardOnDataDependentSymNode") or "_local_scalar_dense" in str(error):
        return Unsupported(remedies.ON_VALUES, source=source, remedy=remedies.VALUES)
    if kind == "DynamicOutputShapeException":
        operation = str(error).removeprefix("aten.").rpartition(".")[0]
        return Unsupported(
            f"'{operation}': {remedies.ON_SHAPES}",
            source=source,
            remedy=remedies.REMEDIES.get(operation, remedies.SHAPES),
        )
    first = str(error).strip().splitlines()[0] if str(error).strip() else kind
    message = f"the training step cannot be captured: {kind}: {first}"
    return Unsupported(message, source=source, remedy=remedies.remedy_for_exception(first))
