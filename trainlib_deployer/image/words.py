"""The bytes of generated code before a compiler has seen it: so many for each word of the text.

What a word takes was fitted to what a compiler made of the examples' functions (`benchmarks/measure_words.py`). Short
loops of a known number of turns count as often as they turn, where a compiler unrolls them. A struct of more than a few
values, all of them constant, is one word where a compiler keeps it as it is, and copies it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

WORD = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|[^\w\s]")
KNOWN = frozenset("if else for while return const float int int16_t int32_t uint8_t uint16_t uint32_t".split())
SMALL = 2048  # numbers below it are part of an instruction
LOOP = re.compile(r"for \((?:int \w+ = (\w+))?; \w+ < ([^;]+); \w+ \+= (\d+)\) \{")
STRUCT = re.compile(r"const (tl_(?!shape\b)\w+) (\w+) = \{(.*?)\};", re.DOTALL)  # a tl_shape is two registers
VALUE = re.compile(r",\s+\.")  # between two of them
VARIES = re.compile(r"\bAT\(|\bt\.|\b[pv]\[")  # from tile to tile, or from call to call
FEW = 6  # values other than 0, which clang stores one by one
STORED = "stored_"

EITHER = re.compile(r"^#ifdef NET_TRACE\n(.*?)^#else\n(.*?)^#endif$", re.MULTILINE | re.DOTALL)
BY_HAND = re.compile(r"^#ifdef TL_ROW_(?:BEGIN|OF_HALVES)\n.*?^#else\n(.*?)^#endif$", re.MULTILINE | re.DOTALL)


def compiled(text: str, records: bool) -> str:
    """What a build that records has of it, or one that does not; rows in assembler take no more than those in C."""
    return EITHER.sub(r"\1" if records else r"\2", BY_HAND.sub(r"\1", text))


def stored(text: str) -> Iterator[re.Match[str]]:
    """Structs that are kept as they are."""
    for match in STRUCT.finditer(text):
        values = VALUE.split(match[3])
        if not VARIES.search(match[3]) and sum(not v.endswith("= 0") for v in values) > FEW:
            yield match


def apart(text: str) -> str:
    """The same with a word for each of those."""
    for match in stored(text):
        text = text.replace(match[0], STORED + match[1])
    return text


def counted(text: str, unrolled: int = 0) -> Counter[str]:
    """How often each kind of word occurs: for each turn in loops whose turns have no more words together than those."""
    return block(iter(text.splitlines()), unrolled)


def block(lines: Iterator[str], unrolled: int) -> Counter[str]:
    """Up to the line that closes it."""
    found: Counter[str] = Counter()
    for line in lines:
        words = Counter(kind(word) for word in WORD.findall(line))
        found += words
        if line.endswith("{"):
            body = block(lines, unrolled)
            found += times(body, turns(line, body.total(), unrolled))
        elif line.strip() == "}":
            break
    return found


def turns(line: str, words: int, unrolled: int) -> int:
    """Of a loop that a compiler unrolls; else 1."""
    match = LOOP.search(line)
    if match is None:
        return 1
    start, bound = match[1] or "0", match[2]
    if bound.startswith(f"{start} + "):
        start, bound = "0", bound.removeprefix(f"{start} + ")
    first, *less = bound.split(" - ")
    if not all(number.isdigit() for number in (start, first, *less)):
        return 1
    count = -(-(int(first) - sum(map(int, less)) - int(start)) // int(match[3]))
    return count if 1 < count * words <= unrolled else 1


def times(words: Counter[str], count: int) -> Counter[str]:
    return Counter({word: n * count for word, n in words.items()})


def kind(word: str) -> str:
    """The word itself where it means work of its own; names and numbers are alike."""
    if word.startswith(("tl_", "__builtin_", STORED)) or word in KNOWN or word.isupper() or not word[0].isalnum():
        return word
    if word.startswith("loop_"):
        return "loop"
    if not word[0].isdigit():
        return "name"
    digits = word.rstrip("u")
    if not digits.isdigit():
        return "literal"
    return "number" if int(digits) < SMALL else "large"
