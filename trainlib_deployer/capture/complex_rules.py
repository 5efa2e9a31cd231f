"""PyTorch's operations on complex tensors, in operations on their real and imaginary parts."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch.utils import _pytree as pytree

from trainlib_deployer.capture.pair import Pair, multiplied

aten = torch.ops.aten
Tensor = torch.Tensor
REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}
RULES: dict[Any, Callable[..., Any]] = {}
Rule = TypeVar("Rule", bound=Callable[..., Any])

# Moves, chooses or adds up: what happens to a complex tensor happens to its parts. Numbers among the operands are
# positions; of two tensors, both are complex.
PARTWISE = (
    *(aten.reshape, aten.view, aten._unsafe_view, aten.permute, aten.transpose, aten.t, aten.expand, aten.squeeze),
    *(aten.unsqueeze, aten.slice, aten.select, aten.index, aten.index_select, aten.gather, aten.clone, aten.alias),
    *(aten.contiguous, aten.detach, aten.lift_fresh_copy, aten.flip, aten.roll, aten.unfold, aten.slice_backward),
    *(aten.select_backward, aten.unfold_backward, aten.diagonal, aten.diagonal_backward, aten.repeat, aten.tril),
    *(aten.triu, aten.split, aten.split_with_sizes, aten.unbind, aten.chunk, aten.sum, aten.mean, aten.cumsum),
    *(aten.cat, aten.stack, aten.slice_scatter, aten.select_scatter, aten.index_put, aten.index_add),
    *(aten.scatter_add, aten.diagonal_scatter, aten.new_zeros, aten.zeros_like, aten.new_empty, aten.empty_like),
    *(aten.reflection_pad1d, aten.replication_pad1d, aten.reflection_pad2d, aten.replication_pad2d, aten.as_strided),
    *(aten.reflection_pad1d_backward, aten.replication_pad1d_backward, aten.scatter, aten.index_copy, aten.take),
    *(aten._unsafe_index, aten._unsafe_index_put, aten.narrow, aten.diag_embed),
    *(aten.replication_pad2d_backward, aten.reflection_pad2d_backward, aten.unsafe_split),
    aten.put,
)  # fmt: skip
SAME = (aten.resolve_conj.default, aten.resolve_neg.default)


class NoRule(Exception):
    """An operation of complex tensors that nothing is known about."""


def rule(*targets: Any) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(targets, function))
        return function

    return register


def rule_for(target: Any) -> Callable[..., Any] | None:
    packet = getattr(target, "overloadpacket", None)
    if target in RULES or packet not in PARTWISE:
        return RULES.get(target)
    return lambda *args, **kwargs: partwise(target, args, kwargs)


def is_pair(value: Any) -> bool:
    return isinstance(value, Pair)


def leaves(values: Any) -> list[Any]:
    return pytree.tree_leaves(values, is_leaf=is_pair)


def partwise(target: Any, args: Any, kwargs: Any) -> Any:
    """The operation on the real parts, and on the imaginary ones. Both are there, unless none has an imaginary one."""
    kwargs = {k: REAL.get(v, v) if isinstance(v, torch.dtype) else v for k, v in kwargs.items()}
    pairs = [v for v in leaves((args, kwargs)) if is_pair(v)]
    real = all(p.im is None for p in pairs)

    def side(number: int) -> Any:
        def pick(value: Any) -> Any:
            if is_pair(value):
                return value.re if real else value.parts()[number]
            floats = isinstance(value, Tensor) and value.is_floating_point()
            return torch.zeros_like(value) if floats and number else value

        given, named = pytree.tree_map(pick, (args, kwargs), is_leaf=is_pair)
        return target(*given, **named)

    first = side(0)
    if isinstance(first, Tensor):
        return Pair(first, None if real else side(1))
    second = [None] * len(first) if real else side(1)
    return tuple(Pair(*both) for both in zip(first, second, strict=True))


# ---- from and to real tensors


@rule(aten.view_as_complex.default)
def view_as_complex(x: Tensor) -> Pair:
    return Pair(x.select(-1, 0), x.select(-1, 1))


def of_one_part(part: Tensor, which: int) -> Pair:
    """A real part, or an imaginary one; the other is zero."""
    return Pair(None, part) if which else Pair(part, None)


@rule(aten.view_as_real.default)
def view_as_real(x: Pair) -> Tensor:
    return torch.stack(x.parts(), -1)


@rule(aten.complex.default)
def complex_(re: Tensor, im: Tensor) -> Pair:
    return Pair(re, None) + Pair(None, im)


@rule(aten.polar.default)
def polar(length: Tensor, angle: Tensor) -> Pair:
    return Pair(length * torch.cos(angle), length * torch.sin(angle))


@rule(aten._to_copy.default, aten.to.dtype)
def to_copy(x: Any, dtype: torch.dtype | None = None, **_: Any) -> Any:
    """To a complex type, or back to the real part."""
    x = Pair.of(x)
    wanted = REAL.get(dtype, dtype) if dtype is not None else None
    if dtype is torch.complex32:
        raise NoRule
    if dtype is None or dtype in REAL:
        return x if wanted is None else x.map(lambda p: p.to(wanted))
    return x.parts()[0].to(wanted)


@rule(aten.copy.default)
def copy(into: Any, x: Any, *_: Any) -> Any:
    """What is written, in the shape of what it is written into."""
    if not is_pair(into):
        return aten.copy.default(into, x.parts()[0])
    return Pair.of(x).map(lambda p: p.expand_as(into.like))


@rule(*SAME)
def same(x: Any) -> Any:
    return x


@rule(aten.full.default, aten.full_like.default, aten.new_full.default, aten.scalar_tensor.default)
def full(*args: Any, **_: Any) -> Pair:
    """full(shape, value), full_like(x, value), new_full(x, shape, value), scalar_tensor(value)."""
    like = next((a.like if is_pair(a) else a for a in args if is_pair(a) or isinstance(a, Tensor)), None)
    shape = next((a for a in args if isinstance(a, list | tuple)), () if like is None else like.shape)
    value = Pair.of(args[-1])
    return Pair(*(None if p is None else torch.full(tuple(shape), float(p)) for p in (value.re or 0.0, value.im)))


@rule(aten.zeros.default, aten.empty.memory_format, aten.empty_strided.default)
def zeros(shape: Sequence[int], *_: Any, **__: Any) -> Pair:
    return Pair(torch.zeros(tuple(shape)), None)


@rule(aten.new_empty_strided.default)
def new_zeros(_: Any, shape: Sequence[int], *__: Any, **___: Any) -> Pair:
    return zeros(shape)


@rule(aten.ones.default)
def ones(shape: Sequence[int], **_: Any) -> Pair:
    return Pair(torch.ones(tuple(shape)), None)


@rule(aten.ones_like.default)
def ones_like(x: Pair, **_: Any) -> Pair:
    return Pair(torch.ones_like(x.like), None)


@rule(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(x: Any, mask: Tensor, value: Any) -> Pair:
    (re, im), value = Pair.of(x).parts(), Pair.of(value)
    return Pair(*(p.masked_fill(mask, 0.0 if v is None else v) for p, v in ((re, value.re), (im, value.im))))


@rule(aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar)
def where(condition: Tensor, yes: Any, no: Any) -> Pair:
    pairs = [Pair.of(v) for v in (yes, no)]
    re, im = zip(*(p.parts() for p in pairs), strict=True)
    real = all(p.im is None for p in pairs)
    return Pair(torch.where(condition, *re), None if real else torch.where(condition, *im))


@rule(aten.scatter.value)
def scatter_value(x: Any, dim: int, places: Tensor, value: Any) -> Pair:
    return Pair(*(p.scatter(dim, places, v) for p, v in zip(Pair.of(x).parts(), Pair.of(value).parts(), strict=True)))


@rule(aten.constant_pad_nd.default)
def constant_pad(x: Pair, pad: Sequence[int], value: Any = 0) -> Pair:
    value = Pair.of(value)
    re, im = x.parts()
    return Pair(*(aten.constant_pad_nd(p, pad, v or 0.0) for p, v in ((re, value.re), (im, value.im))))


@rule(operator.getitem)
def getitem(values: Sequence[Pair], place: int) -> Pair:
    return values[place]


# ---- arithmetic


@rule(aten.add.Tensor, aten.add.Scalar)
def add(x: Any, y: Any, alpha: Any = 1) -> Pair:
    return Pair.of(x) + Pair.of(y) * Pair.of(alpha)


@rule(aten.sub.Tensor, aten.sub.Scalar)
def sub(x: Any, y: Any, alpha: Any = 1) -> Pair:
    return Pair.of(x) - Pair.of(y) * Pair.of(alpha)


@rule(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(x: Any, y: Any, alpha: Any = 1) -> Pair:
    return sub(y, x, alpha)


@rule(aten.mul.Tensor, aten.mul.Scalar)
def mul(x: Any, y: Any) -> Pair:
    return Pair.of(x) * Pair.of(y)


@rule(aten.div.Tensor, aten.div.Scalar)
def div(x: Any, y: Any) -> Pair:
    return Pair.of(x) / Pair.of(y)


@rule(aten.addcmul.default)
def addcmul(x: Any, y: Any, z: Any, value: Any = 1) -> Pair:
    return add(x, Pair.of(y) * z, value)


@rule(aten.addcdiv.default)
def addcdiv(x: Any, y: Any, z: Any, value: Any = 1) -> Pair:
    return add(x, Pair.of(y) / z, value)


@rule(aten.reciprocal.default)
def reciprocal(x: Pair) -> Pair:
    return Pair.of(1.0) / x


@rule(aten.neg.default, aten._neg_view.default)
def neg(x: Pair) -> Pair:
    return -x


@rule(aten._conj.default, aten._conj_physical.default, aten.conj_physical.default)
def conj(x: Any) -> Pair:
    return Pair.of(x).conj()


@rule(aten.abs.default)
def absolute(x: Pair) -> Tensor:
    return x.abs()


@rule(aten.angle.default)
def angle(x: Pair) -> Tensor:
    return x.angle()


@rule(aten.sgn.default)
def sgn(x: Pair) -> Pair:
    """x / |x|, and 0 where x is."""
    length = x.abs()
    return x / torch.where(length == 0, 1.0, length)


@rule(aten.eq.Tensor, aten.eq.Scalar)
def eq(x: Any, y: Any) -> Tensor:
    difference = Pair.of(x) - y
    re, im = difference.parts()
    return torch.eq(re, 0) & torch.eq(im, 0)


@rule(aten.ne.Tensor, aten.ne.Scalar)
def ne(x: Any, y: Any) -> Tensor:
    return ~eq(x, y)


@rule(aten.linalg_vector_norm.default)
def vector_norm(x: Pair, *args: Any, **kwargs: Any) -> Tensor:
    named = {k: REAL.get(v, v) if isinstance(v, torch.dtype) else v for k, v in kwargs.items()}
    return aten.linalg_vector_norm.default(x.abs(), *args, **named)  # type: ignore[no-any-return]


@rule(aten.mm.default, aten.bmm.default, aten.mv.default, aten.dot.default)
def product(x: Any, y: Any) -> Pair:
    return multiplied(Pair.of(x), Pair.of(y), torch.matmul)


@rule(aten.vdot.default)
def vdot(x: Pair, y: Pair) -> Pair:
    return product(Pair.of(x).conj(), y)


@rule(aten.addmm.default, aten.baddbmm.default, aten.addmv.default)
def addmm(init: Any, x: Any, y: Any, beta: Any = 1, alpha: Any = 1) -> Pair:
    return Pair.of(init) * Pair.of(beta) + product(x, y) * Pair.of(alpha)
