"""What one instruction of the loss function makes of outputs and targets, and its gradient reads, is made again there.

Kept from forward to backward it is as large as the output, which is in memory to the end of the step anyway, as the
target is. What is left in the forward pass has one reader, whose loop makes it on its way to a sum. The instruction is
the same one, of the same floats, and so are the bits.
"""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.passes.mixed import LOSS
from trainlib_deployer.program.ir import DType, Op, Program, fresh, readers, renamed, writers
from trainlib_deployer.program.loop import CHEAP, Loop


def loss_again(program: Program) -> Program:
    read, written = readers(program), writers(program)
    ops, tensors = list(program.ops), dict(program.tensors)
    clones: dict[int, list[Op]] = {}  # before which operation
    for at, op in enumerate(program.ops):
        if not simple(op) or op.writes[0].tensor in program.shown or not stay(program, written, op):
            continue
        name = op.writes[0].tensor
        late = [i for i in read.get(name, []) if program.ops[i].phase == "backward"]
        if not late or late == read[name] or written[name] != [at]:
            continue
        again = fresh(tensors, f"{name}.again")
        tensors[again] = replace(tensors[name], name=again, wide=True)
        clone = replace(op, name=f"{op.name}.again", phase="backward", writes=renamed(op.writes, {name: again}))
        clones.setdefault(late[0], []).append(clone)
        for i in late:
            ops[i] = replace(ops[i], reads=renamed(ops[i].reads, {name: again}))
    made = (new for at, op in enumerate(ops) for new in (*clones.get(at, ()), op))
    return replace(program, tensors=tensors).with_ops(list(made))


def simple(op: Op) -> bool:
    """One instruction of floats an element, of the loss function."""
    kind = op.kind
    if not isinstance(kind, Loop) or (op.phase, op.layer) != ("forward", LOSS):
        return False
    alone = not (kind.reductions or kind.post) and len(kind.body) == len(op.writes) == 1
    return alone and bool(op.reads) and kind.body[0].op in CHEAP and {*kind.inputs, *kind.outputs} == {DType.F32}


def stay(program: Program, written: dict[str, list[int]], op: Op) -> bool:
    """Whether all that it reads is there to the end of the step."""
    names = [v.tensor for v in op.reads]
    given = {n for n in names if program.tensors[n].role.persistent and n not in written}
    return all(n in given or n in program.shown for n in names)
