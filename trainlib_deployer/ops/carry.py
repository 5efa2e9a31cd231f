"""Copies between a tensor far away, behind the outer memory, and one of it, or of a part, that operations work on.

A copy is two operations: one starts it, another one awaits it; what stands between them is done meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainlib_deployer.program.ir import Kind

JOB_BYTES = 128  # what a copy under way takes (tl_far_t)
ORDERS = "all orders"  # their place in the memory behind the outer one
ORDER_BYTES = 24  # of what a step does next (emit/orders.py)
ORDERS_AT_HAND = 128  # in the outer memory


class Transfer(Kind):
    """No core works on its operands, which stay where they are."""

    @property
    def exposed(self) -> int:
        """Cycles of waiting, estimated."""
        return 0


@dataclass(frozen=True)
class Carry(Transfer):
    """Starts a copy: of rows from `offset` on of the far tensor into all of the near one, or out of that. Inwards it
    reads the far one and writes the near one."""

    job: int  # a number that no other copy under way has
    inward: bool
    offset: int
    row_bytes: int
    rows: int
    pitch: int  # bytes between rows

    name = "carry"

    @property
    def nbytes(self) -> int:
        return self.rows * self.row_bytes


@dataclass(frozen=True)
class Arrival(Transfer):
    """Awaits a copy, and counts as what it did to both."""

    job: int
    waits: int = 0  # cycles

    name = "arrival"

    @property
    def exposed(self) -> int:
        return self.waits
