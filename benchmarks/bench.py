"""Kernels one by one: what they are asked for, and what they do.

    python -m benchmarks.bench [--gvsoc] [--write docs/benchmarks.md] [WORD ...]

Instructions are those of portable C on the emulated cluster, the same every time: with floats in the integer
registers (clang) and in registers of their own (GCC). With --gvsoc: cycles of GVSoC's pulp-open, once PULP-SDK's
configs/*.sh have been sourced, of portable C and of rows by PULP's own instructions, and what the latter wait for. What
does not fit 64 kB of L1 with the cores' stacks needs a simulator with more. Multiply-adds are those of the definition,
whatever a row computes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks import bench_instructions, layers
from benchmarks.asked import CASES, LAYERS, Asked
from benchmarks.bench_memory import write
from benchmarks.bench_rows import CORES, Timed, counted
from benchmarks.bench_rows import write as write_rows
from trainlib_deployer.kernels.table import chosen
from trainlib_deployer.program.ir import DType

MARKS = {name: (f"<!-- {name}: begin -->", f"<!-- {name}: end -->") for name in ("instructions", "kernels")}
PORTABLE, BATCH = "OWN=", 4
Show = Callable[[str], None]


def timed(asked: Asked) -> Timed:
    """By the row that the planner takes."""
    row = chosen(asked.case.kind, asked.case.reads, asked.case.writes, CORES)
    assert row is not None
    return Timed(asked.case, row)


def least(figure: float | None) -> str:
    return "" if figure is None else f"{figure:g}"


def instructions(cases: Iterable[Asked], show: Show) -> None:
    show(
        "| case | row | multiply-adds | instructions, integer registers | an instruction and core | balance |"
        " instructions, float registers | an instruction and core | balance |"
    )
    show("|" + "---|" * 9)
    for asked in cases:
        t = timed(asked)
        found, macs = bench_instructions.counted(t), t.case.kind.macs()
        cells = [f"{f.slowest:,} | {macs / f.slowest / CORES:.3f} | {f.balance:.2f}" for f in found.values()]
        show(f"| {t.case.title} | {t.row.symbol} | {macs:,} | {' | '.join(cells)} |")


def batched(cases: list[Asked]) -> list[list[Asked]]:
    """A program each: the SDK builds itself for every one."""
    return [cases[at : at + BATCH] for at in range(0, len(cases), BATCH)]


def both(cases: list[Asked]) -> list[tuple[list[int], list[int]]]:
    """Cycles and what they are made of, of portable C and by PULP's own instructions; none where one does not fit."""
    chosen = [timed(asked) for asked in cases]
    try:
        runs = [
            [[int(n) for n in row[1:]] for row in counted(write_rows, chosen, *words)] for words in ((PORTABLE,), ())
        ]
    except SystemExit:
        return [([], [])] if len(cases) == 1 else [found for asked in cases for found in both([asked])]
    return list(zip(*runs, strict=True))


def cycles(cases: list[Asked], show: Show) -> None:
    """Of what a case waits for: loads, code, and the rest, which is the float unit of two cores and the others' end."""
    show(
        "| case | row | asked | portable | PULP's own | cycles, portable | PULP's own | instructions of core 0 |"
        " waits for loads | for code | for the float unit and other cores |"
    )
    show("|" + "---|" * 11)
    for some in batched(cases):
        for asked, (plain, own) in zip(some, both(some), strict=True):
            t = timed(asked)
            head = f"| {t.case.title} | {t.row.symbol} | {least(asked.least)} |"
            if not own:
                show(f"{head} does not fit L1 |" + " |" * 7)
                continue
            macs, took, spent = t.case.kind.macs(), own[0], own[1:]
            numbers = " | ".join(f"{n:,}" for n in (plain[0], took, *spent, took - sum(spent)))
            show(f"{head} {macs / plain[0]:.2f} | {macs / took:.2f} | {numbers} |")


def streamed(show: Show) -> None:
    show("| in tiles, from L2 and back | row | asked | multiply-adds a cycle | cycles |")
    show("|" + "---|" * 5)
    for layer in LAYERS:
        for took, direction in zip(layers.of_layer(layer), layers.DIRECTIONS.values(), strict=True):
            rate = f"{took.macs / took.cycles:.2f} | {took.cycles:,}"
            show(f"| {layer.title}, {direction} | {took.kernel} | {least(layer.least)} | {rate} |")
    adam = layers.of_adam()
    show(
        f"| Adam, {layers.PARAMETERS:,} parameters, cycles of one | {adam.kernel} | 8 | "
        f"{adam.cycles / layers.PARAMETERS:.2f} | {adam.cycles:,} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="the file that keeps the numbers")
    parser.add_argument("--gvsoc", action="store_true", help="cycles in place of instructions")
    parser.add_argument("words", nargs="*", help="cases whose line has all of them")
    given = parser.parse_args()
    cases = [a for a in CASES if all(word in a.case.title for word in given.words)]
    lines: list[str] = []

    def show(line: str) -> None:
        lines.append(line)
        print(line, flush=True)

    if given.gvsoc:
        cycles(cases, show)
        show("")
        streamed(show)
    else:
        instructions([a for a in cases if a.case.kind.storage is DType.F32], show)
    if given.write:
        write(given.write, lines, MARKS["kernels" if given.gvsoc else "instructions"])


if __name__ == "__main__":
    main()
