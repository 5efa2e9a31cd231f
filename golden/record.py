"""What a run computes, tensor by tensor: kept, put aside on disk, or held against another run and forgotten.

A step of a large network computes several times the bytes of its parameters, so that the records of a few runs would
not fit into memory together.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Protocol

import numpy as np

from golden import compare

Array = np.ndarray[Any, Any]
Key = tuple[int, str, str]  # step, kind, name

IN_MEMORY = 64 << 20  # bytes of a record that need no file


class Record(Protocol):
    """Is given arrays that change afterwards."""

    def __setitem__(self, key: Key, values: Array, /) -> None: ...

    def __contains__(self, key: object, /) -> bool: ...


class Kept(dict[Key, Array]):
    """All of it, in memory."""

    def __setitem__(self, key: Key, values: Array) -> None:
        super().__setitem__(key, values.copy())


@dataclass(frozen=True)
class Piece:
    """Where a tensor lies in a file."""

    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Spilled(Mapping[Key, Array]):
    """All of it, where it is large in a file without a name; each tensor is read when it is asked for."""

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self.file: IO[bytes] = tempfile.SpooledTemporaryFile(in_memory)  # noqa: SIM115
        self.pieces: dict[Key, Piece] = {}
        self.size = 0

    def __setitem__(self, key: Key, values: Array) -> None:
        dense = np.ascontiguousarray(values)
        self.pieces[key] = Piece(self.size, values.shape, values.dtype)
        self.file.seek(self.size)
        self.file.write(dense.data.cast("B") if dense.size else b"")
        self.size += dense.nbytes

    def __getitem__(self, key: Key) -> Array:
        piece = self.pieces[key]
        found = np.empty(piece.shape, piece.dtype)
        self.file.seek(piece.offset)
        if found.size:
            self.file.readinto(found.data.cast("B"))  # type: ignore[attr-defined]
        return found

    def __iter__(self) -> Iterator[Key]:
        return iter(self.pieces)

    def __len__(self) -> int:
        return len(self.pieces)


@dataclass(frozen=True)
class Apart:
    """How far a run is from an exact one: L2 distances, and the elements that are finite in both (None: all are)."""

    exact: Mapping[Key, Array]
    distance: dict[Key, float] = field(default_factory=dict)
    finite: dict[Key, Array | None] = field(default_factory=dict)

    @staticmethod
    def of(run: Mapping[Key, Array], exact: Mapping[Key, Array]) -> Apart:
        found = Apart(exact)
        for key, values in run.items():
            found[key] = values
        return found

    def __setitem__(self, key: Key, values: Array) -> None:
        if key not in self.exact:  # it is not judged
            self.finite[key] = None
            return
        reference = self.exact[key]
        self.distance[key] = compare.distance(values, reference, 1.0)
        self.finite[key] = compare.finite_everywhere(reference, [values])

    def __contains__(self, key: object) -> bool:
        return key in self.finite
