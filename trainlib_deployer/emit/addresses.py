"""Names in C of everything that lies somewhere, and the expressions that point there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainlib_deployer.emit.listing import Home
from trainlib_deployer.emit.names import another, operation_identifier, unique_identifiers
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.program.ir import Op, Role, View


@dataclass(frozen=True)
class Addresses:
    """`names` of tensors, `operations` by position, `buffers` of what is no tensor by the plan's own name."""

    plan: Plan
    names: Mapping[str, str]
    operations: tuple[str, ...]
    buffers: Mapping[str, str]

    @staticmethod
    def of(plan: Plan) -> Addresses:
        operations = operation_names(plan.program.ops)
        buffers = {b.name: buffer_name(b.name, operations) for b in plan.buffers if b.name not in plan.program.tensors}
        return Addresses(plan, unique_identifiers(plan.program.tensors, buffers.values()), operations, buffers)

    @property
    def near(self) -> str:
        """The level that the cores work in."""
        return self.plan.stacks.level

    def recorded(self, tensor: str) -> bool:
        return self.plan.program.tensors[tensor].role is Role.RECORDED

    def name(self, item: str) -> str:
        """Of a tensor, or of another thing that lies somewhere."""
        return self.names.get(item) or self.buffers[item]

    def home(self, tensor: str) -> Home:
        """Where a tensor begins: a member of its level's struct, or a place in its level's arena."""
        found, name, level = self.plan.program.tensors[tensor], self.names[tensor], self.plan.home[tensor].level
        if tensor in self.plan.program.far:
            return Home(name, level, f"OFFSET_{name}")
        if not found.role.persistent:
            return Home(name, level, f"{found.dtype.pointer}({level}, {name})", found.dtype)
        place = f"net_{level.lower()}.{name}"
        return Home(name, level, place if found.shape else f"&{place}", found.dtype)

    def pointer(self, view: View) -> str:
        if self.recorded(view.tensor):
            return f"RECORDED({view.offset})"
        base = self.home(view.tensor).text
        return f"{base} + {view.offset}" if view.offset else base

    def scratch(self, at: int) -> Home | None:
        """Of the operation at a position, if it has any."""
        name = self.operations[at]
        return Home(f"scratch_{name}", self.near, f"SCRATCH({name})") if at in self.plan.scratch else None

    def lanes(self, at: int) -> Home:
        name = self.operations[at]
        return Home(f"lanes_{name}", self.near, f"LANES({name})")

    def buffer(self, at: int, stream: int, which: str = "tile") -> Home:
        """A stream's first buffer, or its `second`."""
        name = self.operations[at]
        return Home(f"{which}_{name}_{stream}", self.near, f"{which.upper()}({name}, {stream})")


def operation_names(ops: list[Op]) -> tuple[str, ...]:
    """From their layers and functions: what stands before or behind an operation has no part in it."""
    names: dict[str, None] = {}
    for op in ops:
        names[another(operation_identifier(op.name), names)] = None
    return tuple(names)


def buffer_name(name: str, operations: tuple[str, ...]) -> str:
    """`tile 6.0` is called after operation 6 and its stream 0."""
    what, _, rest = name.partition(" ")
    position, _, stream = rest.partition(".")
    if not position.isdigit():
        return name.replace(" ", "_")
    return "_".join(filter(None, (what, operations[int(position)], stream)))
