"""C identifiers and literals."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from itertools import chain, count
from zlib import crc32

import numpy as np

from trainlib_deployer.program.ir import DType

KEYWORDS = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof
    linux unix i386 errno offsetof
    alignas alignof and and_eq bitand bitor bool catch char16_t char32_t char8_t class co_await co_return
    co_yield compl concept const_cast consteval constexpr constinit decltype delete dynamic_cast explicit export
    false friend mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public
    reinterpret_cast requires static_assert static_cast template this thread_local throw true try typeid
    typename using virtual wchar_t xor xor_eq""".split()
)  # of C and C++
# What a parameter of net_train_step must not hide, and what data_ begins otherwise.
USED = frozenset("memcpy learning_rate run names reference operations carry bring runs firsts".split())
MACROS = re.compile(r"(PLAN|NET|DATA|OFFSET|TL)_.*|L[12]|[FI]32|U16|U8|[A-Z0-9_]{4,}|_[A-Z_].*")
FUNCTIONS = frozenset(
    """init train_step evaluate forward save load save_to load_from state steps trace profile paint position
    l1 l2 l1_t l2_t trace_far far_begin sample next_sample train_next train_in_place evaluate_in_place fit
    network""".split()
)
LONGEST = 40  # of an identifier: lines stay within what a page shows
BEGINNING, END = 16, 14  # of a longer name that are kept, with a checksum of it


def identifier(name: str) -> str:
    """A name of C, the same wherever it appears: nothing but the name itself decides."""
    clean = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if len(clean) > LONGEST:
        clean = f"{clean[:BEGINNING]}_{clean[-END:]}_{crc32(name.encode('utf-8', 'surrogatepass')):08x}"
    if not clean or clean[0].isdigit() or clean in KEYWORDS or name in USED or MACROS.fullmatch(clean):
        clean = "t_" + clean
    return clean


def operation_identifier(name: str) -> str:
    """What follows op_ in the name of an operation's function."""
    return identifier(re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_"))


def output_identifier(name: str) -> str:
    """What follows net_ in the name of the function that returns an output."""
    clean = identifier(name)
    return f"output_{clean}" if clean in FUNCTIONS or clean.startswith("touched_") else clean


def unique_identifiers(names: Iterable[str], others: Iterable[str] = ()) -> dict[str, str]:
    """Distinct identifiers for distinct names, in order of appearance; none that belongs to `others`."""
    taken = {identifier(name) for name in others}
    out: dict[str, str] = {}
    for name in names:
        out[name] = another(identifier(name), taken)
        taken.add(out[name])
    return out


def another(wish: str, taken: Container[str]) -> str:
    """`wish`, or with a number behind it if that is taken."""
    return next(n for n in chain([wish], (f"{wish}_{i}" for i in count(2))) if n not in taken)


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


def shown(text: str, most: int) -> str:
    """At most so many characters, none of which moves others about or ends a line."""
    plain = "".join(c if c.isprintable() else "?" for c in text)
    return plain if len(plain) <= most else plain[: most - 3] + "..."


def comment(text: str, most: int = 100) -> str:
    """Text that cannot end a C comment."""
    return shown(text, most).replace("*/", "* /").replace("/*", "/ *")


def quoted(text: str, most: int = 80) -> str:
    """Text inside a C string; of two question marks the compiler might make another character."""
    return shown(text, most).replace("\\", "\\\\").replace('"', '\\"').replace("??", "?\\?")


WIDEST = 120


def narrow(text: str) -> str:
    """C whose lines fit on a page: broken where a space is, outside of strings."""
    return "\n".join(part for line in text.split("\n") for part in narrow_line(line))


def narrow_line(line: str) -> Iterator[str]:
    deeper = " " * (len(line) - len(line.lstrip()) + 4)
    while len(line) > WIDEST and not line.startswith("#"):
        blank = re.sub(r'"(\\.|[^"\\])*"', lambda m: "x" * len(m[0]), line)
        at = blank.rfind(", ", len(deeper), WIDEST) + 1 or blank.rfind(" ", len(deeper), WIDEST + 1)
        if at < 0:
            break
        yield line[:at].rstrip()
        line = deeper + line[at + 1 :]
    yield line
