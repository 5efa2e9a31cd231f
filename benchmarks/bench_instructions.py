"""Instructions of the kernel rows, each on its own, on the emulated cluster: of clang, which keeps floats in the
integer registers, and of GCC, which has registers for them. Portable C, and the same counts every time."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from benchmarks.bench_rows import CORES, Timed, call, extents
from trainlib_deployer.emit.library import copy_library
from trainlib_deployer.emit.render import rendered
from trainlib_deployer.run.emulated import counts

ROOM = 1 << 20  # of each memory
MAKEFILE = """SOURCES := main.c $(sort $(wildcard kernels/*.c))
HEADERS := $(wildcard kernels/*.h)
NUMBERS := -ffp-contract=off -fno-math-errno
MAIN := main.c
TEAM := %(cores)d
comma := ,
%(rules)s
FORCE build/defines build/program:
"""
MAIN = """#include "tl_hal.h"
TL_ARENA_L1(arena, %(bytes)d);
#define AT(n) ((void *)(arena + 4 * (n)))
%(include)s
%(prototype)s
volatile int net_position;

static void fill(void)
{
    for (int i = tl_core_id(); i < %(bytes)d / 4; i += tl_num_cores())
        ((float *)AT(0))[i] = (float)(i * 7 %% 13 - 6);
}

static inline void timed(int at, tl_fn fn, const void *arg)
{
    (void)at;
    fn((void *)(uintptr_t)arg);
}

static void all(void *unused)
{
    (void)unused;
    TL_UNCOUNTED(fill());
    tl_barrier();
%(call)s
}

int main(void)
{
    tl_init();
    tl_cluster_run(%(cores)d, all, 0, 0, 0);
    tl_exit(0);
    return 0;
}
"""


@dataclass(frozen=True)
class Counted:
    """Instructions of the slowest core between barriers; and of all of them over those of the busiest one, 1 where they
    share the work evenly."""

    slowest: int
    balance: float


def write(folder: Path, t: Timed) -> None:
    text = MAIN % {
        "bytes": 4 * sum(s + 8 for s in extents(t)),
        "include": f'#include "{t.row.header}"',
        "prototype": t.row.prototype,
        "call": call(0, t),
        "cores": CORES,
    }
    level = SimpleNamespace(size=ROOM)
    rules = rendered("Makefile_rv32.j2", {"target": SimpleNamespace(inner=level, outer=level), "far": None})
    copy_library(folder / "kernels", [t.row.source], [text])
    (folder / "main.c").write_text(text)
    (folder / "Makefile").write_text(MAKEFILE % {"cores": CORES, "rules": rules})


def counted(t: Timed) -> dict[str, Counted]:
    """By compiler."""
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "bench")
        folder.mkdir()
        write(folder, t)
        for compiler in ("clang", "gcc"):
            command = ["make", "-s", "-j2", "-C", str(folder), "qemu", f"COMPILER={compiler}"]
            sources = {k: v for k, v in os.environ.items() if k != "RULES_DIR"}
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=sources)
            words = counts(done.stdout, done.stderr)
            if done.returncode or "critical" not in words:
                raise SystemExit(f"{t.case.title}: {(done.stdout + done.stderr)[-2000:]}")
            shares = words["per_core"]
            assert isinstance(shares, list)
            found[compiler] = Counted(int(str(words["critical"])), sum(shares) / (CORES * max(shares)))
    return found
