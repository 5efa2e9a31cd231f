"""The Program: the training step as plain data, tensors and operations in execution order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import count
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from trainlib_deployer.formats import DType as DType  # noqa: PLC0414 - handed on: every tensor has one
from trainlib_deployer.program.strides import Shape as Shape  # noqa: PLC0414 - likewise
from trainlib_deployer.program.strides import row_major, split_strides

if TYPE_CHECKING:
    from trainlib_deployer.machine.costs import Costs

# What the caller of a step sets; no attribute of a module has such a name.
LEARNING_RATE = "learning rate"
MOMENTUM = "scheduled momentum"
STEP = "step number"
EVALUATION = "evaluation"  # the phase of what runs as after model.eval(), beside the training


class Role(Enum):
    """What a tensor is for. Persistent ones live across steps and keep their place in memory."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    STATE = "state"
    INPUT = "input"
    TARGET = "target"
    CONSTANT = "constant"
    SCALAR = "scalar"
    ACTIVATION = "activation"
    GRADIENT = "gradient"
    OUTPUT = "output"
    LOSS = "loss"
    SCRATCH = "scratch"
    RECORDED = "recorded"  # only a build that records keeps it, outside of the plan
    INSIDE = "inside"  # made and used up tile by tile, in buffers of L1
    COPY = "copy"  # of a far tensor, or of a part of it, while it is used

    @property
    def persistent(self) -> bool:
        return self in _PERSISTENT

    @property
    def comes_and_goes(self) -> bool:
        """In memory for a part of the step."""
        return self not in _LASTING_OR_PASSING

    @property
    def passing(self) -> bool:
        """Never whole in memory."""
        return self in _PASSING


_PERSISTENT = (  # few enough to be compared one by one, faster than an enumeration's hash
    Role.PARAMETER,
    Role.BUFFER,
    Role.STATE,
    Role.INPUT,
    Role.TARGET,
    Role.CONSTANT,
    Role.SCALAR,
)
_PASSING = (Role.RECORDED, Role.INSIDE)
_LASTING_OR_PASSING = _PERSISTENT + _PASSING


