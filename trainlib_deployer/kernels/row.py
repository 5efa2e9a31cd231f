"""One row of the table of kernels: a variant, what it needs, what it promises and what it takes. docs/kernels.md says
what every row keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Never, TypedDict, TypeVar

from trainlib_deployer.formats import DType
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.call import Call, Operand
from trainlib_deployer.program.ir import Kind, View

K_contra = TypeVar("K_contra", bound=Kind, contravariant=True)
Fields = Sequence[tuple[str, str | int]]
Making = Callable[[K_contra, list[Operand], list[Operand], str], Fields]  # from kind, reads, writes, scratch
Settled = Callable[[K_contra, Sequence[View], Sequence[View], int, Costs], float]  # kind, reads, writes, cores, costs
BLOCKS = "fused chains of 64 terms, added up block by block"
ROW_BLOCKS = "fused chains of rows of an image, up to 64 terms, added up block by block"
PAIRS = "one chain of sums of two products"  # tl_pair.h
CHANNELS = "one chain of sums of two products, those of neighbouring channels"  # or, of one, taps: tl_conv_pairs.h


@dataclass(frozen=True)
class Grain:
    """What a micro-kernel makes at a time: rows x columns of results, over so many terms; zeros where it has none."""

    rows: int
    columns: int
    terms: int


def no_scratch(_kind: Kind, _cores: int) -> int:
    return 0


def pointer(name: str, storage: DType) -> str:
    """The member of a struct that points at an operand of a type."""
    if storage.is_half:
        return f"{name}_{DType.F16.name.lower()}"  # one source for all halves
    return name if storage is DType.F32 else f"{name}_{storage.name.lower()}"


def unpriced(_kind: Kind, _cores: int, _costs: Costs) -> float:
    return 0.0


def any_layout(_kind: Kind, _reads: Sequence[View], _writes: Sequence[View]) -> bool:
    return True


def never(_kind: Kind) -> bool:
    return False


def any_shape(_kind: Kind, _cores: int) -> bool:
    return True


@dataclass(frozen=True)
class Row(Generic[K_contra]):
    """A kernel of the C library, for one class of kinds.

    Rows of one operation and one arithmetic give the same bits. An operation keeps its arithmetic; each of its tiles
    takes the cheapest row of that arithmetic that applies to the tile's own shape and strides.
    """

    operation: str  # the name of the kinds it carries out
    symbol: str
    source: str  # below c_lib/kernels; what it needs in turn is found by what it mentions
    struct: str
    header: str  # of c_lib/include, which declares the struct
    fields: Making[K_contra]
    takes: Callable[[K_contra, int], bool] = any_shape  # kind, cores that work
    fits: Callable[[K_contra, Sequence[View], Sequence[View]], bool] = any_layout  # kind, reads, writes
    surely: Callable[[K_contra], bool] = never  # kinds that it fits, as they say how operands of every tile lie
    scratch: Callable[[K_contra, int], int] = no_scratch  # bytes: kind, cores that work
    cycles: Callable[[K_contra, int, Costs], float] = unpriced  # of the slowest core: kind, cores that work, costs
    settled: Settled[K_contra] | None = None  # cycles of operands that lie so, where those above know of shapes alone
    split: str = ""  # what the cores share out
    grain: Grain = Grain(0, 0, 0)
    storage: DType = DType.F32  # of the operands that are multiplied
    accumulator: DType = DType.F32
    needs: frozenset[str] = frozenset()  # instruction sets beyond those of every machine
    arithmetic: str = BLOCKS

    def call(self, kind: K_contra, reads: list[Operand], writes: list[Operand], scratch: str) -> Call:
        return Call(self.symbol, self.struct, tuple(self.fields(kind, reads, writes, scratch)))

    @property
    def prototype(self) -> str:
        return f"void {self.symbol}(const {self.struct} *a);"


AnyRow = Row[Never]  # whichever kinds it is for, which its operation says


class More(TypedDict, Generic[K_contra], total=False):
    """What the rows of a family differ in."""

    takes: Callable[[K_contra, int], bool]
    fits: Callable[[K_contra, Sequence[View], Sequence[View]], bool]
    surely: Callable[[K_contra], bool]
    scratch: Callable[[K_contra, int], int]
    cycles: Callable[[K_contra, int, Costs], float]
    settled: Settled[K_contra]
    split: str
    grain: Grain
    arithmetic: str
