"""What a step may take: time, energy, memory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainlib_deployer.errors import UsageError
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.machine.sizes import parse_size, show_size
from trainlib_deployer.machine.targets import TARGETS

if TYPE_CHECKING:
    from trainlib_deployer.advice.forecast import Forecast

AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-zµ]+)", re.IGNORECASE)
MILLISECONDS = {"us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3}
MILLIJOULES = {"uJ": 1e-3, "µJ": 1e-3, "mJ": 1.0, "J": 1e3}


@dataclass(frozen=True)
class Budget:
    """The most that a step may take; None is as much as it likes."""

    milliseconds: float | None = None
    millijoules: float | None = None
    memory: int | None = None

    @staticmethod
    def parse(time: str | None, energy: str | None, memory: str | None) -> Budget:
        return Budget(
            None if time is None else amount("--time", time, MILLISECONDS),
            None if energy is None else amount("--energy", energy, MILLIJOULES),
            None if memory is None else room(memory),
        )

    @property
    def given(self) -> bool:
        return self != FREE

    def demand_known(self, machine: Machine) -> None:
        """What is asked for must be known of the machine."""
        for wanted, known, option, what, has in (
            (self.milliseconds, machine.clock, "--time", "clock", [m.name for m in TARGETS.values() if m.clock]),
            (self.millijoules, machine.power, "--energy", "power", [m.name for m in TARGETS.values() if m.power]),
        ):
            if wanted is not None and known is None:
                raise UsageError(
                    f"{option}: the {what} of {machine.name} is not known", remedy=f"--target {' or '.join(has)}"
                )

    def exceeded(self, by: Forecast) -> tuple[str, ...]:
        """What takes too much, or is not known; of energy the upper end counts."""
        found = []
        if self.milliseconds is not None and not (by.milliseconds or float("inf")) <= self.milliseconds:
            found.append("time unknown" if by.milliseconds is None else f"{by.milliseconds:.3g} ms")
        if self.millijoules is not None and not (by.energy and by.energy.most <= self.millijoules):
            found.append(f"{by.energy} mJ" if by.energy else "energy unknown")
        if self.memory is not None and by.memory > self.memory:
            found.append(f"{by.memory:,} bytes")
        return tuple(found)

    def __str__(self) -> str:
        parts = [
            "" if self.milliseconds is None else f"{self.milliseconds:g} ms",
            "" if self.millijoules is None else f"{self.millijoules:g} mJ",
            "" if self.memory is None else f"{show_size(self.memory)}{' bytes' if self.memory % 1024 else ''}",
        ]
        return ", ".join(p for p in parts if p)


FREE = Budget()


def room(text: str) -> int:
    size = parse_size(text, "--memory")
    if not size:
        raise UsageError(f"--memory '{text}' is no amount", remedy="write bytes or a unit: 65536, 64k, 64KiB, 2M")
    return size


def amount(option: str, text: str, units: dict[str, float]) -> float:
    match = AMOUNT.fullmatch(text.strip())
    by_name = {name.lower(): size for name, size in units.items()}
    if match is None or match[2].lower() not in by_name or not float(match[1]):
        examples = " or ".join(f"50{unit}" for unit in units if "µ" not in unit)
        raise UsageError(f"{option} '{text}' is no amount", remedy=f"write a number and its unit, like {examples}")
    return float(match[1]) * by_name[match[2].lower()]
