"""Discrete Fourier transforms as products with small constant matrices, on the real and the imaginary part apart.

    X[k] = sum over j of x[j] w^(j k),  w = exp(+-2 pi i / n)

A length n = a b is done in two stages. With j = b j1 + j2 and k = k1 + a k2

    X[k1 + a k2] = sum over j2 of w_b^(j2 k2) w_n^(j2 k1) (sum over j1 of w_a^(j1 k1) x[b j1 + j2])

so n (a + b) products take the place of n n, and three operations that of one. Only what is there is read (values that
follow are zero) and only what is wanted is made: transforms of real numbers, and the way back, take half of the work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

Tensor = torch.Tensor
DIRECT = 32  # a length up to this is one product
LARGEST = 64  # of a stage: more stages would move more than they save
EXACT = 1e-12  # sines and cosines below it are zeros


@dataclass(frozen=True)
class Fourier:
    """A transform along the last dimension."""

    n: int
    sign: int  # of the exponent: -1 forward, 1 backward
    keep: int  # the first so many results
    real: bool = False  # their real parts alone
    scale: float = 1.0

    @cached_property
    def factors(self) -> tuple[int, int]:
        """n = a b, as equal as can be. An even b leaves the result of real numbers at k = n / 2 exactly real."""
        if self.n <= DIRECT:
            return 1, self.n
        pairs = [(a, self.n // a) for a in range(1, self.n + 1) if self.n % a == 0]
        even = [(a, b) for a, b in pairs if self.n % 2 or b % 2 == 0]
        return min(even, key=lambda p: (sum(p), p[1]))

    def __call__(self, re: Tensor, im: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Of x [..., m], m <= n; without an imaginary part, x is real. Rows are transformed one by one."""
        lead = re.shape[:-1]
        rows = [p.reshape(-1, p.shape[-1]) for p in (re, im) if p is not None]
        found = self.direct(rows) if 1 in self.factors else self.staged(rows)
        parts = [p.reshape(*lead, self.keep) for p in found]
        return parts[0], None if self.real else parts[1]

    def direct(self, rows: Sequence[Tensor]) -> list[Tensor]:
        """[rows, m] times [m, 2 keep]."""
        count = rows[0].shape[-1]
        made = product_sum(rows, self.columns(table(count, self.keep, self.n, self.sign), self.scale))
        return list(split(made, 1, self.keep).unbind(1))

    def staged(self, rows: Sequence[Tensor]) -> list[Tensor]:
        a, b = self.factors
        used = -(-rows[0].shape[-1] // b)
        grid = [split(padded(p, used * b), 1, b).transpose(1, 2) for p in rows]  # [rows, j2, j1]
        first = replace(self, n=a, keep=a, real=False)
        columns = first.columns(table(used, a, a, self.sign), self.scale)
        inner = split(product_sum(grid, columns), 2, a)  # [rows, j2, part, k1]
        turned = self.turned(inner, table(b, a, self.n, self.sign))
        last = replace(self, n=b, keep=-(-self.keep // a), scale=1.0)
        if b > LARGEST and 1 not in last.factors:
            return self.joined(last(*(p.transpose(1, 2) for p in turned.unbind(2))), transposed=True)
        left = last.columns(table(b, last.keep, b, self.sign), 1.0)  # two of [j2, (part, k2)]
        together = torch.stack(left, 1).flatten(0, 1).transpose(0, 1)  # [(part, k2), (j2, part)]
        made = torch.bmm(together.expand(len(turned), *together.shape), turned.flatten(1, 2))
        return self.joined(split(made, 1, last.keep).unbind(1))

    def joined(self, parts: Sequence[Tensor | None], transposed: bool = False) -> list[Tensor]:
        """X[k1 + a k2] from [rows, k2, k1], or from [rows, k1, k2]."""
        found = [p.transpose(1, 2) if transposed else p for p in parts if p is not None]
        return [p.flatten(1)[:, : self.keep] for p in found]

    def turned(self, parts: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        """[rows, j2, part, k1] times w_n^(j2 k1)."""
        (re, im), (cos, sin) = parts.unbind(2), angles
        return torch.stack([re * cos - im * sin, re * sin + im * cos], 2)

    def columns(self, angles: tuple[Tensor, Tensor], scale: float) -> list[Tensor]:
        """What the real and the imaginary part are multiplied by: [m, (part of the result, k)]."""
        cos, sin = (t * scale for t in angles) if scale != 1.0 else angles
        return [cos, -sin] if self.real else [torch.cat([cos, sin], 1), torch.cat([-sin, cos], 1)]


def product_sum(parts: Sequence[Tensor], matrices: Sequence[Tensor]) -> Tensor:
    """Each part times its matrix, added up; a real input has one part only."""
    if parts[0].dim() == 2:
        made = torch.mm(parts[0], matrices[0])
        return torch.addmm(made, parts[1], matrices[1]) if len(parts) > 1 else made
    batch = len(parts[0])
    every = [m.expand(batch, *m.shape) for m in matrices]
    made = torch.bmm(parts[0], every[0])
    return torch.baddbmm(made, parts[1], every[1]) if len(parts) > 1 else made


def table(rows: int, columns: int, n: int, sign: int) -> tuple[Tensor, Tensor]:
    """cos and sin of +-2 pi j k / n, exact where they are 0: what is real in PyTorch stays real."""
    turns = (torch.arange(rows).unsqueeze(1) * torch.arange(columns)) % n
    angles = turns.to(torch.float64) * (2 * math.pi / n)
    cos, sin = torch.cos(angles), torch.sin(angles) * sign
    return exact(cos), exact(sin)


def exact(values: Tensor) -> Tensor:
    return torch.where(values.abs() < EXACT, 0.0, values).to(torch.float32)


def split(x: Tensor, dim: int, inner: int) -> Tensor:
    """One dimension as two."""
    return x.reshape(*x.shape[:dim], -1, inner, *x.shape[dim + 1 :])


def padded(rows: Tensor, length: int) -> Tensor:
    missing = length - rows.shape[1]
    return torch.nn.functional.pad(rows, (0, missing)) if missing else rows
