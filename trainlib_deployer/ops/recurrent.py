"""Scans over time of recurrent layers. The products before and after them are ordinary ones: see recurrent.py above."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import torch

from trainlib_deployer.capture.recurrent import GATES, SAVED
from trainlib_deployer.formats import DType
from trainlib_deployer.kernels import table
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.movement import split
from trainlib_deployer.ops.registry import covers
from trainlib_deployer.program.brought import Bringing, Brought
from trainlib_deployer.program.cuts import Cuttable, Range, ranges, sizes
from trainlib_deployer.program.ir import Part, Priced, View

Fields = list[tuple[str, str | int]]
TIMED = {"gates", "saved", "y", "dgates", "dhidden"}  # operands with a row for each step
MOMENTS = {"gates", "saved", "dgates", "dhidden", "cs"}  # of a kernel for halves these are some
EITHER = {"y", "hs"}  # ... and these may be

BLOCKS = (64, 32, 16)  # rows of w that come at a time: a sum's blocks of 64 terms end with one

# LSTMs with projections are unrolled by PyTorch, which cuts the gates apart with this
covers(torch.ops.aten.unsafe_split.Tensor)(split)


@dataclass(frozen=True)
class Scan(Cuttable[Range], Priced, Bringing):
    """One layer in one direction of time. `reads` and `writes` name the operands, as the struct in C does.

    fw: gates [steps, batch, G*hidden], h0, c0, w, bias -> hs, cs, saved, carry
    bw: y (= dL/dy), h0, c0 (= dL/d of the last h, c), w, hs, cs, saved -> dgates, dhidden, dh, dc"""

    direction: str
    cell: str  # rnn_tanh, rnn_relu, lstm, gru
    steps: int
    batch: int
    hidden: int
    reverse: bool
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    initial: bool = False  # bw: dL/dh0 is wanted
    resume: bool = False  # a tile behind another one
    more: bool = False  # another tile follows
    storage: DType = DType.F32  # of what there is for each moment
    halves: tuple[str, ...] = ()  # operands that are, where these are some
    rows: int = 0  # of w that its kernel brings at a time; 0: w is read where it lies

    @property
    def name(self) -> str:
        return f"{self.cell.partition('_')[0]}_{self.direction}"

    @property
    def gates(self) -> int:
        return GATES[self.cell]

    def cycles(self, cores: int, costs: Costs) -> float:
        return table.cycles(self, cores, costs)

    def scratch(self, cores: int) -> int:
        return table.scratch(self, cores)

    def of_halves(self, half: DType, those: Collection[str]) -> Scan:
        """By a kernel for halves, if what there is for each moment is among those that lie as such."""
        operands = (*self.reads, *self.writes)
        if not those or any(name in MOMENTS and name not in those for name in operands):
            return self
        return replace(self, storage=half, halves=tuple(n for n in operands if n in those and n in MOMENTS | EITHER))

    @property
    def products(self) -> int:
        """Steps that multiply by w."""
        return self.steps if self.direction == "fw" else self.steps - 1 + (self.initial or self.more)

    def macs(self) -> int:
        return self.products * self.batch * self.gates * self.hidden * self.hidden

    @property
    def brought(self) -> Brought | None:
        if not self.rows:
            return None
        every, times = self.gates * self.hidden, self.products
        nbytes = times * every * self.hidden * DType.F32.size
        return Brought(self.reads.index("w"), times * -(-every // self.rows), nbytes)

    def bringing(self) -> Iterator[Scan]:
        return (replace(self, rows=rows) for rows in BLOCKS if self.products and rows < self.gates * self.hidden)

    def touched(self, operand: int, view: View) -> int:
        return view.numel if self.products or operand != self.reads.index("w") else 0

    def cuts(self) -> Iterator[list[Range]]:
        """Ranges of time in the order in which the steps run."""
        backwards = self.reverse == (self.direction == "fw")
        for size in sizes(self.steps):
            pieces = ranges(self.steps, size)
            yield [(self.steps - hi, self.steps - lo) for lo, hi in pieces] if backwards else pieces

    def part(self, cut: Range, reads: tuple[View, ...], writes: tuple[View, ...]) -> Part:
        lo, hi = cut
        backwards = self.reverse == (self.direction == "fw")
        first, last = (hi == self.steps, lo == 0) if backwards else (lo == 0, hi == self.steps)
        kind = replace(self, steps=hi - lo, resume=not first, more=not last)
        states = (lo, hi + 1)
        if self.direction == "fw" and not first:
            states = (lo, hi) if self.reverse else (lo + 1, hi + 1)

        def seen(name: str, view: View) -> View:
            if name in ("hs", "cs"):
                return view.sliced(0, *states)
            return view.sliced(0, lo, hi) if name in TIMED else view

        return Part(
            kind,
            tuple(seen(n, v) for n, v in zip(self.reads, reads, strict=True)),
            tuple(seen(n, v) for n, v in zip(self.writes, writes, strict=True)),
        )


@dataclass(frozen=True)
class Scans(Cuttable[tuple[Range, Range]], Priced):
    """Two that do not wait for each other, as those of a layer's directions, by half of the cores each. Reads: those of
    the first, then of the second; so do writes."""

    scans: tuple[Scan, Scan]

    @property
    def name(self) -> str:
        return f"{self.scans[0].name}_both"

    @property
    def storage(self) -> DType:
        return self.scans[0].storage

    def cycles(self, cores: int, costs: Costs) -> float:
        return table.cycles(self, cores, costs)

    def scratch(self, cores: int) -> int:
        return table.scratch(self, cores)

    def macs(self) -> int:
        return sum(scan.macs() for scan in self.scans)

    def touched(self, operand: int, view: View) -> int:
        first, second = self.scans
        own, reads = len(first.reads), len(first.reads) + len(second.reads)
        if operand < own:
            return first.touched(operand, view)
        return second.touched(operand - own, view) if operand < reads else view.numel

    def cuts(self) -> Iterator[list[tuple[Range, Range]]]:
        first, second = self.scans
        return ([*zip(one, other, strict=True)] for one, other in zip(first.cuts(), second.cuts(), strict=True))

    def part(self, cut: tuple[Range, Range], reads: tuple[View, ...], writes: tuple[View, ...]) -> Part:
        first, second = self.scans
        given, made = len(first.reads), len(first.writes)
        one = first.part(cut[0], reads[:given], writes[:made])
        other = second.part(cut[1], reads[given:], writes[made:])
        kinds = tuple(p.kind for p in (one, other) if isinstance(p.kind, Scan))
        return Part(Scans((kinds[0], kinds[1])), (*one.reads, *other.reads), (*one.writes, *other.writes))


def append(b: Builder, scan: Scan, operands: dict[str, View]) -> None:
    """`y` is read where it lies; everything else is dense."""
    reads = [operands[n] if n == "y" else b.contiguous(operands[n]) for n in scan.reads]
    b.op(scan, reads, [operands[n] for n in scan.writes])


def present(**operands: View | None) -> dict[str, View]:
    return {n: v for n, v in operands.items() if v is not None}


@covers(torch.ops.trainlib.rnn_scan.default)
def rnn_scan(
    b: Builder, cell: str, gates: View, h0: View, c0: View | None, w: View, bias: View | None, reverse: bool, save: bool
) -> list[View]:
    (steps, batch, _), hidden = gates.shape, w.shape[1]
    reads = present(gates=gates, h0=h0, c0=c0, w=w, bias=bias)
    writes = {"hs": b.tensor((steps + 1, batch, hidden), suffix="h")}
    if cell == "lstm":
        writes["cs"] = b.tensor((steps + 1, batch, hidden), suffix="c")
    if save and GATES[cell] > 1:
        writes["saved"] = b.tensor((steps, batch, SAVED * hidden), suffix="gates")
    writes["carry"] = b.tensor((2, batch, hidden), suffix="carry")
    scan = Scan("fw", cell, steps, batch, hidden, reverse, tuple(reads), tuple(writes))
    append(b, scan, {**reads, **writes})
    return list(writes.values())[:-1]


@covers(torch.ops.trainlib.rnn_scan_backward.default)
def rnn_scan_backward(
    b: Builder,
    cell: str,
    gy: View | None,
    gh: View | None,
    gc: View | None,
    w: View,
    tape: list[View],
    reverse: bool,
    initial: bool,
) -> list[View]:
    steps, batch, hidden = tape[0].shape[0] - 1, *tape[0].shape[1:]
    names = {"lstm": ("hs", "cs", "saved"), "gru": ("hs", "saved")}.get(cell, ("hs",))
    reads = present(y=gy, h0=gh, c0=gc, w=w, **dict(zip(names, tape, strict=True)))
    rows = (steps, batch, GATES[cell] * hidden)
    writes = {"dgates": b.tensor(rows, suffix="gates")}
    if cell == "gru":
        writes["dhidden"] = b.tensor(rows, suffix="hidden")
    writes["dh"] = b.tensor((batch, hidden), suffix="h")
    if cell == "lstm":
        writes["dc"] = b.tensor((batch, hidden), suffix="c")
    append(
        b, Scan("bw", cell, steps, batch, hidden, reverse, tuple(reads), tuple(writes), initial), {**reads, **writes}
    )
    return list(writes.values())
