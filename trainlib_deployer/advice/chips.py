"""Which chip? One step planned for each of them, with everything that its build brings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainlib_deployer import passes
from trainlib_deployer.capture.agreement import captured_and_checked
from trainlib_deployer.errors import DoesNotFit
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.machine.targets import DEFAULT, TARGETS
from trainlib_deployer.ops.lower import lower
from trainlib_deployer.options import Options
from trainlib_deployer.pipeline import at_start, beside_build
from trainlib_deployer.plan.tiled import cycles
from trainlib_deployer.program.ir import Program
from trainlib_deployer.user.model import UserModel

Say = Callable[[str], None]
FEW = 2  # remedies in a table
FLASH = "flash"
MEMORIES = (*(m.name for m in TARGETS[DEFAULT].memories), FLASH)
HEADINGS = ("chip", "fits", *MEMORIES, "cycles", "ms", "what makes it fit")


@dataclass(frozen=True)
class Chip:
    """What a step takes of a chip: bytes in use by memory, or how many too many; cycles where they are known."""

    name: str
    about: str
    fits: bool
    used: dict[str, int]
    over: dict[str, int]
    helps: tuple[str, ...] = ()
    cycles: int | None = None  # estimated
    milliseconds: float | None = None  # at `clock`
    clock: str = ""

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "helps": list(self.helps)}

    def cells(self) -> tuple[str, ...]:
        memories = tuple(f"{self.used[m]:,}" if m in self.used else more(self.over.get(m)) for m in MEMORIES)
        work = (f"{self.cycles:,}" if self.cycles else "-", f"{self.milliseconds:.2f}" if self.milliseconds else "-")
        return (self.name, "yes" if self.fits else "no", *memories, *work, "; ".join(self.helps[:FEW]))


def more(over: int | None) -> str:
    return "-" if over is None else f"{over:,} over"


def chips_of(user: UserModel, accumulate: int, say: Say = lambda line: None) -> list[Chip]:
    with at_start(user):
        captured, _ = captured_and_checked(user)
        program = passes.run(lower(user, captured, accumulate))
        return list(planned(program, user, accumulate, say))


def planned(program: Program, user: UserModel, accumulate: int, say: Say) -> Iterator[Chip]:
    for machine in TARGETS.values():
        say(f"planning for {machine.name}")
        try:
            project, image = beside_build(program, user, Options(machine, Path(), 1, accumulate), say)
        except DoesNotFit as refused:
            yield Chip(machine.name, machine.about, False, {}, dict(refused.over), refused.helps)
            continue
        plan = project.plan.beside(image)
        used = {level.name: level.used + level.reserved for level in plan.levels.values() if level.size}
        flash = {FLASH: image.flash} if image is not None and image.build.flash else {}
        yield Chip(machine.name, machine.about, True, used | flash, {}, (), *forecast(machine, cycles(plan)))


def forecast(machine: Machine, work: float) -> tuple[int | None, float | None, str]:
    """Nothing is known of the cycles of a machine without an inner memory: the costs are those of a cluster."""
    if not machine.inner.size:
        return None, None, ""
    clock = machine.clock
    if clock is None:
        return round(work), None, ""
    return round(work), work / clock.megahertz / 1000, f"{clock.megahertz:g} MHz: {clock.source}"
