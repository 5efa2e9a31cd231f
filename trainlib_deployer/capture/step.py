"""UserModel to one torch.fx graph of the whole training step.

make_fx traces loss and torch.autograd.grad over a call of the module, which holds fake tensors for that time. Three
taps name the nodes (namer.py): module hooks keep the current layer path; a TorchFunctionMode sees every torch call and
the user's line that made it; the autograd nodes which that call created carry the same origin into the backward pass.
Functionalization then removes mutation (trace.py): what was written to a buffer becomes an output of the graph.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.fx.traceback as annotations_of_nodes
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from golden.borrow import uncompiled
from golden.drawing import Drawing
from golden.metrics import measured
from golden.precision import as_real, as_scalar
from golden.reference import COUNTERS, named_outputs
from trainlib_deployer.capture import remedies
from trainlib_deployer.capture.batch_counts import batch_counts, counted_by
from trainlib_deployer.capture.eager import EagerStep, after_first_step, first_steps
from trainlib_deployer.capture.known import Known
from trainlib_deployer.capture.masks import tidy_masks
from trainlib_deployer.capture.namer import TAG, Namer, Origin, WithLoss
from trainlib_deployer.capture.selected import Selected
from trainlib_deployer.capture.slots import Beginning, Captured, Out, Slot, rebuilt, slots_of
from trainlib_deployer.capture.tidy import check_written, name_untagged, take_writes, tidy
from trainlib_deployer.capture.trace import functional, log_off, trace
from trainlib_deployer.capture.user_line import user_line_of_error
from trainlib_deployer.capture.without_complex import without_complex
from trainlib_deployer.errors import DeployError, Unsupported
from trainlib_deployer.ops.random import TracedNumbers
from trainlib_deployer.user.model import UserModel
from trainlib_deployer.user.module import kept_loss


def capture(user: UserModel, steps: Sequence[EagerStep] = ()) -> Captured:
    """Trace the first training step of the user's model. `steps` are those of plain PyTorch: they tell what lasts."""
    first = steps[0] if steps else first_steps(user, 1)[0]
    reshaped = {n for n, t in first.after.items() if n not in first.before or first.before[n].shape != t.shape}
    lasting = frozenset(first.lasting() - names_of(user.module))
    changed = frozenset(n for step in (steps or (first,)) for n in step.lasting())
    return captured(user, Beginning(user.start, first.before, lasting, frozenset(reshaped), changed))


def capture_second(user: UserModel, steps: Sequence[EagerStep]) -> Captured:
    """Trace the second step instead: for a model whose first one only makes, out of zeros, what all others find."""
    lasting = frozenset(steps[1].lasting() - names_of(user.module))
    counts = batch_counts(user.module)
    with after_first_step(user) as snapshot:
        changed = frozenset(n for step in steps for n in step.lasting())
        return captured(user, Beginning(snapshot, steps[0].before, lasting, frozenset(), changed), counts)


def names_of(module: nn.Module) -> set[str]:
    return {n for n, _ in (*module.named_parameters(), *module.named_buffers())}


