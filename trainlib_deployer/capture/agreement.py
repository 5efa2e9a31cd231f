"""The captured step and the golden model against plain eager PyTorch, from the state in which the model was given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from typing import Any

import numpy as np
import torch
from torch import fx
from torch.utils import _pytree as pytree

from golden import reference
from golden.autocast import without_autocast
from golden.borrow import borrowed
from golden.precision import InOrder, Precise, cast, in_precision, new_tensors_in, one_thread
from golden.record import Array, Key
from golden.task import Task
from trainlib_deployer.capture import remedies
from trainlib_deployer.capture.counting import apart as numbers_apart
from trainlib_deployer.capture.counting import changing, check_counting
from trainlib_deployer.capture.eager import FIRST_STEPS, EagerStep, advance, first_steps, plain_values
from trainlib_deployer.capture.holders import changed_by_loss
from trainlib_deployer.capture.line_that_sets import line_that_sets
from trainlib_deployer.capture.refuse import called, check_deployable, check_optimizer
from trainlib_deployer.capture.slots import Captured, Slot, tensors_in
from trainlib_deployer.capture.step import capture, capture_second
from trainlib_deployer.capture.trace import mkldnn_off
from trainlib_deployer.capture.user_line import line_of
from trainlib_deployer.errors import Unsupported
from trainlib_deployer.torch_types import LEAST, MOST, value_fault
from trainlib_deployer.user.model import UserModel

TINY = 1e-6  # what float32 may differ by in a step of ordinary size
AT_ONCE = 1 << 18  # elements that are compared: in double precision they take several times their bytes
AGREEMENT = 1e-3  # of the largest gradient: both are float32, in another order of summation
SELECTION = "kthvalue"
Results = Mapping[tuple[str, str], torch.Tensor]


class Dense(fx.Interpreter):  # type: ignore[misc]
    """Runs a graph without mutation on tensors that lie in order: kernels that ask for a common order of their operands
    got it when the graph was traced, but real operations leave other strides than the traced ones. Integers lose what
    32 bits do not hold, as in the program: a hash that keeps its lower bits may do without."""

    wrapped: fx.Node | None = None  # the first one that does
    constant = False  # is one given that does? It is refused as it is lowered

    def run_node(self, n: fx.Node) -> Any:
        return pytree.tree_map(lambda v: self.kept(v, n) if isinstance(v, torch.Tensor) else v, super().run_node(n))

    def kept(self, value: torch.Tensor, node: fx.Node) -> torch.Tensor:
        if value.dtype is torch.int64 and value_fault(value) is not None:
            if node.op != "call_function":
                self.constant = True
            elif not self.constant:
                self.wrapped = self.wrapped or node
                value = value.clamp(LEAST, MOST) if of_floats(node) else (value - LEAST) % 2**32 + LEAST
        return value.contiguous()


def of_floats(node: fx.Node) -> bool:
    """Whether a node's operand is of floats: those beyond 32 bits become the nearest integer."""
    given = node.args[0] if node.args else None
    value = given.meta.get("val") if isinstance(given, fx.Node) else None
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def captured_and_checked(user: UserModel, dtype: str = "fp32") -> tuple[Captured, tuple[EagerStep, ...]]:
    """The step as a graph that does in the first steps what PyTorch does with the untouched model; and those steps. All
    of it in float32: what torch.autocast asks for is noted."""
    with without_autocast(dtype == "bf16") as regions:
        graph, steps = captured_in_float32(user)
    if regions.taken_back is not None:
        raise Unsupported(
            "torch.autocast with enabled=False inside of another region",
            source=line_of(*regions.taken_back),
            remedy="make it a layer, and leave that in fp32: --keep fp32=LAYER",
        )
    return replace(graph, autocast=regions.wanted), steps


def captured_in_float32(user: UserModel) -> tuple[Captured, tuple[EagerStep, ...]]:
    check_optimizer(user)
    steps = first_steps(user)
    graph = capture(user, steps)
    check_deployable(user, graph)
    fault = disagreement(user, graph, steps)
    if fault is None:
        check_counting(user, steps)
        return graph, steps
    later = capture_second(user, steps)
    check_deployable(user, later)
    if disagreement(user, later, first_steps(user, FIRST_STEPS + 1)) is None:
        check_counting(user, steps)
        return later, steps
    raise explained(user, fault, steps, graph)


@dataclass(frozen=True)
class Fault:
    """A result that the graph has otherwise than PyTorch, and the step."""

    what: str
    number: int
    wrapped: fx.Node | None  # an integer that 32 bits did not hold

    def __str__(self) -> str:
        return f"{self.what} in step {self.number + 1}"


