"""The points of a sweep: what each trains and needs, and which of them no other one beats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

from trainlib_deployer.advice.budget import FREE, Budget
from trainlib_deployer.advice.forecast import Forecast
from trainlib_deployer.advice.shortage import missing
from trainlib_deployer.frames import frame
from trainlib_deployer.html import table
from trainlib_deployer.options import DTYPES
from trainlib_deployer.plan.plan import Plan

Memory = tuple[int, int]  # outer; then inner, which counts where nothing is in the outer one: otherwise tiles fill it
Costs = tuple[Memory, float, int, int, int]
NEED = ("MACs a step", "a sample", "", "optimal")
FORECAST = ("ms", "mJ")  # of machines whose clock is known
WORDS = ("trained", "type", "batch", "optimal")  # columns that are no numbers


@dataclass(frozen=True)
class Point:
    """One way to train a network, planned."""

    what: str  # is trained
    line: str  # to paste behind the model; empty where nothing more is frozen
    trained: int  # parameters
    total: int
    batch: int
    accumulate: int  # steps an update
    recompute: str  # level: none, some, free, fitting; far: in a third memory, if anything is
    repeated: int  # operations that run twice
    options: str  # of the deployment that gives this plan, beside those of the sweep
    plan: Plan = field(repr=False)
    forecast: Forecast
    dtype: str = "fp32"
    pareto: bool = False

    @property
    def l1(self) -> int:
        return self.plan.inner.used

    @property
    def l2(self) -> int:
        return self.plan.outer.used

    @property
    def macs(self) -> int:
        """Multiply-adds of a step."""
        return macs(self.plan)

    @property
    def macs_per_sample(self) -> float:
        return self.macs / self.batch

    @property
    def update(self) -> str:
        """The batch, and how many of it an update takes."""
        return f"{self.batch}" + (f" x {self.accumulate} steps" if self.accumulate > 1 else "")

    @property
    def samples(self) -> int:
        """That an update averages over."""
        return self.batch * self.accumulate

    @property
    def over(self) -> int:
        """Bytes missing on the target."""
        return missing(self.plan)

    @property
    def proved_optimal(self) -> bool:
        return all(level.proved for level in self.plan.levels.values())

    @property
    def costs(self) -> Costs:
        """Less is better of memory, work and rounding, more of parameters and samples an update."""
        return memory(self.plan), self.macs_per_sample, self.trained, self.samples, rounding(self.dtype)

    @property
    def merit(self) -> tuple[float, ...]:
        return self.trained, self.samples, -rounding(self.dtype), -self.macs_per_sample

    def as_json(self) -> dict[str, Any]:
        """Plain values under stable names: a row of a CSV file, too."""
        return {
            "trained": self.what,
            "line": self.line,
            "parameters_trained": self.trained,
            "parameters_total": self.total,
            "batch": self.batch,
            "accumulate": self.accumulate,
            "dtype": self.dtype,
            "recompute": self.recompute,
            "repeated_operations": self.repeated,
            "options": self.options,
            "l1_bytes": self.l1,
            "l2_bytes": self.l2,
            "total_bytes": self.plan.peak,
            "macs_per_step": self.macs,
            "macs_per_sample": self.macs_per_sample,
            "fits": self.over == 0,
            "bytes_over": self.over,
            **self.forecast.as_json(),
            "proved_optimal": self.proved_optimal,
            "pareto": self.pareto,
        }

    def cells(self, typed: bool = False) -> tuple[str, ...]:
        return (
            self.what,
            *((self.dtype,) if typed else ()),
            f"{self.trained:,}",
            self.update,
            f"{self.repeated}" if self.repeated else "-",
            f"{self.l2:,}",
            f"{self.l1:,}",
            f"{self.macs:,}",
            f"{self.macs_per_sample:,.0f}",
            f"{self.over:,} over" if self.over else "fits",
            "proved" if self.proved_optimal else "-",
            *((f"{self.forecast.cycles:,}" if self.forecast.cycles else "-",) if typed else ()),
            *(self.forecast.cells() if self.forecast.milliseconds is not None else ()),
        )


def memory(plan: Plan) -> Memory:
    l2 = plan.outer.used
    return l2, 0 if l2 else plan.inner.used


def macs(plan: Plan) -> int:
    return sum(op.kind.macs() for op in plan.program.step)


def rounding(dtype: str) -> int:
    """How much of a step is rounded to halves, from nothing upwards."""
    return DTYPES.index(dtype)


def dominates(a: Costs, b: Costs) -> bool:
    """At least as good everywhere, and better somewhere."""
    no_worse = a[0] <= b[0] and a[1] <= b[1] and a[2] >= b[2] and a[3] >= b[3] and a[4] <= b[4]
    return no_worse and a != b


def front(costs: Sequence[Costs]) -> list[bool]:
    """Which ones no other dominates; of equal ones, the first."""
    chosen: list[Costs] = []
    kept = [False] * len(costs)
    best_first = sorted(range(len(costs)), key=lambda i: (*costs[i][:2], -costs[i][2], -costs[i][3], costs[i][4], i))
    for i in best_first:
        if not any(dominates(c, costs[i]) or c == costs[i] for c in chosen):
            chosen.append(costs[i])
            kept[i] = True
    return kept


@dataclass(frozen=True)
class Points(Sequence[Point]):
    """The points of a sweep; in a notebook, a table."""

    name: str  # of the model
    points: tuple[Point, ...]
    budget: Budget = FREE

    @staticmethod
    def of(name: str, found: Sequence[Point], budget: Budget = FREE) -> Points:
        """From the least memory to the most."""
        kept = front([p.costs for p in found])
        marked = [replace(p, pareto=k) for p, k in zip(found, kept, strict=True)]
        return Points(name, tuple(sorted(marked, key=lambda p: (p.costs[0], p.trained))), budget)

    @property
    def front(self) -> Points:
        """Those that no other one beats."""
        return Points(self.name, tuple(p for p in self.points if p.pareto), self.budget)

    @property
    def within(self) -> Points:
        """Those that fit the machine and the budget."""
        return Points(self.name, tuple(p for p in self.points if not p.over and not self.excess(p)), self.budget)

    def excess(self, point: Point) -> tuple[str, ...]:
        return self.budget.exceeded(point.forecast)

    @property
    def best(self) -> Point | None:
        """Of what is within: the most parameters, then samples an update, then the least rounding, the least work."""
        return max(self.within, key=lambda p: p.merit, default=None)

    def __len__(self) -> int:
        return len(self.points)

    @overload
    def __getitem__(self, index: int) -> Point: ...
    @overload
    def __getitem__(self, index: slice) -> Points: ...
    def __getitem__(self, index: int | slice) -> Point | Points:
        return self.points[index] if isinstance(index, int) else Points(self.name, self.points[index], self.budget)

    def lines(self) -> dict[str, str]:
        """What is trained -> the line that freezes the rest."""
        return {p.what: p.line for p in self.points if p.line}

    def _repr_html_(self) -> str:
        return table(
            self.name,
            (*self.headings, "line to paste"),
            ((*row, p.line) for row, p in zip(self.rows, self, strict=True)),
        )

    @property
    def typed(self) -> bool:
        """Whether its points have more than one type."""
        return len({p.dtype for p in self.points}) > 1

    @property
    def rows(self) -> list[tuple[str, ...]]:
        return [p.cells(self.typed) for p in self.points]

    @property
    def headings(self) -> tuple[str, ...]:
        timed = any(p.forecast.milliseconds is not None for p in self.points)
        memories = next(((p.plan.outer.name, p.plan.inner.name) for p in self.points), ("outer", "inner"))
        first = ("trained", *(("type",) if self.typed else ()), "parameters", "batch", "done twice")
        return (*first, *memories, *NEED, *(("cycles",) if self.typed else ()), *(FORECAST if timed else ()))

    @property
    def numbers(self) -> tuple[int, ...]:
        """Columns of numbers."""
        return tuple(i for i, heading in enumerate(self.headings) if heading not in WORDS)

    def __repr__(self) -> str:
        return f"Points({self.name}: {len(self.points)} ways to train it, {len(self.front)} that no other beats)"

    def to_dataframe(self) -> Any:
        """A row a point."""
        return frame(p.as_json() for p in self.points)
