"""Random numbers: hashes of (step, call, element), so that they are computed again wherever they are needed.

The element's number is the sum of small tables, one a dimension: idx = sum of table[i_d] * stride_d. Every dimension
that is longer than a table is seen as two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
import torch

from golden import random_numbers
from golden.random_numbers import Numbers
from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.registry import covers
from trainlib_deployer.program.expr import Expr, apply, select
from trainlib_deployer.program.ir import DType, Role, Shape, Tensor, View
from trainlib_deployer.program.strides import row_major

TABLE = "random.index"
LONGEST = 64  # entries of the table, unless a dimension is longer and prime
KEY = "random key"


@torch.library.custom_op("trainlib::keep", mutates_args=())
def keep(step: torch.Tensor, shape: list[int], probability: float, call: int, value: float) -> torch.Tensor:
    """`value` with this probability, else 0."""
    return Numbers(int(step)).keep(shape, probability, call) * torch.tensor(value)


@keep.register_fake
def _(step: torch.Tensor, shape: list[int], probability: float, call: int, value: float) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.float32)


@torch.library.custom_op("trainlib::uniform", mutates_args=())
def uniform(step: torch.Tensor, shape: list[int], call: int) -> torch.Tensor:
    return Numbers(int(step)).uniform(shape, call).to(torch.float32)


@uniform.register_fake
def _(step: torch.Tensor, shape: list[int], call: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.float32)


@torch.library.custom_op("trainlib::integers", mutates_args=())
def integers(step: torch.Tensor, shape: list[int], call: int) -> torch.Tensor:
    return Numbers(int(step)).integers(shape, call)


@integers.register_fake
def _(step: torch.Tensor, shape: list[int], call: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.int64)


KEEP = torch.ops.trainlib.keep.default
UNIFORM = torch.ops.trainlib.uniform.default
INTEGERS = torch.ops.trainlib.integers.default


@dataclass(frozen=True)
class TracedNumbers:
    """Those of the step whose number is a tensor of the graph."""

    step: torch.Tensor

    def keep(self, shape: Sequence[int], probability: float, call: int) -> torch.Tensor:
        return KEEP(self.step, list(shape), probability, call, 1.0)  # type: ignore[no-any-return]

    def uniform(self, shape: Sequence[int], call: int) -> torch.Tensor:
        return UNIFORM(self.step, list(shape), call)  # type: ignore[no-any-return]

    def integers(self, shape: Sequence[int], call: int) -> torch.Tensor:
        return INTEGERS(self.step, list(shape), call)  # type: ignore[no-any-return]


@covers(KEEP)
def lower_keep(b: Builder, step: View, shape: list[int], probability: float, call: int, value: float) -> View:
    """A value where the upper 24 bits of a hash lie below the probability, else 0."""
    bound = int(probability * 2**24)
    return hashed(b, step, shape, call, lambda w: select(word("shr", w, 8) < bound, value, 0.0), DType.F32)


@covers(UNIFORM)
def lower_uniform(b: Builder, step: View, shape: list[int], call: int) -> View:
    """Odd multiples of 2^-24 between 0 and 1."""
    return hashed(b, step, shape, call, lambda w: apply("or", [word("shr", w, 8), 1]).float() * 2.0**-24, DType.F32)


@covers(INTEGERS)
def lower_integers(b: Builder, step: View, shape: list[int], call: int) -> View:
    """31 bits."""
    return hashed(b, step, shape, call, lambda w: word("shr", w, 1), DType.I32)


def hashed(b: Builder, step: View, shape: list[int], call: int, result: Callable[[Expr], Expr], dtype: DType) -> View:
    """What becomes of the words of golden.random_numbers.Numbers."""
    found = words(b, step, shape, call)
    body = lambda *values: result(found.word(*values))  # noqa: E731
    made = b.map(body, *found.reads, dtype=dtype, shape=found.shape, suffix="random")
    return b.reshape(made, shape)


@dataclass(frozen=True)
class Words:
    """What a loop of this shape computes them from, and how."""

    shape: Shape
    reads: tuple[View, ...]
    word: Callable[..., Expr]


def words(b: Builder, step: View, shape: Sequence[int], call: int) -> Words:
    """Those of golden.random_numbers.Numbers: the same instructions on 32 bits."""
    fine = tuple(f for e in shape for f in factors(e))
    stream = mixed(call + 1 & random_numbers.WORD)  # negative after a seed of the user's
    steps = [s for s, e in zip(row_major(fine), fine, strict=True) if e > 1]
    tables = [table(b, fine, d) for d, e in enumerate(fine) if e > 1]

    def body(key: Expr, *parts: Expr) -> Expr:
        element: Expr | None = None
        for part, stride in zip(parts, steps, strict=True):
            term = word("mul", part.cast(DType.I32), stride) if stride > 1 else part.cast(DType.I32)
            element = term if element is None else word("add", element, term)
        start = word("add", key, stream)
        return mix(start if element is None else apply("xor", [element, start]))

    return Words(fine, (step_key(b, step), *tables), body)


def factors(extent: int) -> Shape:
    """One dimension as itself or as two, none longer than a table where that is possible."""
    if extent <= LONGEST:
        return (extent,)
    inner = next(f for f in range(isqrt(extent), 0, -1) if extent % f == 0)
    return (extent,) if inner == 1 else (*factors(extent // inner), inner)


def table(b: Builder, shape: Shape, dim: int) -> View:
    """0, 1, 2, ... along one dimension; all share the numbers."""
    known = b.program.tensors.get(TABLE)
    extent = shape[dim]
    if known is None or known.numel < extent:
        name = TABLE if known is not None else b.fresh(TABLE)
        size = max(extent, known.numel if known is not None else 0)
        b.program.tensors[name] = Tensor(name, (size,), DType.I32, Role.CONSTANT)
        b.program.values[name] = np.arange(size, dtype=np.int32)
    return View(TABLE, shape, tuple(int(d == dim) for d in range(len(shape))))


def step_key(b: Builder, step: View) -> View:
    """The hash of the step number, once a step."""
    if KEY not in b.program.tensors:
        b.program.tensors[b.fresh(KEY, exact=True)] = Tensor(KEY, (), DType.I32, Role.ACTIVATION)
        into = View.whole(b.program.tensors[KEY])
        b.map(lambda s: mix(word("mul", s, 0x9E3779B9)), step, dtype=DType.I32, shape=(), into=into, suffix="key")
    return View(KEY, (), ())


def mix(x: Expr) -> Expr:
    x = word("mul", apply("xor", [x, word("shr", x, 16)]), 0x7FEB352D)
    x = word("mul", apply("xor", [x, word("shr", x, 15)]), 0x846CA68B)
    return apply("xor", [x, word("shr", x, 16)])


def mixed(value: int) -> int:
    return int(random_numbers.mix(torch.tensor(value)))


def word(op: str, x: Expr, y: Any) -> Expr:
    """An instruction on 32-bit words; literals as the signed number of the same bits."""
    if isinstance(y, int):
        y = (y + 2**31) % 2**32 - 2**31
    return x.body.add(op, DType.I32, x, y)
