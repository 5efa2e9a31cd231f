"""Cycles of generated loops, each on its own, with everything in L1: GVSoC's pulp-open under PULP-SDK.

    python -m benchmarks.bench_loops [WORD ...]      cases whose line has one of the words

The figures of machine/pulp_open.py for loops come from here. PULP-SDK's configs/*.sh must have been sourced.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

from benchmarks.bench_rows import CORES, MAIN, MAKEFILE, counted
from trainlib_deployer.emit.library import copy_library
from trainlib_deployer.emit.loop_library import LoopLibrary
from trainlib_deployer.machine.pulp_open import PULP_OPEN
from trainlib_deployer.plan.cycles import work_cycles
from trainlib_deployer.program.expr import C_FORM, Const, Instr, Reduction
from trainlib_deployer.program.ir import DType, Part, View
from trainlib_deployer.program.loop import Loop

F32 = DType.F32
WHOLE = frozenset(
    "not and or xor shr umul uadd unit idiv imod iquot irest ileft iright iabs imax imin from_half".split()
)
OF_BFLOAT = {"to_bf16", "from_bf16"}  # which the machine does not have


@dataclass(frozen=True)
class Case:
    title: str
    part: Part


def dense(shape: tuple[int, ...]) -> View:
    return View("", shape, tuple(prod(shape[d + 1 :]) for d in range(len(shape))))


def arity(op: str) -> int:
    return 1 + max(int(n) for n in re.findall(r"\{(\d)\}", C_FORM[op]))


def mapped(title: str, shape: tuple[int, ...], ops: list[str], reads: list[View] | None = None) -> Case:
    """Each operation takes the result before it, and the inputs."""
    inputs = max(max((arity(op) for op in ops), default=1), len(reads or []))
    body, last = [], 0
    for k, op in enumerate(ops):
        body.append(Instr(op, (last, *range(1, arity(op))), F32))
        last = inputs + k
    kind = Loop(shape, 0, (F32,) * inputs, tuple(body), (), (), (last,), (F32,))
    return Case(title, Part(kind, tuple(reads or [dense(shape)] * inputs), (dense(shape),)))


def limited(title: str, ops: list[str]) -> Case:
    body = tuple(Instr(op, (k, Const(0.5)), F32) for k, op in enumerate(ops))
    return Case(
        title, Part(Loop((2048,), 0, (F32,), body, (), (), (len(ops),), (F32,)), (dense((2048,)),), (dense((2048,)),))
    )


def chosen(title: str) -> Case:
    body = (Instr("le", (1, Const(0.5)), DType.U8), Instr("select", (2, Const(0.0), 0), F32))
    kind = Loop((2048,), 0, (F32, F32), body, (), (), (3,), (F32,))
    return Case(title, Part(kind, (dense((2048,)),) * 2, (dense((2048,)),)))


def folded(title: str, rows: int, length: int, op: str, ops: list[str], across: bool = False) -> Case:
    shape = (rows, length)
    inputs = max((arity(o) for o in ops), default=1)
    body, last = [], 0
    for k, o in enumerate(ops):
        body.append(Instr(o, (last, *range(1, arity(o))), F32))
        last = inputs + k
    kind = Loop(shape, 1, (F32,) * inputs, tuple(body), (Reduction(op, last, F32),), (), (inputs + len(ops),), (F32,))
    view = View("", shape, (1, rows)) if across else dense(shape)
    return Case(title, Part(kind, (view,) * inputs, (dense((rows,)),)))


def cases() -> Iterator[Case]:
    for n in (1, 8, 64, 512, 2048):
        yield mapped(f"copy {n}", (n,), [])
    for op in C_FORM:
        if op not in WHOLE and op != "to_half" and op not in OF_BFLOAT:
            yield mapped(f"{op} 2048", (2048,), [op])
    yield limited("max of a number 2048", ["max"])
    yield limited("max and min of numbers 2048", ["max", "min"])
    yield chosen("gradient of relu 2048")
    yield mapped("relu mul 2048", (2048,), ["max", "mul"])
    yield mapped("fma fma fma 2048", (2048,), ["fma", "fma", "fma"])
    yield mapped("mul add mul add mul add mul add mul 2048", (2048,), ["mul", "add"] * 4 + ["mul"])
    for rows, length in ((512, 8), (128, 32), (64, 64), (17, 240), (1024, 3)):
        shape = (rows, length)
        yield mapped(f"add {rows} x {length}, a row again", shape, ["add"], [dense(shape), View("", shape, (0, 1))])
        yield mapped(f"add {rows} x {length}, a column again", shape, ["add"], [dense(shape), View("", shape, (1, 0))])
        yield mapped(f"copy {rows} x {length}, transposed", shape, [], [View("", shape, (1, rows))])
        yield folded(f"sum {rows} x {length}", rows, length, "sum", [])
        yield folded(f"sum {rows} x {length}, across", rows, length, "sum", [], True)
        yield folded(f"sum of products {rows} x {length}", rows, length, "sum", ["mul"])
        yield folded(f"max {rows} x {length}", rows, length, "max", [])
    yield folded("sum 8 x 512", 8, 512, "sum", [])
    yield folded("sum 1 x 64", 1, 64, "sum", [])
    yield folded("sum of exp 64 x 64", 64, 64, "sum", ["exp"])
    yield folded("sum of squares and more 64 x 64", 64, 64, "sum", ["sub", "mul", "fma"])


def extents(part: Part) -> list[int]:
    return [sum((e - 1) * s for e, s in zip(v.shape, v.strides, strict=True)) + 1 for v in (*part.writes, *part.reads)]


def write(folder: Path, chosen: list[Case]) -> None:
    library, wrappers, calls, room = LoopLibrary(), [], [], 0
    for at, case in enumerate(chosen):
        part = case.part
        assert isinstance(part.kind, Loop)
        name = library.function(part.kind, part.reads, part.writes)
        flat = "int n)" in library.found[name]
        places, place = [], 0
        for extent in extents(part):
            places.append(f"AT({place})")
            place += (extent + 3) // 4 * 4
        words = [*places, *([str(part.kind.extents[0])] if flat else [])]
        wrappers.append(
            f"static void run_{at}(void *unused)\n{{\n    (void)unused;\n    {name}({', '.join(words)});\n}}"
        )
        calls.append(f"    timed({at}, run_{at}, 0);")
        room = max(room, place)
    texts = "\n\n".join(text for _, text in library.source())
    values = {
        "bytes": 4 * room + 64,
        "includes": '#include "tl_loop.h"',
        "prototypes": texts + "\n\n" + "\n\n".join(wrappers),
        "count": len(chosen),
        "calls": "\n".join(calls),
        "cores": CORES,
    }
    text = (MAIN % values).replace("(float)(i * 7 % 13 - 6)", "0.1f + 0.07f * (float)(i * 7 % 13)")
    copy_library(folder / "kernels", [], [text])
    (folder / "main.c").write_text(text)
    (folder / "Makefile").write_text(MAKEFILE)


def main() -> None:
    words = sys.argv[1:]
    chosen = [c for c in cases() if not words or any(w in c.title for w in words)]
    found = counted(write, chosen)
    print("| loop | cycles | forecast | instructions | load stalls | fetch stalls |")
    print("|---|---|---|---|---|---|")
    for at, cycles, *counts in found:
        case = chosen[int(at)]
        numbers = " | ".join(f"{int(c):,}" for c in counts)
        print(f"| {case.title} | {int(cycles):,} | {work_cycles(case.part, PULP_OPEN):,.0f} | {numbers} |")


if __name__ == "__main__":
    main()
