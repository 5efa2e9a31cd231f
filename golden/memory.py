"""What a program of mixed precision has had in memory: the reference goes on with it.

Two runs that round to halves go apart: a ReLU next to its corner takes the other branch, a norm divides by what little
is left, and deep below no gradient tells a factor of 1.05 from that. So each tensor that an operation of PyTorch makes
is looked for among those that the program has made in this step. If one points the same way, but for what few roundings
do, PyTorch goes on with that one, in the size of its own. Each operation is thus held against what PyTorch makes of the
operands that the program had. A tensor which is not what it should be is not found, and one that is too large by a
factor is not followed in that: either shows in everything that is made of it.

Tensors are told by their values alone, so the reference knows nothing of how a program is planned or fused. What a
program never has whole in memory is PyTorch's own, made of what comes before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch

from golden.half import HALF, Half
from golden.mode import among_ourselves

Array = np.ndarray[Any, Any]

NEAR = HALF.granted / 2  # relative: four unit roundoffs of a half
BEYOND = 0.05  # of all elements: where large terms cancel, roundings of these show
BY_CHANCE = 2  # elements that are not zero: of hundreds of tensors one has their direction, but not their size as well
KEPT = 2**19  # elements of a step whose directions and doubles are kept
ALIKE = 1e-5  # cosines that floats do not tell apart


@dataclass(frozen=True)
class Memory:
    """By step, tensors that come and go, each as it was when it was whole."""

    steps: Mapping[int, Sequence[Array]] = field(default_factory=dict)
    known: dict[int, dict[int, Same]] = field(default_factory=dict, compare=False)

    def of(self, step: int | None, half: Half = HALF) -> Found:
        """All runs of the reference look for the same ones: what does not take much is kept from one to the next."""
        arrays = () if step is None else self.steps.get(step, ())
        if step is None or step not in self.known:
            by_size: dict[int, list[Array]] = {}
            for values in arrays:
                by_size.setdefault(values.size, []).append(values)
            found = {size: Same(different(alike)) for size, alike in by_size.items()}
            if step is None or sum(values.size for values in arrays) > KEPT:
                return Found(found, half)
            self.known[step] = found
        return Found(self.known[step], half)


EMPTY = Memory()


@dataclass(frozen=True)
class Same:
    """Tensors of so many elements."""

    arrays: Sequence[Array]
    doubles: dict[int, torch.Tensor] = field(default_factory=dict, compare=False)

    def double(self, at: int) -> torch.Tensor:
        """In double precision; kept where there are not many elements."""
        found = self.doubles.get(at)
        if found is None:
            found = torch.from_numpy(np.array(self.arrays[at], np.float64)).reshape(-1)
            if found.numel() * len(self.arrays) <= KEPT:
                self.doubles[at] = found
        return found

    @cached_property
    def directions(self) -> torch.Tensor:
        """Each with a length of one; zero where that is not possible."""
        rows = torch.stack([torch.from_numpy(np.array(a, np.float32)).reshape(-1) for a in self.arrays])
        rows = torch.where(rows.isfinite().all(1, keepdim=True), rows, 0.0)
        return torch.nn.functional.normalize(rows, dim=1, eps=1e-30)

    def near(self, value: torch.Tensor, within: float = NEAR) -> torch.Tensor:
        """Those of which one may point the same way, one a row."""
        direction = torch.nn.functional.normalize(value.float(), dim=0, eps=1e-30)
        cosines = self.directions @ direction
        best = float(cosines.max())
        alike = (cosines > best - ALIKE).nonzero().reshape(-1).tolist() if 1 - best < within**2 + ALIKE else ()
        return torch.stack([self.double(at) for at in alike]) if alike else torch.empty((0, value.numel())).double()


@dataclass(frozen=True)
class Found:
    """Of one step, by the number of elements."""

    tensors: Mapping[int, Same] = field(default_factory=dict)
    half: Half = HALF

    @property
    def within(self) -> float:
        return self.half.granted / 2

    def follow(self, made: Any) -> bool:
        """Write into a tensor what the program had, if it is there. Whether that was the tensor itself, as halves: then
        it is not rounded again, which in a size that is off by roundings would make other halves of some."""
        if not isinstance(made, torch.Tensor) or made.layout is not torch.strided or not made.is_floating_point():
            return False
        same = self.tensors.get(made.numel())
        if same is None or repeats(made) or made.numel() == 1:  # one number has no direction
            return False
        with among_ourselves():
            own = made.detach().double().reshape(-1)
            if not 0.0 < float(own @ own) < np.inf:
                return False
            others = same.near(own, self.within)
        if not len(others):
            return False
        sizes = others @ own / (own @ own)  # as runs that are off by roundings have it
        with among_ourselves():
            return self.gone_on(made, own, others, sizes)

    def gone_on(self, made: torch.Tensor, own: torch.Tensor, others: torch.Tensor, sizes: torch.Tensor) -> bool:
        """`own`: what `made` has; `others`: what the program had, each so many times as large."""
        itself = (sizes - 1.0).abs() <= self.within  # what it is a multiple of is nearer than its own halves
        choices = [(itself, True)]
        if int(own.count_nonzero()) > BY_CHANCE:
            choices.append((sizes > 0.0, False))
        for chosen, is_it in choices:
            ways = others[chosen] / sizes[chosen].unsqueeze(1)
            if not len(ways):
                continue
            at = (ways - own).norm(dim=1).argmin()
            if relative(ways[at], own) <= self.within and self.rounded(ways[at], own):
                had = others[chosen][at]
                made.copy_((had if self.same(had, own) else ways[at]).reshape(made.shape))
                return is_it and torch.equal(self.half.rounded(had).double(), had)
        return False

    def same(self, value: torch.Tensor, own: torch.Tensor) -> bool:
        """Whether nearly all elements, of those that are something, are the same halves. No factor has been at work
        then, and in any other size nothing would be left of 1 - p where p is next to 1."""
        return int((self.half.rounded(value) != self.half.rounded(own)).sum()) <= BEYOND * int((own != 0).sum())

    def rounded(self, value: torch.Tensor, own: torch.Tensor) -> bool:
        """Whether nearly every element is what two roundings may make of it, beside what sums of many are off by. One
        may lie next to a corner."""
        allowed = self.within / 2 * own.abs() + self.within / 20 * own.square().mean().sqrt()
        return int(((value - own).abs() > allowed).sum()) <= 1 + BEYOND * own.numel()


def different(arrays: Sequence[Array]) -> list[Array]:
    """Without copies: none of them is nearer than the first."""
    return list({(a.dtype, a.tobytes()): a for a in reversed(arrays)}.values())[::-1]


def repeats(value: torch.Tensor) -> bool:
    """Whether some elements lie in the same place."""
    return any(s == 0 and e > 1 for s, e in zip(value.stride(), value.shape, strict=True))


def relative(value: torch.Tensor, reference: torch.Tensor) -> float:
    return float((value - reference).norm() / reference.norm())
