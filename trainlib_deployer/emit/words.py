"""What an operation does, in the user's names."""

from __future__ import annotations

from pathlib import Path

from trainlib_deployer.program.ir import Op


def describe(op: Op) -> str:
    """`stack1.conv1: conv2d, input gradient; net.py:31  y = self.conv1(x)`."""
    _, gradient, tail = op.name.rpartition(".grad") if op.phase == "backward" else ("", "", "")
    what, tail = (", gradient", tail.strip(".")) if gradient else ("", "")
    where = f"; {Path(op.source.file).name}:{op.source.line}  {op.source.text}" if op.source else ""
    subject = op.layer or "net"
    more = f" (and {len(op.fused) - 1} more)" if len(op.fused) > 1 else ""
    label = (
        op.name
        if op.phase in ("accumulate", "update")
        else f"{subject}: {op.function}{what}{' of ' + tail if tail else ''}"
    )
    return f"{label}{more}{where}"


def title(op: Op) -> str:
    """Without the user's line."""
    return describe(op).partition("; ")[0]
