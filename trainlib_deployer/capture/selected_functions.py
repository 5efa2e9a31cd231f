"""What functions make of rows that a mask selects: of each row by itself, or of all that are selected."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import torch
from torch.utils import _pytree as pytree

from trainlib_deployer.capture import selected
from trainlib_deployer.capture.selected import UNSELECTED, Selected, one_mask, refused

Tensor = torch.Tensor
Call = Callable[..., Any]

ALWAYS = frozenset(  # of each element, defined for all numbers
    "abs absolute add and bitwise_and bitwise_not bitwise_or bool clamp clamp_max clamp_min clip clone contiguous "
    "cos cosh detach elu eq erf exp expm1 float ge gelu gt hardsigmoid hardswish hardtanh iadd imul int invert "
    "isnan isub le leaky_relu logaddexp logical_and logical_not logical_or logsigmoid long lt maximum minimum mish "
    "mul multiply ne neg negative or radd rand relu relu6 rmul ror rsub selu sigmoid sign silu sin sinh softplus "
    "softsign square sub subtract tanh threshold to type_as where xor".split()
)
WITHIN = frozenset(  # of each element, in a domain
    "acos arccos arcsin asin atan atan2 atanh div divide erfinv itruediv log log10 log1p log2 logit pow rdiv "
    "reciprocal rpow rsqrt rtruediv sqrt tan true_divide truediv xlogy".split()
)
# of each row, where all of them have so many dimensions
ROWS = {"linear": 2, "matmul": 2, "mm": 2, "embedding": 1, "one_hot": 1, "layer_norm": 2}
ALONG = {  # of each row along a dimension that is not the first: where that is given, and what it is else
    **dict.fromkeys("softmax log_softmax softmin argmax argmin logsumexp cumsum cumprod gather".split(), (1, None)),
    **dict.fromkeys("sort topk".split(), (-1, -1)),
    "normalize": (2, 1),
    "cosine_similarity": (2, 1),
    "pairwise_distance": (-1, -1),
    "std": (1, None),
    "var": (1, None),
    "prod": (1, None),
}
LOSSES = frozenset(
    "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div "
    "soft_margin_loss hinge_embedding_loss poisson_nll_loss gaussian_nll_loss margin_ranking_loss "
    "cosine_embedding_loss triplet_margin_loss multi_margin_loss multilabel_soft_margin_loss".split()
)
LABELS = frozenset("cross_entropy nll_loss".split())
LIMITS = {"max": float("-inf"), "amax": float("-inf"), "min": float("inf"), "amin": float("inf")}


def of_selected(args: Any, kwargs: Any) -> list[Selected]:
    return [v for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, Selected)]


def call(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], traced: Call) -> Any:
    """`traced` is `func` in the form that it is captured in."""
    name = func.__name__.strip("_")
    if func.__name__ == "__get__":
        return attribute(func, args[0])
    if name == "getitem":
        return item(*args)
    if name == "setitem":
        return selected.put(*args)
    if name == "index_add":
        return index_add(func.__name__, *args, **kwargs)
    if func.__name__.endswith("_") and not func.__name__.startswith("__"):
        return in_place(name, func.__name__, *args, **kwargs)
    if name in FORMS:
        return FORMS[name](traced, *args, **kwargs)
    if name in LABELS:
        return of_labels(traced, *args, **kwargs)
    if name in LOSSES:
        return loss(func, traced, args, kwargs)
    if name in ALONG:
        check_dimension(name, args, kwargs)
    elif name in ROWS:
        check_rows(name, *args, **kwargs)
    elif name not in ALWAYS | WITHIN:
        raise refused(f"'{name}'")
    return of_rows(traced, args, kwargs, within=name in WITHIN, alone=name not in ROWS)


def in_place(name: str, shown: str, s: Any, *others: Any, **named: Any) -> Any:
    """A selection is a copy, which nothing else shares."""
    form = getattr(Tensor, name, None)
    if form is None or name not in ALWAYS | WITHIN or not isinstance(s, Selected):
        raise refused(f"'{shown}'")
    s.whole = of_rows(form, (s, *others), named, within=name in WITHIN).whole
    return s


def of_rows(traced: Call, args: Any, kwargs: Any, within: bool = False, alone: bool = True) -> Any:
    """Row by row; `alone`: nothing else that is given has rows."""
    chosen = of_selected(args, kwargs)
    mask, dims = one_mask(chosen), max(s.whole.dim() for s in chosen)

    def whole(v: Any) -> Any:
        if isinstance(v, Selected):
            return v.filled(UNSELECTED) if within and v.whole.is_floating_point() else v.whole
        return v

    for other in pytree.tree_leaves((args, kwargs)):
        plain = isinstance(other, Tensor) and not isinstance(other, Selected)
        if alone and plain and other.dim() >= dims and other.shape[0] != 1:
            raise refused("a combination with a tensor that is not selected")
    found = traced(*pytree.tree_map(whole, args), **pytree.tree_map(whole, kwargs))
    return pytree.tree_map_only(Tensor, lambda t: Selected(t, mask), found)


def check_rows(name: str, x: Any, *others: Any, **named: Any) -> None:
    """The other operands are weights and settings."""
    fits = isinstance(x, Selected) and x.whole.dim() >= ROWS[name] and len(of_selected(others, named)) == 0
    if name == "layer_norm":
        fits = fits and len(others[0] if others else named["normalized_shape"]) < x.whole.dim()
    if name in ("matmul", "mm"):
        fits = fits and others[0].dim() <= 2
    if not fits:
        raise refused(f"'{name}'")


def check_dimension(name: str, args: Any, kwargs: Any) -> None:
    at, usual = ALONG[name]
    given = kwargs.get("dim", kwargs.get("axis", args[at] if 0 < at < len(args) else usual))
    dims = args[0].whole.dim() if isinstance(args[0], Selected) else 0
    several = given if isinstance(given, tuple | list) else (given,)
    if not all(isinstance(d, int) and d % max(dims, 1) for d in several):
        raise refused(f"'{name}' over the rows")


def attribute(func: Any, s: Selected) -> Any:
    """Extents: of rows, a count that is not known yet."""
    name = func.__self__.__name__
    if name == "shape":
        return (s.mask.count(), *s.whole.shape[1:])
    if name in ("dtype", "device", "is_cuda", "requires_grad", "ndim", "layout", "is_sparse", "is_quantized"):
        return getattr(s.whole, name)
    raise refused(f"'.{name}'")


def item(x: Any, index: Any) -> Any:
    index = index if isinstance(index, tuple) else (index,)
    if not isinstance(x, Selected):
        return selected.at_rows(x, index)
    taken = sum(v is not None and v is not Ellipsis for v in index)
    begins = index[0] == slice(None) if isinstance(index[0], slice) else index[0] is Ellipsis and taken < x.whole.dim()
    if not begins or any(isinstance(v, Tensor) for v in index):
        raise refused("a part of the rows")
    return x.with_rows(x.whole[index])


def index_add(name: str, x: Any, dim: int, place: Any, value: Any, *, alpha: float = 1) -> Any:
    if dim % x.dim() or not isinstance(place, Selected) or isinstance(x, Selected):
        raise refused(f"'{name}'")
    found = selected.added(x, place, value, alpha)
    return x.copy_(found) if name.endswith("_") else found


# ---- of all that are selected


def total(traced: Call, s: Selected, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
    dims = dimensions(s, named.pop("axis", dim))
    if dims and 0 not in dims:
        return s.with_rows(traced(s.whole, dims, keepdim, **named))
    return traced(s.filled(0), dims, keepdim, **named) if dims else traced(s.filled(0), **named)


def mean(traced: Call, s: Selected, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
    dims = dimensions(s, named.pop("axis", dim))
    if dims and 0 not in dims:
        return s.with_rows(traced(s.whole, dims, keepdim, **named))
    many = prod(s.whole.shape[d] for d in (dims or range(s.whole.dim())) if d)
    found = s.filled(0).sum(dims, keepdim, **named) if dims else s.filled(0).sum(**named)
    return found / (s.mask.count() * many)


def extreme(name: str) -> Call:
    def of(traced: Call, s: Selected, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
        if isinstance(dim, Selected):  # the larger of two
            return of_rows(traced, (s, dim), named)
        dims = dimensions(s, dim)
        if dims and 0 not in dims:
            found = traced(s.whole, dim, keepdim, **named)
            return pytree.tree_map_only(Tensor, s.with_rows, found)
        if not s.whole.is_floating_point() or (dims and name in ("max", "min")):
            raise refused(f"'{name}' over the rows")
        every = getattr(torch, f"a{name.removeprefix('a')}")
        return every(s.filled(LIMITS[name]), dims or tuple(range(s.whole.dim())), keepdim)

    return of


def every(traced: Call, s: Selected) -> Any:
    return traced(s.filled(True).to(torch.bool))


def some(traced: Call, s: Selected) -> Any:
    return traced(s.filled(False).to(torch.bool))


def norm(traced: Call, s: Selected, *args: Any, **named: Any) -> Any:
    """Zeros add nothing."""
    dim = named.get("dim", args[1] if len(args) > 1 else None)
    dims = dimensions(s, dim)
    if dims and 0 not in dims:
        return s.with_rows(traced(s.whole, *args, **named))
    return traced(s.filled(0), *args, **named)


def dimensions(s: Selected, dim: Any) -> tuple[int, ...]:
    """None are all."""
    several = dim if isinstance(dim, tuple | list) else () if dim is None else (dim,)
    return tuple(d % max(s.whole.dim(), 1) for d in several)


# ---- shapes


def size(traced: Call, s: Selected, dim: int | None = None) -> Any:
    extents = (s.mask.count(), *s.whole.shape[1:])
    return extents if dim is None else extents[dim]


def numel(traced: Call, s: Selected) -> Any:
    return s.mask.count() * prod(s.whole.shape[1:])


def dim(traced: Call, s: Selected) -> int:
    return s.whole.dim()


def unsqueeze(traced: Call, s: Selected, dim: int) -> Any:
    if not dim % (s.whole.dim() + 1):
        raise refused("'unsqueeze' before the rows")
    return s.with_rows(s.whole.unsqueeze(dim))


def squeeze(traced: Call, s: Selected, dim: int | None = None) -> Any:
    dims = [d for d in range(1, s.whole.dim()) if s.whole.shape[d] == 1] if dim is None else [dim % s.whole.dim()]
    return s.with_rows(s.whole.squeeze([d for d in dims if d]))


def reshape(traced: Call, s: Selected, *shape: Any) -> Any:
    """All elements in a line, or rows as long as before."""
    wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    own = tuple(s.whole.shape[1:])
    if len(wanted) == 1 and wanted[0] == -1:
        return flatten(traced, s)
    if len(wanted) > 1 and wanted[0] == -1 and prod(wanted[1:]) == prod(own):
        return s.with_rows(s.whole.reshape(-1, *wanted[1:]))
    raise refused("this shape")


def flatten(traced: Call, s: Selected, start_dim: int = 0, end_dim: int = -1) -> Any:
    if start_dim or s.whole.dim() == 1:
        return s.with_rows(s.whole.flatten(start_dim, end_dim)) if start_dim else s
    each = prod(s.whole.shape[1:])
    mask = selected.Mask(s.mask.given, s.mask.version, s.mask.each * each)
    return Selected(s.whole.reshape(-1), mask)


def dropout(traced: Call, s: Selected, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    if training and p:
        raise refused("'dropout'")
    return s


# ---- losses


def loss(func: Any, traced: Call, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Of each element, then of those that are selected."""
    bound = inspect.signature(func).bind(*args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    reduction, given["reduction"] = given["reduction"], "none"
    if given.get("size_average") is not None or given.get("reduce") is not None:
        raise refused(f"'{func.__name__}' with size_average or reduce")
    first = next(v for v in given.values() if isinstance(v, Selected))
    found = of_rows(traced, bound.args, bound.kwargs, within=func.__name__ in ("kl_div", "poisson_nll_loss"))
    if reduction == "batchmean":
        return selected.reduced(first, found.whole, "sum") / first.mask.count()
    return selected.reduced(first, found.whole, reduction)


def of_labels(traced: Call, x: Any, target: Any, *args: Any, **named: Any) -> Any:
    """Rows that are not selected have a label that is ignored."""
    if args or not isinstance(x, Selected) or not isinstance(target, Selected):
        raise refused("a loss of labels that are not selected")
    one_mask([x, target])
    if target.whole.is_floating_point():
        reduction = named.pop("reduction", "mean")
        found = traced(x.whole, target.whole, reduction="none", **named)
        return selected.reduced(x, found, reduction)
    ignored = named.get("ignore_index", -100)
    found = traced(x.whole, target.filled(ignored), **named)
    return x.with_rows(found) if named.get("reduction") == "none" else found


FORMS: dict[str, Call] = {
    "sum": total,
    "mean": mean,
    **{name: extreme(name) for name in LIMITS},
    "all": every,
    "any": some,
    "norm": norm,
    "vector_norm": norm,
    "linalg_vector_norm": norm,
    "size": size,
    "numel": numel,
    "dim": dim,
    "unsqueeze": unsqueeze,
    "squeeze": squeeze,
    "reshape": reshape,
    "view": reshape,
    "flatten": flatten,
    "dropout": dropout,
}
