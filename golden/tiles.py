"""Convolutions of halves in tiles of 2 x 2 outputs, by Winograd's algorithm: what a program rounds beyond its operands.

Transformed inputs and gradients are sums and differences of halves, each rounded; transformed weights are calculated in
float and rounded once. Products, their sums and the way back are as exact as the run. Which convolutions are done like
this follows from their shapes; the program says which.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.nn.functional import pad

from golden.half import HALF

Signature = tuple[Any, ...]  # direction; shapes of the image and of the weight; padding; groups


class Tiles:
    """Those convolutions and gradients that a program computes like this."""

    def __init__(self, signatures: Iterable[Sequence[Any]] = ()) -> None:
        self.signatures = {signature(*s) for s in signatures}

    def instead(self, name: str, args: Sequence[Any], out: Any) -> Any:
        """Of a convolution or its gradients, what the program computes in place of `out`."""
        if not self.signatures:
            return out
        stride, padding, dilation, transposed, _, groups = args[3:9] if name == "convolution" else args[4:10]
        if {*stride, *dilation} != {1}:
            return out  # of the same shapes, but for the output
        if name == "convolution":
            x, w, bias = args[:3]
            found = self.convolved(x, w, padding, groups, transposed, out)
            return out if found is None else found if bias is None else found + bias.reshape(-1, 1, 1)
        gy, x, w = args[:3]
        dx = None if out[0] is None else self.convolved(gy, w, padding, groups, not transposed, out[0])
        image, made = (gy, x) if transposed else (x, gy)
        dw = None if out[1] is None else self.correlated(image, made, w, padding, groups)
        return (out[0] if dx is None else dx, out[1] if dw is None else dw, *out[2:])

    def convolved(
        self, x: torch.Tensor, w: torch.Tensor, padding: Sequence[int], groups: int, turned: bool, out: torch.Tensor
    ) -> torch.Tensor | None:
        """Forward or, `turned`, an input gradient, of the shape that `out` has; None where it is done directly."""
        images = out if turned else x
        if signature("bw_x" if turned else "fw", images.shape, w.shape, padding, groups) not in self.signatures:
            return None
        w = w.reshape(groups, -1, *w.shape[1:])
        if turned:
            w, padding = w.transpose(1, 2).flip(3, 4), [2 - p for p in padding]
        return in_tiles(x, w, padding, out.shape)

    def correlated(
        self, x: torch.Tensor, gy: torch.Tensor, w: torch.Tensor, padding: Sequence[int], groups: int
    ) -> torch.Tensor | None:
        """A weight gradient; None where it is done directly."""
        if signature("bw_w", x.shape, w.shape, padding, groups) not in self.signatures:
            return None
        shape, (high, wide) = gy.shape, (-(-s // 2) for s in gy.shape[2:])
        v = transformed(x, padding, shape, groups)
        framed = pad(HALF.rounded(gy), (0, 2 * wide - shape[3], 0, 2 * high - shape[2]))
        patches = framed.reshape(shape[0], groups, -1, high, 2, wide, 2).transpose(4, 5)
        z = of_gradients(of_gradients(patches, 5), 6).to(x.dtype)
        m = torch.einsum("ngcyxij,ngoyxij->gocij", v, z)
        return of_sums(of_sums(m, 3), 4).reshape(w.shape)


def signature(
    direction: str, image: Iterable[int], weight: Iterable[int], padding: Iterable[int], groups: int
) -> Signature:
    return direction, tuple(image), tuple(weight), tuple(padding), groups


def in_tiles(x: torch.Tensor, w: torch.Tensor, padding: Sequence[int], shape: Sequence[int]) -> torch.Tensor:
    """Of weights [groups, outputs, inputs, 3, 3], an output of this shape."""
    (n, _, height, width), (high, wide) = shape, (-(-s // 2) for s in shape[2:])
    v = transformed(x, padding, shape, w.shape[0])
    u = HALF.rounded(of_weights(of_weights(w.float(), 3), 4)).to(x.dtype)
    m = torch.einsum("ngcyxij,gocij->ngoyxij", v, u)
    y = back(back(m, 5), 6).permute(0, 1, 2, 3, 5, 4, 6)
    return y.reshape(n, -1, 2 * high, 2 * wide)[:, :, :height, :width].contiguous()


def transformed(x: torch.Tensor, padding: Sequence[int], shape: Sequence[int], groups: int) -> torch.Tensor:
    """The inputs [4, 4] of the tiles of an output of this shape."""
    high, wide = (-(-s // 2) for s in shape[2:])
    after = [2 * t + 2 - s - p for t, s, p in zip((high, wide), x.shape[2:], padding, strict=True)]
    framed = pad(HALF.rounded(x), (padding[1], after[1], padding[0], after[0]))
    patches = framed.unfold(2, 4, 2).unfold(3, 4, 2).reshape(shape[0], groups, -1, high, wide, 4, 4)
    return of_inputs(of_inputs(patches, 5), 6).to(x.dtype)


def of_inputs(d: torch.Tensor, dim: int) -> torch.Tensor:
    a, b, c, e = d.unbind(dim)
    return torch.stack([a - c, b + c, c - b, b - e], dim)


def of_weights(w: torch.Tensor, dim: int) -> torch.Tensor:
    a, b, c = w.unbind(dim)
    return torch.stack([a, a + c + b, a + c - b, c], dim)


def of_gradients(y: torch.Tensor, dim: int) -> torch.Tensor:
    a, b = y.unbind(dim)
    return torch.stack([a, a + b, a - b, b], dim)


def of_sums(m: torch.Tensor, dim: int) -> torch.Tensor:
    a, b, c, e = m.unbind(dim)
    return torch.stack([a + (b + c) / 2, (b - c) / 2, (b + c) / 2 - e], dim)


def back(m: torch.Tensor, dim: int) -> torch.Tensor:
    a, b, c, e = m.unbind(dim)
    return torch.stack([a + (b + c) / 2, (b - c) / 2 - e], dim)
