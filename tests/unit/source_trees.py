"""The package's own sources as Python reads them, each parsed once."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "trainlib_deployer"


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Every one of a tree: it is walked once, however many rules look at it."""
    return tuple(ast.walk(tree))
