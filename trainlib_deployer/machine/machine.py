"""A machine in nouns: cores, memories from the innermost outwards, the links between them, and what work costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import lcm

from trainlib_deployer.machine.build import Build
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.machine.energy import Power
from trainlib_deployer.machine.sizes import aligned
from trainlib_deployer.machine.tuned import Tuned

LEAN_STACK = 1280  # bytes that the deepest calls of the kernels take, and some to spare: a test adds them up
GROUND = 16  # what C's own objects and the stacks of RISC-V ask for, on any machine


@dataclass(frozen=True)
class Memory:
    """A level: its bytes, those that are not the plan's, and the cycles that a core waits for a word of it."""

    name: str
    size: int
    reserved: int = 0  # for variables of an SDK and the alignment behind them
    load: float = 0  # more than for a word of the innermost


@dataclass(frozen=True)
class Link:
    """What carries bytes between a level and the next one outwards; `issue` cycles before they flow."""

    inner: int
    outer: int
    bytes_per_cycle: float
    issue: float
    row: float  # cycles for each row of a transfer
    short_row: float  # ... of fewer than `short` bytes
    short: int
    channels: int  # transfers that it tells apart
    largest: int  # bytes of one transfer; more are several
    alignment: int = 1  # of the bytes inside that a transfer begins at
    back: float = 1.0  # of two transfers in opposite directions, what the longer one does not hide of the other
    asked: float = 0  # cycles of the core that starts a transfer, where another one has to be asked for it


@dataclass(frozen=True)
class Outside:
    """A memory that boards put beside a chip, and what carries bytes between it and the chip's own outermost one."""

    memory: Memory
    link: Link


@dataclass(frozen=True)
class Cores:
    """A team: its cores, how many of them share a float unit, and bytes of stack for each."""

    count: int
    per_float_unit: int
    stack: int
    instruction_sets: tuple[str, ...]


@dataclass(frozen=True)
class Clock:
    """Of a chip, as fast as it is said to go, and who says so."""

    megahertz: float
    source: str


@dataclass(frozen=True)
class Machine:
    """A cluster of cores beside its memories."""

    name: str
    team: Cores  # those that work
    memories: tuple[Memory, ...]  # from the cores outwards; one of no bytes is not there
    links: tuple[Link, ...]  # between each memory and the next
    costs: Costs
    about: str = ""
    idle: int = 0  # more cores, which take no part
    clock: Clock | None = None  # None: no chip, or nothing is known of its cycles
    power: Power | None = None  # None: nobody has published it
    build: Build | None = None  # None: where code lies is not known, and takes none of these memories
    outside: Outside | None = None  # what --l3 adds
    bf16: bool = False  # it adds up products of bfloat16: by instructions known to be right, or in software
    tuned: Tuned | None = None  # what tiles took on it

    def __post_init__(self) -> None:
        wanted = [(i, i + 1) for i in range(len(self.memories) - 1)]
        if [(link.inner, link.outer) for link in self.links] != wanted or not wanted:
            raise ValueError(f"{self.name}: a link from each memory to the next, and two memories at the least")

    def __hash__(self) -> int:
        return self.team.count  # machines of as many cores are few, and the rest takes long

    @property
    def cores(self) -> int:
        return self.team.count

    @property
    def stack_bytes(self) -> int:
        return self.team.stack

    @property
    def inner(self) -> Memory:
        """The one that work is done in, as far as there is room."""
        return self.memories[0]

    @property
    def outer(self) -> Memory:
        """The one that tensors live in where the inner one is too small."""
        return self.memories[1]

    @property
    def far(self) -> Memory | None:
        """The one behind the outer one, which no core reaches, if there is one."""
        return self.memories[2] if len(self.memories) > 2 and self.memories[2].size else None

    @property
    def near(self) -> Memory:
        """The one beside the cores: of stacks and scratch."""
        return self.inner if self.inner.size else self.outer

    @property
    def link(self) -> Link:
        return self.links[0]

    @property
    def far_link(self) -> Link:
        """Between the outer memory and the one behind it, which is there."""
        return self.links[1]

    @cached_property
    def alignment(self) -> int:
        """Every buffer begins at a multiple of it, counted from the beginning of its level."""
        return lcm(GROUND, *(link.alignment for link in self.links))

    def aligned(self, size: int) -> int:
        return aligned(size, self.alignment)

    def float_units(self) -> int:
        """Of those that work: neighbours in number are given different ones as long as there are some."""
        return min(self.cores, -(-(self.cores + self.idle) // self.team.per_float_unit))

    def leaner(self, cores: int) -> Machine:
        """With fewer cores at work, and no deeper stacks than these need."""
        team = replace(self.team, count=cores, stack=min(self.team.stack, LEAN_STACK))
        return replace(self, team=team, idle=self.idle + self.cores - cores)

    def with_memory(self, level: int, size: int, reserved: int | None = None) -> Machine:
        """With more or less of a level."""
        kept = self.memories[level]
        changed = replace(kept, size=size, reserved=kept.reserved if reserved is None else reserved)
        return replace(self, memories=(*self.memories[:level], changed, *self.memories[level + 1 :]))

    def near_only(self) -> Machine:
        """Without what lies behind the outer memory."""
        return self if self.far is None else replace(self, memories=self.memories[:2], links=self.links[:1])

    def with_outside(self, size: int) -> Machine:
        """With so much of the memory that boards put beside it."""
        if self.outside is None:
            raise ValueError(f"{self.name} has nothing to put a further memory at")
        memory = replace(self.outside.memory, size=size)
        return replace(self, memories=(*self.memories, memory), links=(*self.links, self.outside.link))
