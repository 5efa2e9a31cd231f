"""When copies start and when they are awaited: as early and as late as there is room nearby, until they are hidden
behind the work in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from trainlib_deployer.far.choose import Board
from trainlib_deployer.far.stays import Stay
from trainlib_deployer.machine.machine import Link
from trainlib_deployer.program.ir import Program
from trainlib_deployer.program.segments import segments


@dataclass(frozen=True)
class Timed:
    """A stay with its copies: before operation `starts` the first is started; the second is awaited before `ends`."""

    stay: Stay
    starts: int
    ends: int
    exposed_in: int = 0  # cycles
    exposed_out: int = 0


@dataclass
class Timetable:
    """Cycles of each operation in which nothing is copied, copies under way before it, and bytes in use."""

    link: Link
    board: Board
    budget: int
    idle: list[float]
    begins: list[int]  # of the function that an operation is in
    ends: list[int]  # the last operation before which a copy is awaited that was started in it
    flying: list[int] = field(default_factory=list)
    done: dict[str, list[Timed]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.flying = [0] * (len(self.idle) + 1)

    def cycles(self, stay: Stay) -> float:
        rows = stay.piece.rows if stay.piece.rows > 1 else 0
        return self.link.issue + stay.piece.nbytes / self.link.bytes_per_cycle + rows * self.link.row

    def room(self, at: int, stay: Stay) -> bool:
        nbytes = self.board.machine.aligned(stay.piece.nbytes)
        return int(self.board.used[at]) + nbytes <= self.budget and self.flying[at] < self.link.channels

    def hide(self, stay: Stay, positions: range) -> tuple[int, int]:
        """Operations from the first on behind which a copy hides; cycles that are left over."""
        rest, taken = self.cycles(stay), 0
        for at in positions:
            if rest <= 0 or not self.room(at, stay):
                break
            used = min(rest, self.idle[at])
            self.idle[at] -= used
            rest -= used
            taken += 1
            self.board.used[at] += self.board.machine.aligned(stay.piece.nbytes)
            self.flying[at] += 1
        return taken, round(max(rest, 0))

    def bring(self, stay: Stay) -> tuple[int, int]:
        """It starts when what was there before has gone back."""
        earlier = (t.ends for t in self.done.get(stay.tensor, ()) if t.stay.piece.overlaps(stay.piece))
        least = max((self.begins[stay.first], *earlier))
        taken, rest = self.hide(stay, range(stay.first - 1, least - 1, -1))
        return stay.first - taken, rest

    def take(self, stay: Stay, following: Sequence[Stay]) -> tuple[int, int]:
        """It has arrived when the same bytes are used again."""
        begin = stay.last + 1
        most = min((s.first for s in following if s.piece.overlaps(stay.piece)), default=len(self.idle))
        taken, rest = self.hide(stay, range(begin, min(most, self.ends[stay.last])))
        return begin + taken, rest


def timed(program: Program, cycles: Sequence[float], board: Board, budget: int) -> list[Timed]:
    """`program` has no copies yet."""
    assert board.machine.far is not None
    table = Timetable(board.machine.far_link, board, budget, list(cycles), *bounds(program))
    stays = [s for r in board.residents.values() if r.far for s in r.stays]
    of: dict[str, list[Stay]] = {}
    for s in stays:
        of.setdefault(s.tensor, []).append(s)
    found = {}
    for time, leaves, s in sorted(moments(stays), key=lambda m: (m[0], m[1], m[2].tensor, m[2].piece.offset)):
        if not leaves:
            starts, rest = table.bring(s) if s.brings else (s.first, 0)
            found[s] = Timed(s, starts, s.last + 1, rest)
            table.done.setdefault(s.tensor, []).append(found[s])
            continue
        assert time == s.last + 1
        ends, rest = table.take(s, [o for o in of[s.tensor] if o.first > s.last]) if s.takes else (s.last + 1, 0)
        known = found[s]
        found[s] = Timed(s, known.starts, ends, known.exposed_in, rest)
        table.done[s.tensor] = [found[s] if t is known else t for t in table.done[s.tensor]]
    return list(found.values())


def moments(stays: Sequence[Stay]) -> Iterator[tuple[int, bool, Stay]]:
    """In the order of time: what goes back before what comes."""
    for s in stays:
        yield s.first, False, s
        yield s.last + 1, True, s


def bounds(program: Program) -> tuple[list[int], list[int]]:
    """A copy is awaited in the function that starts it, whichever of them run. What stands behind a function's last
    operation belongs to the next one, but at the end."""
    count = len(program.ops)
    begins, ends = [0] * count, [count] * count
    for found in segments(program).values():
        for at in found:
            begins[at] = found.start
            last = found.stop == count
            ends[at] = found.stop if last else max(found.stop - 1, 0)
    return begins, ends
