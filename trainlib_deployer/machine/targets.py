"""The machines by name, and what a user overrides of one."""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.arguments import digits, quoted
from trainlib_deployer.errors import UsageError
from trainlib_deployer.machine.gap9 import GAP9
from trainlib_deployer.machine.generic import GENERIC
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.machine.pulp_open import PULP_OPEN
from trainlib_deployer.machine.single import CORTEX_M4F, CORTEX_M7, CORTEX_M33, ESP32_C3, ESP32_C6
from trainlib_deployer.machine.siracusa import SIRACUSA
from trainlib_deployer.machine.sizes import ADDRESS_SPACE, parse_size, show_size

MOST_CORES = 16
CUSTOM = "custom"  # sizes of the user's, without a chip
FAR = 2  # the memory of --l3
MICROCONTROLLERS = (CORTEX_M4F, CORTEX_M7, CORTEX_M33, ESP32_C3, ESP32_C6)
TARGETS = {machine.name: machine for machine in (PULP_OPEN, SIRACUSA, GAP9, GENERIC, *MICROCONTROLLERS)}
DEFAULT = "pulp-open"


def cores_text(name: str, cores: int) -> str:
    """`pulp-open with 8 cores`; `8 cores` where sizes were given and no chip."""
    count = f"{cores:,} core{'s' if cores != 1 else ''}"
    return count if name == CUSTOM else f"{name} with {count}"


def resolve(
    name: str | None = None,
    cores: str | int | None = None,
    l1: str | int | None = None,
    l2: str | int | None = None,
    l3: str | int | None = None,
) -> Machine:
    """A preset with what the user overrides. Without a preset, cores and L1 must be given and L2 is the default's."""
    if name is not None and name not in TARGETS:
        raise UsageError(f"unknown target '{name}'", remedy=f"targets: {', '.join(TARGETS)}")
    base = machine = TARGETS[name or DEFAULT]
    if name is not None:
        demand_of_chip(machine, cores, l1)
    if cores is not None:
        machine = replace(machine, team=replace(machine.team, count=parse_cores(cores)))
    for level, (given, what) in enumerate(((l1, "--l1"), (l2, "--l2"))):
        if given is not None:
            machine = resized(machine, level, parse_size(given, what), name is not None)
    if not name and machine != base:
        machine = replace(machine, name=CUSTOM, about="", build=None)
    demand_apart(machine)
    return machine if l3 is None else with_outside(machine, parse_size(l3, "--l3"))


def demand_of_chip(machine: Machine, cores: str | int | None, l1: str | int | None) -> None:
    """A chip has no more cores than it has, and one of one memory no other."""
    if cores is not None and parse_cores(cores) > machine.cores:
        others = (
            f"give at most {machine.cores}, or sizes without --target" if machine.cores > 1 else "leave --cores out"
        )
        count = f"{machine.cores} core{'s' if machine.cores != 1 else ''}"
        raise UsageError(f"{machine.name} has {count}, not {cores}", remedy=others)
    if not machine.inner.size and l1 is not None and parse_size(l1, "--l1"):
        raise UsageError(f"{machine.name} has one memory, which is --l2", remedy="leave --l1 out")


def demand_apart(machine: Machine) -> None:
    """The memories that cores address lie in one address space, and each ends before the next one begins."""
    inner, outer = machine.inner, machine.outer
    if inner.size + outer.size > ADDRESS_SPACE:
        together = f"{inner.name} and {outer.name} are {inner.size + outer.size:,} bytes together"
        raise UsageError(f"{together}, more than the 4 GiB address space of the target")
    apart = machine.build.apart if machine.build is not None else 0
    if apart and inner.size > apart:
        begins = f"{outer.name} begins {show_size(apart)} behind the beginning of {inner.name}"
        raise UsageError(f"{inner.name} of {show_size(inner.size)} runs into {outer.name}: on {machine.name} {begins}")


def resized(machine: Machine, level: int, size: int, known: bool) -> Machine:
    """With another size of a memory; what an SDK takes of it is `known` of a chip by name."""
    same = machine.memories[level].size == size
    return machine if same else machine.with_memory(level, size, None if known else 0)


def with_outside(machine: Machine, size: int) -> Machine:
    """The chip on a board with so much more memory."""
    if len(machine.memories) > FAR:
        return resized(machine, FAR, size, True)
    if machine.outside is None:
        others = ", ".join(name for name, m in TARGETS.items() if m.outside is not None)
        raise UsageError(f"{machine.name} has nothing to connect a third memory to", remedy=f"--l3 goes with {others}")
    return machine.with_outside(size) if size else machine


def parse_cores(text: str | int) -> int:
    cores = digits(str(text).strip()) or 0
    if not 1 <= cores <= MOST_CORES:
        raise UsageError(
            f"--cores {quoted(str(text))} is not a number of cores", remedy=f"give a number from 1 to {MOST_CORES}"
        )
    return cores