def captured(user: UserModel, beginning: Beginning, counts: dict[_BatchNorm, int] | None = None) -> Captured:
    whole = WithLoss(user.module, user.loss)
    slots = slots_of(user, whole, beginning)
    trained = [s.name for s in slots if s.trainable]
    step = Step(user, whole, beginning, slots, trained, batch_counts(whole.net) if counts is None else counts)
    try:
        with user.start.undone(), uncompiled(), log_off(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = trace(step, [s.value for s in slots])
            outputs = step.outputs
            check_written(graph, user)
            graph = functional(graph, [s.value for s in slots])
            graph = without_complex(graph, [s.value for s in slots])
    except DeployError as error:
        error.source = error.source or user_line_of_error(error)
        raise
    except Exception as error:
        raise explained(error) from error
    outputs = (*outputs, *take_writes(graph, user, slots, {out.name for out in outputs if out.kind == "buffer"}))
    written = frozenset(out.name for out in outputs if out.kind == "buffer")
    if any(slot.name in written and step.steady(slot) for slot in slots):  # though no step seen so far has changed it
        return captured(user, replace(beginning, changed=beginning.changed | written), counts)
    tidy(graph)
    tidy_masks(graph, TAG)
    name_untagged(graph)
    return Captured(graph, tuple(slots), outputs, step.decided)


@dataclass(frozen=True)
class Returned:
    """A result of the network, to which a loss may write."""

    name: str
    tensor: torch.Tensor
    version: int
    copy: torch.Tensor

    @classmethod
    def of(cls, name: str, tensor: torch.Tensor) -> Returned:
        if isinstance(tensor, Selected):
            words = f"{tensor.origin.words} is what the network returns as '{name}': {remedies.ON_SHAPES}"
            raise Unsupported(words, source=tensor.origin.source, remedy=remedies.SHAPES)
        return cls(name, tensor, tensor._version, tensor.detach().clone())

    def value(self) -> torch.Tensor:
        """As the network returned it."""
        return as_real((self.tensor if self.tensor._version == self.version else self.copy).detach())


@dataclass
class Step:
    """The function that is traced: all tensors in, (loss, outputs, gradients) out."""

    user: UserModel
    whole: WithLoss
    beginning: Beginning
    slots: list[Slot]
    trained: list[str]
    counts: dict[_BatchNorm, int]
    outputs: tuple[Out, ...] = ()
    decided: tuple[str, ...] = ()

    def __call__(self, *values: torch.Tensor) -> list[torch.Tensor]:
        held = {id(s.held): self.leaf(s, v) for s, v in zip(self.slots, values, strict=True) if s.held is not None}
        leaves = {s.name: held[id(s.held)] for s in self.slots if s.trainable}
        given = dict(zip([s.kind + s.name for s in self.slots], values, strict=True))
        inputs = rebuilt(self.user.inputs, iter([v for k, v in given.items() if k.startswith("inputinput")]))
        target = rebuilt(self.user.target, iter([v for k, v in given.items() if k.startswith("targettarget")]))
        self.beginning.snapshot.put(held)  # not functional_call, which puts back wrong what has two names
        steady = [s for s in self.slots if self.steady(s)]
        known = Known((s.kind + s.name, held[id(s.held)], s.held) for s in steady if s.held is not None)
        with Drawing(TracedNumbers(values[-1])), counted_by(values[-1], self.counts):
            results = self.run(inputs, target, leaves, known)
        self.decided = tuple(s.name for s in steady if s.kind == "buffer" and s.kind + s.name in known.decided)
        return [*results, *self.replaced(held)]

    def steady(self, slot: Slot) -> bool:
        """Is it the same in all steps, whatever is trained?"""
        counter = slot.name.rpartition(".")[2] in COUNTERS
        return slot.kind in ("buffer", "constant") and slot.name not in self.beginning.changed and not counter

    def leaf(self, slot: Slot, value: torch.Tensor) -> torch.Tensor:
        """What the module holds instead of its own."""
        if slot.held is not None and slot.held.is_complex():
            value = torch.view_as_complex(value)
        if not isinstance(slot.held, nn.Parameter):
            return value
        made = value.detach().requires_grad_(slot.trainable)
        for hook in (slot.held._backward_hooks or {}).values() if slot.trainable else ():
            made.register_hook(hook)  # type: ignore[no-untyped-call]
        return made

    def replaced(self, held: Mapping[int, torch.Tensor]) -> list[torch.Tensor]:
        """What the forward has put in the place of buffers, `self.mean = 0.9 * self.mean + ...`, becomes a result."""
        found = []
        for slot in (s for s in self.slots if s.held is not None):
            now = self.beginning.snapshot.places[id(slot.held)][0].held()
            if now is held[id(slot.held)] or not isinstance(now, torch.Tensor):
                continue
            if as_real(now).shape != slot.value.shape:
                raise Unsupported(f"forward changes the shape of '{slot.name}' in every step", remedy=remedies.STATE)
            if slot.kind == "constant":
                raise Unsupported(f"the loss replaces its tensor '{slot.name}'", remedy=kept_loss(self.user.module))
            if slot.kind == "buffer" and not slot.name.endswith("num_batches_tracked"):
                found.append(as_real(now.detach()).clone())  # of itself even where two buffers change places
                self.outputs += (Out("buffer", slot.name),)
        return found

    def run(self, inputs: Any, target: Any, leaves: dict[str, torch.Tensor], known: Known) -> list[torch.Tensor]:
        namer = Namer(self.whole, known)
        with namer.layers():
            with namer:
                output = self.whole.net(*inputs)
                returned = [Returned.of(n, v) for n, v in named_outputs(output)]
                if self.user.loss is None:
                    return self.shown(returned)
                with namer.layer("loss"):
                    loss = as_scalar(self.whole.loss(output, target))
                with namer.layer("metrics"), torch.no_grad():
                    measures = measured(self.user.metrics, output, target)
            if not self.user.trains:
                return self.told(loss, returned, measures)
            namer.arm()
            with annotations_of_nodes.annotate({TAG: Origin("backward", "loss", "seed", 0, None)}):
                seed = torch.ones_like(loss)
            wanted = [leaves[n] for n in self.trained]
            found = torch.autograd.grad(loss, wanted, seed, allow_unused=True)
        sums = ([g for g in (given, p.grad) if g is not None] for given, p in zip(found, wanted, strict=True))
        gradients = [(n, sum(g[1:], start=g[0])) for n, g in zip(self.trained, sums, strict=True) if g]
        told = self.told(loss, returned, measures)
        self.outputs += tuple(Out("gradient", n) for n, _ in gradients)
        return [*told, *(as_real(g) for _, g in gradients)]

    def told(
        self, loss: torch.Tensor, returned: list[Returned], measures: Mapping[str, torch.Tensor]
    ) -> list[torch.Tensor]:
        """What an evaluation gives."""
        self.outputs = (Out("loss", "loss"),)
        shown = self.shown(returned)
        self.outputs += tuple(Out("metric", n) for n in measures)
        return [loss.detach(), *shown, *measures.values()]

    def shown(self, returned: list[Returned]) -> list[torch.Tensor]:
        """The network's results become the graph's."""
        self.outputs += tuple(Out("output", r.name) for r in returned)
        return [r.value() for r in returned]


def explained(error: Exception) -> DeployError:
    """What tracing could not follow, in the user's terms."""
    source = user_line_of_error(error)
    kind = type(error).__name__
    if kind in ("DataDependentOutputException", "GuardOnDataDependentSymNode") or "_local_scalar_dense" in str(error):
        return Unsupported(
            remedies.ON_VALUES, source=source, remedy=remedies.remedy_for_value(source.text if source else "")
        )
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
