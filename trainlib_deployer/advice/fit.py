"""When a training step does not fit: what would help."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Set
from dataclasses import dataclass, replace
from functools import partial

from trainlib_deployer.advice.precision import loss_of
from trainlib_deployer.advice.shortage import missing, over, words, worst
from trainlib_deployer.advice.stateless import by_plain_sgd, dropped
from trainlib_deployer.advice.variants import Parameters, Selection
from trainlib_deployer.errors import Advice, DoesNotFit, Shortage
from trainlib_deployer.far.carried import planned_far
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.machine.sizes import show_size
from trainlib_deployer.machine.targets import TARGETS
from trainlib_deployer.meanwhile import meanwhile
from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.passes import for_machine
from trainlib_deployer.passes.choose_winograd import choose_winograd
from trainlib_deployer.passes.drop_dead import without_dead_results
from trainlib_deployer.passes.fuse_updates import one_sample
from trainlib_deployer.passes.half_saved import half_saved, halves
from trainlib_deployer.passes.mixed import mixed
from trainlib_deployer.passes.order_halves import until_enough
from trainlib_deployer.passes.reorder import fullest, reorder
from trainlib_deployer.plan.figures import Carried
from trainlib_deployer.plan.layout import fits
from trainlib_deployer.plan.plan import LevelPlan, Plan
from trainlib_deployer.plan.strategies import best_layout
from trainlib_deployer.program.expr import Instr
from trainlib_deployer.program.ir import DType, Op, Program, Role, Tensor, View, renamed
from trainlib_deployer.program.loop import Loop

Replan = Callable[[Program, Machine], Plan]
Far = Callable[[Program, Machine], Plan | None]  # that fits with the machine's third memory
AMPLE = 1 << 30  # bytes of a third memory
ATTEMPTS = 4  # a third memory may have more copies under way where there is more room for them
BATCHED = {Role.ACTIVATION, Role.GRADIENT, Role.INPUT, Role.TARGET, Role.OUTPUT}


@dataclass(frozen=True)
class Remedy:
    """Something the user can do, and the plan that follows from it."""

    what: str
    how: str
    plan: Plan
    exact: bool = True
    cost: str = ""
    step: tuple[Program, Machine] | None = None  # what would run where, if it is known

    @property
    def fits(self) -> bool:
        return missing(self.plan) == 0

    @property
    def time(self) -> str:
        """Of a step, with the tiles of a deployment. Of what still does not fit, and of a machine whose cycles nobody
        has measured, nothing is said."""
        if self.step is None or not self.fits or not self.plan.target.inner.size:
            return ""
        program, machine = self.step
        found = best_layout(for_machine(program, machine), machine)
        return f"about {found.cycles:,.0f} cycles a step" if fits(found) else ""


def does_not_fit(program: Program, target: Machine, replan: Replan, far: Far | None = None) -> DoesNotFit:
    """What is behind exit code 3; `replan` plans a variant of the program or of the target, and so does `far`, with all
    that the build brings."""

    def found() -> Shortage:
        plan = replan(program, target)
        board = partial(third_memory, program, target, partial(planned_far, planned=replan) if far is None else far)
        asked = replace(plan, program=program, target=target)  # without what a third memory asks for, with all cores
        beyond = {level.name: over(level) for level in plan.levels.values() if over(level) > 0}
        return Shortage(words(plan), beyond, lambda: advice(asked, worst(plan), replan, board))

    return DoesNotFit(find=found)


@dataclass(frozen=True)
class Entry:
    """A remedy in words."""

    what: str
    text: str
    fits: bool
    helps: bool  # if only by a part


def advice(plan: Plan, worst: LevelPlan, replan: Replan, board: Callable[[], Iterator[Remedy]]) -> Advice:
    """What makes it fit first; then what helps, but not enough by itself. A plan with a third memory takes as long as
    all others together."""
    with meanwhile(lambda: entries(plan, board() if over(plan.outer) > 0 else ())) as far:
        lighter = entries(plan, remedies(plan, worst, replan))
        larger = entries(plan, larger_memory(plan, worst, replan))
        found = [*lighter, *far(), *larger]
    whole = [e for e in found if e.fits]
    partly = [e for e in found if not e.fits and e.helps]
    lines = ["what makes it fit, each by itself:" if whole else "nothing makes it fit by itself"]
    lines += [e.text for e in whole]
    if partly:
        lines += ["what helps, but not enough by itself:", *(e.text for e in partly)]
    return Advice("\n  ".join(lines), tuple(e.what for e in whole))


def entries(plan: Plan, found: Iterable[Remedy]) -> list[Entry]:
    return [Entry(r.what, entry(plan, r), r.fits, missing(r.plan) < missing(plan)) for r in found]


def entry(plan: Plan, remedy: Remedy) -> str:
    about = "" if remedy.exact else "about "
    saved = plan.peak - remedy.plan.peak if remedy.plan.target.name == plan.target.name else 0
    saved = 0 if plan.far or remedy.plan.far else saved
    less = f"{about}{saved:,} bytes less" if saved > 0 else ""
    effects = [less, remedy.time, fewer_macs(plan, remedy.plan), remedy.cost]
    if not remedy.fits:
        effects.append(f"still {about}{missing(remedy.plan):,} over")
    effect = ", ".join(e for e in effects if e)
    return "  " + remedy.what + (f": {effect}" if effect else "") + (f"\n        {remedy.how}" if remedy.how else "")


def remedies(plan: Plan, worst: LevelPlan, replan: Replan) -> Iterator[Remedy]:
    """From what costs the least to what costs the most: states, precision, batch, trained layers. Nothing is said of
    what comes and goes where what is always there would be too much for twice the memory."""
    trains, near = plan.program.trains, learned(plan, worst) <= 2 * (worst.size - worst.reserved)
    rungs = (
        (without_state, trains),
        (half_precision, trains and near),
        (mixed_precision, trains),
        (accumulation, trains and near),
        (smaller_batch, near),
        (last_layers, trains),
        (biases, trains),
    )
    for rung, wanted in rungs:
        yield from rung(plan, replan) if wanted else ()


def learned(plan: Plan, level: LevelPlan) -> int:
    """Bytes that are there whatever a step does, but for its samples."""
    kept = (t.nbytes for t in plan.program.tensors.values() if t.role.persistent and t.role not in BATCHED)
    return min(level.persistent, sum(kept))


def without_state(plan: Plan, replan: Replan) -> Iterator[Remedy]:
    states = plan.program.of_role(Role.STATE)
    if states:
        names = {t.name for t in states}
        what = f"an optimizer without state ({sum(t.nbytes for t in states):,} bytes of it)"
        plain = by_plain_sgd(plan.program, names)
        # where products store weights, what else meets then is not known
        stored = any(isinstance(op.kind, MatMul) and op.kind.update for op in plain.ops)
        how = "optimizer = torch.optim.SGD(model.parameters(), lr=...)"
        yield Remedy(what, how, replan(plain, plan.target), exact=not stored)


def half_precision(plan: Plan, replan: Replan) -> Iterator[Remedy]:
    if halves(plan.program):
        return
    kept = half_saved(plan.program)
    if not halves(kept):
        return
    slim = replan(kept, plan.target)
    if slim.peak < plan.peak:
        more = len(kept.ops) - len(plan.program.ops)
        cost = f"{more} operation{'s' * (more != 1)} added, 11 bits of what is kept"
        step = kept, plan.target  # of which loops in series may keep some bytes longer
        yield Remedy("half precision: --saved fp16", "", slim, exact=False, cost=cost, step=step)


def mixed_precision(plan: Plan, replan: Replan) -> Iterator[Remedy]:
    if halves(plan.program):
        return
    weights = [t.name for t in plan.program.of_role(Role.PARAMETER)]
    for what, dtype, names in (
        ("mixed precision", "mixed", []),
        ("weights in half precision, too", "fp16", weights),
    ):
        step = in_halves(plan.program, names)
        slim = replan(step, plan.target)
        if slim.peak < plan.peak:
            yield Remedy(
                f"{what}: --dtype {dtype}", "", slim, exact=False, cost=loss_of(dtype), step=(step, plan.target)
            )


def in_halves(program: Program, weights: Collection[str]) -> Program:
    """Convolutions in tiles are chosen anew, if there are any: not all of those of floats have one of halves."""
    direct = [
        replace(op, kind=replace(op.kind, winograd=None)) if isinstance(op.kind, Conv) and op.kind.winograd else op
        for op in program.ops
    ]
    slim = reorder(mixed(replace(program, ops=direct), weights=weights))
    return until_enough(slim if direct == list(program.ops) else choose_winograd(slim), fullest(program))


def batch_of(program: Program) -> int:
    inputs = program.of_role(Role.INPUT)
    return inputs[0].shape[0] if inputs and inputs[0].shape else 1


def accumulation(plan: Plan, replan: Replan) -> Iterator[Remedy]:
    """The same update from smaller batches: what a batch takes shrinks, the sums of gradients are kept."""
    batch = batch_of(plan.program)
    if batch == 1 or any(op.phase == "accumulate" for op in plan.program.ops):
        return
    summed = with_sums(plan.program)
    for size in (b for b in range(batch - 1, 0, -1) if batch % b == 0):
        remedy = Remedy(
            f"--accumulate {batch // size} over batches of {size}",
            f"example_input with {size} samples; the update is the same, but a batch norm sees {size} at a time",
            replan(with_batch(summed, batch, size), plan.target),
            exact=False,
        )
        if remedy.fits or size == 1:
            yield remedy
            return


def with_sums(program: Program) -> Program:
    """Each gradient is added to a sum that persists, and the update reads the sum."""
    tensors, ops = dict(program.tensors), list(program.ops)
    for _, name in program.gradients:
        gradient = tensors[name]
        total = replace(gradient, name=f"{name} sum", role=Role.STATE)
        tensors[total.name] = total
        flat = (gradient.numel,)
        g, t = (View(n, flat, (1,)) for n in (name, total.name))
        add = Loop(flat, 0, (DType.F32,) * 2, (Instr("add", (0, 1), DType.F32),), (), (), (2,), (DType.F32,))
        used = next((i for i, op in enumerate(ops) if any(v.tensor == name for v in op.reads)), len(ops))
        ops[used:] = [replace(op, reads=renamed(op.reads, {name: total.name})) for op in ops[used:]]
        ops.insert(used, Op(total.name, add, (g, t), (t,), "accumulate", gradient.layer, "accumulate"))
    return replace(program, tensors=tensors).with_ops(ops)


def smaller_batch(plan: Plan, replan: Replan) -> Iterator[Remedy]:
    batch = batch_of(plan.program)
    if batch > 1:
        best = most_that_fits(1, batch - 1, lambda b: replan(with_batch(plan.program, batch, b), plan.target))
        what = f"a batch of {best[0]} instead of {batch}"
        how = f"example_input with {best[0]} samples" if plan.program.trains else f"--batch {best[0]}"
        yield Remedy(what, how, best[1], exact=False)


def with_batch(program: Program, batch: int, wanted: int) -> Program:
    """Tensors of one row a sample shrink; kernel scratch stays as it is. With one sample, weight gradients of linear
    layers are not kept."""
    if wanted == 1:
        program = one_sample(program, batch)
    of_parameters = {name for _, name in program.gradients}

    def scaled(t: Tensor) -> Tensor:
        ones = 1 if t.shape[:1] == (1,) else 0  # a matrix product is one of a batch
        if t.role not in BATCHED or t.name in of_parameters or t.shape[ones : ones + 1] != (batch,):
            return t
        return replace(t, shape=(*t.shape[:ones], wanted, *t.shape[ones + 1 :]))

    tensors = {n: scaled(t) for n, t in program.tensors.items()}
    fewer = {n for n, t in tensors.items() if t.numel < program.tensors[n].numel}
    ops = [shortened(op, batch, wanted) if {v.tensor for v in op.writes} <= fewer else op for op in program.ops]
    return replace(program, tensors=tensors, ops=ops)


def shortened(op: Op, batch: int, wanted: int) -> Op:
    """A loop over all elements of its results, over fewer: where these may lie depends on their number."""
    if not isinstance(op.kind, Loop) or op.kind.reductions or len(op.kind.extents) != 1:
        return op
    shape = (op.kind.extents[0] * wanted // batch,)
    reads, writes = (tuple(v._replace(shape=shape) for v in views) for views in (op.reads, op.writes))
    return replace(op, kind=replace(op.kind, extents=shape), reads=reads, writes=writes)


def most_that_fits(low: int, high: int, planned: Callable[[int], Plan]) -> tuple[int, Plan]:
    """The largest number in [low, high] whose plan fits, by bisection; `low` if none does."""
    best = low, planned(low)
    if not Remedy("", "", best[1]).fits:
        return best
    while low < high:
        middle = (low + high + 1) // 2
        candidate = planned(middle)
        if Remedy("", "", candidate).fits:
            low, best = middle, (middle, candidate)
        else:
            high = middle - 1
    return best


def last_layers(plan: Plan, replan: Replan) -> Iterator[Remedy]:
    parameters = Parameters.of(plan.program)
    count = len(parameters.blocks())
    if count > 1:
        slim = partial(trained, plan, replan)
        k, best = most_that_fits(1, count - 1, lambda k: slim(parameters.last(k)))
        last = parameters.last(k)
        step = frozen(plan.program, last.keep)
        yield Remedy(f"train {last.what}", last.line, best, exact=False, step=(step, plan.target))


def biases(plan: Plan, replan: Replan) -> Iterator[Remedy]:
    found = Parameters.of(plan.program).biases()
    if found is not None:
        step = frozen(plan.program, found.keep)
        yield Remedy(
            f"train {found.what}", found.line, replan(step, plan.target), exact=False, step=(step, plan.target)
        )


def trained(plan: Plan, replan: Replan, selection: Selection) -> Plan:
    return replan(frozen(plan.program, selection.keep), plan.target)


def fewer_macs(plan: Plan, slim: Plan) -> str:
    before, after = (sum(op.kind.macs() for op in p.program.ops) for p in (plan, slim))
    return f"{100 * (before - after) / before:.0f} % fewer multiply-adds" if before > after else ""


def frozen(program: Program, keep: Set[str]) -> Program:
    """The step that trains only the parameters `keep`: updates, gradients and states of the others are gone."""
    fixed = {name for name, _ in program.gradients if name not in keep}
    states = {t.name for t in program.of_role(Role.STATE) if t.name.rpartition(".")[0] in fixed}
    never = fixed | states
    gradients = tuple(g for g in program.gradients if g[0] in keep)
    live = {t.name for t in program.tensors.values() if t.role.persistent}
    live |= {*program.shown, *(t for _, t in gradients)}
    kept: list[Op] = []
    for op in reversed(program.ops):
        wanted = live - never
        if any(v.tensor in wanted for v in op.writes):
            op = without_dead_results(op, wanted)
            live |= {v.tensor for v in op.reads}
            kept.append(op)
    slim = replace(program, gradients=gradients).with_ops(kept[::-1])
    return dropped(slim, states)  # a loop that is kept may read some of them, too


def third_memory(program: Program, target: Machine, far: Far) -> Iterator[Remedy]:
    """What a board may have beside the chip, or beside a larger one, if that is enough."""
    for chip, option in boards(target):
        found = far(program, chip)
        if found is not None and found.far is not None:
            there, least = Carried.of(found.program), chip.outside.memory.size if chip.outside is not None else 1
            size = max(least, 1 << (found.far.used - 1).bit_length())
            cost = f"{there.tensors:,} tensors live there, {there.moved:,} bytes of copies a step"
            yield Remedy(f"{option}--{found.far.name.lower()} {show_size(size)}", "", found, cost=cost)
            return


def boards(chip: Machine) -> Iterator[tuple[Machine, str]]:
    """With more of a third memory than any has, and how to ask for the chip."""
    if chip.far is not None:
        return
    if chip.outside is not None:
        yield chip.with_outside(AMPLE), ""
    for preset in larger_presets(chip):
        if preset.outside is not None:
            yield preset.with_outside(AMPLE), f"--target {preset.name} "


def larger_memory(plan: Plan, worst: LevelPlan, replan: Replan) -> Iterator[Remedy]:
    larger, slim = plan.target, plan
    for _ in range(ATTEMPTS):
        for at, level in enumerate(slim.levels.values()):
            if over(level) > 0:
                larger = larger.with_memory(at, -(-(level.used + level.reserved) // 1024) * 1024)
        slim = replan(plan.program, larger)
        if not missing(slim):
            break
    sizes = zip(larger.memories, plan.target.memories, strict=True)
    options = (f"--{m.name.lower()} {show_size(m.size)}" for m, before in sizes if m.size > before.size)
    yield Remedy(" ".join(options), "", slim, step=(plan.program, larger))
    for preset in larger_presets(plan.target):
        outer = preset.outer.size, max(preset.outer.reserved, plan.target.outer.reserved)
        chip = preset.with_memory(1, *outer)
        remedy = Remedy(instead(preset, plan.target), "", replan(plan.program, chip), step=(plan.program, chip))
        if remedy.fits:
            yield remedy
            return


def instead(preset: Machine, chip: Machine) -> str:
    """How to ask for it; of the chip itself, which was asked for with less memory."""
    if preset.name != chip.name:
        return f"--target {preset.name}"
    given = (m for m, before in zip(preset.memories, chip.memories, strict=False) if m.size != before.size)
    return f"all of {chip.name}, without {' and '.join(f'--{m.name.lower()}' for m in given)}"


def larger_presets(chip: Machine) -> Iterator[Machine]:
    """The chip itself first, if it was asked for with less memory."""
    for preset in sorted(TARGETS.values(), key=lambda preset: (preset.name != chip.name, bytes_of(preset))):
        if bytes_of(preset) > bytes_of(chip) and bool(preset.inner.size) == bool(chip.inner.size):
            yield preset


def bytes_of(machine: Machine) -> int:
    return machine.inner.size + machine.outer.size
