"""The settings of a TrainLib_Deployer.py: its assignments, evaluated without running the file.

Lists of numbers and words, arithmetic on them, names defined above, and `if NET == 0:` are understood; what calls
anything changes no setting, so that neither the tool behind the file nor what the file does is needed.
"""

from __future__ import annotations

import ast
import contextlib
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from trainlib_deployer.errors import UsageError

ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {ast.Eq: operator.eq, ast.NotEq: operator.ne}
LARGEST = 1 << 40  # of a number or a list: what a slip of the pen must not compute


class Unknown(Exception):
    """An expression that is not one of settings."""


def read_settings(path: Path) -> dict[str, Any]:
    """Names and values, as the file says at its top level."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except OSError as err:
        raise UsageError(f"cannot read {path}: {err.strerror or err}") from err
    except (SyntaxError, ValueError) as err:
        raise UsageError(f"{path} is not Python: {err}") from err
    known: dict[str, Any] = {}
    for target, value in assignments(tree.body, known):
        with contextlib.suppress(Unknown, ArithmeticError, TypeError, ValueError):
            known[target] = evaluated(value, known)
    return known


def assignments(body: list[ast.stmt], known: dict[str, Any]) -> Iterator[tuple[str, ast.expr]]:
    """Of the branches that the settings so far choose."""
    for statement in body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    yield target.id, statement.value
        elif isinstance(statement, ast.If):
            try:
                chosen = statement.body if evaluated(statement.test, known) else statement.orelse
            except Unknown:
                continue
            yield from assignments(chosen, known)


def evaluated(node: ast.expr, known: dict[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        return [evaluated(e, known) for e in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -evaluated(node.operand, known)
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        return bounded(ARITHMETIC[type(node.op)], evaluated(node.left, known), evaluated(node.right, known))
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
        return COMPARISONS[type(node.ops[0])](evaluated(node.left, known), evaluated(node.comparators[0], known))
    raise Unknown


def bounded(compute: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Settings are small; `10 ** 10 ** 10` is not one, nor is a list repeated a million times."""
    numbers = [v for v in (left, right) if isinstance(v, int | float)]
    if any(abs(v) > LARGEST for v in numbers) or (compute is operator.pow and any(abs(v) > 64 for v in numbers)):
        raise Unknown
    if any(isinstance(v, list | str) for v in (left, right)) and any(abs(v) > 1024 for v in numbers):
        raise Unknown
    return compute(left, right)
