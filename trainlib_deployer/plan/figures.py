"""What is told of a plan: figures of its operations, and of what they move."""

from __future__ import annotations

from dataclasses import dataclass

from trainlib_deployer.kernels.row import Row
from trainlib_deployer.ops.carry import Arrival, Carry
from trainlib_deployer.program.ir import Kind, Program


@dataclass(frozen=True)
class Direct:
    """Why an operation reads the outer level itself: there are no tiles, none fits the bytes that are free, or they
    would take longer."""

    why: str
    tensors: tuple[str, ...]  # that stay outside
    free: int  # bytes of the inner level
    least: int  # bytes of the smallest tiles
    cycles: int  # estimated, as it is
    tiled: int | None  # ... and with the best tiles that fit


@dataclass(frozen=True)
class Figures:
    """Of one operation."""

    cycles: float  # of the slowest core, estimated
    moved: int  # bytes whose transfer it starts: its own, and those of tiles that it brings early
    rows: tuple[Row[Kind], ...]  # of the table of kernels, the one of most tiles first; none for generated loops
    direct: Direct | None


@dataclass(frozen=True)
class Traffic:
    """Bytes that cross between the near levels in a step, the least possible, and the share of their time that work
    hides."""

    moved: int
    least: int
    hidden: float


@dataclass(frozen=True)
class Carried:
    """Tensors behind the outer memory, bytes that copies of them move in a step, and cycles that the cores wait."""

    tensors: int
    bytes: int
    copies: int
    moved: int
    waited: int

    @staticmethod
    def of(program: Program) -> Carried:
        copies = [op.kind.nbytes for op in program.step if isinstance(op.kind, Carry)]
        waited = sum(op.kind.exposed for op in program.step if isinstance(op.kind, Arrival))
        nbytes = sum(program.tensors[name].nbytes for name in program.far)
        return Carried(len(program.far), nbytes, len(copies), sum(copies), waited)


@dataclass(frozen=True)
class Account:
    """Of the plan that was taken."""

    figures: tuple[Figures, ...]
    traffic: Traffic
    carried: Carried

    @property
    def rows(self) -> list[Row[Kind]]:
        """That are called, each once."""
        return list(dict.fromkeys(row for f in self.figures for row in f.rows))


NONE = Account((), Traffic(0, 0, 1.0), Carried(0, 0, 0, 0, 0))
