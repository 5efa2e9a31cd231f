"""Cycles of the kernel rows, each on its own, with everything in L1: GVSoC's pulp-open under PULP-SDK.

    python -m benchmarks.bench_rows [WORD ...]      cases whose line has all the words

Every row that may carry out a case is timed, the chosen one first, on its second run. PULP-SDK's configs/*.sh must have
been sourced. Multiply-adds are those of the definition, whatever a row computes.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import TypeVar

from benchmarks.row_cases import CASES, Case
from trainlib_deployer.emit.library import copy_library
from trainlib_deployer.kernels.row import Row
from trainlib_deployer.kernels.table import rows_for
from trainlib_deployer.ops.pool import MaxPool
from trainlib_deployer.program.call import Operand

T = TypeVar("T")
CORES = 8
MAKEFILE = """APP := bench
APP_SRCS := main.c $(sort $(wildcard kernels/*.c))
APP_CFLAGS := -std=gnu99 -O2 -ffp-contract=off -fno-math-errno -Ikernels
OWN ?= -DTL_XPULP -DTL_XF16AUXVEC
APP_CFLAGS += -DTL_HAL_PULP $(OWN) -DNET_PROFILE
APP_LDFLAGS := -lm
include $(RULES_DIR)/pmsis_rules.mk
"""
MAIN = """#include "tl_hal.h"
#include <stdio.h>
TL_ARENA_L1(arena, %(bytes)d);
#define AT(n) ((void *)(arena + 4 * (n)))
%(includes)s
%(prototypes)s
static uint32_t spent[%(count)d][TL_COUNTERS];

static void timed(int at, tl_fn fn, const void *arg)
{
    uint32_t before[TL_COUNTERS], after[TL_COUNTERS];
    for (int run = 0; run < 2; run++) {
        tl_barrier();
        tl_counters(before);
        fn((void *)arg);
        tl_barrier();
        tl_counters(after);
    }
    for (int i = 0; tl_core_id() == 0 && i < TL_COUNTERS; i++)
        spent[at][i] = after[i] - before[i];
}

/* Which taps won; each belongs to its window. */
static void choose(uint8_t *taps, int n, int of)
{
    for (int i = tl_core_id(); i < n; i += tl_num_cores())
        taps[i] = (uint8_t)(i * 7 %% 13 %% of);
    tl_barrier();
}

static void all(void *unused)
{
    (void)unused;
    for (int i = tl_core_id(); i < %(bytes)d / 4; i += tl_num_cores())
        ((float *)AT(0))[i] = (float)(i * 7 %% 13 - 6);
%(calls)s
}

int main(void)
{
    tl_init();
    tl_cluster_run(%(cores)d, all, 0, 0, 0);
    for (int i = 0; i < %(count)d; i++)
        printf("= %%d %%u %%u %%u %%u\\n", i, spent[i][0], spent[i][1], spent[i][2], spent[i][4]);
    tl_exit(0);
    return 0;
}
"""


@dataclass(frozen=True)
class Timed:
    case: Case
    row: Row


def timed(words: list[str]) -> Iterator[Timed]:
    for case in CASES:
        views = (case.reads, case.writes)
        for row in rows_for(case.kind, CORES):
            line = f"{case.title} {row.symbol}"
            if row.fits(case.kind, *views) and all(word in line for word in words):
                yield Timed(case, row)


def extents(t: Timed) -> list[int]:
    """Words; multiplied operands may be halves."""
    spans = [sum((e - 1) * s for e, s in zip(v.shape, v.strides, strict=True)) + 1 for v in t.case.views]
    spans[:2] = [-(-span * t.row.storage.size // 4) for span in spans[:2]]
    return [*spans, t.row.scratch(t.case.kind, CORES) // 4]


def call(at: int, t: Timed) -> str:
    places = [f"AT({(place + 3) // 4 * 4})" for place in accumulate([0, *(s + 3 for s in extents(t)[:-1])])]
    operands = [Operand(place, view) for place, view in zip(places, t.case.views, strict=False)]
    reads = len(t.case.reads)
    made = t.row.call(t.case.kind, operands[:reads], operands[reads:], places[-1])
    text = made.text().replace(f"{made.function}(&a)", f"timed({at}, (tl_fn){made.function}, &a)")
    kind = t.case.kind
    if isinstance(kind, MaxPool) and kind.direction == "bw":
        text = f"    choose({places[1]}, {prod(t.case.views[1].shape)}, {kind.shape.taps()});\n{text}"
    return text


def write(folder: Path, chosen: list[Timed]) -> None:
    rows = list(dict.fromkeys(t.row for t in chosen))
    values = {
        "bytes": max(4 * sum(s + 8 for s in extents(t)) for t in chosen),
        "includes": "\n".join(dict.fromkeys(f'#include "{r.header}"' for r in rows)),
        "prototypes": "\n".join(r.prototype for r in rows),
        "count": len(chosen),
        "calls": "\n".join(call(i, t) for i, t in enumerate(chosen)),
        "cores": CORES,
    }
    text = MAIN % values
    copy_library(folder / "kernels", [r.source for r in rows], [text])
    (folder / "main.c").write_text(text)
    (folder / "Makefile").write_text(MAKEFILE)


def counted(write: Callable[[Path, list[T]], None], chosen: list[T], *words: str) -> list[tuple[str, ...]]:
    """Of a program that prints each case's number and counters; words for make."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "bench")
        folder.mkdir()
        write(folder, chosen)
        command = ["make", "-s", "-C", str(folder), "clean", "all", "run", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.findall(r"^= (\d+) (\d+) (\d+) (\d+) (\d+)", done.stdout, re.MULTILINE)
    if len(found) != len(chosen):
        sys.exit(done.stdout[-3000:] + done.stderr[-3000:])
    return found


def main() -> None:
    chosen = list(timed(sys.argv[1:]))
    found = counted(write, chosen)
    print("| case | row | cycles | instructions | load stalls | fetch stalls | multiply-adds a cycle |")
    print("|---|---|---|---|---|---|---|")
    for at, *counts in found:
        t = chosen[int(at)]
        numbers = " | ".join(f"{int(c):,}" for c in counts)
        print(f"| {t.case.title} | {t.row.symbol} | {numbers} | {t.case.kind.macs() / int(counts[0]):.2f} |")


if __name__ == "__main__":
    main()
