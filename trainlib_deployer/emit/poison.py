"""The table of lifetimes that a poison build fills memory by."""

from __future__ import annotations

from typing import Any

from trainlib_deployer.emit.addresses import Addresses
from trainlib_deployer.plan.plan import Buffer, Plan


def poison_levels(plan: Plan, at: Addresses) -> list[dict[str, Any]]:
    """Per level what comes and goes in its arena; levels without such buffers are left out."""
    out = []
    for level in plan.near_levels:
        found = [b for b in plan.buffers if b.level == level.name and comes_and_goes(plan, b)]
        if found:
            lifetimes = sorted((entry(plan, b, at) for b in found), key=lambda life: str(life["name"]))
            out.append({"name": level.name, "arena": f"arena_{level.name.lower()}", "lifetimes": lifetimes})
    return out


def comes_and_goes(plan: Plan, b: Buffer) -> bool:
    tensor = plan.program.tensors.get(b.name)
    return b.role != "stack" and b.size > 0 and not (tensor is not None and tensor.role.persistent)


def entry(plan: Plan, b: Buffer, at: Addresses) -> dict[str, Any]:
    birth, death = (position(k, at) for k in (b.birth, b.death))
    return {"name": at.name(b.name), "size": plan.target.aligned(b.size), "birth": birth, "death": death}


def position(k: int, at: Addresses) -> str:
    """The name of an operation's number; what lives to the end of the step is there for the caller."""
    return f"AT_{at.operations[k]}" if k < len(at.operations) else "PLAN_OPERATIONS + 1"


def poison_context(plan: Plan, at: Addresses) -> dict[str, Any]:
    levels = poison_levels(plan, at)
    arenas = [level["arena"] for level in levels]
    return {
        "poison": levels,
        "poison_parameters": ", ".join(f"uint8_t *{a}" for a in arenas) or "void",
        "poison_arguments": ", ".join(arenas),
    }
