"""Generated loops by PULP's own instructions, on Spike: the bits of portable C, of numbers of every kind."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.test_rv32_hal import C_LIB, NUMBERS, build, emulate, without_spike
from tests.e2e.test_xpulp import FOLDERS, MISSING, extension
from trainlib_deployer.emit.library import Library
from trainlib_deployer.emit.loop_library import LoopLibrary
from trainlib_deployer.passes.prune_loops import pruned
from trainlib_deployer.program.expr import Const, Instr, Reduction
from trainlib_deployer.program.ir import DType, Op, View
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.strides import row_major

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

F, T, H = DType.F32, DType.U8, DType.F16
ROWS, EVEN, LONG, MOST = 3, 106, 107, 3 * 107 + 3
ZERO, SIX = Const(0.0), Const(6.0)
FIRST_NAN, NEXT_NAN = 13 * 3 + 5, 13 * 6  # elements of what is filled with odd numbers, as below
CENTRED = (Instr("sub", (0, 1), F), Instr("fma", (3, 2, 1), F))  # 3, 4: of an element and two numbers a row
BODIES = {
    "relu": (*CENTRED, Instr("le", (4, ZERO), T), Instr("select", (5, ZERO, 4), F)),
    "relu6": (*CENTRED, Instr("max", (4, ZERO), F), Instr("min", (5, SIX), F)),
    "numbers": (*CENTRED, Instr("max", (4, ZERO), F), Instr("min", (5, SIX, 2), F)),  # 5 is one where 2 is finite
    "mask": (Instr("le", (0, ZERO), T), Instr("select", (3, ZERO, 2), F)),
    "clipped": (Instr("max", (0, Const(-1.25)), F), Instr("neg", (3,), F), Instr("add", (4, 0), F)),
    "larger": (Instr("gt", (0, 2), T), Instr("select", (3, 0, 2), F), Instr("mul", (4, 1), F)),
    "between": (
        Instr("ge", (0, 1), T),
        Instr("lt", (0, SIX), T),
        Instr("and", (3, 4), T),
        Instr("select", (5, 2, ZERO), F),
    ),
    "square": (Instr("mul", (1, 2), F), Instr("sub", (0, 3), F), Instr("mul", (4, 4), F)),
    "kept": (
        Instr("gt", (0, 1), T),
        Instr("select", (3, ZERO, 2), F),
        Instr("select", (3, 0, 2), F),
        Instr("add", (4, 5), F),
    ),
    "number": (Instr("lt", (0, 2), T), Instr("select", (3, 2, 1), F), Instr("mul", (4, 0), F)),
    "same": (Instr("eq", (0, 2), T), Instr("select", (3, 1, 0), F), Instr("copy", (4,), F)),
}
WIDE = Instr("from_half", (0,), F)
WIDENED = WIDE, Instr("from_half", (2,), F)  # 3, 4
HALVES = {
    "normed": (*WIDENED, Instr("fma", (3, 1, 4), F), Instr("max", (5, ZERO), F), Instr("to_half", (6,), H)),
    "behind": (*WIDENED, Instr("le", (3, ZERO), T), Instr("select", (5, ZERO, 4), F), Instr("to_half", (6,), H)),
    "either": (*WIDENED, Instr("lt", (3, 4), T), Instr("select", (5, 4, 3), F), Instr("to_half", (6,), H)),
    "bent": (*WIDENED, Instr("le", (3, ZERO), T), Instr("select", (5, 1, 4), F), Instr("to_half", (6,), H)),
    "again": (*WIDENED, Instr("sub", (3, 4), F), Instr("to_half", (5,), H), Instr("from_half", (6,), F)),
    "floats": (*WIDENED, Instr("mul", (3, 1), F), Instr("add", (5, 4), F)),
    "joined": (*WIDENED, Instr("add", (3, 4), F), Instr("to_half", (5,), H)),
    "centred": (WIDE, Instr("sub", (3, 1), F)),
    "nothing": (WIDE, Instr("add", (ZERO, 3), F)),
    "less": (*WIDENED, Instr("sub", (4, 3), F), Instr("neg", (5,), F)),
    "twice": (*WIDENED, Instr("mul", (4, 1), F), Instr("sub", (5, 3), F), Instr("mul", (6, 5), F)),
    "capped": (WIDE, Instr("add", (3, 1), F), Instr("max", (4, ZERO), F), Instr("to_half", (5,), H)),
    "long": (*WIDENED, Instr("exp", (3,), F), Instr("mul", (4, 5), F), Instr("to_half", (6,), H)),
}
OPERANDS = ("a", "c", "b")
ALONG = {
    "mask": 2,
    "larger": 2,
    "kept": 2,
    "number": 2,
    "between": 2,
    "same": 2,
}  # operands that move, besides the first


def loop(name: str, inner: int) -> Op:
    body, shape = BODIES[name], (ROWS, inner)
    dense, number = row_major(shape), (1, 0)
    reads = tuple(View(n, shape, dense if i in (0, ALONG.get(name)) else number) for i, n in enumerate(OPERANDS))
    if name == "numbers":
        reads = (*reads[:2], View("b", shape, (NEXT_NAN, 0), FIRST_NAN))
    kind = Loop(shape, 0, (F,) * 3, body, (), (), (2 + len(body),), (F,))
    return pruned(Op(name, kind, reads, (View("y", shape, dense),), "forward", ""))


def halves(name: str, inner: int, first: int = 0) -> Op:
    """Two operands are halves, one of them from element `first` on, and the result where the body ends with one."""
    body, shape = HALVES[name], (ROWS, inner)
    dense, number, last = row_major(shape), (1, 0), HALVES[name][-1].dtype
    reads = (View("ha", shape, dense, first), View("c", shape, number), View("hb", shape, dense))
    kind = Loop(shape, 0, (H, F, H), body, (), (), (2 + len(body),), (last,))
    return pruned(Op(name, kind, reads, (View("y", shape, dense),), "forward", ""))


def sums_of_halves(inner: int) -> Op:
    body = (*WIDENED, Instr("sub", (3, 1), F), Instr("mul", (5, 4), F))
    shape = (ROWS, inner)
    reads = tuple(View(n, shape, (1, 0) if n == "c" else row_major(shape)) for n in ("ha", "c", "hb"))
    kind = Loop(shape, 1, (H, F, H), body, (Reduction("sum", 6, F), Reduction("sum", 4, F)), (), (7, 8), (F, F))
    return Op("sums", kind, reads, (View("y", (ROWS,), (1,)), View("z", (ROWS,), (1,))), "forward", "")


def means_of_halves(inner: int) -> Op:
    """Of one that is widened for that alone, and of squares of what is above a number."""
    body, shape = (WIDE, WIDENED[1], Instr("sub", (4, 1), F), Instr("mul", (5, 5), F)), (ROWS, inner)
    reads = tuple(View(n, shape, (1, 0) if n == "c" else row_major(shape)) for n in ("ha", "c", "hb"))
    kind = Loop(shape, 1, (H, F, H), body, (Reduction("sum", 3, F), Reduction("sum", 6, F)), (), (7, 8), (F, F))
    return Op("means", kind, reads, (View("y", (ROWS,), (1,)), View("z", (ROWS,), (1,))), "forward", "")


def sums(inner: int, outer: int = 1) -> Op:
    """Of products with what is above a number, and of one factor."""
    body = (Instr("sub", (0, 1), F), Instr("mul", (3, 2), F))
    shape = (ROWS, outer, inner // outer)
    moving, number = row_major(shape), (1, 0, 0)
    reads = tuple(View(n, shape, strides) for n, strides in zip(OPERANDS, (moving, number, moving), strict=True))
    kind = Loop(shape, 2, (F,) * 3, body, (Reduction("sum", 4, F), Reduction("sum", 2, F)), (), (5, 6), (F, F))
    return Op("sums", kind, reads, (View("y", (ROWS,), (1,)), View("z", (ROWS,), (1,))), "forward", "")


def multiples(rows: int, inner: int, onto: str) -> Op:
    """Of a row by numbers of the others times one number, added to these: to themselves, where `onto` is the result."""
    shape, strides = (rows, inner), ((1, 0), (0, 1), (0, 0), (inner, 1))
    reads = tuple(View(n, shape, s) for n, s in zip((*OPERANDS[1:], "c", onto), strides, strict=True))
    body = (Instr("mul", (2, 0), F), Instr("fma", (4, 1, 3), F))
    kind = Loop(shape, 0, (F,) * 4, body, (), (), (5,), (F,))
    return Op("multiples", kind, reads, (View(onto if onto == "d" else "y", shape, (inner, 1)),), "forward", "")


def multiples_of_halves(rows: int, inner: int, x: DType) -> Op:
    """Each row's number is a half, and the row may be of halves."""
    shape, strides = (rows, inner), ((1, 0), (0, 1), (0, 0), (inner, 1))
    names = ("ha", "hb" if x is H else "b", "c", "d")
    reads = tuple(View(n, shape, s) for n, s in zip(names, strides, strict=True))
    wide = (Instr("from_half", (1,), F),) if x is H else ()
    number = 5 + len(wide)
    body = (Instr("from_half", (0,), F), *wide, Instr("mul", (2, 4), F), Instr("fma", (number, 5 if wide else 1, 3), F))
    kind = Loop(shape, 0, (H, x, F, F), body, (), (), (number + 1,), (F,))
    return Op("multiples of halves", kind, reads, (View("d", shape, (inner, 1)),), "forward", "")


