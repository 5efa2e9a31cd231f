"""Copies between the outer memory and the one behind it: one core asks for them, whatever the team."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainlib_deployer.kernels.row import Fields, Row
from trainlib_deployer.program.call import Operand

if TYPE_CHECKING:
    from trainlib_deployer.ops.carry import Arrival, Carry


def carry_fields(kind: Carry, reads: list[Operand], writes: list[Operand], _scratch: str) -> Fields:
    near, far = (writes[0], reads[0]) if kind.inward else (reads[0], writes[0])
    out: list[tuple[str, str | int]] = [("near", near.pointer), ("far", far.pointer), ("offset", kind.offset)]
    out += [("row_bytes", kind.row_bytes), ("rows", kind.rows), ("pitch", kind.pitch)]
    return [*out, ("jobs", JOBS), ("job", kind.job), ("inward", int(kind.inward))]


def arrival_fields(kind: Arrival, _reads: list[Operand], _writes: list[Operand], _scratch: str) -> Fields:
    return [("jobs", JOBS), ("job", kind.job)]


JOBS = "JOBS"  # where net.c has what is under way
HEADER, COPIED = "tl_carry.h", "copied as it is"

CARRY = (
    Row("carry", "tl_carry_start", "carry_start.c", "tl_carry", HEADER, carry_fields, arithmetic=COPIED),
    Row("arrival", "tl_carry_await", "carry_await.c", "tl_arrival", HEADER, arrival_fields, arithmetic=COPIED),
)
