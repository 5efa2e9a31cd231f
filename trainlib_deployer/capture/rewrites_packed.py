"""Packed sequences of lengths that are known: their rows as torch.nn.utils.rnn lays them, time after time the sequences
that go on, the longest first. Lengths come as numbers, and what PyTorch returns as a tensor of lengths, as a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, groupby
from typing import Any

import torch

from trainlib_deployer.capture.recurrent import GATES, direction, stacked

Tensor = torch.Tensor
Sizes = Sequence[int]  # how many sequences go on at each time


def pack(x: Tensor, lengths: Sequence[int], batch_first: bool) -> tuple[Tensor, list[int]]:
    sizes = [sum(length > t for length in lengths) for t in range(max(lengths))]
    in_time = x.transpose(0, 1) if batch_first else x
    rows = [t * len(lengths) + b for t, n in enumerate(sizes) for b in range(n)]
    return in_time.flatten(0, 1).index_select(0, torch.tensor(rows)), sizes


def pad(data: Tensor, sizes: Sizes, batch_first: bool, value: float, total: int) -> tuple[Tensor, list[int]]:
    """Behind the end of a sequence stands the value, which is the row behind all others."""
    firsts = [0, *accumulate(sizes)]
    many = [*sizes, *[0] * (total - len(sizes))]
    rows = [firsts[t] + b if b < n else len(data) for t, n in enumerate(many) for b in range(sizes[0])]
    filled = torch.cat([data, data.new_full((1, *data.shape[1:]), value)])
    y = filled.index_select(0, torch.tensor(rows)).reshape(total, sizes[0], *data.shape[1:])
    return y.transpose(0, 1) if batch_first else y, [sum(n > b for n in sizes) for b in range(sizes[0])]


def packed_direction(
    sizes: Sizes, kind: str, x: Tensor, h0: Tensor, c0: Tensor | None, weights: list[Tensor], reverse: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """A scan for each stretch of time in which the same sequences go on."""
    stretches, at = [], 0
    for n, times in groupby(sizes):
        stretches.append((at, len(list(times)), n))
        at += stretches[-1][1] * n
    first = [s for s in (h0, c0) if s is not None]
    states = [s[: sizes[-1] if reverse else None] for s in first]
    ended: list[list[Tensor]] = [[] for _ in first]
    found = []
    for at, steps, n in reversed(stretches) if reverse else stretches:
        for i, state in enumerate(states):
            if len(state) > n:
                ended[i].insert(0, state[n:])
            more = [first[i][len(state) : n]] if len(state) < n else []
            states[i] = torch.cat([state, *more]) if more else state[:n]
        part = x[at : at + steps * n].reshape(steps, n, -1)
        y, *now = direction(kind, part, states[0], states[1] if c0 is not None else None, weights, reverse)
        states = [s for s in now if s is not None]
        found.append(y.flatten(0, 1))
    out = torch.cat(found[::-1] if reverse else found)
    h, *c = (torch.cat([s, *e]) for s, e in zip(states, ended, strict=True))
    return out, h, c[0] if c else None


def recurrent(kind: str) -> Callable[..., Any]:
    def layers(x: Tensor, sizes: Sizes, *settings: Any) -> Any:
        return stacked(partial(packed_direction, sizes), kind, x, *settings)

    return layers


FORMS: dict[Any, Callable[..., Any]] = {
    torch._VF._pack_padded_sequence: pack,
    torch._VF._pad_packed_sequence: pad,
    **{getattr(torch, kind): recurrent(kind) for kind in GATES},
}
