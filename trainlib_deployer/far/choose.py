"""Which tensors live far away, and when they have a copy nearby: copies take as few cycles as possible.

Wherever more is alive than the outer memory holds, something that is not in use there leaves: that whose copies take
the fewest cycles for the bytes that it makes room for, and of equals what is longest without use.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from trainlib_deployer.far.pieces import Step, movable
from trainlib_deployer.far.stays import Resident, uses_of
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.program.ir import Program
from trainlib_deployer.program.segments import entered_alone

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
STRETCH = 64  # operations of which it is known together what is nearby


@dataclass
class Board:
    """What is decided so far, and the bytes that are in use at each operation."""

    residents: dict[str, Resident]
    machine: Machine
    used: Ints
    near: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))  # in each stretch of operations

    @property
    def most(self) -> int:
        """Bytes in use at once."""
        return int(self.used.max(initial=0))

    def cycles(self, resident: Resident) -> float:
        """That the link is busy with its copies."""
        link = self.machine.far_link
        copies, nbytes = resident.moved
        return copies * link.issue + nbytes / link.bytes_per_cycle

    def count(self, resident: Resident, sign: int) -> None:
        for first, last, nbytes in resident.nearby(len(self.used)):
            self.used[first:last] += sign * self.machine.aligned(nbytes)
            for stretch in range(first // STRETCH, -(-last // STRETCH)):
                here = self.near[stretch]
                here[resident.tensor.name] += sign
                if not here[resident.tensor.name]:
                    del here[resident.tensor.name]

    def exchange(self, other: Resident) -> None:
        name = other.tensor.name
        self.count(self.residents[name], -1)
        self.residents[name] = other
        self.count(other, 1)


def chosen(program: Program, steps: Sequence[Step], machine: Machine, budget: int) -> Board:
    """With no more than `budget` bytes in use at once, or as few as can be."""
    board = begun(program, steps, machine)
    free = movable(program)
    while board.most > budget:
        at = int(board.used.argmax())
        options = candidates(board, free, at, int(board.used[at]) - budget)
        best = min(options, key=lambda found: found[0], default=None)
        if best is None:
            return board
        board.exchange(best[1])
    return board


def begun(program: Program, steps: Sequence[Step], machine: Machine) -> Board:
    """With everything nearby that can be."""
    uses, traced = uses_of(program, steps), {t for _, t in program.gradients}
    entries = entered_alone(program)
    board = Board({}, machine, np.zeros(max(len(steps), 1), dtype=np.int64))
    for t in program.tensors.values():
        if t.role.passing:
            continue
        found = uses.get(t.name, [])
        if found:
            resident = Resident(t, found, t.name in traced, entries)
            board.residents[t.name] = resident
            board.count(resident, 1)
            if t.name in program.shown:
                board.used[found[-1].at + 1 :] += machine.aligned(t.nbytes)
        elif t.role.persistent:
            board.used += machine.aligned(t.nbytes)
    return board


def candidates(
    board: Board, free: frozenset[str], at: int, excess: int
) -> Iterator[tuple[tuple[float, int, str], Resident]]:
    """What could leave, by what that costs."""
    for name in free & board.near[at // STRETCH].keys():
        resident = board.residents[name]
        found = resident.idle(at, len(board.used))
        if found is not None:
            other = resident.without(found[1])
            relief = min(excess, resident.tensor.nbytes)
            yield ((board.cycles(other) - board.cycles(resident)) / relief, -found[0], name), other
