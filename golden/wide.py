"""What stays float in mixed precision where torch.autocast keeps it so: results that leave the range of halves, or of
which something is left when they are taken from each other, as of 1 - tanh(x) ** 2 and exp(x) - 1.

Of autocast's list these are missing: norms and softplus, whose results are neither, and losses and sums, which are
floats in any case. exp2, float_power and logcumsumexp are of the same kind as their neighbours.
"""

from __future__ import annotations

WIDE = frozenset(
    (
        "acos arccos asin arcsin cosh cumprod cumsum erfinv exp exp2 expm1 float_power log log10 log1p log2 "
        "logcumsumexp pow rpow prod reciprocal rsqrt sinh softmax square tan"
    ).split()
)
BOUNDED = frozenset("cos erf expit sigmoid sin softmax tanh".split())  # next to 1: little is left of 1 - p
SUMS = frozenset("add neg rsub sub".split())


def is_wide(function: str) -> bool:
    return plain(function) in WIDE


def is_bounded(function: str) -> bool:
    return plain(function) in BOUNDED


def is_sum(function: str) -> bool:
    return plain(function) in SUMS


def plain(function: str) -> str:
    """Without what sets apart names that a user and ATen have for it."""
    return function.strip("_").removeprefix("special_")
