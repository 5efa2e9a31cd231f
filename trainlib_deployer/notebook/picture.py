"""The memory map of a plan as a small picture: bytes upwards, operations to the right."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from trainlib_deployer.emit.report import level_view

COLOURS = {
    "parameter": "#2f6db5",
    "state": "#45389a",
    "kept": "#7a7f86",
    "input": "#0f7a83",
    "activation": "#3a8a3e",
    "gradient": "#c4561c",
    "output": "#a8358f",
    "scratch": "#8a6534",
    "tile": "#a87b00",
    "stack": "#3a434d",
}


def memory_map(plan: Mapping[str, Any]) -> str:
    """One picture a level, from plan.json."""
    return "".join(level_picture(name, plan) for name in plan["levels"] if plan["levels"][name]["used"])


def level_picture(name: str, plan: Mapping[str, Any]) -> str:
    view, count = level_view(name, plan), max(len(plan["ops"]), 1)
    boxes = "".join(
        f'<rect x="{b["x"]}" y="{b["y"]}" width="{b["width"]}" height="{b["height"]}" fill="{COLOURS[b["group"]]}">'
        f"<title>{escape(b['title'])}</title></rect>"
        for b in view["buffers"]
    )
    legend = " ".join(f'<span style="color:{COLOURS[key]}">&#9632;</span> {text}' for key, text in view["legend"])
    return (
        f"<p><b>{escape(name)}</b>: {view['used']:,} of {view['size']:,} bytes<br>"
        f'<svg viewBox="0 0 {count} {view["height"]}" preserveAspectRatio="none" style="width:100%;height:9em" '
        f'role="img" aria-label="memory map of {escape(name)}">{boxes}</svg><br><small>{legend}</small></p>'
    )
