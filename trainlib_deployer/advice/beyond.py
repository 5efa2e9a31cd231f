"""Why a plan's tensors are more than PyTorch stores: what its account leaves out of the fullest moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainlib_deployer.capture.stored import Stored
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.plan.layout import Item, persistent_items, tensor_items
from trainlib_deployer.plan.residents import occupied
from trainlib_deployer.program.ir import Op, Program, writers

MOST = 1.10  # times what PyTorch stores; a plan that takes more says why
NAMED = 3  # operations
KEPT_LONGER = "results that this order of operations keeps longer than PyTorch does"
SAVED = "what PyTorch stores at its fullest moment, and the plan does not"


@dataclass(frozen=True)
class Reason:
    """In words, and the bytes that are there for it; fewer than none are those that a plan saves."""

    words: str
    bytes: int


def reasons(program: Program, target: Machine, least: Stored) -> list[Reason]:
    """None where a plan takes no more than MOST times as much; else all bytes that it takes more are those of these."""
    kept = [i for far in (False, True) for i in persistent_items(program, far)]
    moving = [i for far in (False, True) for i in tensor_items(program, far)]
    at, most = fullest(program, moving, target)
    here = [i for i in moving if i.life.birth <= at < i.life.death]
    taken = most + sum(target.aligned(i.size) for i in kept)
    if taken <= MOST * least.total:
        return []
    found: list[Reason] = []
    rest = taken - least.total
    for reason in known(program, at, kept, here, target, least):
        if rest > 0 and reason.bytes > 0:
            found.append(reason)
            rest -= reason.bytes
    words = KEPT_LONGER if rest > 0 else SAVED
    return [*found, Reason(words, rest)] if rest else found


def fullest(program: Program, moving: list[Item], target: Machine) -> tuple[int, int]:
    """The operation at which what comes and goes takes the most bytes."""
    used = occupied(moving, frozenset(i.name for i in moving), max(len(program.ops), 1), target)
    return used.index(max(used)), max(used)


def known(
    program: Program, at: int, kept: list[Item], here: list[Item], target: Machine, least: Stored
) -> Iterator[Reason]:
    """Each byte under one of them; what is certain first."""
    op = program.ops[at]
    rounded = sum(target.aligned(i.size) - i.size for i in (*kept, *here))
    yield Reason(f"sizes are rounded up to {target.alignment} bytes", rounded)
    constants = sum(i.size for i in kept) - least.parameters - least.state - least.sample
    yield Reason("constants, rates and counters of the step", constants)
    waiting = {tensor for _, tensor in program.gradients}
    gradients = [i for i in here if i.name in waiting]
    yield Reason("gradients of parameters that wait for their update", sum(i.size for i in gradients))
    makers = writers(program)
    inside = {i.name: what for i in here if (what := taken_apart(program, i, makers)) and i.name not in waiting}
    sizes = Counter[str]()
    for i in here:
        if i.name in inside:
            sizes[inside[i.name]] += i.size
    names = ", ".join(name for name, _ in sizes.most_common(NAMED))
    yield Reason(f"steps of operations that are taken apart: {names}", sum(sizes.values()))
    if op.phase == "forward":
        others = sum(i.size for i in here if i.name not in waiting and i.name not in inside)
        words = f"results of forward beyond PyTorch's fullest moment: during {op.name}"
        yield Reason(words, others - least.saved - least.flight)


def taken_apart(program: Program, item: Item, makers: Mapping[str, Sequence[int]]) -> str:
    """The operation of PyTorch that an item is a step of; none where it is its result."""
    made = [program.ops[p] for p in makers.get(item.name, ())]
    if not made or not made[0].function:
        return ""
    own = [op for op in program.ops if together(op, made[0])]
    results = {v.tensor for v in own[-1].writes}
    return made[0].function if len(own) > 1 and not results & {item.name, *(t.name for t in item.tensors)} else ""


def together(one: Op, other: Op) -> bool:
    return (one.layer, one.function, one.phase, one.source) == (other.layer, other.function, other.phase, other.source)