PROGRAM = """
#include "loops.h"
#include "tl_hal.h"
#include "tl_loop.h"
enum {{ CORES = 8, STACK = 1536 }};
typedef struct {{
    uint8_t stacks[CORES * STACK] __attribute__((aligned(16)));
    float a[{most}], b[{most}], c[{most}], d[2 * {most}];
    tl_half ha[{most}] __attribute__((aligned(4))), hb[{most}] __attribute__((aligned(4)));
    tl_half hd[{most}] __attribute__((aligned(4)));
}} l1_data;
TL_L1 static l1_data l1;
volatile int net_position;

static void fill(float *to, uint32_t state, int odd)
{{
    static const uint32_t of_a_kind[] = {{0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 1, 0x80000001}};
    for (int i = 0; i < {most}; i++) {{
        state = state * 1664525u + 1013904223u;
        const float size = (float)(1u << (state >> 29)) * 0.01f;
        to[i] = ((float)(state >> 8 & 0xffff) - 32768.0f) * size * 0.001f;
        if (odd && i % 13 == 5)
            to[i] = tl_from_bits(of_a_kind[i / 13 % 6]);
    }}
}}

int main(void)
{{
    tl_record_open();
    for (int odd = 0; odd < 2; odd++) {{
        fill(l1.a, 7, odd);
        fill(l1.b, 11, odd);
        fill(l1.c, 13, 0);
        for (int i = 0; i < {most}; i++)
            l1.ha[i] = tl_to_half(l1.a[i]), l1.hb[i] = tl_to_half(l1.b[i]);
        for (int i = 3; odd && i < {most}; i += 17)
            l1.ha[i] = (tl_half)(0xfc01 + i); /* no numbers, with a sign */
{calls}
    }}
    tl_puts("DONE\\n");
    tl_exit(0);
    return 0;
}}
"""


