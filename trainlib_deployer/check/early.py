"""Tiles that come early, checked in the text of net.c: their source is finished, and the same function awaits them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

EARLY = re.compile(r"TL_CONST static const tl_early early_(\d+)\[\d+\] = \{(.*?)\n\s*\};", re.DOTALL)
SOURCE = re.compile(r"\{\{\(char \*\)(.*?), TILE\((\d+), (\d+)\)")
NAME = re.compile(r"\(L\d, (\w+)\)|\bnet_l\d\.(\w+)")
FUNCTION = re.compile(
    r"^static (?:__attribute__\(\(noinline\)\) )?void (\w+)\(void\)\n\{\n(.*?)^\}", re.DOTALL | re.MULTILINE
)
STARTED = re.compile(r"tl_tiles_early\(LANES\((\d+)\)")
OPENED = re.compile(r"const tl_tiles t = \{[^}]*LANES\((\d+)\),\s+\w+,\s+(\d+)\}")


def without_early(statement: str) -> str:
    """An operation's own streams only."""
    return EARLY.sub("", statement)


def too_early(
    net: str, statements: Sequence[str], plan: Mapping[str, Any], places: Mapping[str, tuple[str, int]]
) -> list[str]:
    """Sources that an operation between the start and the tile's own writes, in words; transfers left under way."""
    wrong = left_under_way(net)
    started, flagged = set[tuple[str, str]](), set[tuple[str, str]]()
    sizes = {t["c_name"]: int(t["bytes"]) for t in plan["tensors"].values()}
    for host, statement in enumerate(statements):
        for guest, mask in OPENED.findall(statement):
            flagged |= {(guest, str(k)) for k in range(int(mask).bit_length()) if int(mask) >> k & 1}
        for guest, table in EARLY.findall(statement):
            for name, *stream in sources(table):
                started.add((stream[0], stream[1]))
                at = next((p for p in range(host, int(guest)) if name in written(plan, p, name, places, sizes)), None)
                if at is not None:
                    wrong.append(f"operation {at} writes {name}, which comes early for operation {guest}")
    return wrong + [f"operation {k}: stream {s} is not started where it is expected" for k, s in started ^ flagged]


def sources(table: str) -> Iterator[tuple[str, str, str]]:
    """C names of tensors, and the operations and numbers of the streams that they come by."""
    text = " ".join(table.split())
    for expression, position, stream in SOURCE.findall(text):
        yield from (("".join(found), position, stream) for found in NAME.findall(expression))


def written(
    plan: Mapping[str, Any], at: int, name: str, places: Mapping[str, tuple[str, int]], sizes: Mapping[str, int]
) -> set[str]:
    """C names of what an operation writes; `name` among them where it shares bytes with that."""
    out = {plan["tensors"][t]["c_name"] for t in plan["ops"][at]["writes"]}
    level, begin = places[name]
    for other in tuple(out):
        other_level, other_begin = places.get(other, ("", 0))
        if level == other_level and begin < other_begin + sizes[other] and other_begin < begin + sizes[name]:
            out.add(name)
    return out


def left_under_way(net: str) -> list[str]:
    """Transfers that the function which starts them does not await, or that nobody starts."""
    wrong = []
    for function, body in FUNCTION.findall(net):
        opened = {position for position, _ in OPENED.findall(body)}
        ahead = set(STARTED.findall(body)) - opened
        wrong += [f"{function} starts transfers of operation {k} and ends before it" for k in ahead]
    return wrong
