"""What lies in memory before the first step, and the samples and references of the verification run: binary files, and
the variables of C that take their contents from them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from golden.examples import leaves
from golden.sketch import SUMS, UNCHECKED, Key, Sketch
from trainlib_deployer.emit.names import comment, quoted
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.program.ir import DType, Role, Tensor
from trainlib_deployer.user.model import UserModel

Array = np.ndarray[Any, Any]
WIDTH = 100
SKETCH = np.dtype([("sums", "<i8", SUMS), ("limit", "<f4"), ("exponent", "<i4")])  # tl_sketch of tl_check.h
REFERENCE = "reference"  # the sketches' name in data.bin
GIVEN = (Role.INPUT, Role.TARGET)  # whoever calls a step writes them first


@dataclass
class Binary:
    """A file under construction."""

    name: str
    parts: list[Array] = field(default_factory=list)
    size: int = 0
    places: dict[str, int] = field(default_factory=dict)  # where things with a name begin

    def add(self, values: Array, what: str = "", name: str = "") -> list[str]:
        """The lines that put these bytes into a variable; zeros need no file."""
        flat = np.ascontiguousarray(values).reshape(-1)
        head = comment_lines(what)
        if not flat.view(np.uint8).any():
            return [*head, *zeros(flat.nbytes)]
        start, self.size = self.size, self.size + flat.nbytes
        self.parts.append(flat)
        if name:
            self.places[name] = start
        return [*head, f'TL_PART("{self.name}", {flat.nbytes})']

    def write(self, folder: Path) -> None:
        with (folder / self.name).open("wb") as file:
            for part in self.parts:
                file.write(part.data)


def zeros(count: int) -> list[str]:
    return [f"TL_ZERO({count})"] if count else []


def comment_lines(text: str) -> list[str]:
    """A comment, broken where the text is longer than a line."""
    if not text:
        return []
    return textwrap.wrap(f"/* {comment(text)} */", WIDTH, subsequent_indent="   ")


def string_lines(text: str) -> list[str]:
    """A C string; where it is longer than a line, in several pieces, in parentheses: clang suspects a comma between
    them otherwise."""
    pieces = [f'"{quoted(text[i : i + WIDTH // 2])}"' for i in range(0, len(text), WIDTH // 2)] or ['""']
    return pieces if len(pieces) == 1 else [f"({pieces[0]}", *pieces[1:-1], f"{pieces[-1]})"]


@dataclass(frozen=True)
class Kept:
    """A tensor that lives from step to step, and what it holds before the first one."""

    name: str
    offset: int
    values: Array


def kept_in(plan: Plan, level: str) -> list[Kept]:
    tensors = plan.program.tensors
    found = [(b, tensors[b.name]) for b in plan.buffers if b.level == level and b.name in tensors]
    return [Kept(t.name, b.offset, initial_values(plan, t)) for b, t in found if t.role.persistent and t.numel]


def contents_context(kept: Sequence[Kept], size: int, binary: Binary) -> dict[str, Any]:
    """What the templates of initial contents say of a level."""
    return {"contents": contents(kept, size, binary), "parts": stored_parts(kept, size)}


def contents(kept: Sequence[Kept], size: int, binary: Binary) -> list[str]:
    """All persistent tensors of a level, each where it is planned."""
    lines: list[str] = []
    end = 0
    for k in sorted(kept, key=lambda k: k.offset):
        assert k.offset >= end, "persistent tensors lie apart"
        what = f"{k.name} {'x'.join(map(str, k.values.shape))}"
        lines += zeros(k.offset - end) + binary.add(k.values, what, k.name)
        end = k.offset + k.values.nbytes
    return lines + zeros(size - end)


def stored_parts(kept: Sequence[Kept], size: int) -> list[tuple[int, int, bool]]:
    """The same as stretches: bytes from the beginning, how many, and whether the file has them or they are zeros."""
    found: list[tuple[int, int, bool]] = []
    end = 0
    for k in sorted(kept, key=lambda k: k.offset):
        there = bool(k.values.reshape(-1).view(np.uint8).any())
        found += [(end, k.offset - end, False), (k.offset, k.values.nbytes, there)]
        end = k.offset + k.values.nbytes
    return [part for part in (*found, (end, size - end, False)) if part[1]]


def initial_values(plan: Plan, t: Tensor) -> Array:
    if t.role in GIVEN:
        return np.zeros(t.shape, t.dtype.numpy_name)
    return np.asarray(plan.program.values[t.name]).astype(t.dtype.numpy_name, copy=False)


def samples(user: UserModel, t: Tensor, index: int, binary: Binary) -> list[str]:
    """The values of an input or target over the samples of the verification run."""
    side = int(t.role is Role.TARGET)
    values = [np.asarray(leaves(sample[side])[index].detach()) for sample in user.samples]
    return binary.add(np.stack(values).astype(t.dtype.numpy_name, copy=False))


def reference_steps(found: Mapping[Key, Sketch]) -> int:
    return 1 + max(step for step, _, _ in found)


def references(found: Mapping[Key, Sketch], order: Sequence[tuple[str, str, DType]]) -> Array:
    """Step by step and tensor (kind, name, type) by tensor; what a step does not compute is not checked."""
    steps = reference_steps(found)
    rows = np.zeros((steps, len(order)), SKETCH)
    for step in range(steps):
        for i, (kind, name, dtype) in enumerate(order):
            known = found.get((step, kind, name), UNCHECKED) if dtype.calculated is DType.F32 else UNCHECKED
            rows[step, i] = (known.sums, known.limit, known.exponent)
    return rows
