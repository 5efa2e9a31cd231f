"""What a planned step is forecast to take: cycles, time, energy."""

from __future__ import annotations

from dataclasses import dataclass

from trainlib_deployer.machine.energy import Energy
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.plan.plan import Plan


@dataclass(frozen=True)
class Forecast:
    """Of a planned step: bytes where its tensors live; cycles, time and energy as far as anything is known of them."""

    memory: int
    cycles: int | None = None
    milliseconds: float | None = None
    energy: Energy | None = None

    @staticmethod
    def of(plan: Plan, machine: Machine) -> Forecast:
        """Nothing is known of the cycles of a machine without an inner memory: the costs are those of a cluster."""
        memory = plan.outer.used or plan.inner.used
        if not machine.inner.size:
            return Forecast(memory)
        work = plan.cycles
        if machine.clock is None:
            return Forecast(memory, round(work))
        time = work / machine.clock.megahertz / 1000
        macs = sum(op.kind.macs() for op in plan.program.ops)
        return Forecast(memory, round(work), time, machine.power.of(macs, time) if machine.power else None)

    def as_json(self) -> dict[str, object]:
        return {
            "cycles": self.cycles,
            "milliseconds": self.milliseconds,
            "millijoules_least": self.energy.least if self.energy else None,
            "millijoules_most": self.energy.most if self.energy else None,
            "energy_source": self.energy.source if self.energy else None,
        }

    def cells(self) -> tuple[str, str]:
        return "-" if self.milliseconds is None else f"{self.milliseconds:.2f}", str(self.energy or "-")
