"""Estimates of generated loops, from what emission makes of them: who takes how much, and what an element takes."""

from __future__ import annotations

from functools import lru_cache
from math import prod

from trainlib_deployer.formats import CONVERSIONS
from trainlib_deployer.machine.costs import LoopCosts
from trainlib_deployer.program.expr import Instr
from trainlib_deployer.program.ir import Shape, View
from trainlib_deployer.program.loop import FIVE, LANES, Loop, blocks_of, cheap, many_rows, middle_of_rows
from trainlib_deployer.program.merge import in_few_rows, merged

Views = tuple[View, ...]


def loop_cycles(kind: Loop, reads: Views, writes: Views, cores: int, c: LoopCosts) -> float:
    """Of the slowest core."""
    alike = tuple(v.strides for v in reads), tuple(v.strides for v in writes)
    return alike_cycles(kind, *alike, cores, c)


@lru_cache(maxsize=1 << 16)
def alike_cycles(kind: Loop, reads: tuple[Shape, ...], writes: tuple[Shape, ...], cores: int, c: LoopCosts) -> float:
    """Loops that are alike but for the names of their tensors take the same."""
    views = tuple(View("", kind.extents, s) for s in reads), tuple(View("", kind.parallel, s) for s in writes)
    kind, read, written = merged(*in_few_rows(kind, *views))
    if 0 in kind.extents:
        return c.start
    if kind.reductions:
        return folded_cycles(kind, read, cores, c)
    inner = kind.extents[-1] if kind.extents else 1
    rows = prod(kind.extents[:-1])
    dense = all(v.strides[-1:] in ((), (0,), (1,)) for v in (*read, *written))
    element = element_cycles(kind, read, c, dense and cheap(moving_body(kind, read)))
    element += c.step + c.store * (len(written) - kind.recorded)
    if rows_scaled(kind, read):
        shared = c.load + work(tuple(s for s in moving_body(kind, read) if s.op in CONVERSIONS), c, c.plain)
        return c.start + -(-inner // cores) * rows * (element - shared * (FIVE - 1) / FIVE)
    if rows == 1 or middle_of_rows(rows, inner):
        share = min(-(-rows * inner // (LANES * cores)) * LANES, rows * inner)
        return c.start + share * element + (share // inner + 1) * c.row
    return c.start + -(-rows // cores) * (inner * element + c.row)


def rows_scaled(kind: Loop, reads: Views) -> bool:
    """A row times a number for each of many rows, which it is added to: emit/scaled.py."""
    moving = [reads[i].strides for i in moving_inputs(reads)]
    steps = [s.op for s in moving_body(kind, reads) if s.op not in CONVERSIONS]
    return many_rows(kind.extents) and steps == ["fma"] and len(moving) == 2 and (0, 1) in moving


def folded_cycles(kind: Loop, reads: Views, cores: int, c: LoopCosts) -> float:
    """Each core folds whole results."""
    terms = prod(kind.folded)
    element = element_cycles(kind, reads, c, cheap(kind.body)) + folds(kind, reads, c)
    blocks = blocks_of(-(-terms // (LANES if cheap(kind.body) else 1)))
    blocks = blocks if blocks > 1 and any(r.op == "sum" for r in kind.reductions) else 0
    result = c.result + blocks * c.block + work(kind.post, c, c.alone)
    return c.start + -(-prod(kind.parallel) // cores) * (terms * element + result)


def folds(kind: Loop, reads: Views, c: LoopCosts) -> float:
    """Of an element, beside its body. Dense sums of short bodies are four at a time, one of products multiplies."""
    dense = all(reads[i].strides[-1] == 1 for i in moving_inputs(reads))
    if not dense or not cheap(kind.body) or any(r.op != "sum" for r in kind.reductions):
        return sum(c.folds.get(r.op, c.fold) for r in kind.reductions)
    summed = c.dense_fold * len(kind.reductions)
    return summed if kind.product is None else summed + c.dense_product - c.dense_fold - c.plain


def element_cycles(kind: Loop, reads: Views, c: LoopCosts, several: bool) -> float:
    """What moves along the innermost dimension is loaded, and what is made of it is made, for each element."""
    moving, body = moving_inputs(reads), moving_body(kind, reads)
    return c.load * len(moving) + (work(body, c, c.plain) if several else c.single + work(body, c, c.alone))


def moving_inputs(reads: Views) -> list[int]:
    return [i for i, v in enumerate(reads) if v.strides and v.strides[-1]]


def moving_body(kind: Loop, reads: Views) -> tuple[Instr, ...]:
    values = kind.depending(moving_inputs(reads))
    if kind.recorded:
        values &= kind.needed(kind.kept)
    return tuple(step for i, step in enumerate(kind.body) if kind.at_body + i in values)


def work(body: tuple[Instr, ...], c: LoopCosts, plain: float) -> float:
    known = {s.op: c.functions.get(s.op, plain) for s in body}
    clipped = sum(s.op == "min" and len(s.args) > 2 for s in body)  # and the maximum before it: no comparisons
    return sum(known[s.op] for s in body) - clipped * (known.get("max", 0.0) + known.get("min", 0.0) - 2 * plain)