def program(folder: Path) -> list[Path]:
    """Every loop over rows of several lengths; a NaN's bits are its own affair, so NaNs are recorded as one."""
    library = LoopLibrary()
    made = [loop(name, inner) for name in BODIES for inner in (8, 31, 36, LONG)]
    made += [halves(name, inner) for name in HALVES for inner in (8, 31, EVEN, LONG)]
    made += [halves(name, EVEN, first) for name in HALVES for first in (1, 2)]
    made += [of(inner) for of in (sums_of_halves, means_of_halves) for inner in (9, EVEN, LONG)]
    made += [sums(inner, outer) for inner, outer in ((9, 1), (LONG, 1), (96, 3), (100, 2))]
    made += [multiples(5, 64, "a"), multiples(7, 67, "d"), multiples(6, 90, "d")]
    made += [multiples_of_halves(5, 64, H), multiples_of_halves(8, 71, H), multiples_of_halves(7, 67, F)]
    calls = []
    for op in made:
        assert isinstance(op.kind, Loop)
        name = library.function(op.kind, op.reads, op.writes)
        in_halves = op.kind.outputs == (H,)
        results = ("l1.hd",) if in_halves else ("l1.d", f"l1.d + {ROWS}")[: len(op.writes)]
        size = f"{sum(v.numel for v in op.writes)}"
        calls.append(f"{name}({', '.join((*results, *(f'l1.{v.tensor} + {v.offset}' for v in op.reads)))});")
        if in_halves:
            calls.append(f"for (int i = 0; i < {size}; i++) l1.d[i] = tl_from_half(l1.hd[i]);")
        calls.append(f"for (int i = 0; i < {size}; i++) l1.d[i] = l1.d[i] == l1.d[i] ? l1.d[i] : TL_NAN;")
        calls.append(f"tl_record(l1.d, {size} * sizeof(float));")
    texts = [text for _, text in library.source()]
    heads = [text.partition("\n{")[0] + ";" for text in texts]
    (folder / "loops.h").write_text('#include "tl_half.h"\n' + "\n".join(heads))
    main, loops = folder / "main.c", folder / "loops.c"
    main.write_text(PROGRAM.format(most=MOST, calls="\n".join(calls)))
    loops.write_text('#include "loops.h"\n#include "tl_hal.h"\n#include "tl_loop.h"\n' + "\n".join(texts))
    return [main, loops]


