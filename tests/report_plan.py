"""A plan.json by hand, random and of any size, for tests of what draws it."""

from __future__ import annotations

import random
from typing import Any

PHASES = ("forward", "loss", "backward", "accumulate", "update")
PLAN_ROLES = (
    "parameter state buffer input target constant scalar activation gradient output loss scratch stack surprise".split()
)


def buffer(i: int, level: str, ops: int, draw: random.Random) -> dict[str, Any]:
    birth = draw.randrange(ops)
    return {
        "name": f"layer{i}.value",
        "level": level,
        "offset": draw.randrange(0, 4000, 4),
        "size": draw.randrange(4, 900, 4),
        "birth": birth,
        "death": draw.randrange(birth + 1, ops + 1),
        "role": draw.choice(PLAN_ROLES),
        "layer": f"block{i % 7}.conv",
        "aliases": [f"layer{i}.twin"] if i % 5 == 0 else [],
    }


def op(i: int, ops: int) -> dict[str, Any]:
    return {
        "index": i,
        "name": f"block{i % 7}.conv.{i}",
        "kind": "conv2d_fw",
        "phase": PHASES[i * len(PHASES) // ops],
        "layer": f"block{i % 7}",
        "source": f"net.py:{i}: y{i} = self.conv(x)",
        "kernel": "tl_conv2d_fw_f32",
        "macs": i * 1000 if i % 3 else None,
        "tiles": 1 + i % 4,
        "moved": i * 64,
        "reads": [],
        "writes": [],
        "fused": [f"block{i % 7}.conv.{i}", f"relu.{i}"] if i % 6 == 0 else [],
    }


def level(name: str, buffers: list[dict[str, Any]], size: int, ops: int) -> dict[str, Any]:
    used = max((b["offset"] + b["size"] for b in buffers if b["level"] == name), default=0)
    figures = {"persistent": 12, "arena": used - 12, "stacks": 0, "peak_live": used, "lower_bound": used - 8}
    more = {"peak_at": ops // 3, "live_at_peak": [], "proved": False, "method": "greedy by birth"}
    return {"size": size, "used": used, "headroom": size - used, **figures, **more}


def evaluated(p: dict[str, Any], ops: int) -> dict[str, Any]:
    """With so many operations of an evaluation behind those of the step."""
    first = len(p["ops"])
    more = [op(first + i, first + ops) | {"phase": "evaluation", "cycles": 10 * i} for i in range(ops)]
    return {**p, "ops": [*p["ops"], *more]}


def plan(ops: int = 23, buffers: int = 71, seed: int = 3) -> dict[str, Any]:
    draw = random.Random(seed)
    found = [buffer(i, "L1" if i % 3 else "L2", ops, draw) for i in range(buffers)]
    levels = {"L1": level("L1", found, 6000, ops), "L2": level("L2", found, 1 << 20, ops)}
    peak = sum(v["used"] for v in levels.values())
    counts = {"total": 12345, "trained": 2345}
    return {
        "tool": {"name": "trainlib-deploy", "version": "9.8.7"},
        "model": {"name": "odd_net", "steps": 17, "accumulate": 3, "scheduled": True, "parameters": counts},
        "target": {"name": "custom", "cores": 5, "l1": 6000, "l2": 1 << 20},
        "levels": levels,
        "buffers": found,
        "tensors": {b["name"]: {} for b in found[::2]},
        "ops": [op(i, ops) for i in range(ops)],
        "certificate": {"peak": peak, "lower_bound": peak - 16, "gap": 16, "proved_optimal": False, "checked": False},
        "traffic": {"bytes": 999_424, "lower_bound": 500_000, "hidden_estimate": 0.4321},
        "trace": [],
    }
