"""A run in one precision: float64, float32, or float32 with what is kept for the backward pass in halves."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from golden.experts import grouped_mm
from golden.half import HALF
from golden.mode import Mode, address, leaves, mapped
from golden.observers import observed_and_quantized

HALF_ROUNDING = 2.0**-13  # relative; less than 2^-12, so that what is a half already (ones, masks) stays


def cast(value: Any, dtype: torch.dtype) -> Any:
    """Floats to `dtype`, in tensors, modules and containers, and complex numbers to pairs of it; everything else as it
    is."""
    if isinstance(value, nn.Module):
        return value.to(dtype)
    return pytree.tree_map(lambda v: in_precision(v, dtype) if isinstance(v, torch.Tensor) else v, value)


def as_real(t: torch.Tensor) -> torch.Tensor:
    """Complex numbers as pairs, in a last dimension of two."""
    return torch.view_as_real(t.resolve_conj()) if t.is_complex() else t


def as_scalar(loss: torch.Tensor) -> torch.Tensor:
    """Of what PyTorch takes for one: a tensor of one element."""
    return loss.reshape(()) if loss.dim() else loss


def shaped_like(t: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Numbers in the shape of another tensor; pairs become complex where that is."""
    return torch.view_as_complex(t.reshape(*other.shape, 2)) if other.is_complex() else t.reshape(other.shape)


def in_precision(t: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return t.to(dtype) if t.is_floating_point() else t.to(dtype.to_complex()) if t.is_complex() else t


@contextlib.contextmanager
def new_tensors_in(dtype: torch.dtype) -> Iterator[None]:
    """What the user's forward makes itself, such as torch.zeros(2, 3), must fit the rest."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """The order of summation, and so the last bits, must not depend on how many cores this machine has."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


SCALED_BY_FLOATS = (  # their second operand is float32, whatever the first one is
    torch.ops.aten.fake_quantize_per_channel_affine_cachemask,
    torch.ops.aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams,
)


class Precise(Mode):
    """Where the user's forward asks for float32, as `mask.float()` does, it gets the precision of this run."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.instead = {torch.float32: dtype, torch.complex64: dtype.to_complex()}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        asked = (kwargs := kwargs or {}).get("dtype")
        if asked in self.instead:
            kwargs = {**kwargs, "dtype": self.instead[asked]}
        if any(is_of(v, self.dtype) for v in leaves((*args, *kwargs.values()))):
            args = mapped(self.cast, args)  # constants that only the user's own function knows
            kwargs = {k: mapped(self.cast, v) for k, v in kwargs.items()}
        if func is torch.ops.aten._fused_moving_avg_obs_fq_helper.default:
            return observed_and_quantized(*args)
        if func is torch.ops.aten._grouped_mm.default:
            return grouped_mm(*args, **kwargs)
        if func.overloadpacket in SCALED_BY_FLOATS:
            args = (args[0], args[1].float(), *args[2:])
        return func(*args, **kwargs)

    def cast(self, value: Any) -> Any:
        return in_precision(value, self.dtype) if isinstance(value, torch.Tensor) else value


def is_of(value: Any, dtype: torch.dtype) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in (dtype, dtype.to_complex())


class InOrder(Mode):
    """PyTorch's gradient of batch and instance norm on the CPU is wrong, in float64 as well, where the gradient it is
    given lies in memory as [1, height, width, channels] and the input does not: here, both lie in order."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.native_batch_norm_backward.default:
            args = (args[0].contiguous(), args[1].contiguous(), *args[2:])
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def saved_tensors(how: str, module: nn.Module, samples: Any, noise: int) -> Iterator[None]:
    """With "fp16", autograd keeps float32 tensors in half precision; what is in memory anyway stays as it is: the
    parameters, buffers and samples, and views of them. With `noise`, other elements are rounded up: a program may
    keep other tensors than PyTorch does."""
    if how != "fp16":
        yield
        return
    present = (*module.parameters(), *module.buffers(), *pytree.tree_leaves(samples))
    places = {address(t) for t in present if isinstance(t, torch.Tensor)}

    generator = torch.Generator().manual_seed(noise)

    def pack(t: torch.Tensor) -> tuple[torch.Tensor, torch.dtype]:
        if t.dtype is not torch.float32 or address(t) in places:
            return t, t.dtype
        if noise:
            t = t.detach() * (1 + HALF_ROUNDING * (2 * torch.rand(t.shape, generator=generator) - 1))
        return HALF.rounded(t), torch.float32

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed[0].to(packed[1])):
        yield
