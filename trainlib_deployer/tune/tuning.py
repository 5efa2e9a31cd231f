"""A project in the tiles that were measured to be the fastest.

In each round every operation is cut in the way that estimates put at the next place, all of them in one project, which
is run once: a network of any size takes as many runs as there are rounds. At the end the step as estimates alone would
have it, and the step as measurements have it, are compared whole. What made the step slower is left as estimated, and
the rest compared again. The fastest of these steps is taken.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from golden.sketch import Key, Sketch
from trainlib_deployer.emit.project import Project
from trainlib_deployer.image.image import Image
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.machine.tuned import Tuned
from trainlib_deployer.plan.links import links
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.tiles import Tiling
from trainlib_deployer.plan.tuning import Choice, Tuning
from trainlib_deployer.report.runs import Measured
from trainlib_deployer.run import backend
from trainlib_deployer.tune.asked import Tune
from trainlib_deployer.tune.contents import LOOP
from trainlib_deployer.tune.measure import packed, taken
from trainlib_deployer.tune.table import Cut, Table
from trainlib_deployer.tune.worth import changes

STEPS = 4  # that are compared with what estimates have
TIMED = "host"  # where programs that run at once would slow each other down
Written = tuple[Project, Image | None]
Ways = Mapping[int, Cut]  # by the position of an operation


@dataclass(frozen=True)
class Tuner:
    """A step, written for a machine as often as it takes."""

    write: Callable[[Machine], Written]
    target: Machine
    references: Mapping[Key, Sketch]
    asked: Tune
    say: Callable[[str], None]
    table: Table

    def best(self) -> Written:
        """The faster of the two, with what was measured in its plan."""
        backend(self.asked.on).check_tools()
        with pool(self.asked) as executor:
            rounds = [self.planned(Tuned(rank=rank)) for rank in range(self.asked.rounds)]
            known = self.measure(rounds, self.table, executor)
            self.say(f"measuring the step as a whole on {self.asked.on}")
            old = known[0] if 0 in known else self.started(rounds[0], executor).result()
            chosen, new = self.worthwhile(rounds[0], old, executor)
        project, image = chosen
        whole = averaged(ways(rounds[0][0]), old) | averaged(ways(project), new)
        found = Tuning(self.asked.on, old.unit, old.total, new.total, choices(project.plan, self.table, whole))
        return replace(project, plan=replace(project.plan, tuned=found)), image

    def worthwhile(self, estimated: Written, old: Measured, executor: Executor) -> tuple[Written, Measured]:
        """As measurements have it, but for what makes the step slower; as estimated where that is the fastest."""
        taken, found = dict(self.table.taken), [(estimated, old)]
        for _ in range(STEPS):
            measured = self.planned(Tuned(taken))
            changed = otherwise(measured[0].plan)
            if not changed:
                break
            new = self.started(measured, executor).result()
            found.append((measured, new))
            more = changes(operations(estimated[0], old), operations(measured[0], new), changed)
            worse = [work for work, cycles in more.items() if cycles >= 0]
            if not worse:
                break
            for work in worse:
                taken.pop(work, None)
        return min(found, key=lambda step: step[1].total)

    def planned(self, tuned: Tuned) -> Written:
        return self.write(replace(self.target, tuned=tuned))

    def measure(self, rounds: Sequence[Written], table: Table, executor: Executor) -> dict[int, Measured]:
        """All rounds, but for what is known already."""
        new = [at for at, r in enumerate(rounds) if self.news(r, rounds[:at], table)]
        started = {self.started(rounds[at], executor): at for at in new}
        found: dict[int, Measured] = {}
        kept = True
        for done in as_completed(started):
            at, project = started[done], rounds[started[done]][0]
            found[at] = done.result()
            self.say(f"measuring tiles on {self.asked.on}: {len(found)} of {len(new)}")
            kept &= table.add(found[at].unit, averaged(ways(project), found[at]), kernels(project.plan))
        if not kept:
            self.say(f"note: {table.path.parent} cannot be written: what was measured is used now, and not kept")
        return found

    def news(self, written: Written, before: Sequence[Written], table: Table) -> bool:
        """Would it tell anything that is not known, nor will be?"""
        coming = {way for other, _ in before for way in ways(other).values()}
        return any(way not in coming and not table.knows(*way) for way in ways(written[0]).values())

    def started(self, written: Written, executor: Executor) -> Future[Measured]:
        project, image = written
        with tempfile.TemporaryDirectory(prefix="trainlib-deploy-") as scratch:
            project.write(Path(scratch), self.references, image)
            whole = packed(Path(scratch))
        return executor.submit(taken, whole, self.asked.on)


def ways(project: Project) -> Ways:
    """How the operations in tiles are cut."""
    found = project.plan.tilings.items()
    return {at: tiling.measured_as for at, tiling in sorted(found) if tiling.measured_as is not None}


def otherwise(plan: Plan) -> dict[int, str]:
    """What is cut at each position where it is not cut as estimated."""
    return {at: tiling.work for at, tiling in plan.tilings.items() if tiling.estimated is not None}


def operations(project: Project, took: Measured) -> list[tuple[str, int]]:
    return [(op.name, took.taken[at]) for at, op in enumerate(project.plan.program.ops)]


def kernels(plan: Plan) -> dict[str, set[str]]:
    """What the tiles of each thing that is cut call, and would call as estimated."""
    found: dict[str, set[str]] = {}
    for at, tiling in plan.tilings.items():
        usual = () if tiling.estimated is None else (tiling.estimated.named(tiling.names),)
        calls = [plan.calls[at], *(links(plan.program.ops[at], t, plan.target.cores) for t in usual)]
        called = {link.row for tiles in calls for link in (*tiles[0], *tiles[-1])}
        found.setdefault(tiling.work, set()).update(LOOP if row is None else row.symbol for row in called)
    return found


def averaged(cut: Ways, found: Measured) -> dict[Cut, int]:
    """Layers that are alike are one."""
    each: dict[Cut, list[int]] = {}
    for at, way in cut.items():
        each.setdefault(way, []).append(found.taken[at])
    return {way: round(sum(took) / len(took)) for way, took in each.items()}


def choices(plan: Plan, table: Table, whole: Mapping[Cut, int]) -> tuple[Choice, ...]:
    """Of operations of which more than one way was measured; `whole` is what they took in the last two steps."""
    return tuple(found for at, t in sorted(plan.tilings.items()) if (found := choice(at, t, table, whole)) is not None)


def choice(at: int, tiling: Tiling, table: Table, whole: Mapping[Cut, int]) -> Choice | None:
    default, known = (tiling.estimated or tiling).way, dict(table.taken.get(tiling.work, {}))
    known |= {way: whole[tiling.work, way] for way in (default, tiling.way) if (tiling.work, way) in whole}
    return Choice(at, tiling.way, default, known) if len(known) > 1 and {tiling.way, default} <= set(known) else None


@contextmanager
def pool(asked: Tune) -> Iterator[Executor]:
    """The caller's, or threads that wait for processes: one where time is measured."""
    if asked.executor is not None:
        yield asked.executor
        return
    alone = 1 if asked.on == TIMED else os.cpu_count() or 1
    executor = ThreadPoolExecutor(alone)
    try:
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)
