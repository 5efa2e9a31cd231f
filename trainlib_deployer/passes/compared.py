"""What a loop looks for among other numbers, as the gradient of a maximum does for what it is of: rounded on one side
alone it is equal to none, and a gradient that is divided by how often it is found is 0 / 0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainlib_deployer.ops.index import Take
from trainlib_deployer.ops.order import Order
from trainlib_deployer.program.ir import DType, Kind, Op, Program, writers
from trainlib_deployer.program.loop import Loop

EQUAL = frozenset(("eq", "ne"))
ORDERS = frozenset("lt le gt ge".split())
CHOICES = frozenset("copy select max min eq ne lt le gt ge and or".split())  # each result is one of the operands
SIGNS = frozenset(("abs", "neg"))  # rounded before or behind, a number is the same
MADE = ""  # in place of a tensor: numbers that the loop itself works out
FLOAT = DType.F32


def alike(program: Program, halves: set[str]) -> set[str]:
    """Those of `halves` that are looked for among halves alone, or not at all."""
    kinds = [(op, op.kind) for op in program.ops if isinstance(op.kind, Loop)]
    pairs = {pair for op, k in kinds for pair in named(op, looked(k, EQUAL))}
    every = {name for name, t in program.tensors.items() if t.dtype is FLOAT}
    written = writers(program)
    pairs |= {p for op, k in kinds for p in named(op, looked(k, ORDERS)) if one_is_of_another(program, written, p)}
    compared, floats = {n for pair in pairs for n in pair}, (every - halves) | {MADE}
    while more := (sources(program, written, compared & floats) & every) - (compared & floats) | {
        n for pair in pairs if pair & floats for n in pair if n in halves
    }:
        floats |= more
        halves, compared = halves - more, compared | more
    return halves


def named(op: Op, pairs: Iterable[frozenset[int]]) -> Iterator[frozenset[str]]:
    return (frozenset(op.reads[a].tensor if a >= 0 else MADE for a in pair) for pair in pairs)


def one_is_of_another(program: Program, written: dict[str, list[int]], pair: frozenset[str]) -> bool:
    """A threshold, as the k-th largest, that has been chosen from what it is held against."""
    found, todo = set[str](), [name for name in pair if name != MADE]
    while todo:
        new = chosen_from(program, written, {todo.pop()}) - found
        found |= new
        todo += new
    return bool(found & pair)


def chosen_from(program: Program, written: dict[str, list[int]], names: set[str]) -> set[str]:
    """As `sources`; a sort chooses, too."""
    makers = [program.ops[i] for name in names for i in written.get(name, [])]
    sorted_ = {v.tensor for op in makers if isinstance(op.kind, Order) for v in op.reads}
    return sources(program, written, names) | sorted_


def looked(kind: Loop, operations: frozenset[str]) -> Iterator[frozenset[int]]:
    """For each comparison of two numbers the operands that they are, -1 for what is worked out of others."""
    steps = {kind.at_body + i: s for i, s in enumerate(kind.body)}

    def of(value: int) -> set[int]:
        if value < kind.at_body:
            return {value}
        step = steps.get(value)
        if step is None or step.op not in CHOICES | SIGNS:
            return {-1}
        return {v for a in step.args if isinstance(a, int) for v in of(a)}

    for pair in comparisons(kind, operations):
        yield frozenset(v for value in pair for v in of(value))


def comparisons(kind: Loop, operations: frozenset[str] = EQUAL) -> Iterator[set[int]]:
    """Pairs of values. A value is compared with itself to see whether it is a number at all."""
    for step in (*kind.body, *kind.post):
        values = {a for a in step.args if isinstance(a, int)}
        if step.op in operations and len(values) == 2:
            yield values


def sources(program: Program, written: dict[str, list[int]], names: set[str]) -> set[str]:
    """What these are chosen from, or copied, without arithmetic."""
    makers = {i for name in names for i in written.get(name, [])}
    return {v.tensor for i in makers if chooses(program.ops[i].kind) for v in program.ops[i].reads}


def chooses(kind: Kind) -> bool:
    if not isinstance(kind, Loop):
        return isinstance(kind, Take)
    return all(r.op in CHOICES for r in kind.reductions) and all(s.op in CHOICES for s in (*kind.body, *kind.post))


def exact(program: Program) -> set[str]:
    """What the backward pass makes such numbers of, however long the way from what the forward pass has left."""
    made, found = writers(program), set[str]()
    late = [op for op in program.ops if op.phase != "forward"]
    todo = [op.reads[i].tensor for op in late if isinstance(op.kind, Loop) for i in compared(op.kind)]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            makers = (program.ops[i] for i in made.get(name, []))
            todo += [v.tensor for op in makers if op.phase != "forward" for v in op.reads]
    return found


def compared(kind: Loop) -> set[int]:
    """Operands that what is compared is made of."""
    values = {value for pair in comparisons(kind) for value in pair}
    operands = set(range(kind.at_body))
    return operands if any(value >= kind.at_reductions for value in values) else operands & kind.needed(values)
