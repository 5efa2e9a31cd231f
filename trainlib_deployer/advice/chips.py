"""Which chip? One step planned for each of them, with everything that its build brings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainlib_deployer.advice.budget import FREE, Budget
from trainlib_deployer.advice.forecast import Forecast
from trainlib_deployer.advice.points import Point, Points
from trainlib_deployer.advice.sweeping import Variant, points_on, step_of, variants
from trainlib_deployer.beside import beside_build
from trainlib_deployer.capture.agreement import captured_and_checked
from trainlib_deployer.errors import DoesNotFit
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.machine.targets import DEFAULT, TARGETS
from trainlib_deployer.options import Options
from trainlib_deployer.pipeline import at_start, dtype_of
from trainlib_deployer.program.ir import Program
from trainlib_deployer.tune.shipped import with_measurements
from trainlib_deployer.user.model import UserModel

Say = Callable[[str], None]
FEW = 2  # remedies in a table
FLASH = "flash"
OUTSIDE = tuple(dict.fromkeys(m.outside.memory.name for m in TARGETS.values() if m.outside is not None))


def memories(boards: bool) -> tuple[str, ...]:
    return (*(m.name for m in TARGETS[DEFAULT].memories), *(OUTSIDE if boards else ()), FLASH)


def headings(boards: bool) -> tuple[str, ...]:
    return ("chip", "fits", *memories(boards), "cycles", "ms", "mJ", "what makes it fit")


@dataclass(frozen=True)
class Chip:
    """What a step takes of a chip: bytes in use by memory, or how many too many; cycles where they are known."""

    name: str
    about: str
    fits: bool
    used: dict[str, int]
    over: dict[str, int]
    helps: tuple[str, ...] = ()
    forecast: Forecast | None = None
    clock: str = ""
    points: Points | None = None  # where there is a budget: the ways to train it there

    @property
    def within(self) -> Point | None:
        """The most that can be trained within the budget."""
        return self.points.best if self.points is not None else None

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "about": self.about,
            "fits": self.fits,
            "used": self.used,
            "over": self.over,
            "helps": list(self.helps),
            **(self.forecast or Forecast(0)).as_json(),
            "clock": self.clock,
            "within_budget": self.within.as_json() if self.within else None,
        }

    def cells(self, boards: bool = False) -> tuple[str, ...]:
        taken = tuple(f"{self.used[m]:,}" if m in self.used else more(self.over.get(m)) for m in memories(boards))
        known = self.forecast or Forecast(0)
        work = (f"{known.cycles:,}" if known.cycles else "-", *known.cells())
        return (self.name, "yes" if self.fits else "no", *taken, *work, "; ".join(self.helps[:FEW]))

    def answer(self) -> tuple[str, ...]:
        """What can be trained within the budget, or what the least takes."""
        if self.points is None or not self.points:
            return (self.name, "nothing", "", "", "", "does not fit")
        best = self.within
        point = best or self.points[0]
        ms, mj = point.forecast.cells()
        taken = (f"{point.forecast.memory:,}", ms, mj)
        if best is not None:
            return (self.name, f"{point.what} ({point.trained:,})", *taken, point.update)
        excess = self.points.excess(point) or (f"{point.over:,} bytes over",)
        return (self.name, "nothing", *taken, f"the least: {', '.join(excess)}")


ANSWERS = ("chip", "can be trained (parameters)", "bytes", "ms", "mJ", "batch")


def more(over: int | None) -> str:
    return "-" if over is None else f"{over:,} over"


def chips_of(
    user: UserModel,
    accumulate: int,
    say: Say = lambda line: None,
    budget: Budget = FREE,
    boards: bool = False,
    dtype: str = "fp32",
) -> list[Chip]:
    """`boards`: with the memories that these put beside the chips."""
    with at_start(user):
        captured, _ = captured_and_checked(user)
        program = step_of(user, captured, accumulate, dtype)
        ways = list(variants(user, accumulate, say, (dtype,))) if budget.given else []
        asked = [Options(m, Path(), 1, accumulate, dtype_of(dtype, captured)) for m in machines(boards)]
        return [planned(options, program, user, say, ways, budget) for options in asked]


def machines(boards: bool) -> list[Machine]:
    found = (with_measurements(m) for m in TARGETS.values())
    return [m.with_outside(m.outside.memory.size) if boards and m.outside is not None else m for m in found]


def planned(
    options: Options,
    program: Program,
    user: UserModel,
    say: Say,
    ways: list[Variant],
    budget: Budget,
) -> Chip:
    machine = options.target
    say(f"planning for {machine.name}")
    points = points_on(machine, ways, user, options.accumulate, False, say, budget) if ways else None
    try:
        project, image = beside_build(program, user, options, say)
    except DoesNotFit as refused:
        over = dict(refused.over)
        return Chip(machine.name, machine.about, False, {}, over, refused.helps, points=points)
    plan = project.plan.beside(image)
    used = {level.name: level.used + level.reserved for level in plan.levels.values() if level.size}
    flash = {FLASH: image.flash} if image is not None and image.build.flash else {}
    known = Forecast.of(plan, machine)
    clock = machine.clock
    words = f"{clock.megahertz:g} MHz: {clock.source}" if clock and known.milliseconds else ""
    return Chip(machine.name, machine.about, True, used | flash, {}, (), known, words, points)
