"""Variables that lie in no dict, read and written as if they did, and what a walk over them meets beside numbers."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import itertools
import threading
import types
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np

BARE = (types.SimpleNamespace, argparse.Namespace, threading.local)
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


def is_plain(held: Any) -> bool:
    """Numbers of any kind, texts, None, and tuples and the like of them: nothing changes in them."""
    if isinstance(held, tuple | frozenset):
        return all(map(is_plain, held))
    return held is None or isinstance(held, Number | np.generic | str | bytes)


def entries_of(array: Any) -> Any:
    """Numbers of a numpy array, an array or a bytearray, one after the other."""
    if not isinstance(array, np.ndarray):
        return array
    return () if array.dtype.hasobject else array.flat


def function_in(held: Any) -> types.FunctionType | None:
    """What is called where something like that is called or read."""
    if isinstance(held, staticmethod | classmethod | functools._lru_cache_wrapper):
        held = held.__wrapped__
    if isinstance(held, property):
        held = held.fget
    return held if isinstance(held, types.FunctionType) else None


def is_bare(kind: type) -> bool:
    """Of what holds attributes, and does nothing else: of the user's, wherever its class comes from."""
    return issubclass(kind, BARE) or dataclasses.is_dataclass(kind)


def unlike_any(number: int) -> int:
    """For a set or a dict: a key that nothing else is."""
    return (1 << 40) + number


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
