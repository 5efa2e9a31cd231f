"""What a row of the table of kernels hands to the writer of C: a symbol and the fields of its argument struct."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainlib_deployer.program.ir import View


@dataclass(frozen=True)
class Operand:
    """A view and the C expression that points at its first element."""

    pointer: str
    view: View


@dataclass(frozen=True)
class Call:
    """`{ const struct a = {.field = value, ...}; function(&a); }`: blocks share one place on the stack."""

    function: str
    struct: str
    fields: tuple[tuple[str, str | int], ...]

    def text(self) -> str:
        body = ", ".join(f".{name} = {value}" for name, value in self.fields if value not in (0, "0"))
        return f"{{\n    const {self.struct} a = {{{body}}};\n    {self.function}(&a);\n}}"


def strides(prefix: str, names: Sequence[str], view: View, rank: int | None = None) -> list[tuple[str, int]]:
    """Fields such as a_m, a_k from a view's (first `rank`) strides; extents of one need none."""
    dims = zip(names, view.strides[:rank], view.shape[:rank], strict=True)
    return [(f"{prefix}_{n}", s if e > 1 else 0) for n, s, e in dims]
