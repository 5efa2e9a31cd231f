"""Ways to train a network: which parameters, what batch, what is computed twice. What each needs, planned as a
deployment plans it; nothing is estimated."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from golden.examples import leaves
from golden.snapshot import Snapshot
from trainlib_deployer import passes
from trainlib_deployer.advice.budget import FREE, Budget
from trainlib_deployer.advice.forecast import Forecast
from trainlib_deployer.advice.points import Costs, Memory, Point, Points, dominates, macs, memory, rounding
from trainlib_deployer.advice.variants import Parameters, Selection
from trainlib_deployer.beside import beside_build, with_build
from trainlib_deployer.capture.agreement import captured_and_checked
from trainlib_deployer.capture.slots import Captured
from trainlib_deployer.emit.plan_json import parameters
from trainlib_deployer.errors import DeployError, DoesNotFit
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.ops.lower import lower
from trainlib_deployer.options import Options
from trainlib_deployer.passes import for_machine
from trainlib_deployer.passes.reorder import reorder
from trainlib_deployer.passes.within_budget import SUFFIX, descent
from trainlib_deployer.pipeline import dtype_of
from trainlib_deployer.plan.build import smaller_to_fit
from trainlib_deployer.plan.layout import untiled
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.residents import least_l2
from trainlib_deployer.plan.strategies import best_layout
from trainlib_deployer.program.ir import Program
from trainlib_deployer.tune.shipped import with_measurements
from trainlib_deployer.user.kept import precision_of
from trainlib_deployer.user.model import UserModel, trainable
from trainlib_deployer.user.samples import rebatch

Say = Callable[[str], None]


@dataclass(frozen=True)
class Batch:
    """Samples of a step, and steps of an update."""

    size: int
    accumulate: int

    def __str__(self) -> str:
        return f"batch {self.size}" + (f", {self.accumulate} steps an update" if self.accumulate > 1 else "")


@dataclass(frozen=True)
class Level:
    """The program with some of its operations run twice, and the option that makes a deployment do so."""

    name: str
    program: Program
    option: str = ""
    whole: Callable[[], Plan | None] | None = None  # plans it as a deployment does, beside the code of its copies


@dataclass(frozen=True)
class Variant:
    """A batch, a choice of parameters, and the step that these make."""

    batch: Batch
    selection: Selection
    program: Program
    dtype: str  # that it has
    option: str  # that gives it this


@dataclass(frozen=True)
class Draft:
    """A point before its tiles are chosen, which takes the most time: bounds of what it will need."""

    variant: Variant
    level: Level
    direct: Plan
    least: Memory

    @staticmethod
    def of(variant: Variant, level: Level, target: Machine) -> Draft:
        direct = untiled(level.program, target)
        most = memory(direct)
        tiles = direct.outer.used and target.inner.size
        least = (least_l2(level.program, target), 0) if tiles else most
        return Draft(variant, level, direct, (0, 0) if level.whole else least)

    def costs(self, needed: Memory) -> Costs:
        trained, batch = parameters(self.direct)["trained"], self.variant.batch
        work, samples = macs(self.direct) / batch.size, batch.size * batch.accumulate
        return needed, work, trained, samples, rounding(self.variant.dtype)

    def point(self) -> Point | None:
        """None where it does not fit, of what nobody would want otherwise."""
        counts, level, variant = parameters(self.direct), self.level, self.variant
        chosen = level.whole() if level.whole else best_layout(level.program, self.direct.target)
        if chosen is None:
            return None
        return Point(
            what=variant.selection.what,
            line=variant.selection.line,
            trained=counts["trained"],
            total=counts["total"],
            batch=variant.batch.size,
            accumulate=variant.batch.accumulate,
            recompute=level.name,
            repeated=sum(op.name.endswith(SUFFIX) for op in level.program.ops),
            options=level.option,
            plan=chosen,
            forecast=Forecast.of(chosen, chosen.target),
            dtype=variant.dtype,
        )


def sweep_user_model(
    user: UserModel,
    target: Machine,
    accumulate: int,
    every: bool = False,
    say: Say = lambda line: None,
    budget: Budget = FREE,
    dtypes: tuple[str, ...] = ("fp32",),
) -> Points:
    """The points that no other one beats, or `every` one. What is refused for the model as it is, is refused; a
    variant that cannot be deployed is left out, said aloud."""
    budget.demand_known(target)
    return points_on(target, list(variants(user, accumulate, say, dtypes)), user, accumulate, every, say, budget)


def points_on(
    target: Machine,
    found: list[Variant],
    user: UserModel,
    accumulate: int,
    every: bool,
    say: Say,
    budget: Budget,
) -> Points:
    """Of the same variants, whatever they are planned for."""
    target = with_measurements(target)
    first = {v.dtype: v.program for v in reversed(found)}
    near = {dtype: with_build(program, user, target.near_only(), accumulate) for dtype, program in first.items()}
    drafts = [Draft.of(v, level, near[v.dtype]) for v in found for level in ways(v, user, target, near[v.dtype])]
    wanted = drafts if every else promising(drafts)
    points = []
    for number, draft in enumerate(wanted, 1):
        variant = draft.variant
        say(f"planning {number} of {len(wanted)} for {target.name}: {variant.batch}, {variant.selection.what}")
        points.append(draft.point())
    ordered = Points.of(user.name, [p for p in points if p is not None], budget)
    return ordered if every else ordered.front


def promising(drafts: list[Draft]) -> list[Draft]:
    """Without those that another one beats for certain."""
    most = [d.costs(memory(d.direct)) for d in drafts]
    return [d for d in drafts if not any(dominates(c, d.costs(d.least)) for c in most)]


def variants(user: UserModel, accumulate: int, say: Say, dtypes: tuple[str, ...] = ("fp32",)) -> Iterator[Variant]:
    """For each batch, each choice of parameters that makes a difference, in each of these types."""
    selections = list(parameters_of(user.module).selections())
    sizes: dict[int, list[Batch]] = {}
    for batch in batches(Batch(batch_of(user), accumulate)):
        sizes.setdefault(batch.size, []).append(batch)
    choices = [(same_size, s) for same_size in sizes.values() for s in selections]
    seen = set()
    for number, (same_size, selection) in enumerate(choices, 1):
        what = f"batch {same_size[0].size}, {selection.what}"
        say(f"capturing {number} of {len(choices)}: {what}")
        try:
            found = captured_variants(user, same_size, selection, dtypes)
        except DeployError as err:
            if number == 1:
                raise
            say(f"left out: {what}: {err.message}")
            continue
        for variant in found:
            trained = variant.batch, variant.dtype, frozenset(name for name, _ in variant.program.gradients)
            if trained not in seen:
                seen.add(trained)
                yield variant


def batches(given: Batch) -> list[Batch]:
    """As given, half, one; and one by one with as many samples an update as given."""
    sizes = dict.fromkeys((given.size, given.size // 2, 1))
    found = [Batch(size, given.accumulate) for size in sizes if size]
    return found if given.size == 1 else [*found, Batch(1, given.accumulate * given.size)]


def batch_of(user: UserModel) -> int:
    return int(leaves(user.inputs)[0].shape[0])


def with_batch(user: UserModel, size: int) -> UserModel:
    """The first rows of the example."""
    old = leaves(user.inputs)[0]
    inputs, target = (rebatch(value, old, old[:size]) for value in (user.inputs, user.target))
    return replace(user, inputs=inputs, target=target, samples=[(inputs, target)])


def parameters_of(module: nn.Module) -> Parameters:
    trained = {name: tuple(p.shape) for name, p in trainable(module).items()}
    return Parameters(trained, frozenset(n for n, _ in module.named_parameters()) - trained.keys())


@contextlib.contextmanager
def training_only(module: nn.Module, keep: frozenset[str]) -> Iterator[None]:
    """All other parameters are frozen, for now."""
    others = [p for name, p in trainable(module).items() if name not in keep]
    for p in others:
        p.requires_grad_(False)
    try:
        yield
    finally:
        for p in others:
            p.requires_grad_(True)


def captured_variants(
    user: UserModel, batches: list[Batch], selection: Selection, dtypes: tuple[str, ...]
) -> list[Variant]:
    """The steps that deploying the model with these batches of one size and the selection's line has."""
    size = batches[0].size
    variant = user if size == batch_of(user) else with_batch(user, size)
    with training_only(user.module, selection.keep):
        start = Snapshot(user.module, user.loss, like=user.start)  # with what is frozen for now
        variant = replace(variant, start=start)
        captured, _ = captured_and_checked(variant)
        asked = {dtype_of(dtype, captured): dtype for dtype in reversed(dtypes)}  # what autocast has is asked for once
        return [
            Variant(
                batch,
                selection,
                step_of(variant, captured, batch.accumulate, dtype),
                dtype,
                f"--dtype {option}" if option != "fp32" else "",
            )
            for dtype, option in reversed(asked.items())
            for batch in batches
        ]


