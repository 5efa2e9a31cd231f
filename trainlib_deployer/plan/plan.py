"""The plan in nouns: levels, buffers, certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from trainlib_deployer.frames import frame
from trainlib_deployer.html import table
from trainlib_deployer.image.image import Image
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.ops.carry import ORDER_BYTES, Transfer
from trainlib_deployer.plan.cycles import fetched_once, untiled_cycles
from trainlib_deployer.plan.figures import NONE, Account
from trainlib_deployer.plan.found import Place, root
from trainlib_deployer.plan.links import Link, links
from trainlib_deployer.plan.smaller import AS_FLOATS, NOTHING_TWICE, Recomputed, Saved
from trainlib_deployer.plan.tiles import Tiling
from trainlib_deployer.plan.tuning import Tuning
from trainlib_deployer.program.brought import brought_bytes
from trainlib_deployer.program.ir import EVALUATION, Program, Source, View


@dataclass(frozen=True)
class Buffer:
    """A stretch of memory and the schedule positions [birth, death) in which it is in use."""

    name: str
    level: str
    offset: int
    size: int
    birth: int
    death: int
    role: str
    layer: str = ""
    aliases: tuple[str, ...] = ()  # other tensors that use the same bytes
    source: Source | None = None


@dataclass(frozen=True)
class LevelPlan:
    """One memory: `persistent` bytes of tensors first, then the arena: stacks and all that comes and goes."""

    name: str
    size: int
    used: int
    persistent: int
    arena: int
    peak_live: int
    lower_bound: int
    peak_position: int
    live_at_peak: tuple[str, ...]
    stacks: int
    proved: bool
    method: str
    reserved: int = 0  # not the plan's: code, constants, an SDK's variables

    @property
    def headroom(self) -> int:
        return self.size - self.used - self.reserved

    @property
    def fits(self) -> bool:
        return self.headroom >= 0


@dataclass(frozen=True)
class Plan:
    """Everything that is decided before the first line of C."""

    program: Program
    target: Machine
    levels: Mapping[str, LevelPlan]
    buffers: tuple[Buffer, ...]
    home: Mapping[str, Buffer]  # tensor name -> the buffer that holds it
    scratch: Mapping[int, Buffer]  # position of an operation -> its scratch
    stacks: Buffer
    tilings: Mapping[int, Tiling] = field(default_factory=dict)  # position of an operation -> how it streams through L1
    recomputed: Recomputed = NOTHING_TWICE
    saved: Saved = AS_FLOATS
    dtype: str = "fp32"  # mixed: activations and their gradients are halves
    tuned: Tuning | None = None  # what its tiles were measured to take
    account: Account = NONE  # of one that was taken

    def beside(self, image: Image | None) -> Plan:
        """With everything else that a build puts into the outer memory."""
        if image is None:
            return self
        level = replace(self.outer, reserved=image.beside(self.outer.used))
        return replace(self, levels={**self.levels, level.name: level})

    @cached_property
    def calls(self) -> tuple[list[tuple[Link, ...]], ...]:
        """What each operation calls, tile by tile."""
        cores = self.target.cores
        return tuple(links(op, self.tilings.get(at), cores) for at, op in enumerate(self.program.ops))

    @cached_property
    def cycles(self) -> float:
        """Of a step, estimated."""
        return sum(self.op_cycles(at) for at in range(len(self.program.ops)))

    @cached_property
    def streaming(self) -> list[Tiling]:
        """Tiles of a step."""
        return [t for at, t in self.tilings.items() if self.program.ops[at].phase != EVALUATION]

    @cached_property
    def moved(self) -> int:
        """Bytes that cross between the near levels in a step."""
        alone = (op.kind for at, op in enumerate(self.program.ops) if at not in self.tilings and op.phase != EVALUATION)
        return sum(t.moved for t in self.streaming) + sum(map(brought_bytes, alone))

    def op_cycles(self, at: int) -> float:
        """A kernel's code is not at hand when it begins; tiles do not change that."""
        op, machine = self.program.ops[at], self.target
        if isinstance(op.kind, Transfer):
            return machine.far_link.asked + ORDER_BYTES / machine.far_link.bytes_per_cycle + op.kind.exposed
        fetched = fetched_once(op.kind, machine.costs.tile)
        if at in self.tilings:
            return self.tilings[at].cycles + fetched
        return untiled_cycles(op, self.outside(at), machine) + fetched

    def outside(self, at: int) -> list[View]:
        """What an operation reads and writes that lives in the outer level."""
        op = self.program.ops[at]
        planned = (v for v in (*op.reads, *op.writes) if v.tensor in self.home)
        return [v for v in planned if self.home[v.tensor].level == self.target.outer.name]

    @cached_property
    def guests(self) -> Mapping[int, list[int]]:
        """Operations whose first tile comes early, under the one that starts its transfers."""
        found: dict[int, list[int]] = {}
        for at, tiling in self.tilings.items():
            if tiling.host is not None:
                found.setdefault(tiling.host, []).append(at)
        return found

    def buffer_of(self, at: int, stream: int) -> Place:
        """Where the tiles of an operation's stream lie."""
        return root(self.tilings, (at, stream))

    def __repr__(self) -> str:
        used = ", ".join(f"{level.name} {level.used:,} of {level.size:,} bytes" for level in self.levels.values())
        return f"Plan({self.program.name} on {self.target.name}: {len(self.program.ops):,} operations, {used})"

    def _repr_html_(self) -> str:
        numbers = ((v.size, v.used, v.peak_live, v.lower_bound, v.headroom) for v in self.levels.values())
        rows = ((name, *(f"{n:,}" for n in row)) for name, row in zip(self.levels, numbers, strict=True))
        headings = ("level", "bytes", "used", "peak live", "lower bound", "left")
        return table(f"{self.program.name} on {self.target.name}", headings, rows)

    def to_dataframe(self) -> Any:
        """A row a buffer."""
        rows = (asdict(replace(b, source=None)) for b in self.buffers)
        return frame({k: v for k, v in row.items() if k != "source"} for row in rows)

    @property
    def inner(self) -> LevelPlan:
        return self.levels[self.target.inner.name]

    @property
    def outer(self) -> LevelPlan:
        return self.levels[self.target.outer.name]

    @property
    def near_levels(self) -> list[LevelPlan]:
        """Those that the cores reach."""
        return [self.inner, self.outer]

    @property
    def far(self) -> LevelPlan | None:
        """What lies behind the outer memory, if anything does."""
        return next(iter(list(self.levels.values())[2:]), None)

    @property
    def peak(self) -> int:
        return sum(level.used for level in self.levels.values())

    @property
    def lower_bound(self) -> int:
        return sum(level.lower_bound for level in self.levels.values())