@dataclass(frozen=True)
class Source:
    """A line of the user's own code."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Tensor:
    """A dense row-major array that owns its memory."""

    name: str
    shape: Shape
    dtype: DType
    role: Role
    layer: str = ""
    source: Source | None = None
    function: str = field(default="", repr=False)  # the user's that made it
    wide: bool = field(default=False, repr=False)  # a float, also in mixed precision

    @property
    def numel(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.numel * self.dtype.size


class View(NamedTuple):
    """A strided window on a tensor; strides and offset count elements. Every operand of an operation is one. Planning
    makes and compares hundreds of thousands of them, which tuples do fastest."""

    tensor: str
    shape: Shape
    strides: Shape
    offset: int = 0

    @staticmethod
    def whole(tensor: Tensor) -> View:
        return View(tensor.name, tensor.shape, row_major(tensor.shape))

    @property
    def numel(self) -> int:
        return prod(self.shape)

    @property
    def contiguous(self) -> bool:
        return all(e == 1 or s == t for e, s, t in zip(self.shape, self.strides, row_major(self.shape), strict=True))

    def covers(self, tensor: Tensor) -> bool:
        """True when the view is the whole tensor in its own order (whatever the shape it is seen in)."""
        return self.offset == 0 and self.contiguous and self.numel == tensor.numel

    def reshaped(self, shape: Shape) -> View | None:
        """The same elements in row-major order under another shape, or None where that needs a copy."""
        strides = split_strides(self.shape, self.strides, shape)
        return None if strides is None else View(self.tensor, shape, strides, self.offset)

    def expanded(self, shape: Shape) -> View:
        """Broadcast to `shape` by the usual rules: repeated dimensions get stride zero."""
        lead = len(shape) - len(self.shape)
        strides = (0,) * lead + tuple(
            0 if e == 1 and target != 1 else s
            for e, s, target in zip(self.shape, self.strides, shape[lead:], strict=True)
        )
        return View(self.tensor, shape, strides, self.offset)

    def permuted(self, order: Shape) -> View:
        return View(
            self.tensor,
            tuple(self.shape[d] for d in order),
            tuple(self.strides[d] for d in order),
            self.offset,
        )

    def sliced(self, dim: int, start: int, stop: int, step: int = 1) -> View:
        if start == 0 and stop == self.shape[dim] and step == 1:
            return self
        extent = max(0, -(-(stop - start) // step))
        return View(
            self.tensor,
            (*self.shape[:dim], extent, *self.shape[dim + 1 :]),
            (*self.strides[:dim], self.strides[dim] * step, *self.strides[dim + 1 :]),
            self.offset + start * self.strides[dim],
        )


class Kind(ABC):
    """What an operation is: a frozen record of its attributes, declared in the file of its family (ops/).

    What it has no answer of its own to, has one that holds for all. What only some can do, they inherit: Splittable,
    Leading, Frugal, Priced."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    def macs(self) -> int:
        """Multiply-adds."""
        return 0

    def scratch(self, cores: int) -> int:
        """Bytes of scratch memory that all cores share during the call."""
        return 0

    def touched(self, operand: int, view: View) -> int:
        """Elements of an operand (reads, then writes) that it reads or writes, each as often as it does."""
        return view.numel

    @property
    def grain(self) -> int:
        """Results that a core makes at a time."""
        return 16

    @property
    def storage(self) -> DType:
        """The type of the operands that are multiplied."""
        return DType.F32

    @property
    def strided(self) -> bool:
        """Its operands may lie in any order."""
        return False

    @property
    def in_place(self) -> bool:
        """It may write an element where it has read the same one."""
        return False

    @property
    def over_itself(self) -> bool:
        """Its result lies where the same elements were read, and nowhere else."""
        return False

    def replaceable(self, reads: tuple[View, ...]) -> tuple[View, ...]:
        """Operands of which each element is read for the last time just before the same one of a result is written,
        so that the result may lie in their place, if it lies there in the same way."""
        return ()


class Frugal(Kind):
    """An operation whose scratch grows with the cores that work."""

    @property
    @abstractmethod
    def team(self) -> int:
        """Cores that work, with scratch for each; 0: all."""

    @abstractmethod
    def leaner(self, cores: int) -> Iterator[Frugal]:
        """The same bits from less and less scratch, in more cycles."""


class Priced(Kind):
    """An operation that knows what it takes; everything else is priced by its elements."""

    @abstractmethod
    def cycles(self, cores: int, costs: Costs) -> float:
        """Of the slowest core."""

    def multiplied(self) -> float:
        """Multiply-adds that are done; some algorithms have fewer than the definition."""
        return self.macs()


class Part(NamedTuple):
    """One tile of an operation: an operation of its own on windows of the same tensors."""

    kind: Kind
    reads: tuple[View, ...]
    writes: tuple[View, ...]


class Splittable(Kind):
    """An operation that can be cut into tiles."""

    @abstractmethod
    def ways(self, reads: tuple[View, ...], writes: tuple[View, ...]) -> Iterator[Sequence[Part]]:
        """Ways to do it in tiles, one after the other; together they give the very same bits."""


class Leading(Splittable):
    """One of a single result, which loops may follow tile by tile."""

    @property
    @abstractmethod
    def accumulate(self) -> bool:
        """It adds to what is there already, as a tile does that goes on with the sums of the one before."""


@dataclass(frozen=True)
class Op:
    """One call of a kernel by all cores."""

    name: str
    kind: Kind
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    phase: str
    layer: str
    function: str = ""
    source: Source | None = None
    fused: tuple[str, ...] = ()  # the user's operations that this one came from, if several