@without_spike
def test_the_same_bits_as_portable_c(tmp_path: Path) -> None:
    main, loops = program(tmp_path)
    text = loops.read_text()
    assert text.count("#ifdef TL_ROW_BEGIN") >= 3 * len(BODIES)
    assert text.count("#ifdef TL_ROW_OF_HALVES") >= 3 * (len(HALVES) - 2)
    assert text.count("tl_add_rows_of(") == 3
    assert text.count("tl_add_rows(") == 3 and text.count("TL_CLIP(") == 4 * 4
    assert text.count("TL_DOT(") >= 40 and text.count("TL_PACK(") >= 20 and text.count("TL_PAIR_OF(") >= 4
    assert text.count("TL_ABOVE(") >= 4 and text.count("TL_STORE_ON(") >= 20
    host, wanted, include = tmp_path / "host", tmp_path / "host.bin", f"-I{tmp_path}"
    needed = [loops, *Library.at(C_LIB).needed([], [text, main.read_text()])]
    files = [*map(str, (main, *needed)), str(C_LIB / "hal" / "host.c")]
    subprocess.run(["gcc", *NUMBERS, include, *FOLDERS, *files, "-pthread", "-lm", "-o", str(host)], check=True)
    subprocess.run([str(host)], check=True, env={"TL_RECORD": str(wanted)}, capture_output=True)
    elf = build(tmp_path, "spike-clang", "TL_XPULP", "TL_XF16AUXVEC", program=main, more=needed)
    done = emulate(elf, found := tmp_path / "spike.bin", extension=extension(tmp_path))
    assert done.stdout.startswith("DONE"), done.stdout + done.stderr
    assert wanted.stat().st_size > 0 and found.read_bytes() == wanted.read_bytes()
