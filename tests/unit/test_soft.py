"""fmaf and sqrtf of whole numbers, for cores without a float unit, beside this machine's: every bit, at every edge."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from trainlib_deployer.emit.resources import c_lib_dir

EDGES = "0, 1, 0x7fffff, 0x800000, 0x7f7fffff, 0x7f800000, 0x7fc00000, 0x3f800000, 0x3effffff, 0x34000000"
PROGRAM = f"""
#include <math.h>
#include <stdint.h>
#include <stdio.h>
float soft_fmaf(float, float, float);
float soft_sqrtf(float);
typedef union {{ uint32_t bits; float value; }} word;
static uint64_t seed = 88172645463325252u;
static uint32_t drawn(void)
{{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (uint32_t)(seed >> 16);
}}
static word any(void)
{{
    static const uint32_t edges[] = {{{EDGES}}};
    const uint32_t draw = drawn(), sign = draw & 1u << 31;
    switch (draw & 7) {{
    case 0: return (word){{sign | edges[(draw >> 3) % 10]}};
    case 1: return (word){{drawn() & 0x807fffffu}};                               /* subnormal */
    case 2: return (word){{drawn() & 0xfffff000u}};                               /* short */
    case 3: return (word){{(drawn() & 0x807fffffu) | (drawn() % 60 + 98) << 23}}; /* near each other */
    default: return (word){{drawn()}};
    }}
}}
static int same(float x, float y)
{{
    return (x != x && y != y) || (word){{.value = x}}.bits == (word){{.value = y}}.bits;
}}
int main(void)
{{
    for (int i = 0; i < 500000; i++) {{
        const word a = any(), b = any();
        word c = any();
        if (i & 1) {{ /* sums that cancel but for a few bits */
            c.value = -(a.value * b.value);
            c.bits += drawn() % 5 - 2;
        }}
        if (!same(soft_fmaf(a.value, b.value, c.value), fmaf(a.value, b.value, c.value)))
            return printf("fmaf %08x %08x %08x\\n", a.bits, b.bits, c.bits), 1;
        if (!same(soft_sqrtf(a.value), sqrtf(a.value)))
            return printf("sqrtf %08x\\n", a.bits), 1;
    }}
    return 0;
}}
"""
FLAGS = ["-std=gnu99", "-O2", "-ffp-contract=off", "-fno-builtin", "-Wall", "-Wextra", "-Werror"]


@pytest.mark.compiler
def test_the_same_bits_as_this_machine(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(PROGRAM)
    soft = [str(c_lib_dir() / "hal" / "soft.c"), "-DTL_SOFT", "-Dfmaf=soft_fmaf", "-Dsqrtf=soft_sqrtf"]
    subprocess.run(["cc", *FLAGS, *soft, "-c", "-o", "soft.o"], cwd=tmp_path, check=True)
    subprocess.run(["cc", *FLAGS, "main.c", "soft.o", "-lm", "-o", "both"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "both"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
