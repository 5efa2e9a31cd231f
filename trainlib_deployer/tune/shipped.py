"""Measurements that come with the package: `measured/MACHINE.json`, written by `make tune-table`. So tiles of shapes
that the examples have are chosen by cycles of GVSoC without it, and the same ones on every computer."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.machine.targets import TARGETS
from trainlib_deployer.machine.tuned import Tuned
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.tuning import Tuning
from trainlib_deployer.run import SIMULATED
from trainlib_deployer.tune.table import Table
from trainlib_deployer.tune.tuning import choices

FOLDER = Path(__file__).parent / "measured"


def path_of(machine: Machine) -> Path:
    return FOLDER / f"{machine.name}.json"


@cache
def shipped(name: str) -> Table:
    return Table.at(path_of(TARGETS[name]))


def with_measurements(machine: Machine) -> Machine:
    """A chip as it is, with what was measured on it."""
    known = TARGETS.get(machine.name)
    if known is None or (known.team, known.idle) != (machine.team, machine.idle) or not path_of(known).is_file():
        return machine
    return replace(machine, tuned=Tuned(shipped(machine.name).taken))


def told(plan: Plan) -> Plan:
    """With what was chosen by these measurements."""
    if plan.target.tuned is None:
        return plan
    table = shipped(plan.target.name)
    return replace(plan, tuned=Tuning(SIMULATED, table.unit, None, None, choices(plan, table, {})))
