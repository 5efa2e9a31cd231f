"""When each tensor is alive, and which tensors may share their bytes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from trainlib_deployer.program.ir import Op, Program, Tensor, View, readers, writers
from trainlib_deployer.program.series import Series


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


def alive(sizes: Iterable[tuple[Lifetime, int]], end: int) -> list[int]:
    """Bytes at each of so many operations."""
    change = [0] * (end + 1)
    for life, size in sizes:
        change[min(life.birth, end)] += size
        change[min(life.death, end)] -= size
    return list(accumulate(change[:end]))


def shared_storage(program: Program, lives: dict[str, Lifetime]) -> dict[str, str]:
    """Tensor to the tensor whose bytes it takes over: loops and products that write where a dying operand lay. Not
    one that the same operation writes, too: both results would go to the same bytes."""
    root = {name: name for name in lives}
    last = {name: life.death - 1 for name, life in lives.items()}
    for at, op in enumerate(program.ops):
        written, taken = {v.tensor for v in op.writes}, set[str]()
        for target, candidates in overlaid(program, op, lives):
            if target.tensor not in lives or lives[target.tensor].birth != at:
                continue
            dying = (d for d in candidates if last[root[d]] == at and lives[d].birth < at and d not in written)
            donor = next((d for d in dying if root[d] not in taken), None)
            if donor is not None:
                root[target.tensor] = root[donor]
                taken.add(root[donor])
                last[root[donor]] = max(last[root[donor]], lives[target.tensor].death - 1)
    return root


def overlaid(program: Program, op: Op, lives: Container[str]) -> Iterator[tuple[View, list[str]]]:
    """Results, each with the tensors whose elements are read for the last time before it is written in their place."""
    if isinstance(op.kind, Series):
        for target, reads, before in op.kind.overlaid(op.reads, op.writes):
            wanted = extent(program.tensors[target.tensor])
            lined = (v.tensor for v in before if v.tensor in lives and extent(program.tensors[v.tensor]) == wanted)
            yield target, [*donors(program, reads, target, lives), *dict.fromkeys(lined)]
    elif found := op.kind.replaceable(op.reads):
        for target in op.writes:
            yield target, donors(program, found, target, lives)


def donors(program: Program, reads: Sequence[View], target: View, lives: Container[str]) -> list[str]:
    """Operands whose every element is read just where the same element of `target` is written."""
    wanted = program.tensors[target.tensor]
    out = []
    for view in reads:
        tensor = program.tensors[view.tensor]
        same_place = view.strides == target.strides and view.offset == target.offset
        same_size = extent(tensor) == extent(wanted)
        alone = all(v == view for v in reads if v.tensor == view.tensor)
        if view.tensor in lives and same_place and same_size and alone and target.numel == wanted.numel:
            out.append(view.tensor)
    return out


def extent(tensor: Tensor) -> tuple[int, int]:
    """Bytes, in elements of so many."""
    return tensor.nbytes, tensor.dtype.size
