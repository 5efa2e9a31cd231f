"""The plan for people: one HTML file that needs no network. All figures come from plan.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2

from trainlib_deployer.machine.sizes import show_size
from trainlib_deployer.plan.plan import Saved

Json = Mapping[str, Any]
LARGEST = 5  # buffers named at the peak
TICKS = 4  # intervals on an axis
# Role in plan.json: what it is called here. `kept` and `tile` both are "buffer" there.
ROLES = {
    "parameter": "parameters",
    "state": "optimizer state",
    "kept": "module buffers, constants and scalars",
    "input": "inputs and targets",
    "activation": "activations",
    "gradient": "gradients",
    "output": "outputs and loss",
    "scratch": "scratch of one operation",
    "tile": "tiles of tensors that stream through L1",
    "stack": "stacks of the cores",
}
GROUPS = {"constant": "kept", "scalar": "kept", "target": "input", "loss": "output"}
PHASES = ("forward", "loss", "backward", "accumulate", "update")


def report(plan: Json) -> str:
    """A whole page, in ASCII: other characters are references, so that no encoding can spoil them."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    text = environment.get_template("report.html.j2").render(context(plan))
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


def context(plan: Json) -> dict[str, Any]:
    model, target, ops = plan["model"], plan["target"], plan["ops"]
    return {
        "tool": f"{plan['tool']['name']} {plan['tool']['version']}",
        "title": f"{model['name']}: a training step on {target['cores']} cores",
        "lead": lead(plan),
        "facts": facts(plan),
        "levels": [level_view(name, plan) for name in plan["levels"]],
        "phases": [p for p in PHASES if any(op["phase"] == p for op in ops)],
        "bands": bands(ops),
        "count": max(len(ops), 1),
        "ticks": ticks(len(ops)),
        "rows": [row(op) for op in ops],
        "macs": number(total_macs(plan)),
        "moved": number(sum(op["moved"] for op in ops)),
        "traffic": traffic_rows(plan["traffic"]),
    }


def lead(plan: Json) -> str:
    """One sentence for who reads nothing else."""
    proof = plan["certificate"]
    memory = " and ".join(f"{level['used']:,} bytes of {name}" for name, level in plan["levels"].items())
    if proof["proved_optimal"]:
        return f"One training step takes {memory}. It is proved that no placement of these buffers takes less."
    gap = f"{proof['gap']:,} bytes above the lower bound"
    return f"One training step takes {memory}: {gap}; it is not proved that this is the least."


def facts(plan: Json) -> list[tuple[str, str]]:
    model, target = plan["model"], plan["target"]
    counts = model["parameters"]
    steps = f"{model['steps']:,}"
    if model["accumulate"] > 1:
        steps += f", each over {model['accumulate']:,} batches"
    if model["scheduled"]:
        steps += ", with a learning rate of its own each"
    levels = ", ".join(f"{name} {size_text(level['size'])}" for name, level in plan["levels"].items())
    return [
        ("Model", model["name"]),
        ("Target", f"{target['name']}, {target['cores']} cores; {levels}"),
        ("Parameters", f"{counts['total']:,}, of which {counts['trained']:,} are trained"),
        ("Steps that main.c runs", steps),
        ("Operations in a step", f"{len(plan['ops']):,}"),
        ("Multiply-adds in a step", f"{total_macs(plan):,}"),
        *([("Half precision", kept)] if (kept := Saved(**plan.get("saved", {})).sentence) else []),
    ]


def level_view(name: str, plan: Json) -> dict[str, Any]:
    level, end = plan["levels"][name], len(plan["ops"])
    buffers = [b for b in plan["buffers"] if b["level"] == name]
    groups = {group(b, plan) for b in buffers}
    height = max([level["used"], 1, *(b["offset"] + b["size"] for b in buffers)])
    return {
        "name": name,
        "id": "".join(c if c.isalnum() else "-" for c in name),
        "size": level["size"],
        "used": level["used"],
        "share": percent(level["used"], level["size"]),
        "figures": level_figures(level),
        "legend": [(key, text) for key, text in ROLES.items() if key in groups],
        "height": height,
        "scale": [f"{height * i // TICKS:,}" for i in range(TICKS, -1, -1)],
        "peak": level["peak_at"],
        "peak_text": peak_text(level, plan),
        "buffers": [buffer_view(b, plan, height, end) for b in sorted(buffers, key=place)],
        "largest": largest(name, plan),
    }


def level_figures(level: Json) -> list[tuple[str, str]]:
    gap = level["used"] - level["lower_bound"]
    optimal = "proved the least" if level["proved"] else f"not proved; gap {gap:,} bytes"
    return [
        ("Size", size_text(level["size"])),
        ("Used", f"{level['used']:,} ({percent(level['used'], level['size'])})"),
        ("Lower bound", f"{level['lower_bound']:,}"),
        ("Placement", optimal),
        ("Found by", level["method"]),
        ("Kept from step to step", f"{level['persistent']:,}"),
        ("Stacks", f"{level['stacks']:,}"),
        ("Headroom", f"{level['headroom']:,}"),
    ]


