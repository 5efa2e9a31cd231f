"""When each far tensor, or a piece of it, has a copy nearby: from a first use to a last one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
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
    def moved(self) -> int:
        return self.piece.nbytes * (self.brings + self.takes)


@dataclass
class Resident:
    """A tensor, and where the time that it is nearby is interrupted."""

    tensor: Tensor
    uses: Sequence[Use]
    kept: bool = False  # all that is written goes back: whoever records it finds it there
    far: bool = False
    gaps: set[int] = field(default_factory=set)  # after use i it leaves

    def __post_init__(self) -> None:
        self.gaps = {i for i, (a, b) in enumerate(pairwise(self.uses)) if a.piece != b.piece}
        self.far = bool(self.gaps) or any(u.piece != whole(self.tensor) for u in self.uses)

    @property
    def persistent(self) -> bool:
        return self.tensor.role.persistent

    def without(self, gap: int | None) -> Resident:
        """Far, and with one interruption more."""
        found = replace(self)
        found.gaps, found.far = self.gaps if gap is None else self.gaps | {gap}, True
        return found

    def runs(self) -> Iterator[list[Use]]:
        begin = 0
        for end in (*sorted(self.gaps), len(self.uses) - 1):
            yield list(self.uses[begin : end + 1])
            begin = end + 1

    def stays(self) -> list[Stay]:
        runs = list(self.runs())
        return [self.stay(runs, k) for k in range(len(runs))]

    def stay(self, runs: list[list[Use]], k: int) -> Stay:
        run = runs[k]
        piece = run[0].piece
        before = (u for r in runs[:k] for u in r if u.writes and u.piece.overlaps(piece))
        after = (u for r in runs[k + 1 :] for u in r if u.reads and u.piece.overlaps(piece))
        brings = run[0].reads and (self.persistent or any(True for _ in before))
        takes = any(u.writes for u in run) and (self.persistent or self.kept or any(True for _ in after))
        return Stay(self.tensor.name, piece, run[0].at, run[-1].at, brings, takes)

    def nearby(self, end: int) -> list[tuple[int, int, int]]:
        """Operations [first, last) and the bytes that it takes in them."""
        if self.far:
            return [(s.first, s.last + 1, s.piece.nbytes) for s in self.stays()]
        if self.persistent:
            return [(0, end, self.tensor.nbytes)]
        return [(self.uses[0].at, self.uses[-1].at + 1, self.tensor.nbytes)]

    @property
    def moved(self) -> int:
        return sum(s.moved for s in self.stays()) if self.far else 0

    def gap_at(self, at: int) -> int | None:
        """The use before this operation; None before the first and behind the last."""
        return next((i for i, (a, b) in enumerate(pairwise(self.uses)) if a.at < at < b.at), None)

    def idle(self, at: int, end: int) -> int:
        """Operations around this one that do not use it; 0 where it does."""
        if any(u.at == at for u in self.uses):
            return 0
        before = max((u.at for u in self.uses if u.at < at), default=-1)
        return min((u.at for u in self.uses if u.at > at), default=end) - before - 1


def uses_of(program: Program, steps: Sequence[Step]) -> dict[str, list[Use]]:
    """Of every tensor, in order."""
    found: dict[str, list[Use]] = {}
    for at, step in enumerate(steps):
        op = step.op
        for name in dict.fromkeys(v.tensor for v in (*op.reads, *op.writes)):
            tensor = program.tensors[name]
            piece = step.pieces.get(name) or whole(tensor)
            written = [v.numel for v in op.writes if v.tensor == name]
            partly = bool(written) and sum(written) * tensor.dtype.size < piece.nbytes
            reads = any(v.tensor == name for v in op.reads) or partly or name in step.again
            found.setdefault(name, []).append(Use(at, piece, reads, bool(written)))
    return found
