"""The table of lifetimes that a poison build fills memory by."""

from __future__ import annotations

from typing import Any

from trainlib_deployer.emit.names import comment
from trainlib_deployer.plan.plan import Buffer, Plan


def poison_levels(plan: Plan) -> list[dict[str, Any]]:
    """Per level what comes and goes in its arena; levels without such buffers are left out."""
    out = []
    for level in plan.levels.values():
        found = [b for b in plan.buffers if b.level == level.name and comes_and_goes(plan, b)]
        if found:
            lifetimes = [entry(plan, b, level.persistent) for b in sorted(found, key=lambda b: (b.offset, b.birth))]
            out.append({"name": level.name, "arena": f"arena_{level.name.lower()}", "lifetimes": lifetimes})
    return out


def comes_and_goes(plan: Plan, b: Buffer) -> bool:
    tensor = plan.program.tensors.get(b.name)
    return b.role != "stack" and b.size > 0 and not (tensor is not None and tensor.role.persistent)


def entry(plan: Plan, b: Buffer, persistent: int) -> dict[str, Any]:
    return {
        "name": comment(b.name),
        "offset": b.offset - persistent,
        "size": plan.target.aligned(b.size),
        "birth": b.birth,
        "death": b.death,
    }


def poison_context(plan: Plan) -> dict[str, Any]:
    levels = poison_levels(plan)
    arenas = [level["arena"] for level in levels]
    return {
        "poison": levels,
        "poison_parameters": ", ".join(f"uint8_t *{a}" for a in arenas) or "void",
        "poison_arguments": ", ".join(arenas),
    }
