"""Files of examples, as tl_examples.h says: a header, then one example behind the other: rows of inputs and target."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import torch
from torch.utils import _pytree as pytree

Array = np.ndarray[Any, Any]
MAGIC, VERSION = b"TLDS", 1
HEADER = struct.Struct(
    "<4s7I"
)  # magic, version, layout, layout, bytes of an example, examples, their checksum, its own
OWN = struct.Struct("<I")
MOST_BYTES = 2**31 - 1  # that a chip can count
KINDS = {torch.float32: "<f4", torch.bool: "|u1", torch.uint8: "|u1"}  # anything else is handed over in 32 bits


class NoExamples(ValueError):
    """Why a file holds no examples of this network, in words that follow its name."""


@dataclass(frozen=True)
class Field:
    """One input or target."""

    role: str
    kind: str  # as NumPy says it
    shape: tuple[int, ...]  # of one example

    @property
    def words(self) -> str:
        kind = "" if self.kind == "<f4" else np.dtype(self.kind).name
        return " ".join(filter(None, ("x".join(map(str, self.shape)), kind))) or "float32"

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * np.dtype(self.kind).itemsize


@dataclass(frozen=True)
class Layout:
    """What an example consists of, and how many of them a step takes: a sample."""

    fields: tuple[Field, ...]
    batch: int
    by_row: bool = True  # if not, an example is all that a step takes

    @staticmethod
    def of(inputs: Any, target: Any, by_row: bool = True) -> Layout:
        """Of a sample. Where its rows are no examples, or its tensors differ in their first extent, it is one."""
        given = [("input", t) for t in leaves(inputs)] + [("target", t) for t in leaves(target)]
        extents = {t.shape[0] if t.dim() else None for _, t in given}
        extent = extents.pop() if by_row and len(extents) == 1 else None
        shapes = [tuple(t.shape if extent is None else t.shape[1:]) for _, t in given]
        fields = [Field(role, KINDS.get(t.dtype, "<i4"), s) for (role, t), s in zip(given, shapes, strict=True)]
        return Layout(tuple(fields), extent or 1, extent is not None)

    @property
    def words(self) -> str:
        """What an example is: "input 3x8x8, target int32"."""
        return ", ".join(f"{f.role} {f.words}" for f in self.fields)

    @property
    def nbytes(self) -> int:
        return sum(f.nbytes for f in self.fields)

    @cached_property
    def digest(self) -> tuple[int, int]:
        lines = "".join(f"{f.role} {f.kind} {'x'.join(map(str, f.shape))}\n" for f in self.fields)
        words = np.frombuffer(hashlib.sha256(lines.encode()).digest()[:8], "<u4")
        return int(words[0]), int(words[1])

    def header(self, count: int, checksum: int) -> bytes:
        own = HEADER.pack(MAGIC, VERSION, *self.digest, self.nbytes, count, checksum, 0)[: -OWN.size]
        return own + OWN.pack(crc32(own))


def leaves(value: Any) -> list[torch.Tensor]:
    return [t for t in pytree.tree_leaves(opened(value)) if isinstance(t, torch.Tensor)]


def opened(value: Any) -> Any:
    """A record of the user's, in which PyTorch sees no tensors, as a dictionary of its fields."""
    if isinstance(value, dict):
        return {k: opened(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [opened(v) for v in value]
    if is_dataclass(value) and not isinstance(value, type) and type(value) not in pytree.SUPPORTED_NODES:
        return {f.name: opened(getattr(value, f.name)) for f in fields(value)}
    return value


@dataclass(frozen=True)
class Examples:
    """All of a file."""

    layout: Layout
    rows: Array  # count x bytes of an example

    @staticmethod
    def read(path: Path, layout: Layout) -> Examples:
        data = np.fromfile(path, np.uint8)
        fault = fault_of(data.tobytes(), layout)
        if fault:
            raise NoExamples(fault)
        return Examples(layout, data[HEADER.size :].reshape(-1, layout.nbytes))

    def __len__(self) -> int:
        return len(self.rows)

    def sample(self, like: tuple[Any, Any], numbers: Sequence[int]) -> tuple[Any, Any]:
        """These examples as what a step takes, with the structure and the types of `like`."""
        chosen, start, found = self.rows[list(numbers)], 0, []
        for field, t in zip(self.layout.fields, leaves(like), strict=True):
            part = np.ascontiguousarray(chosen[:, start : start + field.nbytes]).view(field.kind)
            found.append(torch.from_numpy(part.reshape(tuple(t.shape))).to(t.dtype))
            start += field.nbytes
        fresh = iter(found)
        pair: tuple[Any, Any] = pytree.tree_map(lambda v: next(fresh) if isinstance(v, torch.Tensor) else v, like)
        return pair


def fault_of(data: bytes, layout: Layout) -> str:
    """What is wrong with a file; nothing where it is fine."""
    if data[:4] != MAGIC or len(data) < HEADER.size:
        return "holds no examples"
    _, version, *digest, nbytes, count, checksum, own = HEADER.unpack_from(data)
    if version != VERSION:
        return "was written by another version of trainlib-deploy"
    if own != crc32(data[: HEADER.size - OWN.size]):
        return "is damaged"
    if tuple(digest) != layout.digest or nbytes != layout.nbytes:
        return "was written for inputs and targets of other shapes or types"
    if len(data) != HEADER.size + count * nbytes or checksum != crc32(data[HEADER.size :]):
        return "is damaged"
    return "has fewer examples than a step takes" if count < layout.batch else ""
