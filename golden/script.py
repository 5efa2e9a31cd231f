"""A person's training script as a module: what it defines, without the training that it does.

Loops and calls at the top of the file that lead to `.backward()` or to a Trainer are left out, what needs their
results, and what saves, as it would save an untrained model over a trained one. Functions
and classes stay, and everything that defines one of the names that are looked for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from types import CodeType
from typing import Any

LOSSES = ("criterion", "loss_fn", "loss_function")  # what people call it where `loss` is a number
LOADERS = ("train_loader", "trainloader", "train_dataloader", "loader")
DATASETS = ("train_dataset", "train_data", "train_set", "trainset", "dataset")
DATA = (*LOADERS, *DATASETS)
DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom
SAVING = ("save", "save_file", "save_model", "save_pretrained", "save_checkpoint")
FILLING = ("append", "extend", "add", "update", "insert")
WANTED = frozenset(
    {"model", "optimizer", "data", "loss", "scheduler", "metrics", "example_input", "example_target", *LOSSES, *DATA}
)


def compiled(text: str | bytes, path: str, wanted: Iterable[str] = ()) -> tuple[CodeType, list[int]]:
    """The code to execute, and the lines of what is left out; `wanted` are names besides those that are always."""
    tree = ast.parse(text, path)
    filtered = Without(tree, WANTED | set(wanted))
    tree.body = filtered.kept(tree.body)
    return compile(tree, path, "exec", dont_inherit=True), filtered.lines


def without_data(text: bytes, path: str, wanted: Iterable[str]) -> CodeType:
    """The same without definitions that the `wanted` names and what is executed besides do not need."""
    tree = ast.parse(text, path)
    tree.body = Without(tree, WANTED | set(wanted)).kept(tree.body)
    defining = [s for s in tree.body if isinstance(s, ast.Assign | ast.FunctionDef | ast.ClassDef)]
    needed = set(wanted).union(*(loaded(s) for s in tree.body if s not in defining))
    while more := {n for s in defining if stored(s) & needed for n in loaded(s)} - needed:
        needed |= more
    tree.body = [s for s in tree.body if s not in defining or stored(s) & needed]
    return compile(tree, path, "exec", dont_inherit=True)


class Without:
    """Goes through the statements of a file in order."""

    def __init__(self, tree: ast.Module, wanted: frozenset[str]) -> None:
        self.wanted = wanted
        self.lines: list[int] = []
        self.bound: set[str] = set()
        self.lost: set[str] = set()
        functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
        self.trainers: set[str] = set()
        while found := {n for n, f in functions.items() if n not in self.trainers and self.trains(f)}:
            self.trainers |= found

    def kept(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        kept = []
        for s in statements:
            if isinstance(s, ast.If | ast.With | ast.Try) and (self.trains(s) or saves(s)):
                s.body = self.kept(s.body) or [ast.copy_location(ast.Pass(), s)]
            if self.left_out(s):
                self.lines.append(s.lineno)
                self.lost |= stored(s) - self.bound | filled(s) - self.wanted
            else:
                kept.append(s)
                self.bound |= stored(s)
                self.lost -= stored(s)
        return kept

    def left_out(self, s: ast.stmt) -> bool:
        if isinstance(s, DEFINITIONS):
            return False
        if self.lost & (loaded(s) - stored(s)) or (isinstance(s, ast.Expr) and saves(s)):
            return True
        if not self.trains(s) or not isinstance(s, ast.For | ast.While | ast.Expr | ast.Assign):
            return False
        return not (isinstance(s, ast.Assign) and self.wanted & (stored(s) - self.bound))

    def trains(self, node: ast.AST) -> bool:
        calls = (n.func for n in ast.walk(node) if isinstance(n, ast.Call))
        return any(
            (isinstance(f, ast.Attribute) and (f.attr == "backward" or f.attr.endswith("Trainer")))
            or (isinstance(f, ast.Name) and (f.id in self.trainers or f.id.endswith("Trainer")))
            for f in calls
        )


def saves(node: ast.AST) -> bool:
    calls = (n.func for n in ast.walk(node) if isinstance(n, ast.Call))
    return any(isinstance(f, ast.Attribute) and f.attr in SAVING for f in calls)


def loaded(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def stored(node: ast.AST) -> set[str]:
    """Names that a statement binds, those inside of its functions left aside."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return names | {(n.asname or n.name).split(".")[0] for n in ast.walk(node) if isinstance(n, ast.alias)}


def filled(node: ast.AST) -> set[str]:
    """Names of the containers that a statement puts something into."""
    calls = (n.func for n in ast.walk(node) if isinstance(n, ast.Call))
    methods = (f for f in calls if isinstance(f, ast.Attribute) and f.attr in FILLING)
    return {m.value.id for m in methods if isinstance(m.value, ast.Name)}


def found_loss(names: dict[str, Any]) -> tuple[str, Any]:
    """What a file's loss is called, and the loss: a number that a loop has left behind is none."""
    loss = names.get("loss")
    if loss is not None and (callable(loss) or not (hasattr(loss, "backward") or isinstance(loss, float | int))):
        return "loss", loss
    return next(((n, names[n]) for n in LOSSES if names.get(n) is not None), ("loss", None))
