"""The memory of a level over the schedule, drawn in the terminal; and one tensor's life in words."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from trainlib_deployer.errors import UsageError

Json = Mapping[str, Any]
COLUMNS = 72  # buckets of operations
ROWS = 40  # buffers drawn; the others are counted
BAR, HERE = "█", "▓"


def draw(level: str, plan: Json) -> list[str]:
    """Rows by offset, columns by time; the column of the peak is marked."""
    buffers = [b for b in plan["buffers"] if b["level"] == level and b["size"]]
    if not buffers:
        return []
    count = max(len(plan["ops"]), 1)
    peak = int(plan["levels"][level]["peak_at"])
    width = min(COLUMNS, count)
    shown = sorted(sorted(buffers, key=lambda b: -b["size"])[:ROWS], key=lambda b: (b["offset"], b["birth"]))
    at = peak * width // count
    title = f"{level} over {count} operations, {-(-count // width)} a column; v: the peak, during operation {peak}"
    lines = [title, " " * 22 + " " * at + "v"]
    lines += [f"{b['offset']:>10,} {b['size']:>10,} {bar(b, count, width, at)} {b['name']}" for b in shown]
    if len(shown) < len(buffers):
        rest = len(buffers) - len(shown)
        size = shown and min(b["size"] for b in shown)
        lines.append(f"{'':>22}and {rest} smaller ones, of at most {size:,} bytes each")
    return lines


def bar(b: Json, count: int, width: int, peak: int) -> str:
    first, last = b["birth"] * width // count, max(b["death"] - 1, b["birth"]) * width // count
    cells = [(HERE if c == peak else BAR) if first <= c <= last else ("·" if c == peak else " ") for c in range(width)]
    return "".join(cells)


def biography(name: str, plan: Json) -> list[str]:
    """Who makes a tensor, who reads it last, why it is alive at the peak, what would shorten its life."""
    b = buffer_of(name, plan)
    tensor = plan["tensors"].get(name, {})
    ops = plan["ops"]
    made = [op for op in ops if name in op["writes"]]
    reads = [op for op in ops if name in op["reads"]]
    shape = "x".join(map(str, tensor.get("shape", []))) or "scalar"
    lines = [f"{name}: {b['role']}, {shape}, {b['size']:,} bytes at {b['offset']:,} in {b['level']}"]
    if b["aliases"]:
        others = [n for n in (b["name"], *b["aliases"]) if n != name]
        lines.append(f"  shares its bytes with {', '.join(others)}: one takes over from the other in place")
    if not tensor.get("persistent"):
        lines += [f"  made by    {describe(op)}" for op in made[:1]]
        lines += [f"  also written by {describe(op)}" for op in made[1:]]
    else:
        lines += [f"  updated by {describe(op)}" for op in made]
    lines += [f"  read first {describe(reads[0])}"] if len(reads) > 1 else []
    lines += [f"  read last  {describe(reads[-1])}"] if reads else ["  read by no operation"]
    return lines + at_the_peak(name, b, tensor, reads, plan)


def describe(op: Json) -> str:
    where = f"; {op['source'].rpartition('/')[2]}" if op["source"] else ""
    return f"operation {op['index']}, {op['name']} ({op['kind']}, {op['phase']}){where}"


def buffer_of(name: str, plan: Json) -> Json:
    for b in plan["buffers"]:
        if name == b["name"] or name in b["aliases"]:
            found: Json = b
            return found
    known = [n for b in plan["buffers"] for n in (b["name"], *b["aliases"])]
    close = difflib.get_close_matches(name, known, 3, 0.4) or [n for n in known if name in n][:3]
    raise UsageError(f"there is no tensor '{name}'", remedy=f"did you mean: {', '.join(close)}" if close else "")


def at_the_peak(name: str, b: Json, tensor: Json, reads: list[Json], plan: Json) -> list[str]:
    level = plan["levels"][b["level"]]
    peak, end = int(level["peak_at"]), len(plan["ops"])
    where = f"the peak of {b['level']} (operation {peak}, {level['used']:,} bytes)"
    if not b["birth"] <= peak < b["death"]:
        when = "not yet made" if peak < b["birth"] else "dead"
        return [f"  {when} at {where}: it costs nothing there"]
    share = f"{100 * b['size'] / max(level['used'], 1):.1f} %"
    why = reason(b, tensor, reads, peak, end)
    return [f"  alive at {where}: {share} of it, {why}", *advice(b, tensor, reads, peak)]


def reason(b: Json, tensor: Json, reads: list[Json], peak: int, end: int) -> str:
    if tensor.get("persistent"):
        return "because it lives from step to step"
    later = [op for op in reads if op["index"] >= peak]
    if b["birth"] == peak:
        return "because it is made there"
    if later and later[0]["index"] == peak:
        return f"because it is read there, and last by operation {later[-1]['index']}"
    if later:
        return f"because {later[0]['name']} (operation {later[0]['index']}, {later[0]['phase']}) needs it"
    if b["death"] >= end:
        return "because it is a result of the step"
    return "because what shares its bytes is needed"


def advice(b: Json, tensor: Json, reads: list[Json], peak: int) -> list[str]:
    """What would shorten its life, or make it smaller."""
    role = b["role"]
    backward = [op for op in reads if op["phase"] == "backward"]
    layers = ", ".join(dict.fromkeys(f"'{op['layer']}'" for op in backward if op["layer"]))
    if role == "state":
        return ["  smaller: an optimizer without state (SGD without momentum)"]
    if role == "parameter":
        return ["  smaller: only a smaller layer; frozen, it would still be read"]
    if role in ("input", "target"):
        return ["  smaller: a smaller batch"]
    if tensor.get("persistent"):
        return []
    if backward and b["birth"] < peak and b["role"] != "gradient":
        return [
            f"  shorter: the gradients of {layers or 'later layers'} read it; with those layers frozen, or if it were",
            "  computed again instead of kept, it would die earlier",
        ]
    if role == "gradient":
        return ["  shorter: freeze the layer; then there is no such gradient"]
    return []
