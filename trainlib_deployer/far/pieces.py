"""Operations whose operands are too large for the outer memory, cut into operations on pieces of them.

A piece is a tile, an operation of the same kind on windows of the same tensors: the bits stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.machine.sizes import aligned
from trainlib_deployer.plan.window import Window, window
from trainlib_deployer.program.ir import Leading, Op, Part, Program, Role, Splittable, Tensor, View
from trainlib_deployer.program.lifetimes import lifetimes

MOVABLE = {Role.PARAMETER, Role.BUFFER, Role.STATE, Role.CONSTANT, Role.ACTIVATION, Role.GRADIENT, Role.SCRATCH}
WORD = 4  # bytes that engines move at a time
SMALLEST = 256  # bytes of a tensor that is worth a copy
MOST_PIECES = 96
SMALLEST_PART = 64  # of the room for which something is cut: smaller pieces save nothing there


@dataclass(frozen=True)
class Piece:
    """Rows of a tensor's bytes, `pitch` apart."""

    offset: int
    row_bytes: int
    rows: int = 1
    pitch: int = 0

    @property
    def nbytes(self) -> int:
        return self.rows * self.row_bytes

    @property
    def end(self) -> int:
        return self.offset + (self.rows - 1) * self.pitch + self.row_bytes

    def overlaps(self, other: Piece) -> bool:
        """Or lies between its rows, unless both are columns of one matrix."""
        if self.pitch == other.pitch > 0:
            here, there = self.offset % self.pitch, other.offset % self.pitch
            if here + self.row_bytes <= there or there + other.row_bytes <= here:
                return max(here + self.row_bytes, there + other.row_bytes) > self.pitch
        return self.offset < other.end and other.offset < self.end


@dataclass(frozen=True)
class Step:
    """An operation, and of the tensors of which it uses a part alone, which part."""

    op: Op
    pieces: Mapping[str, Piece]
    again: frozenset[str] = frozenset()  # what it goes on with that a piece of the same operation has begun


def movable(program: Program) -> frozenset[str]:
    """Tensors that may live far away: neither the caller nor the interface touches them."""
    shown = {*program.shown}
    found = (t for t in program.tensors.values() if t.role in MOVABLE and t.nbytes >= SMALLEST)
    return frozenset(t.name for t in found if t.name not in shown and t.shape)