@dataclass
class Program:
    """A training step, or a forward pass alone. `ops` run in order; the last phase is the update of parameters in
    place."""

    name: str
    tensors: dict[str, Tensor] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    values: dict[str, object] = field(default_factory=dict)  # initial contents of persistent tensors: numpy arrays
    loss: str = ""  # none where nothing but outputs is wanted
    learns: bool = True  # if not, the loss is only told
    fixed: Mapping[str, int] = field(default_factory=dict)  # buffers that have decided: a checksum of their contents
    evaluated: Mapping[str, Shape] = field(default_factory=dict)  # what an evaluation takes and shows of these tensors
    outputs: tuple[tuple[str, str], ...] = ()  # (name for people, tensor)
    metrics: tuple[tuple[str, str], ...] = ()  # the same of what is measured beside the loss
    gradients: tuple[tuple[str, str], ...] = ()  # (parameter, tensor)
    far: frozenset[str] = frozenset()  # they live behind the outer memory; operations work on copies of them

    @property
    def trains(self) -> bool:
        return self.learns and bool(self.loss)

    @property
    def step(self) -> list[Op]:
        """Without the evaluation as after model.eval(), which is no part of it."""
        return [op for op in self.ops if op.phase != EVALUATION]

    @property
    def shown(self) -> tuple[str, ...]:
        """What a caller gets: it lives to the end of the step."""
        return (*([self.loss] if self.loss else []), *(t for _, t in (*self.outputs, *self.metrics)))

    def of_role(self, *roles: Role) -> list[Tensor]:
        return [t for t in self.tensors.values() if t.role in roles]

    def with_ops(self, ops: list[Op]) -> Program:
        """The same program with other operations; tensors that nobody mentions any more are dropped."""
        used = {v.tensor for op in ops for v in (*op.reads, *op.writes)}
        used |= {*self.shown, *(t for _, t in self.gradients)}
        tensors = {n: t for n, t in self.tensors.items() if n in used or (t.role.persistent and t.numel)}
        return replace(self, ops=ops, tensors=tensors)


@dataclass
class Mentions:
    """Which operations mention a tensor, in a list that grows at its end."""

    ops: list[Op]
    indexed: int = 0
    places: dict[str, list[int]] = field(default_factory=dict)

    def of(self, name: str) -> list[int]:
        """Positions in order; the caller may exchange these operations for others that mention the same tensors."""
        for i in range(self.indexed, len(self.ops)):
            for mentioned in dict.fromkeys(v.tensor for v in (*self.ops[i].reads, *self.ops[i].writes)):
                self.places.setdefault(mentioned, []).append(i)
        self.indexed = len(self.ops)
        return self.places.get(name, [])

    def rename(self, old: str, new: str) -> None:
        names = {old: new}
        for i in (found := self.of(old)):
            op = self.ops[i]
            self.ops[i] = replace(op, reads=renamed(op.reads, names), writes=renamed(op.writes, names))
        self.places.pop(old, None)
        self.places[new] = sorted({*self.places.get(new, []), *found})


def fresh(tensors: Container[str], wish: str) -> str:
    """A name that no tensor has: the one wished for, or that with a number."""
    return next(name for number in count(1) if (name := f"{wish}{number if number > 1 else ''}") not in tensors)


def renamed(views: tuple[View, ...], names: Mapping[str, str]) -> tuple[View, ...]:
    """The same places of other tensors, for those that have another."""
    return tuple(View(names[v.tensor], v.shape, v.strides, v.offset) if v.tensor in names else v for v in views)


def readers(program: Program) -> dict[str, list[int]]:
    """Tensor name to the positions of the operations that read it."""
    return positions(op.reads for op in program.ops)


def writers(program: Program) -> dict[str, list[int]]:
    """Tensor name to the positions of the operations that write it."""
    return positions(op.writes for op in program.ops)


def positions(operands: Iterable[tuple[View, ...]]) -> dict[str, list[int]]:
    """Tensor name to where it is among these, each place once."""
    found: dict[str, list[int]] = {}
    for i, views in enumerate(operands):
        for view in views:
            there = found.setdefault(view.tensor, [])
            if not there or there[-1] != i:
                there.append(i)
    return found
