"""A project in the tiles that were measured to be the fastest.

In each round every operation is cut in the way that estimates put at the next place, all of them in one project, which
is run once: a network of any size takes as many runs as there are rounds. At the end the step as estimates alone would
have it, and the step as measurements have it, are compared whole, and the slower one is dropped.
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
from trainlib_deployer.plan.tuning import Choice, Tuning
from trainlib_deployer.report.runs import Measured
from trainlib_deployer.run import backend
from trainlib_deployer.tune.asked import Tune
from trainlib_deployer.tune.measure import packed, taken
from trainlib_deployer.tune.table import Table

TIMED = "host"  # where programs that run at once would slow each other down
Written = tuple[Project, Image | None]
Ways = Mapping[int, tuple[str, str]]  # position of an operation -> what is cut, and how


@dataclass(frozen=True)
class Tuner:
    """A step, written for a machine as often as it takes."""

    write: Callable[[Machine], Written]
    target: Machine
    references: Mapping[Key, Sketch]
    asked: Tune
    say: Callable[[str], None]

    def best(self) -> Written:
        """The faster of the two, with what was measured in its plan."""
        backend(self.asked.on).check_tools()
        table = Table.of(self.target, self.asked.on)
        with pool(self.asked) as executor:
            rounds = [self.planned(Tuned(rank=rank)) for rank in range(self.asked.rounds)]
            self.measure(rounds, table, executor)
            self.say(f"measuring the step as a whole on {self.asked.on}")
            estimated, measured = rounds[0], self.planned(Tuned(table.taken))
            before, after = (self.started(written, executor) for written in (estimated, measured))
            old, new = before.result(), after.result()
        first = ways(estimated[0])
        better = new.total < old.total and ways(measured[0]) != first
        (project, image), shown = (measured, new) if better else (estimated, old)
        choices = tuple(self.choices(project, first, table))
        found = Tuning(self.asked.on, old.unit, old.total, shown.total, choices)
        return replace(project, plan=replace(project.plan, tuned=found)), image

    def planned(self, tuned: Tuned) -> Written:
        return self.write(replace(self.target, tuned=tuned))

    def measure(self, rounds: Sequence[Written], table: Table, executor: Executor) -> None:
        """All rounds, but for what is known already."""
        new = [r for at, r in enumerate(rounds) if self.news(r, rounds[:at], table)]
        started = {self.started(written, executor): written for written in new}
        kept = True
        for at, done in enumerate(as_completed(started)):
            self.say(f"measuring tiles on {self.asked.on}: {at + 1} of {len(new)}")
            kept &= table.add(done.result().unit, averaged(ways(started[done][0]), done.result()))
        if not kept:
            self.say(f"note: {table.path.parent} cannot be written: what was measured is used now, and not kept")

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

    def choices(self, project: Project, first: Ways, table: Table) -> Iterator[Choice]:
        """Of operations of which more than one way was measured."""
        of_work = dict(first.values())
        for at, (work, way) in ways(project).items():
            known = table.taken.get(work, {})
            default = of_work.get(work, way)
            if len(known) > 1 and {way, default} <= set(known):
                yield Choice(at, way, default, known)


def ways(project: Project) -> Ways:
    """How the operations in tiles are cut."""
    found = project.plan.tilings.items()
    return {at: tiling.measured_as for at, tiling in sorted(found) if tiling.measured_as is not None}


def averaged(cut: Ways, found: Measured) -> dict[tuple[str, str], int]:
    """Layers that are alike are one."""
    each: dict[tuple[str, str], list[int]] = {}
    for at, way in cut.items():
        each.setdefault(way, []).append(found.taken[at])
    return {way: round(sum(took) / len(took)) for way, took in each.items()}


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
