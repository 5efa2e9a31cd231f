"""Variables that lie in no dict, read and written as if they did, and what a walk over them meets beside numbers."""

from __future__ import annotations

import ast
import itertools
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

LENGTH = object()  # stands for the key of how many entries a container has


@dataclass(frozen=True)
class Count:
    """What an itertools.count goes on with."""

    next: Any
    step: Any


def count_of(iterator: itertools.count[Any]) -> Count:
    """Without taking a number from it: what it writes of itself are its arguments."""
    said = ast.literal_eval(repr(iterator).removeprefix("count"))
    return Count(*said) if isinstance(said, tuple) else Count(said, 1)


def is_iterator(held: Any) -> bool:
    """Of those that are used up and hold nothing else: generators, itertools.cycle and the like."""
    return isinstance(held, Iterator) and type(held).__module__ in ("builtins", "itertools")


class ClassData:
    """What all objects of a class share: a counter, a table that the first call fills."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def __iter__(self) -> Iterator[str]:
        return (k for k, v in vars(self.kind).items() if not k.startswith("__") and not hasattr(v, "__get__"))

    def __getitem__(self, name: str) -> Any:
        return vars(self.kind)[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if vars(self.kind).get(name, self) is not value:
            setattr(self.kind, name, value)


class Slots:
    """Attributes of an object that lie in no dict."""

    def __init__(self, thing: Any) -> None:
        kinds = (vars(kind).get("__slots__", ()) for kind in type(thing).__mro__)
        self.thing = thing
        self.names = [n for names in kinds for n in ([names] if isinstance(names, str) else names)]

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.names if hasattr(self.thing, name) and not name.startswith("__"))

    def __getitem__(self, name: str) -> Any:
        return getattr(self.thing, name)

    def __setitem__(self, name: str, value: Any) -> None:
        if getattr(self.thing, name, self) is not value:
            setattr(self.thing, name, value)


class Cells:
    """Variables around a function that it reads or writes."""

    def __init__(self, function: types.FunctionType) -> None:
        self.cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))

    def __iter__(self) -> Iterator[str]:
        return (name for name, cell in self.cells.items() if filled(cell))

    def __getitem__(self, name: str) -> Any:
        return self.cells[name].cell_contents

    def __setitem__(self, name: str, value: Any) -> None:
        self.cells[name].cell_contents = value


def filled(cell: types.CellType) -> bool:
    """Not where what it is the name of comes later, or was deleted."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def names_of(code: types.CodeType) -> set[str]:
    """Variables of the file that it reads, and functions in it do."""
    inner = (names_of(c) for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*inner)
