"""C identifiers and literals."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from trainlib_deployer.program.ir import DType

KEYWORDS = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while""".split()
)

MACROS = re.compile(r"(PLAN|NET|DATA|OFFSET|TL)_.*|L[12]|[FI]32|U16|U8|STACKS|SCRATCH|TILE|LANES|TRACE|RECORDED")
FUNCTIONS = frozenset("init train_step evaluate forward save load trace profile paint position l1 l2".split())


def identifier(name: str) -> str:
    clean = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not clean or clean[0].isdigit() or clean in KEYWORDS or MACROS.fullmatch(clean):
        clean = "t_" + clean
    return clean


def output_identifier(name: str) -> str:
    """What follows net_ in the name of the function that returns an output."""
    clean = identifier(name)
    return f"output_{clean}" if clean in FUNCTIONS or clean.startswith("touched_") else clean


def unique_identifiers(names: Iterable[str], others: Iterable[str] = ()) -> dict[str, str]:
    """Distinct identifiers for distinct names, in order of appearance; none that belongs to `others`."""
    taken = {identifier(name) for name in others}
    out: dict[str, str] = {}
    for name in names:
        base = identifier(name)
        wish, n = base, 1
        while wish in taken:
            n += 1
            wish = f"{base}_{n}"
        taken.add(wish)
        out[name] = wish
    return out


def literal(value: float | int, dtype: DType) -> str:
    """A C literal that reads back as exactly this value."""
    if dtype is not DType.F32:
        return f"{int(value)}" if int(value) != -(2**31) else "(-2147483647 - 1)"
    with np.errstate(over="ignore"):
        single = np.float32(value)
    if np.isnan(single):
        return '__builtin_nanf("")'
    if np.isinf(single):
        return "__builtin_inff()" if single > 0 else "-__builtin_inff()"
    text = repr(float(np.format_float_scientific(single, unique=True))) if single else "0.0"
    text = str(single) if "e" not in str(single) and "." in str(single) else text
    if np.float32(float(text)) != single:
        text = repr(float(single))
    if np.signbit(single) and single == 0:
        text = "-0.0"
    return f"{text}f"


def comment(text: str) -> str:
    """Text that cannot end a C comment."""
    return text.replace("*/", "* /").replace("/*", "/ *")


def quoted(text: str) -> str:
    """Text inside a C string."""
    return text.replace("\\", "\\\\").replace('"', '\\"')
