"""A model that a script makes where nobody finds it: in a function, or under `if __name__ == "__main__"`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from golden.script import DATA, loaded, stored
from trainlib_deployer.errors import UsageError
from trainlib_deployer.program.ir import Source

CALLED = {  # what people call it: what the tool looks for
    **dict.fromkeys(("model", "net", "network"), "model"),
    **dict.fromkeys(("loss", "criterion", "loss_fn"), "loss"),
    **dict.fromkeys(("optimizer", "optim", "opt"), "optimizer"),
    **dict.fromkeys(("scheduler", "sched", "lr_scheduler"), "scheduler"),
    **dict.fromkeys(("data", *DATA), "data"),
}


@dataclass(frozen=True)
class Hidden:
    """Where a model is made, and the lines that make it and what belongs to it."""

    place: str
    line: int
    lines: tuple[str, ...]


def hidden_model(path: Path, classes: Sequence[str]) -> UsageError | None:
    """What to write so that the model, which may be one of these classes, is found."""
    text = path.read_bytes()
    found = next((h for h in (looked_into(b, classes) for b in blocks(ast.parse(text))) if h), None)
    if found is None:
        return None
    shown = text.decode(errors="replace").splitlines()[found.line - 1].strip()
    return UsageError(
        f"{path.name} makes its model {found.place}, which is not run",
        source=Source(path.name, found.line, shown),
        remedy="add to the end of the file, with values for what is not known there:\n"
        + "\n".join(f"    {line}" for line in found.lines),
    )


@dataclass(frozen=True)
class Block:
    """Statements that are not run, and those before them: what calls a function has made its arguments."""

    place: str
    body: list[ast.stmt]
    before: list[ast.stmt]

    def assignments(self) -> list[ast.Assign]:
        """Those of the block itself first."""
        every = [n for s in (*self.body, *self.before) for n in ast.walk(s)]
        return [n for n in every if isinstance(n, ast.Assign)]


def blocks(tree: ast.Module) -> Iterator[Block]:
    main = [s for s in tree.body if isinstance(s, ast.If) and "__name__" in ast.unparse(s.test)]
    for s in tree.body:
        if isinstance(s, ast.FunctionDef):
            yield Block(f"in the function {s.name}()", s.body, [inner for m in main for inner in m.body])
        elif s in main:
            yield Block("under if __name__ == '__main__'", s.body, [])


def looked_into(block: Block, classes: Sequence[str]) -> Hidden | None:
    """The first assignment to each name that matters, calls alone make something; and what these need."""
    assigned = block.assignments()
    made: dict[str, ast.Assign] = {}
    for s in (n for statement in block.body for n in ast.walk(statement) if isinstance(n, ast.Assign)):
        role = role_of(s, classes)
        if role and role not in made and not (role == "loss" and "(" in ast.unparse(s.value.func)):  # type: ignore[attr-defined]
            made[role] = s
    if "model" not in made:
        return None
    roles = {id(s): role for role, s in made.items()}
    wanted = [*made.values(), *needed(list(made.values()), assigned)]
    helpers = {n for s in wanted if id(s) not in roles for n in stored(s)}
    own = name_of(made["model"])
    lines = []
    shown: list[ast.Assign | ast.Expr] = [*wanted, *filling([*block.body, *block.before], helpers)]
    first = block.body[0].lineno, block.body[-1].lineno
    for line_of in sorted(shown, key=lambda s: (first[0] <= s.lineno <= first[1], s.lineno, s.col_offset)):
        role = roles.get(id(line_of))
        line = f"{role} = {ast.unparse(line_of.value)}" if role else ast.unparse(line_of)
        lines.append(re.sub(rf"\b{own}\b(?!\s*=)", "model", line) if own != "model" else line)
    return Hidden(block.place, made["model"].value.lineno, tuple(lines))


def role_of(s: ast.Assign, classes: Sequence[str]) -> str | None:
    if not isinstance(s.value, ast.Call) or not isinstance(s.targets[0], ast.Name):
        return None
    makes_one = isinstance(s.value.func, ast.Name) and s.value.func.id in classes
    return CALLED.get(s.targets[0].id) or ("model" if makes_one else None)


def name_of(s: ast.Assign) -> str:
    assert isinstance(s.targets[0], ast.Name)
    return s.targets[0].id


def needed(wanted: list[ast.Assign], assigned: list[ast.Assign]) -> list[ast.Assign]:
    """The first assignments to the names that these read, and so on."""
    first: dict[str, ast.Assign] = {}
    for s in assigned:
        first |= {n: s for n in stored(s) if n not in first}
    found: list[ast.Assign] = []
    todo = list(wanted)
    while todo:
        s = todo.pop()
        for more in (first[n] for n in loaded(s.value) if n in first):
            if not any(more is f for f in (*found, *wanted)):
                found.append(more)
                todo.append(more)
    return found


def filling(body: list[ast.stmt], names: set[str]) -> list[ast.Expr]:
    """What puts something into these, as the arguments of a parser."""
    calls = [s for s in body if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call)]
    return [s for s in calls if isinstance(s.value.func, ast.Attribute) and loaded(s.value.func) & names]  # type: ignore[attr-defined]
