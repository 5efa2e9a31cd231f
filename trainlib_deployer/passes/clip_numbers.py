"""Say of a ReLU6 behind a batch norm which number of a row shows that there is no NaN in it.

Bits of floats are clipped as whole numbers by one instruction, which makes 6 of a NaN. What a norm makes of x is
x a + b, where b = c - mean a has the mean of the same x: if b is finite, so are the mean, hence all that it is of, and
a, and then the result is a number. So b becomes an operand of the clipping, and emission asks each row for it. Done
behind all passes: later ones might read another x.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from trainlib_deployer.program.expr import Arg, Const, Instr
from trainlib_deployer.program.ir import DType, Op, Program, Shape, View
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.places import Places


def clip_numbers(program: Program) -> Program:
    places = Places.of(program)
    return replace(program, ops=[with_witness(program, places, at) for at in range(len(program.ops))])


def with_witness(program: Program, places: Places, at: int) -> Op:
    op = program.ops[at]
    kind = op.kind
    if not isinstance(kind, Loop) or not any(s.op == "min" for s in kind.body):
        return op
    body = list(kind.body)
    for i, step in enumerate(body):
        found = normed(kind, step)
        if found is not None and is_mean(program, places, at, *found[:2]):
            body[i] = replace(step, args=(*step.args, found[2]))
    return replace(op, kind=replace(kind, body=tuple(body)))


def normed(kind: Loop, step: Instr) -> tuple[int, int, int] | None:
    """Of min(max(x a + b, 0), limit) with b = c - mean a the operands x and mean, and the value b."""
    if step.op != "min" or len(step.args) != 2 or not positive(step.args[1]):
        return None
    above = made(kind, step.args[0], "max")
    line = made(kind, above.args[0], "fma") if above is not None and above.args[1] == Const(0.0) else None
    if line is None:
        return None
    x, a, b = line.args
    shift = made(kind, b, "fma")
    if shift is None or a not in shift.args[:2] or not isinstance(x, int) or not isinstance(b, int):
        return None
    minus = made(kind, shift.args[shift.args[0] == a], "neg")
    mean = minus.args[0] if minus is not None else None
    operands = isinstance(mean, int) and max(x, mean) < kind.at_body
    return (x, mean, b) if isinstance(mean, int) and operands and kind.inputs[x] is DType.F32 else None


def positive(limit: Arg) -> bool:
    return isinstance(limit, Const) and 0.0 < limit.value < inf


def made(kind: Loop, value: Arg, op: str) -> Instr | None:
    """The instruction of the body that makes a value, if it is such a one."""
    inside = isinstance(value, int) and kind.at_body <= value < kind.at_reductions
    step = kind.body[value - kind.at_body] if inside and isinstance(value, int) else None
    return step if step is not None and step.op == op else None


def is_mean(program: Program, places: Places, at: int, x: int, mean: int) -> bool:
    """Whether one operand of an operation is, for each of its elements, the mean of a row that has it."""
    op = program.ops[at]
    line, number = op.reads[x], op.reads[mean]
    makers = places.written.get(number.tensor, [])
    if len(makers) != 1 or makers[0] >= at or places.disturb(replace(op, reads=(line,)), makers[0], at):
        return False
    maker = program.ops[makers[0]]
    if not isinstance(maker.kind, Loop):
        return False
    rows = zip(maker.writes, maker.kind.results, strict=True)
    return any(alike((line, number), (read, w)) for w, r in rows if (read := averaged(maker, maker.kind, r)))


def alike(ours: tuple[View, View], made: tuple[View, View]) -> bool:
    """Whether elements and numbers meet as they did where the numbers were made, in whatever order that went."""
    (line, number), (read, written) = ours, made
    behind = (0,) * (len(read.shape) - len(written.shape))  # a sum is the same for all that it adds up
    return (line.tensor, line.offset, number.offset) == (read.tensor, read.offset, written.offset) and steps(
        line, number.strides
    ) == steps(read, (*written.strides, *behind))


def steps(line: View, strides: Shape) -> list[tuple[int, int, int]]:
    return sorted(d for d in zip(line.shape, line.strides, strides, strict=True) if d[0] > 1)


def averaged(maker: Op, kind: Loop, result: int) -> View | None:
    """What a result is the sum of, by a number: it is finite only if all that it adds up are."""
    step = kind.post[result - kind.at_post] if result >= kind.at_post else None
    if step is None or step.op != "div" or not isinstance(step.args[1], Const) or not isinstance(step.args[0], int):
        return None
    total = step.args[0] - kind.at_reductions
    summed = kind.reductions[total] if 0 <= total < len(kind.reductions) else None
    plain = summed is not None and summed.op == "sum" and summed.value < kind.at_body
    return maker.reads[summed.value] if plain and summed is not None else None