def explained(user: UserModel, fault: Fault, steps: Sequence[EagerStep], captured: Captured) -> Unsupported:
    """Whose it is: PyTorch's own answers say so, another time from the same state, or in another step."""
    if fault.wrapped is not None:
        origin = fault.wrapped.meta.get("origin")
        return Unsupported(
            f"{called(fault.wrapped, origin)} makes integers outside of {LEAST} to {MOST}: they are kept in 32 bits",
            source=origin.source if origin is not None else None,
            remedy=remedies.LARGE,
        )
    of_loss = changed_by_loss(user)
    if of_loss is not None:
        return Unsupported(f"a step changes {of_loss.words}, which is not the model's", remedy=of_loss.remedy)
    own = first_difference(first_steps(user, 1)[0].results, steps[0].results)
    if own is not None:
        return Unsupported(
            f"PyTorch itself has another {own} each time that the first step runs from the same state: "
            "there is randomness or hidden state in forward",
            remedy=remedies.STATE,
        )
    origins = (n.meta.get("origin") for n in captured.graph.graph.nodes)
    selected = next((o for o in origins if o is not None and o.function == SELECTION), None)
    if selected is not None:
        return Unsupported(
            f"the captured graph and PyTorch disagree on {fault}: of equal elements, PyTorch's {selected.words} takes "
            "one or another, as its way of selecting has it, and the captured one the first",
            source=selected.source,
            remedy=remedies.TIES,
        )
    if fault.number:
        names = sorted(changing(steps))
        once = [] if names else sorted(changed_once(user, steps[0]))
        changes = ", which changes " + ", ".join(f"'{n}'" for n in names or once) if names or once else ""
        return Unsupported(
            f"the captured graph is as eager PyTorch in the first step, and disagrees on {fault}: "
            f"there is randomness or hidden state in forward{changes}",
            source=line_that_sets(user.start.things.values(), names or once),
            remedy=remedies.FIRST_CALL if once else remedies.STATE,
        )
    return Unsupported(
        f"the captured graph and eager PyTorch disagree on {fault}, and PyTorch gives the same each time: "
        "an operation is taken apart wrongly, or rounding makes this result",
        remedy=remedies.OURS,
    )


def changed_once(user: UserModel, first: EagerStep) -> set[str]:
    """Numbers and the like that the first step leaves otherwise than they were."""
    places = plain_values(user, user.start)
    return {n for n, value in places.items() if n not in first.plain or numbers_apart(value, first.plain[n])}


def disagreement(user: UserModel, captured: Captured, steps: Sequence[EagerStep]) -> Fault | None:
    """What the graph computes otherwise than PyTorch in one of its first steps, or leaves as it is."""
    for number, step in enumerate(steps):
        if not all(bool(torch.isfinite(v).all()) for (kind, _), v in step.results.items() if kind == "loss"):
            return None  # training has left the numbers: what comes now proves nothing
        run = Dense(captured.graph)
        fault = first_difference(computed(user, captured, number, step, run), expected(captured, step))
        if fault is not None and not agrees_in_double(user, captured, number):
            return Fault(fault, number, run.wrapped)
    return None


def computed(
    user: UserModel, captured: Captured, number: int, step: EagerStep, run: Dense
) -> dict[tuple[str, str], torch.Tensor]:
    """What the graph makes of what PyTorch's step begins with."""
    samples = iter(tensors_in(user.samples[number % len(user.samples)]))
    values = [value_of(slot, number, step, samples) for slot in captured.inputs]
    with torch.random.fork_rng(devices=[]), one_thread(), mkldnn_off(), InOrder():
        found = run.run(*values)
    return {(out.kind, out.name): v for out, v in zip(captured.outputs, found, strict=True)}


def agrees_in_double(user: UserModel, captured: Captured, number: int) -> bool:
    """Is it rounding alone, as a norm makes much of it that takes away what all its elements have in common?"""
    precise = replace(user, samples=cast(list(user.samples), torch.float64))
    with new_tensors_in(torch.float64), Precise(torch.float64):
        with borrowed(user.start, torch.float64):
            step = advance(precise, number + 1, update=False)[number]
        found = computed(precise, captured, number, step, Dense(captured.graph))
        return first_difference(found, expected(captured, step)) is None


def value_of(slot: Slot, number: int, step: EagerStep, samples: Any) -> torch.Tensor:
    if slot.kind in ("input", "target"):
        return next(samples).clone()  # type: ignore[no-any-return]
    if slot.kind == "scalar":
        return torch.full_like(slot.value, number)
    now = step.before.get(slot.name) if slot.kind in ("parameter", "buffer") else None
    value: torch.Tensor = slot.value if now is None or now.shape != slot.value.shape else now
    return in_precision(value, torch.get_default_dtype()).clone()


