"""When each far tensor, or a piece of it, has a copy nearby: from a first use to a last one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from trainlib_deployer.far.pieces import Piece, Step, whole
from trainlib_deployer.program.ir import Program, Tensor


@dataclass(frozen=True)
class Use:
    """What an operation does with a tensor; it `reads` where it needs what was there."""

    at: int
    piece: Piece
    reads: bool
    writes: bool


@dataclass(frozen=True)
class Stay:
    """A copy, used by the operations from `first` to `last`: does it begin with what is far, and go back there?"""

    tensor: str
    piece: Piece
    first: int
    last: int
    brings: bool
    takes: bool

    @property
    def copies(self) -> int:
        return self.brings + self.takes


class Resident:
    """A tensor, and where the time that it is nearby is interrupted: after use i it leaves, for each of its `gaps`."""

    def __init__(
        self,
        tensor: Tensor,
        uses: Sequence[Use],
        kept: bool,
        entries: Sequence[int] = (),
        gaps: frozenset[int] | None = None,
    ) -> None:
        """`kept`: all that is written goes back, as whoever records it finds it there. At `entries`, what lasts is
        far, as what stands before them need not have run, or may run again."""
        self.tensor, self.uses, self.entries = tensor, uses, entries
        forced = frozenset(
            i
            for i, (a, b) in enumerate(pairwise(uses))
            if a.piece != b.piece or (tensor.role.persistent and any(a.at < at <= b.at for at in entries))
        )
        in_pieces = any(u.piece != whole(tensor) for u in uses)
        self.far = gaps is not None or in_pieces
        self.kept = kept and in_pieces
        self.gaps = forced if gaps is None else gaps
        self.positions = [u.at for u in uses]
        self.options: dict[int | None, Resident] = {}

    @property
    def persistent(self) -> bool:
        return self.tensor.role.persistent

    def without(self, gap: int | None) -> Resident:
        """Far, and with one interruption more."""
        if gap not in self.options:
            gaps = self.gaps if gap is None else self.gaps | {gap}
            self.options[gap] = Resident(self.tensor, self.uses, self.kept, self.entries, gaps)
        return self.options[gap]

    def runs(self) -> Iterator[Sequence[Use]]:
        begin = 0
        for end in (*sorted(self.gaps), len(self.uses) - 1):
            yield self.uses[begin : end + 1]
            begin = end + 1

    @cached_property
    def stays(self) -> list[Stay]:
        runs = list(self.runs())
        return [self.stay(runs, k) for k in range(len(runs))]

    def stay(self, runs: list[Sequence[Use]], k: int) -> Stay:
        run = runs[k]
        piece = run[0].piece
        before = (u for r in runs[:k] for u in r if u.writes and u.piece.overlaps(piece))
        after = (u for r in runs[k + 1 :] for u in r if u.reads and u.piece.overlaps(piece))
        brings = run[0].reads and (self.persistent or any(True for _ in before))
        takes = any(u.writes for u in run) and (self.persistent or self.kept or any(True for _ in after))
        return Stay(self.tensor.name, piece, run[0].at, run[-1].at, brings, takes)

    @cached_property
    def moved(self) -> tuple[int, int]:
        """Copies a step, and bytes of them."""
        if not self.far:
            return 0, 0
        return sum(s.copies for s in self.stays), sum(s.copies * s.piece.nbytes for s in self.stays)

    def nearby(self, end: int) -> list[tuple[int, int, int]]:
        """Operations [first, last) and the bytes that it takes in them."""
        if self.far:
            return [(s.first, s.last + 1, s.piece.nbytes) for s in self.stays]
        if self.persistent:
            return [(0, end, self.tensor.nbytes)]
        return [(self.positions[0], self.positions[-1] + 1, self.tensor.nbytes)]

    def idle(self, at: int, end: int) -> tuple[int, int | None] | None:
        """Operations around this one that do not use it, and the use before; None where it is not nearby, or in use."""
        i = bisect_left(self.positions, at)
        if i < len(self.positions) and self.positions[i] == at:
            return None
        within = 0 < i < len(self.positions)
        if (self.far or not self.persistent) and (not within or i - 1 in self.gaps):
            return None
        before = self.positions[i - 1] if i else -1
        return (self.positions[i] if i < len(self.positions) else end) - before - 1, i - 1 if within else None


def uses_of(program: Program, steps: Sequence[Step]) -> dict[str, list[Use]]:
    """Of every tensor, in order."""
    found: dict[str, list[Use]] = {}
    for at, step in enumerate(steps):
        op = step.op
        for name in dict.fromkeys(v.tensor for v in (*op.reads, *op.writes)):
            tensor = program.tensors[name]
            piece = step.pieces.get(name) or whole(tensor)
            written = [v.numel for v in op.writes if v.tensor == name]
            partly = bool(written) and sum(written) * tensor.dtype.size < min(piece.nbytes, tensor.nbytes)
            reads = any(v.tensor == name for v in op.reads) or partly or name in step.again
            found.setdefault(name, []).append(Use(at, piece, reads, bool(written)))
    return found
