"""Element types, one row each: what C and NumPy call one, its bytes, and how it becomes a number to calculate with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Conversion:
    """Of a type that memory holds and no arithmetic has: the instructions that read and write an element, by the names
    of their functions in C without `tl_`."""

    calculated: str  # the type that it stands for
    load: str
    store: str


class DType(Enum):
    """An element type: its C name, size in bytes, NumPy's name of what lies in memory (the least byte first), and the
    macro of plan.h that points at one."""

    F32 = ("float", 4, "<f4", "F32")
    F16 = ("tl_half", 2, "<f2", "U16", Conversion("F32", "from_half", "to_half"))
    BF16 = ("tl_bf16", 2, "<u2", "U16", Conversion("F32", "from_bf16", "to_bf16"))  # NumPy has none
    I32 = ("int32_t", 4, "<i4", "I32")
    U16 = ("uint16_t", 2, "<u2", "U16")
    U8 = ("uint8_t", 1, "|u1", "U8")

    def __init__(
        self, c_name: str, size: int, numpy_name: str, pointer: str, conversion: Conversion | None = None
    ) -> None:
        self.c_name = c_name
        self.size = size
        self.numpy_name = numpy_name
        self.pointer = pointer
        self.conversion = conversion

    __hash__ = object.__hash__  # one object each, and in every key of the planner

    @property
    def is_half(self) -> bool:
        """Half of a float's bits, whichever: kernels of these are one source."""
        return self.conversion is not None

    @property
    def stored(self) -> str:
        """Its C name where no kernel's header is known."""
        return self.c_name if self.conversion is None else f"uint{8 * self.size}_t"

    @property
    def load(self) -> str:
        """The instruction that reads an element, of a type that is only kept."""
        assert self.conversion is not None
        return self.conversion.load

    @property
    def store(self) -> str:
        """... and the one that writes it."""
        assert self.conversion is not None
        return self.conversion.store

    @property
    def calculated(self) -> DType:
        """What arithmetic sees of it."""
        return self if self.conversion is None else DType[self.conversion.calculated]


# Instructions that read types which are only kept, and that write them.
LOADS, STORES = {d.load for d in DType if d.is_half}, {d.store for d in DType if d.is_half}
# Instruction to C.
CONVERSIONS = {name: f"tl_{name}({{0}})" for d in DType if d.is_half for name in (d.store, d.load)}
