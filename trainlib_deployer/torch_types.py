"""Which of PyTorch's element types a tensor of the step may have, and what it is in C: decided here alone."""

from __future__ import annotations

import torch

from trainlib_deployer.program.ir import DType

# Integers of all widths are calculated with in 32 bits; a bool is one byte, 0 or 1.
CALCULATED = {
    torch.float32: DType.F32,
    torch.int64: DType.I32,
    torch.int32: DType.I32,
    torch.int16: DType.I32,
    torch.int8: DType.I32,
    torch.uint8: DType.I32,
    torch.bool: DType.U8,
}
# What lies in memory as it was given, samples and what no step writes to, where that is narrower.
NARROWEST = {torch.uint8: DType.U8}
# In PyTorch, results of these types wrap around at 8 or 16 bits: they may be moved and converted, not calculated.
NARROW = (torch.uint8, torch.int8, torch.int16)
LEAST, MOST = -(2**31), 2**31 - 1


def type_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def type_fault(dtype: torch.dtype) -> tuple[str, str] | None:
    """What is wrong with a type, and what to do; None for nothing."""
    if dtype in CALCULATED:
        return None
    if dtype.is_complex:
        remedy = "hand over torch.view_as_real(x), and begin with torch.view_as_complex"
    else:
        remedy = "convert it: .float()" if dtype.is_floating_point else "convert it: .int()"
    return f"is {type_name(dtype)}; float32, bool or an integer type up to int64 is needed", remedy


def value_fault(value: torch.Tensor) -> tuple[str, str] | None:
    """The same for a tensor with contents."""
    fault = type_fault(value.dtype)
    if fault is not None or value.dtype is not torch.int64 or not value.numel():
        return fault
    outside = next((int(v) for v in (value.min(), value.max()) if not fits(int(v))), None)
    if outside is None:
        return None
    return f"holds {outside}: integers are kept in 32 bits, {LEAST} to {MOST}", "use smaller numbers, or floats"


def fits(number: int) -> bool:
    return LEAST <= number <= MOST
