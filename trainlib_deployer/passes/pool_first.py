"""Take maxima before a ReLU, not behind it: it has fewer elements then, and so has its gradient.

Both orders give the same bits, forward and backward. A window with anything above zero has the same winner. In another
one all are equal behind the ReLU, and the maximum's gradient is nothing either way. What the ReLU's gradient asks is
what a window's maximum became, which the next layer keeps anyway: the large result is not even made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trainlib_deployer.ops.pool import MaxPool
from trainlib_deployer.program.expr import Const, Instr
from trainlib_deployer.program.ir import DType, Op, Program, Shape, Tensor, View, fresh, readers, writers
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.strides import row_major

F, T, ZERO = DType.F32, DType.U8, Const(0.0)
RELU = (Instr("le", (0, ZERO), T), Instr("select", (1, ZERO, 0), F))
GRADIENT = (Instr("le", (1, ZERO), T), Instr("select", (2, ZERO, 0), F))  # of dL/dy, where the result is above zero
Users = Mapping[str, list[int]]


@dataclass(frozen=True)
class Pair:
    """Positions of a ReLU and the maxima behind it, and of their gradients, if there are any."""

    relu: int
    pool: int
    back: int | None = None  # of the maxima
    mask: int | None = None  # of the ReLU


def pool_first(program: Program) -> Program:
    read, written = readers(program), writers(program)
    found = [p for i in range(len(program.ops)) if (p := pair_at(program, i, read, written)) is not None]
    if not found:
        return program
    tensors, ops = dict(program.tensors), [[op] for op in program.ops]
    for p in found:
        exchange(program, p, tensors, ops)
    return replace(program, tensors=tensors).with_ops([op for some in ops for op in some])


def pair_at(program: Program, at: int, read: Users, written: Users) -> Pair | None:
    """Maxima at this position, of a ReLU of which they and its own gradient alone read the result."""
    ops, pool = program.ops, program.ops[at]
    if not isinstance(pool.kind, MaxPool) or pool.kind.direction != "fw" or pool.kind.storage is not F:
        return None
    result = pool.reads[0].tensor
    if len(made := written.get(result, [])) != 1 or not is_plain(program, pool.reads[0], pool.writes[0]):
        return None
    relu, source = ops[made[0]], ops[made[0]].reads[0].tensor
    steady = all(k < made[0] for k in written.get(source, [])) and not program.tensors[source].role.persistent
    if not loop_of(program, relu, RELU) or not steady or kept(program, result):
        return None
    others, gradients = [k for k in read[result] if k != at], read.get(pool.writes[1].tensor, [])
    if not others and not gradients:
        return Pair(made[0], at)
    if len(others) != 1 or len(gradients) != 1:
        return None
    mask, back = ops[others[0]], ops[gradients[0]]
    passed = mask.reads[0].tensor if loop_of(program, mask, GRADIENT) and mask.reads[1].tensor == result else ""
    if not isinstance(back.kind, MaxPool) or back.writes[0].tensor != passed or not is_plain(program, back.writes[0]):
        return None
    alone = read[passed] == others and written[passed] == gradients and not kept(program, passed)
    return Pair(made[0], at, gradients[0], others[0]) if alone and gradients[0] < others[0] else None


def kept(program: Program, name: str) -> bool:
    return name in program.shown or name in {t for _, t in program.gradients}


def is_plain(program: Program, *views: View) -> bool:
    """They are whole tensors as these lie."""
    return all(v.covers(program.tensors[v.tensor]) for v in views)


def loop_of(program: Program, op: Op, body: tuple[Instr, ...]) -> bool:
    """A loop of this body over whole tensors."""
    kind, operands = op.kind, (*op.reads, *op.writes)
    if not isinstance(kind, Loop) or kind.body != body or kind.reductions or kind.post or len(op.writes) != 1:
        return False
    floats = {*kind.inputs, *kind.outputs} == {F} and kind.results == (len(op.reads) + 1,)
    return floats and is_plain(program, *operands) and len({v.shape for v in operands}) == 1


def exchange(program: Program, p: Pair, tensors: dict[str, Tensor], ops: list[list[Op]]) -> None:
    relu, pool = program.ops[p.relu], program.ops[p.pool]
    y, shape = pool.writes[0], pool.writes[0].shape
    largest = beside(program, y, ".largest", tensors)
    source = pool.reads[0]._replace(tensor=relu.reads[0].tensor)
    ops[p.relu] = []
    ops[p.pool] = [
        replace(pool, reads=(source,), writes=(largest, pool.writes[1])),
        replace(relu, kind=of_shape(relu, shape), reads=(largest,), writes=(y,)),
    ]
    if p.back is None or p.mask is None:
        return
    back, mask = program.ops[p.back], program.ops[p.mask]
    through = beside(program, y._replace(tensor=back.writes[0].tensor), ".through", tensors)
    ops[p.mask] = []
    ops[p.back] = [
        replace(mask, kind=of_shape(mask, shape), reads=(back.reads[0], y), writes=(through,)),
        replace(back, reads=(through, back.reads[1]), writes=(back.writes[0]._replace(tensor=mask.writes[0].tensor),)),
    ]


def beside(program: Program, view: View, suffix: str, tensors: dict[str, Tensor]) -> View:
    """A new tensor of a view's shape, for the same layer as its tensor."""
    made = replace(program.tensors[view.tensor], name=fresh(tensors, view.tensor + suffix), shape=view.shape)
    tensors[made.name] = made
    return View(made.name, view.shape, row_major(view.shape))


def of_shape(op: Op, shape: Shape) -> Loop:
    assert isinstance(op.kind, Loop)
    return replace(op.kind, extents=shape)