def expected(captured: Captured, step: EagerStep) -> dict[tuple[str, str], torch.Tensor]:
    """What PyTorch computed; parameters before the optimizer's update, and buffers, where they are other than before
    the step or the graph gives them."""
    found = dict(step.results)
    given = {(out.kind, out.name) for out in captured.outputs}
    for slot in captured.inputs:
        if slot.kind not in ("parameter", "buffer") or slot.name.rpartition(".")[2] in reference.COUNTERS:
            continue
        key = slot.kind, slot.name
        if key in given and key not in found:
            found[key] = (step.after if slot.kind == "buffer" else step.before)[slot.name]
        elif slot.kind == "buffer" and slot.name in step.lasting():
            found[key] = step.after[slot.name]
    return found


def first_difference(computed: Results, wanted: Results) -> str | None:
    check = Comparison(wanted)
    for key, value in computed.items():
        check.add(key, value)
    return check.fault


class Comparison:
    """Of what was computed, result by result, with what PyTorch computes."""

    def __init__(self, wanted: Results) -> None:
        self.wanted = wanted
        self.found: set[tuple[str, str]] = set()
        self.first: str | None = None
        self.largest: dict[str, float] = {}
        for (kind, _), value in wanted.items():
            self.largest[kind] = max(self.largest.get(kind, 0.0), top(value))

    def add(self, key: tuple[str, str], value: torch.Tensor) -> None:
        self.found.add(key)
        if self.first is None and key in self.wanted and value.shape == self.wanted[key].shape:
            error = apart(value, self.wanted[key])
            if not error <= AGREEMENT * self.largest[key[0]] + TINY:
                self.first = f"{key[0]} '{key[1]}' (by {error:.3g})"

    @property
    def fault(self) -> str | None:
        """The first result that is too far off, or is not there."""
        lost = next((key for key in self.wanted if key not in self.found), None)
        return self.first or (f"{lost[0]} '{lost[1]}', which forward changes" if lost is not None else None)


def top(value: torch.Tensor) -> float:
    """The largest finite element."""
    return max((float(p.double().abs().nan_to_num(0.0, 0.0).max()) for p in parts(value) if p.numel()), default=0.0)


def apart(found: torch.Tensor, reference: torch.Tensor) -> float:
    """The largest difference; the same infinity, or NaN in both, is none."""
    errors = [part_apart(x.double(), y.double()) for x, y in zip(parts(found), parts(reference), strict=True)]
    return float("nan") if any(isnan(e) for e in errors) else max(errors, default=0.0)


def parts(value: torch.Tensor) -> Sequence[torch.Tensor]:
    return torch.split(value.detach().flatten(), AT_ONCE)


def part_apart(x: torch.Tensor, y: torch.Tensor) -> float:
    different = ~((x == y) | (x.isnan() & y.isnan()))
    return float((x - y)[different].abs().max()) if different.any() else 0.0


def check_golden_model(task: Task, steps: Sequence[EagerStep]) -> None:
    """What the program will be judged by must itself be what PyTorch computes from the untouched model."""
    plain = task.accumulate == 1 and (task.clip_norm, task.clip_value, task.scheduler) == (None, None, None)
    count = len(steps) if plain else 1  # the second one starts from an update that `steps` made in the plain way
    reached = {
        (number, "parameter", name): steps[number].after[name].numpy()
        for number in range(count - 1)
        for name, _ in task.module.named_parameters()
    }  # a network may turn a difference in the last bit into another step altogether
    record = Compared([Comparison(in_a_step_of(task, step.results)) for step in steps[:count]])
    with mkldnn_off():
        reference.train(task, count, torch.float32, record, resume=reached)
    for number, comparison in enumerate(record.steps):
        if comparison.fault is not None:
            raise Unsupported(
                f"the golden model and eager PyTorch disagree on {comparison.fault} in step {number + 1}"
                + (remedies.SHARE.format(count=task.accumulate) if task.accumulate > 1 else ""),
                remedy=remedies.AFTER_SUM if task.accumulate > 1 else remedies.STATE,
            )


def in_a_step_of(task: Task, results: Results) -> Results:
    """What a backward pass of the task computes, of which several may make an update."""
    share = task.accumulate
    wanted = {k: v for k, v in results.items() if k[0] != "parameter"}
    return {k: v / share if k[0] == "gradient" and share > 1 else v for k, v in wanted.items()}


@dataclass(frozen=True)
class Compared:
    """A record of which nothing is kept but how it compares."""

    steps: Sequence[Comparison]
    seen: set[Key] = field(default_factory=set)

    def __setitem__(self, key: Key, values: Array) -> None:
        self.seen.add(key)
        comparison = self.steps[key[0]]
        if key[1:] in comparison.wanted:
            comparison.add((key[1], key[2]), torch.from_numpy(np.asarray(values)))

    def __contains__(self, key: object) -> bool:
        return key in self.seen
