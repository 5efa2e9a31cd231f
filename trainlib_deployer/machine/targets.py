"""The machines, one record each."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trainlib_deployer.errors import UsageError
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.machine.pulp_open import PULP_OPEN_COSTS
from trainlib_deployer.machine.sizes import parse_size

MOST_CORES = 16
LEAN_STACK = 1280  # bytes that the deepest calls of the kernels take, and some to spare: a test adds them up


@dataclass(frozen=True)
class Target:
    """A cluster: its cores, its two memories, and what they share."""

    name: str
    cores: int
    l1: int
    l2: int
    stack_bytes: int = 1536  # of each core, in L1
    cores_per_fpu: int = 1
    sdk_l1: int = 0  # of L1, for variables of the SDK and the alignment behind them
    about: str = ""
    idle: int = 0  # more cores, which take no part
    costs: Costs = PULP_OPEN_COSTS

    def leaner(self, cores: int) -> Target:
        """With fewer cores at work, and no deeper stacks than these need."""
        idle = self.idle + self.cores - cores
        return replace(self, cores=cores, stack_bytes=min(self.stack_bytes, LEAN_STACK), idle=idle)


TARGETS = {
    t.name: t
    for t in (
        Target(
            "pulp-open",
            8,
            64 << 10,
            512 << 10,
            cores_per_fpu=2,
            sdk_l1=64,
            about="PULP cluster as in GVSoC and PULP-SDK",
        ),
        Target("siracusa", 8, 256 << 10, 2 << 20, cores_per_fpu=2, sdk_l1=64, about="Siracusa"),
        Target("gap9", 9, 128 << 10, 3 << 19, about="GAP9, the ninth core is the cluster's master"),
        Target(
            "generic",
            1,
            0,
            512 << 10,
            stack_bytes=0,
            about="one core, one memory: any microcontroller with a C compiler",
        ),
    )
}
DEFAULT = "pulp-open"


def resolve(
    name: str | None = None, cores: str | int | None = None, l1: str | int | None = None, l2: str | int | None = None
) -> Target:
    """A preset with what the user overrides. Without a preset, cores and L1 must be given and L2 is the default's."""
    if name is not None and name not in TARGETS:
        raise UsageError(f"unknown target '{name}'", remedy=f"targets: {', '.join(TARGETS)}")
    base = TARGETS[name or DEFAULT]
    target = replace(
        base,
        cores=base.cores if cores is None else parse_cores(cores),
        l1=base.l1 if l1 is None else parse_size(l1, "--l1"),
        l2=base.l2 if l2 is None else parse_size(l2, "--l2"),
    )
    if target == base:
        return base
    if target.l1 != base.l1:  # a part of the chip's, or another chip
        target = replace(target, sdk_l1=0)
    return target if name else replace(target, name="custom", about="")


def parse_cores(text: str | int) -> int:
    try:
        cores = int(str(text))
    except ValueError:
        cores = 0
    if not 1 <= cores <= MOST_CORES:
        raise UsageError(f"--cores '{text}' is not a number of cores", remedy=f"give a number from 1 to {MOST_CORES}")
    return cores
