"""Where in the user's file a layer is made: the line to show for a layer whose forward is PyTorch's own code."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from torch import nn

from trainlib_deployer.capture.user_line import line_of
from trainlib_deployer.program.ir import Source


def construction_line(file: Path | None, root: nn.Module, layer: str) -> Source | None:
    """The line that makes the layer: the only call of its class, the one assigned to its name, or the one in order."""
    if file is None or not layer:
        return None
    modules = dict(root.named_modules())
    if layer not in modules:
        return None
    kind = type(modules[layer]).__name__
    calls = calls_of(file, kind)
    same_kind = [name for name, m in modules.items() if type(m).__name__ == kind]
    named = [c for c, target in calls if target == layer.rpartition(".")[2]]
    if len(calls) == 1:
        line = calls[0][0]
    elif len(named) == 1:
        line = named[0]
    elif len(calls) == len(same_kind):
        line = calls[same_kind.index(layer)][0]
    else:
        return None
    return line_of(str(file), line)


def call_line(file: Path | None, name: str) -> Source | None:
    """The only line of the file that calls `name`."""
    calls = calls_of(file, name) if file is not None else []
    return line_of(str(file), calls[0][0]) if len(calls) == 1 else None


def calls_of(file: Path, name: str) -> list[tuple[int, str]]:
    """Line and target (`conv` in `self.conv = nn.Conv3d(...)`) of each call of `name` or `....name`, in order."""
    try:
        tree = ast.parse(file.read_text())
    except (OSError, SyntaxError, ValueError):
        return []
    targets = {id(n.value): target_of(n) for n in ast.walk(tree) if isinstance(n, ast.Assign)}
    found = [
        (node.lineno, node.col_offset, targets.get(id(node), ""))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and last_name(node.func) == name
    ]
    return [(line, target) for line, _, target in sorted(found)]


def target_of(node: ast.Assign) -> str:
    return last_name(node.targets[0])


def last_name(node: Any) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
