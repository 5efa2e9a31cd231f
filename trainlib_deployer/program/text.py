"""A program for people, one line an operation."""

from __future__ import annotations

from collections.abc import Iterator

from trainlib_deployer.program.ir import Program, View


def text(program: Program) -> Iterator[str]:
    for i, op in enumerate(program.ops):
        reads = ", ".join(show(v) for v in op.reads)
        writes = ", ".join(show(v) for v in op.writes)
        yield f"{i:4d} {op.phase:8s} {op.name}: {writes} = {op.kind.name}({reads})"


def show(view: View) -> str:
    shape = "x".join(map(str, view.shape)) or "scalar"
    plain = view.contiguous and view.offset == 0
    return f"{view.tensor}[{shape}]" if plain else f"{view.tensor}[{shape} @{view.offset} /{view.strides}]"
