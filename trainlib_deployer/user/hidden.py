"""A model that a script makes where nobody finds it: in a function, or under `if __name__ == "__main__"`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainlib_deployer.errors import UsageError
from trainlib_deployer.program.ir import Source

CALLED = {  # what people call it: what the tool looks for
    **dict.fromkeys(("model", "net", "network"), "model"),
    **dict.fromkeys(("loss", "criterion", "loss_fn"), "loss"),
    **dict.fromkeys(("optimizer", "optim", "opt"), "optimizer"),
}


@dataclass(frozen=True)
class Hidden:
    """Where a model is made, and the lines that make it and what belongs to it."""

    place: str
    line: int
    lines: tuple[str, ...]


def hidden_model(path: Path) -> UsageError | None:
    """What to write so that the model is found."""
    text = path.read_bytes()
    found = next((h for h in (looked_into(*block) for block in blocks(ast.parse(text))) if h), None)
    if found is None:
        return None
    shown = text.decode(errors="replace").splitlines()[found.line - 1].strip()
    return UsageError(
        f"{path.name} makes its model {found.place}, which is not run",
        source=Source(path.name, found.line, shown),
        remedy="add to the end of the file, with values for what is not known there:\n"
        + "\n".join(f"    {line}" for line in found.lines),
    )


def blocks(tree: ast.Module) -> Iterator[tuple[str, list[ast.stmt]]]:
    for s in tree.body:
        if isinstance(s, ast.FunctionDef):
            yield f"in the function {s.name}()", s.body
        elif isinstance(s, ast.If) and "__name__" in ast.unparse(s.test):
            yield "under if __name__ == '__main__'", s.body


def looked_into(place: str, body: list[ast.stmt]) -> Hidden | None:
    """The first assignment to each name that matters; calls alone make something."""
    made: dict[str, tuple[str, ast.Call]] = {}
    for s in (n for statement in body for n in ast.walk(statement)):
        if isinstance(s, ast.Assign) and isinstance(s.value, ast.Call) and isinstance(s.targets[0], ast.Name):
            role = CALLED.get(s.targets[0].id)
            if role and role not in made and not (role == "loss" and "(" in ast.unparse(s.value.func)):
                made[role] = (s.targets[0].id, s.value)
    if "model" not in made:
        return None
    own = made["model"][0]
    lines = [f"{role} = {ast.unparse(value)}" for role, (_, value) in made.items()]
    lines = [re.sub(rf"\b{own}\.", "model.", line) if own != "model" else line for line in lines]
    return Hidden(place, made["model"][1].lineno, tuple(lines))
