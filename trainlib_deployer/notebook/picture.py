"""The memory map of a plan as a small picture: bytes upwards, operations to the right."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from trainlib_deployer.report.roles import ROLES, label_of_buffer, role_of_buffer

COLOURS = {
    "weights": "#2f6db5",
    "optimizer": "#6a4fc4",
    "activations": "#3a8a3e",
    "gradients": "#c4561c",
    "samples": "#0f7a83",
    "kept": "#7a7f86",
    "pieces": "#a07400",
    "scratch": "#a8358f",
    "stacks": "#5b6773",
}


def memory_map(plan: Mapping[str, Any]) -> str:
    """One picture a level, from plan.json."""
    return "".join(level_picture(name, plan) for name in plan["levels"] if plan["levels"][name]["used"])


def level_picture(name: str, plan: Mapping[str, Any]) -> str:
    level, count = plan["levels"][name], max(len(plan["ops"]), 1)
    buffers = [(b, role_of_buffer(b, plan)) for b in plan["buffers"] if b["level"] == name]
    height = max([level["used"], 1, *(b["offset"] + b["size"] for b, _ in buffers)])
    boxes = "".join(
        f'<rect x="{b["birth"]}" y="{height - b["offset"] - b["size"]}" width="{max(b["death"] - b["birth"], 1)}" '
        f'height="{b["size"]}" fill="{COLOURS[role]}">'
        f"<title>{escape(label_of_buffer(b, plan))}; {b['size']:,} bytes at {b['offset']:,}</title></rect>"
        for b, role in buffers
    )
    present = {role for _, role in buffers}
    legend = " ".join(
        f'<span style="white-space:nowrap"><span style="color:{COLOURS[key]}">&#9632;</span> {text}</span>'
        for key, text in ROLES.items()
        if key in present
    )
    return (
        f"<p><b>{escape(name)}</b>: {level['used']:,} of {level['size']:,} bytes<br>"
        f'<svg viewBox="0 0 {count} {height}" preserveAspectRatio="none" style="width:100%;height:9em" '
        f'role="img" aria-label="memory map of {escape(name)}">{boxes}</svg><br><small>{legend}</small></p>'
    )
