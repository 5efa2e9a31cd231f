"""The builder that rules talk to: makes tensors, appends operations, carries names and origins."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainlib_deployer.program.expr import Body, Expr, Operand
from trainlib_deployer.program.ir import DType, Kind, Mentions, Op, Program, Role, Shape, Source, Tensor, View
from trainlib_deployer.program.loop import Loop


@dataclass(frozen=True)
class Where:
    """The origin that new operations get: the fx node's."""

    phase: str = "forward"
    layer: str = ""
    function: str = ""
    call: int = 0
    source: Source | None = None


@dataclass
class Builder:
    program: Program
    where: Where = field(default_factory=Where)
    meta: Any = None  # the fake tensor(s) that PyTorch computed for the node being lowered
    names: dict[str, int] = field(default_factory=dict)
    halves: bool = False  # activations will be
    copies: dict[View, View] = field(default_factory=dict)  # dense ones that backward may read again
    mentions: Mentions = field(init=False)

    def __post_init__(self) -> None:
        self.mentions = Mentions(self.program.ops)

    def fresh(self, wish: str, exact: bool = False) -> str:
        """A unique tensor name; the user's own names stay `exact`ly as they are."""
        wish = wish if exact else re.sub(r"[^A-Za-z0-9_.]", "_", wish) or "t"
        count = self.names.get(wish, 0)
        self.names[wish] = count + 1
        return wish if not count else f"{wish}.{count}"

    def stem(self, suffix: str = "") -> str:
        w = self.where
        base = ".".join(p for p in (w.layer or "net", w.function) if p)
        if w.call:
            base += f".call{w.call}"
        if w.phase == "backward":
            base += ".grad"
        return f"{base}.{suffix}" if suffix else base

    def tensor(
        self, shape: Sequence[int], dtype: DType = DType.F32, suffix: str = "", role: Role | None = None
    ) -> View:
        """A new tensor of the step."""
        if role is None:
            role = Role.GRADIENT if self.where.phase == "backward" else Role.ACTIVATION
        w = self.where
        made = Tensor(self.fresh(self.stem(suffix)), tuple(shape), dtype, role, w.layer, w.source, w.function)
        self.program.tensors[made.name] = made
        return View.whole(made)

    def constant(self, values: np.ndarray[Any, Any], suffix: str = "constant") -> View:
        """A tensor whose contents are fixed when the project is written."""
        dtype = {"f": DType.F32, "i": DType.I32, "u": DType.I32, "b": DType.U8}[values.dtype.kind]
        view = self.tensor(values.shape, dtype, suffix, Role.CONSTANT)
        self.program.values[view.tensor] = np.ascontiguousarray(values, dtype=dtype.numpy_name)
        return view

    def dtype(self, view: View) -> DType:
        return self.program.tensors[view.tensor].dtype

    def op(self, kind: Kind, reads: Sequence[View], writes: Sequence[View], suffix: str = "") -> None:
        w = self.where
        self.program.ops.append(
            Op(self.stem(suffix), kind, tuple(reads), tuple(writes), w.phase, w.layer, w.function, w.source)
        )

    def contiguous(self, view: View) -> View:
        """The same values, dense and in order; copies only where it must."""
        if view.contiguous:
            return view
        return self.map(lambda x: x, view, suffix="dense")

    def reshape(self, view: View, shape: Sequence[int]) -> View:
        shown = view.reshaped(tuple(shape))
        if shown is not None:
            return shown
        dense = self.contiguous(view).reshaped(tuple(shape))
        assert dense is not None
        return dense

    def map(
        self,
        body: Callable[..., Operand],
        *reads: View,
        dtype: DType | None = None,
        shape: Shape | None = None,
        into: View | None = None,
        suffix: str = "",
    ) -> View:
        """out[i] = body(reads[i]...), with broadcasting."""
        return self.maps(lambda *v: (body(*v),), *reads, dtypes=(dtype,), shape=shape, into=(into,), suffix=suffix)[0]

    def maps(
        self,
        body: Callable[..., Sequence[Operand]],
        *reads: View,
        dtypes: Sequence[DType | None] = (None,),
        shape: Shape | None = None,
        into: Sequence[View | None] | None = None,
        suffix: str = "",
    ) -> tuple[View, ...]:
        """The same with several results."""
        if shape is None:
            shape = broadcast(*(v.shape for v in reads))
        code = Body()
        values = [code.input(self.dtype(v)) for v in reads]
        results = [self._as_expr(code, r) for r in body(*values)]
        wanted = [d or r.dtype for d, r in zip(list(dtypes) + [None] * len(results), results, strict=False)]
        results = [r.cast(d) for r, d in zip(results, wanted, strict=True)]
        loop = Loop(
            shape,
            0,
            tuple(code.inputs),
            tuple(code.before),
            (),
            (),
            tuple(r.index for r in results),
            tuple(wanted),
        )
        targets = list(into or []) + [None] * len(results)
        writes = [t if t is not None else self.tensor(shape, d, suffix) for t, d in zip(targets, wanted, strict=False)]
        self.op(loop, [v.expanded(shape) for v in reads], writes, suffix)
        return tuple(writes)

    def reduce(
        self,
        op: str,
        dims: Sequence[int],
        *reads: View,
        body: Callable[..., Operand] = lambda x: x,
        post: Callable[..., Operand] = lambda x: x,
        shape: Shape | None = None,
        keepdim: bool = False,
        suffix: str = "",
    ) -> View:
        """post(fold(op, body(reads...))) over `dims` of the broadcast shape (all dims when empty)."""
        return self.reduces(
            op,
            dims,
            *reads,
            body=lambda *v: (body(*v),),
            post=lambda s, *_: (post(s),),
            shape=shape,
            keepdim=keepdim,
            suffixes=(suffix,),
        )[0]

    def reduces(
        self,
        op: str,
        dims: Sequence[int],
        *reads: View,
        body: Callable[..., Sequence[Operand]],
        post: Callable[..., Sequence[Operand]],
        shape: Shape | None = None,
        keepdim: bool = False,
        suffixes: Sequence[str] = ("",),
    ) -> tuple[View, ...]:
        """Several folds in one pass; `post` gets their results, then the reads (of which those constant along
        `dims` may be used)."""
        shape = broadcast(*(v.shape for v in reads)) if shape is None else shape
        folded = folded_dims(shape, dims)
        kept = [d for d in range(len(shape)) if d not in folded]
        order = (*kept, *folded)
        code = Body()
        values = [code.input(self.dtype(v)) for v in reads]
        inner = [self._as_expr(code, e) for e in body(*values)]
        inner = [e.cast(DType.I32) if e.dtype is DType.U8 and op in ("sum", "prod") else e for e in inner]
        results = [self._as_expr(code, e) for e in post(*[code.fold(op, e) for e in inner], *values)]
        loop = Loop(
            tuple(shape[d] for d in order),
            len(folded),
            tuple(code.inputs),
            tuple(code.before),
            tuple(code.reductions),
            tuple(code.after),
            tuple(r.index for r in results),
            tuple(r.dtype for r in results),
        )
        names = [*suffixes, *[f"result{i}" for i in range(len(suffixes), len(results))]]
        extents = [shape[d] for d in kept]
        writes = [self.tensor(extents, r.dtype, n) for r, n in zip(results, names, strict=False)]
        self.op(loop, [v.expanded(shape).permuted(order) for v in reads], writes, suffixes[0])
        whole = [1 if d in folded else e for d, e in enumerate(shape)]
        return tuple(self.reshape(w, whole) if keepdim else w for w in writes)

    @staticmethod
    def _as_expr(code: Body, value: Operand) -> Expr:
        if isinstance(value, Expr):
            return value
        return code.add("copy", DType.I32 if isinstance(value, int) else DType.F32, value)

    def fill(self, shape: Sequence[int], value: float | int, dtype: DType, suffix: str = "fill") -> View:
        code = Body()
        result = code.add("copy", dtype, float(value) if dtype is DType.F32 else int(value))
        loop = Loop(tuple(shape), 0, (), tuple(code.before), (), (), (result.index,), (dtype,))
        out = self.tensor(shape, dtype, suffix)
        self.op(loop, (), [out], suffix)
        return out

    def copy_into(self, source: View, target: View, suffix: str = "copy") -> None:
        """target[...] = source[...] (same shape)."""
        self.map(lambda x: x.cast(self.dtype(target)), source, shape=target.shape, into=target, suffix=suffix)


def broadcast(*shapes: Shape) -> Shape:
    """The common shape of pointwise operands."""
    rank = max((len(s) for s in shapes), default=0)
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    out = []
    for extents in zip(*padded, strict=True):
        larger = {e for e in extents if e != 1}
        assert len(larger) <= 1, f"shapes {shapes} do not broadcast"
        out.append(larger.pop() if larger else 1)
    return tuple(out)


def folded_dims(shape: Shape, dims: Sequence[int]) -> list[int]:
    """The dimensions a reduction folds, in order; none given means all. A single number has none, whatever is given."""
    return sorted({d % len(shape) for d in dims}) if dims and shape else list(range(len(shape)))