def step_of(user: UserModel, captured: Captured, accumulate: int, dtype: str = "fp32") -> Program:
    """As it is planned, in the types that a deployment would have."""
    precision = precision_of(user.module, dtype_of(dtype, captured))
    return passes.run(lower(user, captured, accumulate, precision=precision), passes.chosen(precision))


def ways(variant: Variant, user: UserModel, target: Machine, near: Machine) -> Iterator[Level]:
    """`near`: without a third memory."""
    found = list(levels(variant.program, near))
    if target.far is not None and not untiled(variant.program, near).outer.fits:
        found.append(far(variant, user, target))
    for level in found:
        yield replace(level, option=" ".join(o for o in (variant.option, level.option) if o))


def levels(program: Program, target: Machine) -> Iterator[Level]:
    """Nothing twice; what costs no multiply-adds, half way and as far as it helps; what it takes to fit."""
    yield Level("none", for_machine(program, target))
    direct = untiled(program, target)
    if direct.outer.used and target.inner.size:
        yield from free_levels(program, direct.outer.persistent + target.outer.reserved)
    fitting = smaller_to_fit(program, target)
    if fitting is not None:
        yield Level("fitting", fitting)


def far(variant: Variant, user: UserModel, target: Machine) -> Level:
    """What does not fit otherwise, with tensors in the third memory."""

    def planned() -> Plan | None:
        options = Options(target, Path(), 1, variant.batch.accumulate, variant.dtype)
        try:
            project, image = beside_build(variant.program, user, options, lambda line: None)
        except DoesNotFit:
            return None
        return project.plan.beside(image)

    return Level("far", variant.program, whole=planned)


def free_levels(program: Program, taken: int) -> Iterator[Level]:
    """A deployment repeats as much as it must: the option gives it just the memory that asks for the level."""
    steps = list(descent(program, most_macs=0))
    first, last = steps[0], steps[-1]
    half = next(step for step in steps if step.full.peak <= (first.full.peak + last.full.peak) // 2)
    for name, step in (("some", half), ("free", last)):
        if step is not first and (step is not last or name == "free"):
            yield Level(name, reorder(step.program), f"--l2 {taken + step.full.peak}")
