"""Another correct implementation of float32, for want of a program: PyTorch with its sums in other orders.

Nothing here is made up of chance but the order: every sum is taken in plain float32, term by term or part by part;
norms and softmax are taken apart; a division is a product with the reciprocal.
"""

from __future__ import annotations

import random
from typing import Any

import torch
from torch._decomp import get_decompositions
from torch.utils._python_dispatch import TorchDispatchMode

from golden.rounding import COMPOSED

aten = torch.ops.aten
LONGEST = 40  # more terms than this are summed in so many parts, one after the other


class Reordered(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.rng = random.Random(seed)
        self.steps = get_decompositions([getattr(aten, n) for n in COMPOSED if hasattr(aten, n)])

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        single = [a for a in args if isinstance(a, torch.Tensor)]
        if not single or single[0].dtype is not torch.float32:
            return func(*args, **kwargs)
        if func in self.steps:
            with self:
                return self.steps[func](*args, **kwargs)
        name = func._schema.name.partition("::")[2]
        own = getattr(self, name, None)
        return own(func, *args, **kwargs) if own else func(*args, **kwargs)

    def parts(self, count: int) -> list[list[int]]:
        """The numbers below `count` in some order, and in so many parts."""
        order = list(range(count))
        self.rng.choice((lambda o: None, self.rng.shuffle, list.reverse))(order)
        most = min(count, self.rng.choice((4, LONGEST)))
        return [order[i::most] for i in range(most)]

    def product(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        total = None
        for p in self.parts(a.shape[-1]):
            part = torch.matmul(a[..., p], b[..., p, :])
            total = part if total is None else total + part
        return a @ b if total is None else total

    def mm(self, func: Any, a: Any, b: Any) -> Any:
        return self.product(a, b)

    def bmm(self, func: Any, a: Any, b: Any) -> Any:
        return self.product(a, b)

    def addmm(self, func: Any, c: Any, a: Any, b: Any, **scales: Any) -> Any:
        return func(c, a, b, **scales) if scales else self.product(a, b) + c

    def convolution(self, func: Any, x: Any, w: Any, bias: Any, *rest: Any) -> Any:
        total = None
        for mask in self.masks(w):
            part = func(x, w * mask, None, *rest)
            total = part if total is None else total + part
        return total if bias is None else total + bias.view(-1, *[1] * (x.dim() - 2))

    def convolution_backward(self, func: Any, dy: Any, *rest: Any) -> Any:
        total: list[Any] = [None, None, None]
        for mask in self.masks(dy):
            found = func(dy * mask, *rest)
            total = [f if t is None or f is None else t + f for t, f in zip(total, found, strict=True)]
        return tuple(total)

    def masks(self, t: torch.Tensor) -> list[torch.Tensor]:
        """They add up to one, so that a linear function of t is a sum over them."""
        most = self.rng.randint(2, 6)
        chosen = torch.randint(most, t.shape, generator=torch.Generator().manual_seed(self.rng.getrandbits(30)))
        return [(chosen == i).to(t.dtype) for i in range(most)]

    def sum(self, func: Any, x: Any, dims: Any = None, keepdim: bool = False, **kwargs: Any) -> Any:
        dims = [d % max(x.dim(), 1) for d in (dims or range(x.dim()))]
        if not dims:
            return func(x, **kwargs)
        kept = [d for d in range(x.dim()) if d not in dims]
        rows = x.permute(*dims, *kept).reshape(-1, *[x.shape[d] for d in kept])
        total = torch.zeros(rows.shape[1:])
        for p in self.parts(len(rows)):
            for i in p if len(p) < LONGEST else [p]:
                total = total + (rows[i] if isinstance(i, int) else rows[i].sum(0))
        return total.reshape([1 if d in dims else n for d, n in enumerate(x.shape)]) if keepdim else total

    def mean(self, func: Any, x: Any, dims: Any = None, keepdim: bool = False, **kwargs: Any) -> Any:
        total = self.sum(aten.sum, x, dims, keepdim)
        return total * (1.0 / (x.numel() // max(1, total.numel())))

    def var_mean(
        self, func: Any, x: Any, dims: Any = None, unbiased: Any = None, keepdim: bool = False, correction: Any = None
    ) -> Any:
        if correction is None:
            correction = 1 if unbiased is None else int(unbiased)
        mean = self.mean(None, x, dims, True)
        count = x.numel() // max(1, mean.numel())
        var = self.sum(aten.sum, (x - mean).square(), dims, keepdim) * (1.0 / (count - correction))
        return var, mean if keepdim else mean.reshape(var.shape)

    def div(self, func: Any, x: Any, y: Any, **kwargs: Any) -> Any:
        if kwargs or not isinstance(y, torch.Tensor) or y.numel() >= x.numel():
            return func(x, y, **kwargs)
        return x * y.reciprocal()
