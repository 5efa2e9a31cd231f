"""What a program of mixed precision has in memory, for those who judge it: builds for the host that record it.

The header that such a build includes is written from plan.json, beside the project: nothing of it is in a firmware.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from golden.memory import Array, Memory
from trainlib_deployer.formats import DType
from trainlib_deployer.run.record import Key, read_record

WITNESS = "build/witness.h"
MEMORY = "memory"  # a kind of what is recorded
PASSES = {"forward", "backward"}
NEAR_LEVELS = 2  # that cores address


@dataclass(frozen=True)
class Witness:
    """A tensor that is whole behind one operation and stays in memory for a while."""

    id: int  # of its records: behind those of the trace
    tensor: str
    after: int
    place: str  # an expression in C
    dtype: DType
    shape: tuple[int, ...]
    nbytes: int


def witnesses(plan: dict[str, Any]) -> list[Witness]:
    """Of mixed precision: what forward and backward make and use up. Gradients of parameters and what they are made of
    by the last operation are judged, and so are outputs and the loss; not what the forward pass has gone on with."""
    if plan["dtype"] == "fp32":
        return []
    made: dict[str, list[int]] = {}
    for op in plan["ops"]:
        for name in op["writes"]:
            made.setdefault(name, []).append(op["index"])
    used_up = {name for op in plan["ops"] if op["phase"] not in PASSES for name in op["reads"]}
    used_up -= {name for op in plan["ops"] if op["phase"] == "forward" for name in op["reads"]}
    first = len(plan["trace"])
    out: list[Witness] = []
    for buffer in plan["buffers"]:
        if buffer["level"] not in list(plan["levels"])[:NEAR_LEVELS]:
            continue
        for name in (buffer["name"], *buffer["aliases"]):
            tensor, makers = plan["tensors"].get(name), made.get(name, [])
            if tensor is None or tensor["role"] not in ("activation", "gradient") or name in used_up:
                continue
            dtype, phases = DType[tensor["dtype"]], {plan["ops"][at]["phase"] for at in makers}
            if dtype.calculated is not DType.F32 or not phases or not phases <= PASSES or tensor["bytes"] <= dtype.size:
                continue
            level = buffer["level"]
            place = f"arena_{level.lower()} + {buffer['offset'] - plan['levels'][level]['persistent']}"
            shape = tuple(tensor["shape"])
            out.append(Witness(first + len(out), name, makers[-1], place, dtype, shape, tensor["bytes"]))
    return out


def witness_text(found: Sequence[Witness]) -> str:
    """Of the header."""
    lines = ("static void net_witness(int position)", "{", "    switch (position) {", *cases(found), "    }", "}", "")
    return "\n".join(lines)


def cases(found: Sequence[Witness]) -> Iterator[str]:
    for position in sorted({w.after for w in found}):
        yield f"    case {position}:"
        yield from (f"        net_trace({w.id}, {w.place}, {w.nbytes});" for w in found if w.after == position)
        yield "        break;"


def recorded(record: Path, plan: dict[str, Any], found: Sequence[Witness]) -> tuple[dict[Key, Array], Memory]:
    """What a record has to be judged, and what witnesses have seen."""
    entries = [{"id": w.id, "kind": MEMORY, "name": w.tensor, "dtype": w.dtype.name, "shape": w.shape} for w in found]
    judged: dict[Key, Array] = {}
    steps: dict[int, list[Array]] = {}
    for key, values in read_record(record, [*plan["trace"], *entries]).items():
        if key[1] == MEMORY:
            steps.setdefault(key[0], []).append(values)
        else:
            judged[key] = values
    return judged, Memory(steps)
