"""Keep the sign of an activation instead of the activation, where the backward asks for nothing else.

The gradient of a ReLU reads its result only to compare it with a constant. At the fullest moment of the step the
outcome, a byte an element, takes a quarter of the memory. Where a copy of the activation lies in another tensor, that
is read instead. Done only where that lowers the peak; the bits stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from trainlib_deployer.passes.prune_loops import pruned
from trainlib_deployer.passes.read_copies import read_from_copy
from trainlib_deployer.passes.reorder import Fullness, Scale, attempts, earliest, pushed, reorder
from trainlib_deployer.program.expr import Const, Instr
from trainlib_deployer.program.ir import DType, Op, Program, Role, Tensor, View, readers, writers
from trainlib_deployer.program.loop import Loop

ROUNDS = 100
COMPARE = frozenset({"lt", "le", "gt", "ge"})


def early_masks(program: Program) -> Program:
    best, scale = program, Scale.of(program)
    full, left = scale.weigh(program.ops), attempts(program)
    for _ in range(ROUNDS):
        found = None
        for variant in islice(variants(best, full.position, full.live), left):
            left -= 1
            other = Scale.of(variant, scale)
            now = other.weigh(variant.ops)
            if now.better(full):
                found, full, scale = variant, now, other
                break
        if found is None:
            break
        best = found
    return program if best is program else reorder(best)


def compared_last(program: Program, enough: float) -> Program:
    """With signs of what more is made of, behind its comparison, where the step is fullest: that first. Until the step
    takes no more bytes than are enough, or this helps no more."""
    full = Scale.of(program).weigh(program.ops)
    while full.peak > enough:
        orders = ((p, Scale.of(p).weigh(p.ops)) for p in map(early_masks, comparing_last(program, full)))
        found = next(((p, now) for p, now in orders if now.better(full)), None)
        if found is None:
            break
        program, full = found
    return program


def comparing_last(program: Program, full: Fullness) -> Iterator[Program]:
    """In other orders, of which none need be better by itself."""
    read, ops = readers(program), program.ops
    first = next((at for at, op in enumerate(ops) if op.phase == "backward"), len(ops))
    for name in sorted(full.live, key=lambda n: (-program.tensors[n].nbytes, n)):
        *_, before, last = (-1, -1, *read.get(name, []))
        if first <= before < last and last >= full.position and compared(ops[before], name) is not None:
            yield from map(program.with_ops, pushed(ops, last, earliest(ops, last, first)))


def variants(program: Program, position: int, live: tuple[str, ...]) -> Iterator[Program]:
    """Programs with one activation less at the fullest operation, the largest first."""
    read, written = readers(program), writers(program)
    results = {*program.shown, *(t for _, t in program.gradients)}
    for name in sorted(live, key=lambda n: (-program.tensors[n].nbytes, n)):
        uses = sorted({*read.get(name, []), *written.get(name, [])})
        if len(uses) < 2 or name in results or name not in written:  # nobody makes what has no elements
            continue
        elsewhere = read_from_copy(program, name, written[name], read.get(name, []))
        if elsewhere is not None:
            yield elsewhere
        if not uses[-2] < position < uses[-1]:
            continue
        found = compared(program.ops[uses[-1]], name)
        if found is not None and program.tensors[name].dtype.calculated is DType.F32:
            yield with_mask(program, name, uses[-2], uses[-1], *found)


def compared(op: Op, name: str) -> tuple[int, int] | None:
    """The operand and the instruction, if a loop only compares `name` with a constant, where need be as a float."""
    kind = op.kind
    operands = [i for i, v in enumerate(op.reads) if v.tensor == name]
    if not isinstance(kind, Loop) or len(operands) != 1:
        return None
    operand = operands[0]
    value, users = operand, users_of(kind, operand)
    conversion = kind.inputs[operand].conversion
    if len(users) == 1 and users[0] < len(kind.body) and conversion and kind.body[users[0]].op == conversion.load:
        value = kind.at_body + users[0]
        users = users_of(kind, value)
    if len(users) != 1 or users[0] >= len(kind.body):
        return None
    step = kind.body[users[0]]
    plain = step.op in COMPARE and step.dtype is DType.U8 and step.args[0] == value and isinstance(step.args[1], Const)
    return (operand, users[0]) if plain else None


def users_of(kind: Loop, value: int) -> list[int]:
    """The instructions that read a value; none if more than instructions do."""
    folded = any(r.value == value for r in kind.reductions) or value in kind.results
    return [] if folded else [k for k, s in enumerate((*kind.body, *kind.post)) if value in s.args]


def with_mask(program: Program, name: str, before: int, at: int, operand: int, step: int) -> Program:
    """The comparison behind operation `before`; operation `at` reads its outcome."""
    source, op = program.tensors[name], program.ops[at]
    assert isinstance(op.kind, Loop)
    mask = Tensor(f"{name}.sign", source.shape, DType.U8, Role.ACTIVATION, source.layer, source.source)
    if mask.name in program.tensors:
        return program
    size, conversion = (source.numel,), source.dtype.conversion
    widened = (Instr(conversion.load, (0,), source.dtype.calculated),) if conversion else ()
    test = Instr(op.kind.body[step].op, (len(widened), op.kind.body[step].args[1]), DType.U8)
    kind = Loop(size, 0, (source.dtype,), (*widened, test), (), (), (1 + len(widened),), (DType.U8,))
    whole = View(name, size, (1,))
    maker = replace(
        program.ops[before],
        name=mask.name,
        kind=kind,
        reads=(whole,),
        writes=(whole._replace(tensor=mask.name),),
        function="sign",
        layer=source.layer,
        source=source.source,
        fused=(),
    )
    reader = with_outcome(op, operand, step, mask.name)
    ops = [*program.ops[: before + 1], maker, *program.ops[before + 1 : at], reader, *program.ops[at + 1 :]]
    return replace(program, tensors={**program.tensors, mask.name: mask}, ops=ops)


def with_outcome(op: Op, operand: int, step: int, mask: str) -> Op:
    """The same loop, with the outcome of its comparison as an operand."""
    kind = op.kind
    assert isinstance(kind, Loop)
    outcome = kind.at_body + step

    def moved(instrs: tuple[Instr, ...]) -> tuple[Instr, ...]:
        return tuple(replace(s, args=tuple(operand if a == outcome else a for a in s.args)) for s in instrs)

    void = Instr("ne", (operand, Const(0)), DType.U8)  # nobody reads these any more
    body = [void if k == step or operand in s.args else s for k, s in enumerate(kind.body)]
    changed = replace(
        kind,
        inputs=tuple(DType.U8 if i == operand else d for i, d in enumerate(kind.inputs)),
        body=moved(tuple(body)),
        post=moved(kind.post),
        reductions=tuple(replace(r, value=operand if r.value == outcome else r.value) for r in kind.reductions),
        results=tuple(operand if r == outcome else r for r in kind.results),
    )
    reads = tuple(v._replace(tensor=mask) if i == operand else v for i, v in enumerate(op.reads))
    return pruned(replace(op, kind=changed, reads=reads))