def peak_text(level: Json, plan: Json) -> str:
    at = level["peak_at"]
    if not 0 <= at < len(plan["ops"]):
        return ""
    op = plan["ops"][at]
    where = f", {op['source']}" if op["source"] else ""
    return f"Most is in use during operation {at}: {op['name']} ({op['kind']}, {op['phase']}){where}"


def place(b: Json) -> tuple[int, int, str]:
    return b["offset"], b["birth"], b["name"]


def group(b: Json, plan: Json) -> str:
    """The colour of a buffer. What the planner adds for streaming has no tensor of its own."""
    if b["role"] == "buffer":
        return "kept" if b["name"] in plan["tensors"] else "tile"
    role = str(b["role"])
    found = GROUPS.get(role, role)
    return found if found in ROLES else "scratch"


def life(b: Json, end: int) -> str:
    if b["birth"] <= 0 and b["death"] >= end:
        return "the whole step"
    last = max(b["death"] - 1, b["birth"])
    return f"operation {b['birth']}" if last == b["birth"] else f"operations {b['birth']} to {last}"


def buffer_view(b: Json, plan: Json, height: int, end: int) -> dict[str, Any]:
    """A rectangle in units of operations and bytes; offset 0 is at the bottom."""
    names = ", ".join((b["name"], *b["aliases"]))
    parts = [names, f"{b['size']:,} bytes at {b['offset']:,}", life(b, end), role_text(b, plan)]
    return {
        "names": names,
        "x": b["birth"],
        "y": height - b["offset"] - b["size"],
        "width": max(b["death"] - b["birth"], 1),
        "height": b["size"],
        "group": group(b, plan),
        "edge": b["size"] * 100 >= height,  # an outline would swallow a thinner one
        "title": "; ".join(parts) + (f"; layer {b['layer']}" if b["layer"] else ""),
        "cells": (f"{b['offset']:,}", f"{b['size']:,}", life(b, end), role_text(b, plan), b["layer"]),
    }


def role_text(b: Json, plan: Json) -> str:
    return "tile" if group(b, plan) == "tile" else str(b["role"])


def largest(name: str, plan: Json) -> list[dict[str, Any]]:
    """The buffers in use at the peak that weigh most."""
    level, end = plan["levels"][name], len(plan["ops"])
    at = level["peak_at"]
    live = [b for b in plan["buffers"] if b["level"] == name and b["birth"] <= at < b["death"]]
    live.sort(key=lambda b: (-b["size"], *place(b)))
    return [
        {
            "names": ", ".join((b["name"], *b["aliases"])),
            "group": group(b, plan),
            "cells": (f"{b['size']:,}", percent(b["size"], level["used"]), role_text(b, plan), life(b, end)),
        }
        for b in live[:LARGEST]
    ]


def bands(ops: list[Any]) -> list[tuple[int, int, str]]:
    """Runs of operations of one phase: first, how many, phase."""
    runs = [(phase, [op["index"] for op in run]) for phase, run in groupby(ops, key=lambda op: op["phase"])]
    return [(found[0], len(found), phase) for phase, found in runs]


def row(op: Json) -> dict[str, Any]:
    others = [name for name in op["fused"] if name != op["name"]]
    what = op["name"] + (f" with {', '.join(others)}" if others else "")
    counts = (number(op["macs"]), number(op["tiles"]), number(op["moved"]))
    same = {key: op[key] for key in ("index", "layer", "kind", "phase", "kernel", "source")}
    return {**same, "what": what, "counts": counts}


def traffic_rows(traffic: Json) -> list[tuple[str, str]]:
    moved, least = traffic["bytes"], traffic["lower_bound"]
    if not moved:
        return []
    above = f"; {moved / least:.2f} times the lower bound" if least else ""
    return [
        ("Bytes moved in a step", f"{moved:,}{above}"),
        ("Lower bound", f"{least:,}: each tensor that an operation streams, once"),
        ("Hidden behind work", f"{100 * traffic['hidden_estimate']:.1f} % of the transfer time, an estimate"),
    ]


def total_macs(plan: Json) -> int:
    return sum(op["macs"] or 0 for op in plan["ops"])


def ticks(count: int) -> Iterable[int]:
    return sorted({count * i // TICKS for i in range(TICKS + 1)})


def number(value: int | None) -> str:
    return f"{value:,}" if value else ""


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def size_text(size: int) -> str:
    """`64k (65,536 bytes)`, or `12,544 bytes`."""
    short = show_size(size)
    return f"{size:,} bytes" if short == str(size) else f"{short} ({size:,} bytes)"
