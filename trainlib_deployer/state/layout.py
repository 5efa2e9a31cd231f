"""What a saved state consists of: the same for every target, L1 size and number of cores of a network."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from trainlib_deployer.program.ir import STEP, DType, Program, Role, Tensor

NETWORK = (Role.PARAMETER, Role.BUFFER)
LEARNED = (*NETWORK, Role.STATE)


@dataclass(frozen=True)
class Piece:
    """A tensor of the state."""

    name: str
    role: str
    dtype: DType
    shape: tuple[int, ...]
    fixed: int | None = None  # a checksum of contents that have decided about branches or shapes: no others will do

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.size

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(self.dtype.numpy_name)

    @property
    def line(self) -> str:
        contents = "" if self.fixed is None else f" {self.fixed:08x}"
        return f"{self.role} {self.dtype.name} {'x'.join(map(str, self.shape))} {self.name}{contents}\n"


@dataclass(frozen=True)
class Layout:
    """All tensors of the state, in the order in which they are stored: parameters and buffers come first."""

    pieces: tuple[Piece, ...]
    borrows: bool = False  # parameters and buffers of another program's state will do

    @staticmethod
    def of(tensors: Iterable[Tensor], fixed: Mapping[str, int], borrows: bool = False) -> Layout:
        kept = [t for t in tensors if t.role in LEARNED or (t.name == STEP and not borrows)]
        kept.sort(key=lambda t: (t.role not in NETWORK, t.name))
        pieces = (Piece(t.name, t.role.value, t.dtype, t.shape, fixed.get(t.name)) for t in kept)
        return Layout(tuple(pieces), borrows)

    @staticmethod
    def of_program(program: Program) -> Layout:
        return Layout.of(program.tensors.values(), program.fixed, not program.trains)

    @staticmethod
    def of_plan(plan: Mapping[str, Any]) -> Layout:
        """From plan.json."""
        tensors = plan["tensors"].items()
        found = (Tensor(n, tuple(t["shape"]), DType[t["dtype"]], Role(t["role"])) for n, t in tensors)
        fixed = {n: int(t["fixed"]) for n, t in tensors if "fixed" in t}
        return Layout.of(found, fixed, plan["model"].get("inference", False))

    @cached_property
    def network(self) -> Layout:
        """Parameters and buffers alone. What decides in training alone may be any where a network only runs."""
        return Layout(tuple(replace(p, fixed=None) for p in self.pieces if Role(p.role) in NETWORK))

    @property
    def demands(self) -> tuple[int, ...]:
        """Of every piece the checksum that it must have in another program's state; 0: any will do."""
        fixed = tuple(p.fixed or 0 for p in self.pieces)
        return fixed if self.borrows and any(fixed) else ()

    @cached_property
    def nbytes(self) -> int:
        return sum(p.nbytes for p in self.pieces)

    @cached_property
    def digest(self) -> tuple[int, int]:
        """Two words that name this layout."""
        words = np.frombuffer(hashlib.sha256("".join(p.line for p in self.pieces).encode()).digest()[:8], "<u4")
        return int(words[0]), int(words[1])
