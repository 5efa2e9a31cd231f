"""When each tensor is alive, and which tensors may share their bytes."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from trainlib_deployer.program.ir import Op, Program, View, readers, writers
from trainlib_deployer.program.loop import Loop


@dataclass(frozen=True)
class Lifetime:
    """Half-open: alive from the operation `birth` up to, not including, `death`."""

    birth: int
    death: int


def lifetimes(program: Program) -> dict[str, Lifetime]:
    """First write to last use of every tensor that is not persistent; results of the step live to its end."""
    reads, writes = readers(program), writers(program)
    end = len(program.ops)
    results = set(program.shown)
    out: dict[str, Lifetime] = {}
    for tensor in program.tensors.values():
        if not tensor.role.comes_and_goes:
            continue
        uses = writes.get(tensor.name, []) + reads.get(tensor.name, [])
        if uses:
            out[tensor.name] = Lifetime(min(uses), end if tensor.name in results else max(uses) + 1)
    return out


def shared_storage(program: Program, lives: dict[str, Lifetime]) -> dict[str, str]:
    """Tensor to the tensor whose bytes it takes over: pointwise loops that write where a dying operand lay."""
    root = {name: name for name in lives}
    last = {name: life.death - 1 for name, life in lives.items()}
    for at, op in enumerate(program.ops):
        if not isinstance(op.kind, Loop) or op.kind.reductions:
            continue
        taken: set[str] = set()
        for target in op.writes:
            if target.tensor not in lives or lives[target.tensor].birth != at:
                continue
            donor = next(
                (d for d in donors(program, op, target, lives) if last[root[d]] == at and root[d] not in taken), None
            )
            if donor is not None:
                root[target.tensor] = root[donor]
                taken.add(root[donor])
                last[root[donor]] = max(last[root[donor]], lives[target.tensor].death - 1)
    return root


def donors(program: Program, op: Op, target: View, lives: Container[str]) -> list[str]:
    """Operands whose every element is read just where the same element of `target` is written."""
    wanted = program.tensors[target.tensor]
    out = []
    for view in op.reads:
        tensor = program.tensors[view.tensor]
        same_place = view.strides == target.strides and view.offset == target.offset
        same_size = tensor.nbytes == wanted.nbytes and tensor.dtype.size == wanted.dtype.size
        alone = all(v == view for v in op.reads if v.tensor == view.tensor)
        if view.tensor in lives and same_place and same_size and alone and target.numel == wanted.numel:
            out.append(view.tensor)
    return out
