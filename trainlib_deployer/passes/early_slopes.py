"""Keep the slope of an activation instead of its operand, where the backward pass asks for nothing else.

The gradient of GELU, SiLU or Mish is a product with a number that depends on the forward pass's operand alone, and both
passes call the same functions to make it and the activation. Made together it takes the operand's place in memory, and
those functions are called once. The arithmetic and so the bits stay as they are, but for a slope in place of an operand
in half precision, which is rounded as that was; what is made again as a float is not, it may be next to 1, or looked
for among others. Done behind all passes that weigh what is kept: an activation can be made again from its operand, not
from its slope.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from trainlib_deployer.passes.compared import exact
from trainlib_deployer.passes.prune_loops import pruned
from trainlib_deployer.passes.reorder import Scale
from trainlib_deployer.program.expr import Instr
from trainlib_deployer.program.ir import DType, Op, Program, Role, Tensor, readers, writers
from trainlib_deployer.program.loop import CHEAP, Loop, renumbered


def early_slopes(program: Program) -> Program:
    read, written = readers(program), writers(program)
    results = {*program.shown, *(t for _, t in program.gradients)}
    scale = Scale.of(program)
    peak, looked_for = scale.weigh(program.ops).peak, exact(program)
    for name, tensor in list(program.tensors.items()):
        if name in results or tensor.role is not Role.ACTIVATION or tensor.dtype.calculated is not DType.F32:
            continue
        if tensor.dtype.conversion and name in looked_for:
            continue
        late = [i for i in read.get(name, []) if program.ops[i].phase != "forward"]
        if len(late) != 1 or len(written.get(name, [])) != 1:
            continue
        for early in read[name]:
            variant = with_slope(program, tensor, early, late[0])
            if variant is None:
                continue
            other = Scale.of(variant, scale)
            if other.weigh(variant.ops).peak <= peak:
                program, scale = variant, other
                break
    return program


@dataclass(frozen=True)
class Slope:
    """Instructions of a loop that depend on one operand alone, and the only one of their values that others read."""

    operand: int
    steps: tuple[int, ...]  # of the body
    value: int


def with_slope(program: Program, tensor: Tensor, early: int, late: int) -> Program | None:
    """The loop `early` makes what `late` now works out from `tensor`, if it calls the same functions."""
    first, second = program.ops[early], program.ops[late]
    slope = slope_of(second, tensor.name)
    kept = Tensor(f"{tensor.name}.slope", tensor.shape, tensor.dtype, Role.ACTIVATION, tensor.layer, tensor.source)
    if slope is None or kept.name in program.tensors or first.phase != "forward":
        return None
    maker = making(first, second, slope, tensor, kept)
    if maker is None:
        return None
    ops = list(program.ops)
    ops[early], ops[late] = maker, reading(second, slope, kept)
    return replace(program, tensors={**program.tensors, kept.name: kept}, ops=ops)


def slope_of(op: Op, name: str) -> Slope | None:
    kind = op.kind
    operands = [i for i, v in enumerate(op.reads) if v.tensor == name]
    if not isinstance(kind, Loop) or len(operands) != 1:
        return None
    operand, base = operands[0], kind.at_body
    own = {operand}
    for i, s in enumerate(kind.body):
        values = {a for a in s.args if isinstance(a, int)}
        if values and values <= own:
            own.add(base + i)
    others = [s for i, s in enumerate((*kind.body, *kind.post)) if i >= len(kind.body) or base + i not in own]
    asked = {a for s in others for a in s.args if a in own}
    asked |= own & {*kind.results, *(r.value for r in kind.reductions)}
    if len(asked) != 1 or operand in asked:
        return None
    (value,) = asked
    steps = tuple(sorted(i - base for i in own if i != operand))
    return Slope(operand, steps, value) if kind.body[value - base].dtype is DType.F32 else None


def making(first: Op, second: Op, slope: Slope, tensor: Tensor, kept: Tensor) -> Op | None:
    """`first` with the slope as one more result."""
    kind, other = first.kind, second.kind
    places = [i for i, v in enumerate(first.reads) if v.tensor == tensor.name]
    if not isinstance(kind, Loop) or not isinstance(other, Loop) or kind.reductions or len(places) != 1:
        return None
    view = first.reads[places[0]]
    if not view.covers(tensor) or (kept.dtype.conversion and slope.value in other.results):
        return None
    number, body, shared = {slope.operand: places[0]}, list(kind.body), False
    for i in slope.steps:
        (step,) = renumbered((other.body[i],), number)
        known = step in body
        shared |= known and step.op not in CHEAP
        number[other.at_body + i] = kind.at_body + (body.index(step) if known else len(body))
        body += [] if known else [step]
    if not shared:
        return None
    made = number[slope.value]
    if kept.dtype.conversion:
        body.append(Instr(kept.dtype.conversion.store, (made,), kept.dtype))
        made = kind.at_body + len(body) - 1
    loop = replace(kind, body=tuple(body), results=(*kind.results, made), outputs=(*kind.outputs, kept.dtype))
    return pruned(replace(first, kind=loop, writes=(*first.writes, view._replace(tensor=kept.name))))


def reading(op: Op, slope: Slope, kept: Tensor) -> Op:
    """The same loop, with the slope as an operand: nobody asks any more for what it was made of."""
    kind = op.kind
    assert isinstance(kind, Loop)
    loads = (kind.at_body + i for i in slope.steps if kind.body[i].args == (slope.operand,))
    number = {i: i for i in range(kind.values)}
    number[slope.value] = next(loads) if kept.dtype.conversion else slope.operand
    reads = tuple(v._replace(tensor=kept.name) if i == slope.operand else v for i, v in enumerate(op.reads))
    return pruned(replace(op, kind=kind.moved(number), reads=reads))
