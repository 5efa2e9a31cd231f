"""What memory is used for, in words that people who train networks use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]
ROLES = {
    "weights": "weights",
    "optimizer": "optimizer state",
    "activations": "activations",
    "gradients": "gradients",
    "samples": "samples: inputs and targets",
    "kept": "statistics, constants, counters",
    "pieces": "pieces of tensors, copied in to work on",
    "scratch": "working memory of one operation",
    "stacks": "call stacks of the cores",
}
GROUPS = {
    "parameter": "weights",
    "state": "optimizer",
    "activation": "activations",
    "output": "activations",
    "loss": "activations",
    "gradient": "gradients",
    "input": "samples",
    "target": "samples",
    "constant": "kept",
    "scalar": "kept",
    "stack": "stacks",
    "copy": "pieces",
}


def role_of_tensor(tensor: Json) -> str:
    role = str(tensor.get("role"))
    return "kept" if role == "buffer" else GROUPS.get(role, "activations")


def role_of_buffer(b: Json, plan: Json) -> str:
    """What the planner adds to copy tensors in pieces has no tensor of its own."""
    if b["role"] == "buffer":
        return "kept" if b["name"] in plan["tensors"] else "pieces"
    return GROUPS.get(str(b["role"]), "scratch")


def label_of_buffer(b: Json, plan: Json) -> str:
    """The user's names: `tile 7.1` is a piece of the second tensor that operation 7 copies."""
    kind, _, place = str(b["name"]).partition(" ")
    at, _, stream = place.partition(".")
    if kind not in ("tile", "second", "lanes", "scratch") or not at.isdigit() or int(at) >= len(plan["ops"]):
        return ", ".join((b["name"], *b["aliases"]))
    op = plan["ops"][int(at)]
    streams = op.get("streams", ())
    if kind in ("tile", "second") and stream.isdigit() and int(stream) < len(streams):
        return str(("piece of " if kind == "tile" else "next piece of ") + streams[int(stream)])
    return {"scratch": "working memory of "}.get(kind, "list of copies of ") + str(op["name"])
