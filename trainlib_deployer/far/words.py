"""What lies far away, and what that takes, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass

from trainlib_deployer.ops.carry import Arrival, Carry
from trainlib_deployer.plan.plan import Plan


@dataclass(frozen=True)
class Carried:
    """Tensors behind the outer memory, bytes that copies of them move in a step, and cycles that the cores wait."""

    tensors: int
    bytes: int
    copies: int
    moved: int
    waited: int

    @staticmethod
    def of(plan: Plan) -> Carried:
        program = plan.program
        copies = [op.kind.nbytes for op in program.step if isinstance(op.kind, Carry)]
        waited = sum(op.kind.exposed for op in program.step if isinstance(op.kind, Arrival))
        nbytes = sum(program.tensors[name].nbytes for name in program.far)
        return Carried(len(program.far), nbytes, len(copies), sum(copies), waited)


def far_words(plan: Plan) -> str:
    found, name = Carried.of(plan), plan.target.memories[2].name
    return (
        f"{found.tensors:,} tensors, {found.bytes:,} bytes, in {name}: {found.moved:,} bytes move in {found.copies:,} "
        f"copies a step, for which the cores wait some {found.waited:,} cycles"
    )
