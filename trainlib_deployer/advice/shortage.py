"""When a training step does not fit: by how much, where, and because of which tensors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trainlib_deployer.machine.targets import CUSTOM
from trainlib_deployer.plan.plan import Buffer, LevelPlan, Plan
from trainlib_deployer.program.ir import Source

LARGEST = 5


def missing(plan: Plan) -> int:
    return sum(max(over(level), 0) for level in plan.levels.values())


def over(level: LevelPlan) -> int:
    return -level.headroom


def worst(plan: Plan) -> LevelPlan:
    return max(plan.levels.values(), key=over)


def words(plan: Plan) -> str:
    """By how much, and where."""
    level = worst(plan)
    alone = ", not even with one core at work" if level is plan.inner and plan.target.cores == 1 else ""
    chip = "a chip of these sizes" if plan.target.name == CUSTOM else plan.target.name
    first = f"the training step does not fit {chip}{alone}"
    there = (at for at in plan.levels.values() if at.size or at.used or at.reserved)
    return "\n".join((first, *map(state, there), *no_room_for_copies(plan), *fullest(plan, level)))


def no_room_for_copies(plan: Plan) -> Iterator[str]:
    """Why a third memory that there is takes nothing."""
    far, outer = plan.target.far, plan.outer
    if far is not None and outer.reserved >= outer.size:
        yield f"what the build brings fills {outer.name} by itself, so {far.name} helps nothing: its tensors come there"


def state(level: LevelPlan) -> str:
    left = -over(level)
    verdict = f"{left:,} bytes free" if left >= 0 else f"{-left:,} bytes over"
    own = f", and the build {level.reserved:,}," if level.reserved else ""
    return f"{level.name}: needs {level.used:,}{own} of {level.size:,} bytes: {verdict}"


def fullest(plan: Plan, level: LevelPlan) -> Iterator[str]:
    """When that is, and what is there; of a memory that only a build takes too much of, nothing."""
    if level.peak_live and plan.program.ops:
        op, always = plan.program.ops[level.peak_position], f"{level.persistent:,} of them always"
        layer = f", layer '{op.layer}'" if op.layer else ""
        yield f"{level.name} is fullest during operation {level.peak_position}: {op.name}{layer}{line_of(op.source)}"
        yield f"the largest of what is in use there ({level.peak_live:,} bytes, {always}: weights, states, samples):"
        yield from (f"  {b.size:>12,}  {b.name}{line_of(origin(plan, b))}" for b in largest(plan, level))


def line_of(source: Source | None) -> str:
    return f"; {Path(source.file).name}:{source.line}  {source.text}" if source else ""


def origin(plan: Plan, b: Buffer) -> Source | None:
    """The user's line that made a tensor; of a persistent one, the first that uses it."""
    if b.source is not None:
        return b.source
    users = (op for op in plan.program.ops if any(v.tensor == b.name for v in (*op.reads, *op.writes)))
    return next((op.source for op in users if op.source is not None), None)


def largest(plan: Plan, level: LevelPlan) -> list[Buffer]:
    here = [b for b in plan.buffers if b.level == level.name and b.birth <= level.peak_position < b.death]
    return sorted(here, key=lambda b: (-b.size, b.offset))[:LARGEST]
