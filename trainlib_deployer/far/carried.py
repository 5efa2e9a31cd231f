"""A step with copies: what lives far away is mentioned by them alone."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from trainlib_deployer.far.choose import chosen
from trainlib_deployer.far.pieces import Pieces, Step, near_view, whole
from trainlib_deployer.far.timing import Timed, timed
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.ops.carry import Arrival, Carry
from trainlib_deployer.plan.cycles import untiled_cycles
from trainlib_deployer.plan.layout import far_items, fits, one_level
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.residents import least_l2
from trainlib_deployer.program.ir import Op, Program, Role, Tensor, View

LEAST_PART = 128  # of the room that one more attempt gives up


@dataclass(frozen=True)
class WithCopies:
    """A step with copies, and bytes of the outer memory that it has in use at once. Gaps between what is placed take
    bytes, too: is it `placed` with them?"""

    program: Program
    most: int
    placed: bool = False


def carried(pieces: Pieces, budget: int) -> WithCopies:
    """With no more than `budget` bytes of the outer memory in use at once, or as few as can be."""
    found, machine = pieces.within(budget), pieces.machine
    cut = replace(pieces.program, ops=[s.op for s in found])
    board = chosen(cut, found, machine, budget)
    most = board.most
    cycles = [untiled_cycles(op, [], machine) for op in cut.ops]
    return WithCopies(Writer(cut, found, timed(cut, cycles, board, budget)).program(), most)


def nearest(pieces: Pieces, budget: int) -> WithCopies:
    """Of what begins with such a budget, the first that is placed in the outer memory, or the one that needs the
    least."""
    while True:
        step = carried(pieces, budget)
        over = least_l2(step.program, pieces.machine) - pieces.room
        if over <= 0 or step.most > budget:
            return replace(step, placed=over <= 0)
        budget = step.most - max(over, pieces.room // LEAST_PART)


def planned_far(program: Program, machine: Machine, planned: Callable[[Program, Machine], Plan]) -> Plan | None:
    """A plan that fits with tensors behind the outer memory, if there is one."""
    if machine.far is None or machine.outer.reserved >= machine.outer.size:
        return None
    pieces = Pieces(program, machine)
    if max(pieces.always, default=0) > pieces.room:
        return None
    budget = pieces.room
    while (step := nearest(pieces, budget)).placed and not beyond_far(step.program, machine):
        found = planned(step.program, machine)
        if fits(found):
            return found
        if found.outer.fits or step.most > budget:  # no more can leave
            return None
        budget = step.most + found.outer.headroom
    return None


def beyond_far(program: Program, machine: Machine) -> bool:
    """Is there more than the third memory holds?"""
    assert machine.far is not None
    return any(
        one_level(machine.far, machine.alignment, *items)[0].used > machine.far.size for items in far_items(program)
    )


def least_far(program: Program, machine: Machine) -> Program:
    """The step with what leaves where the outer memory is too small: as much as can."""
    pieces = Pieces(program, machine)
    return nearest(pieces, pieces.room).program


@dataclass(frozen=True)
class Copy:
    """A stay, the tensor that is its copy, and numbers that no other copies under way have."""

    timed: Timed
    tensor: Tensor
    job_in: int
    job_out: int


class Writer:
    """Puts copies between the operations of a step."""

    def __init__(self, program: Program, steps: Sequence[Step], found: Sequence[Timed]) -> None:
        self.old, self.steps = program, steps
        self.copies = list(self.named(found))
        self.before: dict[int, list[list[Op]]] = defaultdict(lambda: [[], [], [], []])

    def named(self, found: Sequence[Timed]) -> Iterator[Copy]:
        numbers: dict[str, int] = defaultdict(int)
        jobs = Jobs()
        for t in sorted(found, key=lambda t: (t.stay.first, t.stay.tensor)):
            tensor = self.old.tensors[t.stay.tensor]
            numbers[tensor.name] += 1
            shape = tensor.shape if t.stay.piece == whole(tensor) else (t.stay.piece.nbytes // tensor.dtype.size,)
            name = f"{tensor.name} copy {numbers[tensor.name]}"
            near = Tensor(name, shape, tensor.dtype, Role.COPY, tensor.layer, tensor.source)
            yield Copy(t, near, jobs.free(t.starts, t.stay.first), jobs.free(t.stay.last + 1, t.ends))

    def program(self) -> Program:
        by_use: dict[int, dict[str, Copy]] = defaultdict(dict)
        for copy in self.copies:
            stay = copy.timed.stay
            for at in range(stay.first, stay.last + 1):
                by_use[at][stay.tensor] = copy
            self.put(copy)
        ops: list[Op] = []
        for at, step in enumerate(self.steps):
            ops += [op for stage in self.before[at] for op in stage] if at in self.before else []
            ops.append(self.nearby(step, by_use[at]))
        ops += [op for stage in self.before.get(len(self.steps), []) for op in stage]
        far = frozenset(c.timed.stay.tensor for c in self.copies)
        tensors = self.old.tensors | {c.tensor.name: c.tensor for c in self.copies}
        return replace(self.old, tensors=tensors, far=far, gradients=self.gradients()).with_ops(ops)

    def nearby(self, step: Step, copies: Mapping[str, Copy]) -> Op:
        def view(v: View) -> View:
            return near_view(v, copies[v.tensor].tensor, step.pieces.get(v.tensor)) if v.tensor in copies else v

        op = step.op
        return replace(op, reads=tuple(map(view, op.reads)), writes=tuple(map(view, op.writes)))

    def put(self, copy: Copy) -> None:
        stay = copy.timed.stay
        if stay.brings:
            user = self.steps[stay.first].op
            self.before[copy.timed.starts][2].append(self.started(copy, user, True))
            self.before[stay.first][3].append(self.awaited(copy, user, True))
        if stay.takes:
            user = self.steps[stay.last].op
            self.before[stay.last + 1][0].append(self.started(copy, user, False))
            self.before[copy.timed.ends][1].append(self.awaited(copy, user, False))

    def views(self, copy: Copy) -> tuple[View, View]:
        return View.whole(self.old.tensors[copy.timed.stay.tensor]), View.whole(copy.tensor)

    def started(self, copy: Copy, user: Op, inward: bool) -> Op:
        (far, near), stay = self.views(copy), copy.timed.stay
        job = copy.job_in if inward else copy.job_out
        kind = Carry(job, inward, stay.piece.offset, stay.piece.row_bytes, stay.piece.rows, stay.piece.pitch)
        reads, writes = ((far,), (near,)) if inward else ((near,), (far,))
        what = "comes" if inward else "goes"
        return Op(f"{copy.tensor.name} {what}", kind, reads, writes, user.phase, user.layer, what, user.source)

    def awaited(self, copy: Copy, user: Op, inward: bool) -> Op:
        far, near = self.views(copy)
        reads, writes = ((far,), (near,)) if inward else ((near,), (far,))
        job, exposed = copy.job_in, copy.timed.exposed_in
        if not inward:
            job, exposed = copy.job_out, copy.timed.exposed_out
        what = "has come" if inward else "has gone"
        name = f"{copy.tensor.name} {what}"
        return Op(name, Arrival(job, exposed), reads, writes, user.phase, user.layer, what, user.source)

    def gradients(self) -> tuple[tuple[str, str], ...]:
        """Where they are recorded: in the copy that was written last, or far away, if they are in pieces."""
        last: dict[str, Copy] = {}
        for copy in self.copies:
            stay = copy.timed.stay
            if any(self.writes(at, stay.tensor) for at in range(stay.first, stay.last + 1)):
                last[stay.tensor] = copy
        found = []
        for parameter, name in self.old.gradients:
            near = last.get(name)
            kept = near is not None and near.timed.stay.piece == whole(self.old.tensors[name])
            found.append((parameter, near.tensor.name if near is not None and kept else name))
        return tuple(found)

    def writes(self, at: int, name: str) -> bool:
        return any(v.tensor == name for v in self.steps[at].op.writes)


class Jobs:
    """Numbers of copies under way, each as small as can be."""

    def __init__(self) -> None:
        self.taken: list[list[tuple[int, int]]] = []  # of each number the operations, in their order

    def free(self, begin: int, end: int) -> int:
        for number, spans in enumerate(self.taken):
            at = bisect_left(spans, (begin, end))
            if (not at or spans[at - 1][1] < begin) and (at == len(spans) or end < spans[at][0]):
                spans.insert(at, (begin, end))
                return number
        self.taken.append([(begin, end)])
        return len(self.taken) - 1
