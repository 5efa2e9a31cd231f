"""What a template says of a memory: its bytes, and the tensors that live there from step to step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainlib_deployer.emit.addresses import Addresses
from trainlib_deployer.emit.initial import Binary, Kept, contents_context, kept_in
from trainlib_deployer.emit.names import comment
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.plan.plan import Buffer, LevelPlan
from trainlib_deployer.program.ir import Tensor


def level_context(at: Addresses, level: LevelPlan, binary: Binary, more: Sequence[Kept] = ()) -> dict[str, Any]:
    """`binary` is the file that has what lies there before the first step: tensors, and `more`."""
    tensors, buffers = at.plan.program.tensors, at.plan.buffers
    here = (b for b in buffers if b.level == level.name and b.name in tensors)
    kept = [b for b in here if tensors[b.name].role.persistent]
    ends = [*(b.offset for b in kept[1:]), level.persistent]
    found = [*kept_in(at.plan, level.name), *more]
    return {
        "name": level.name,
        "size": level.size,
        "used": level.used,
        "lower_bound": level.lower_bound,
        "persistent": level.persistent,
        "arena": level.arena,
        "members": [member(at, tensors[b.name], b, end) for b, end in zip(kept, ends, strict=False)],
        **contents_context(found, level.persistent, binary),
    }


def member(at: Addresses, t: Tensor, b: Buffer, end: int) -> dict[str, Any]:
    """A tensor that persists; `end` is where the plan goes on, which may be behind where C would."""
    step = c_alignment(at.plan.target)
    return {
        "gap": end - b.offset - b.size if end > -(-(b.offset + b.size) // step) * step else 0,
        "name": at.names[t.name],
        "c_type": t.dtype.stored,
        "extent": f"[{t.numel}]" if t.shape else "",
        "comment": f"/* {comment(t.name)} {'x'.join(map(str, t.shape))} */",
    }


def c_alignment(target: Machine) -> int:
    """As much of it as C can ask for: the largest power of two in it."""
    return target.alignment & -target.alignment


def piece(at: Addresses, tensor: str) -> str:
    """Of a saved state: what lies far away has no pointer."""
    home = at.home(tensor)
    if tensor in at.plan.program.far:
        return f"{{0, {at.plan.program.tensors[tensor].nbytes}, {home.text}}}"
    place = f"net_{at.plan.home[tensor].level.lower()}.{home.name}"
    return f"{{&{place}, sizeof {place}{', 0' if at.plan.far else ''}}}"