class Pieces:
    """The operations of a program, and how each may be cut: found out as far as somebody asks."""

    def __init__(self, program: Program, machine: Machine) -> None:
        self.program, self.machine, self.far = program, machine, movable(program)
        self.cuts = [Cuts(program, op, self.far, machine.alignment) for op in program.ops]
        self.always = self.nearby()

    @property
    def room(self) -> int:
        return self.machine.outer.size - self.machine.outer.reserved

    def within(self, budget: int) -> list[Step]:
        """Every operation, cut where its operands take more than half of so many bytes, or than what cannot leave
        leaves of them."""
        least = budget // SMALLEST_PART
        wanted = (max(min(budget // 2, budget - always), least) for always in self.always)
        return [step for cuts, most in zip(self.cuts, wanted, strict=True) for step in cuts.within(most)]

    def nearby(self) -> list[int]:
        """Bytes beside the operands of each operation of what cannot leave."""
        program, unit = self.program, self.machine.alignment
        stay = {t.name: aligned(t.nbytes, unit) for t in program.tensors.values() if t.name not in self.far}
        lives, begin, change = lifetimes(program), 0, [0] * (len(program.ops) + 1)
        for name, size in stay.items():
            if program.tensors[name].role.persistent:
                begin += size
            elif name in lives:
                change[lives[name].birth] += size
                change[lives[name].death] -= size
        used = accumulate(change[:-1], initial=begin)
        next(used)
        operands = ({v.tensor for v in (*op.reads, *op.writes)} for op in program.ops)
        kinds = program.tensors
        own = (sum(stay.get(n, 0) for n in names if not kinds[n].role.passing) for names in operands)
        return [u - o for u, o in zip(used, own, strict=True)]


class Cuts:
    """Ways to do one operation in pieces, from the fewest on, each with the most bytes that a piece takes."""

    def __init__(self, program: Program, op: Op, far: frozenset[str], unit: int) -> None:
        self.program, self.op, self.far, self.unit = program, op, far, unit
        self.known = [(operand_bytes(program, op, unit), [Step(op, {})])]

    def within(self, wanted: int) -> list[Step]:
        """In as few pieces as will do, or in those that take the fewest bytes."""
        found = next((made for most, made in self.known if most <= wanted), None)
        while found is None and (way := next(self.rest, None)) is not None:
            self.known.append(way)
            found = way[1] if way[0] <= wanted else None
        return min(self.known, key=lambda way: way[0])[1] if found is None else found

    @cached_property
    def rest(self) -> Iterator[tuple[int, list[Step]]]:
        """Those that nobody has asked for yet."""
        program, op = self.program, self.op
        if not isinstance(op.kind, Splittable):
            return
        ways = (w for w in op.kind.ways(op.reads, op.writes) if 1 < len(w) <= MOST_PIECES)
        for parts in sorted(ways, key=len):
            found = [dict(used(program, part, self.far)) for part in parts]
            made = list(numbered(program, op, parts, found))
            if any(s.again for s in made) and not isinstance(op.kind, Leading):
                continue  # what goes on with another tile's results finds them in L1 alone
            yield max(piece_bytes(program, p, f, self.unit) for p, f in zip(parts, found, strict=True)), made


def operand_bytes(program: Program, op: Op | Part, unit: int) -> int:
    tensors = (program.tensors[n] for n in {v.tensor for v in (*op.reads, *op.writes)})
    return sum(aligned(t.nbytes, unit) for t in tensors if not t.role.passing)


def used(program: Program, part: Part, far: frozenset[str]) -> Iterator[tuple[str, Piece]]:
    """Of each tensor that may be far: what a part uses of it, where that is not all."""
    views: dict[str, list[View]] = {}
    for v in (*part.reads, *part.writes):
        if v.tensor in far:
            views.setdefault(v.tensor, []).append(v)
    for name, of in views.items():
        tensor = program.tensors[name]
        found = {piece_of(window(v, tensor.dtype.size)) for v in of}
        first = found.pop()
        if not found and first is not None and first.nbytes < tensor.nbytes:
            yield name, first


def piece_of(w: Window | None) -> Piece | None:
    """None where it is too scattered, or not of whole words."""
    if w is None or w.planes > 1 or w.offset % WORD or w.row_bytes % WORD or (w.rows > 1 and w.pitch % WORD):
        return None
    return Piece(w.offset, w.row_bytes, w.rows, w.pitch if w.rows > 1 else 0)


def piece_bytes(program: Program, part: Part, pieces: Mapping[str, Piece], unit: int) -> int:
    left_out = ((program.tensors[n].nbytes, p.nbytes) for n, p in pieces.items())
    return operand_bytes(program, part, unit) - sum(aligned(t, unit) - aligned(p, unit) for t, p in left_out)


def numbered(program: Program, op: Op, parts: Sequence[Part], pieces: list[dict[str, Piece]]) -> Iterator[Step]:
    written: dict[str, list[Piece]] = {}
    for k, (part, own) in enumerate(zip(parts, pieces, strict=True)):
        made = replace(op, name=f"{op.name} {k + 1} of {len(parts)}", kind=part.kind)
        made = replace(made, reads=part.reads, writes=part.writes)
        again = set()
        for name in {v.tensor for v in part.writes}:
            piece = own.get(name) or written_piece(part, program.tensors[name])
            if any(piece.overlaps(p) for p in written.get(name, [])):
                again.add(name)
            written.setdefault(name, []).append(piece)
        yield Step(made, own, frozenset(again))


def written_piece(part: Part, tensor: Tensor) -> Piece:
    """Of what is nearby in any case, too; all of it where that is not one window."""
    found = {piece_of(window(v, tensor.dtype.size)) for v in part.writes if v.tensor == tensor.name}
    first = found.pop()
    return whole(tensor) if found or first is None else first


def whole(tensor: Tensor) -> Piece:
    """With the bytes up to a word: nothing else lies in them, as every tensor begins at a multiple of more."""
    return Piece(0, aligned(tensor.nbytes, WORD))


def near_view(v: View, copy: Tensor, piece: Piece | None) -> View:
    """The same elements in the copy."""
    if piece is None:
        return v._replace(tensor=copy.name)
    found = window(v, copy.dtype.size)
    assert found is not None, "a piece is one window"
    return View(copy.name, v.shape, found.dense)
