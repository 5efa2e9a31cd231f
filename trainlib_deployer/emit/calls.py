"""Operations as lines of C: pointers into the arenas, kernel calls, loop calls."""

from __future__ import annotations

from dataclasses import dataclass

from trainlib_deployer.emit.loops import LoopLibrary, flat
from trainlib_deployer.emit.names import unique_identifiers
from trainlib_deployer.kernels.table import chosen
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.program.call import Call, Operand
from trainlib_deployer.program.ir import DType, Kind, Op, Role, View
from trainlib_deployer.program.loop import Loop

POINTER = {DType.F32: "F32", DType.F16: "U16", DType.I32: "I32", DType.U16: "U16", DType.U8: "U8"}


@dataclass
class Addresses:
    """C names of all tensors, and expressions that point at them."""

    plan: Plan
    names: dict[str, str]

    @staticmethod
    def of(plan: Plan) -> Addresses:
        buffers = (b.name for b in plan.buffers if b.name not in plan.program.tensors)
        return Addresses(plan, unique_identifiers(plan.program.tensors, buffers))

    @property
    def cores(self) -> int:
        """That run what is written."""
        return self.plan.target.cores

    def recorded(self, tensor: str) -> bool:
        return self.plan.program.tensors[tensor].role is Role.RECORDED

    def base(self, tensor: str) -> str:
        """Where a tensor begins: a member of its level's struct, or a place in its level's arena."""
        found, name, level = self.plan.program.tensors[tensor], self.names[tensor], self.plan.home[tensor].level
        if not found.role.persistent:
            return f"{POINTER[found.dtype]}({level}, {name})"
        place = f"net_{level.lower()}.{name}"
        return place if found.shape else f"&{place}"

    def pointer(self, view: View) -> str:
        if self.recorded(view.tensor):
            return f"RECORDED({view.offset})"
        base = self.base(view.tensor)
        return f"{base} + {view.offset}" if view.offset else base

    def scratch(self, position: int) -> str:
        return f"SCRATCH({position})" if position in self.plan.scratch else "0"


def call_lines(op: Op, position: int, at: Addresses, library: LoopLibrary) -> str:
    """The one statement that carries out an operation."""
    if isinstance(op.kind, Loop):
        name = library.function(op)
        arguments = [at.pointer(v) for v in (*op.writes, *op.reads)]
        if flat(op.kind, op.reads, op.writes):
            arguments.append(str(op.kind.extents[0]))
        return f"{name}({', '.join(arguments)});"
    reads = [Operand(at.pointer(v), v) for v in op.reads]
    writes = [Operand(at.pointer(v), v) for v in op.writes]
    return kernel_call(op.kind, reads, writes, at, position).text()


def kernel_call(kind: Kind, reads: list[Operand], writes: list[Operand], at: Addresses, position: int) -> Call:
    """By the row that fits operands which lie like these."""
    row = chosen(kind, [o.view for o in reads], [o.view for o in writes], at.cores)
    assert row is not None, f"{kind} is neither a loop nor has it a kernel"
    return row.call(kind, reads, writes, at.scratch(position))
