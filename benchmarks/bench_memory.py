"""What the training steps need: peak, lower bound, and the seconds that planning takes; and the allocator by itself.

python -m benchmarks.bench_memory [--write docs/benchmarks.md]. Peaks must be proved, limits reached.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from benchmarks import bench_arena, segments
from benchmarks.deployments import all_examples
from benchmarks.networks import example, folded_example, mnist_cnn, mobilenet_v2, program
from trainlib_deployer.machine.targets import TARGETS
from trainlib_deployer.passes.within_budget import within_budget
from trainlib_deployer.plan.layout import OUTER, layout
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.program.ir import Role
from trainlib_deployer.user.model import UserModel

ROOMY = TARGETS["generic"].with_memory(OUTER, 1 << 40)  # one memory, one core, no stacks
SHARE = 0.09  # of the forward pass's multiply-adds
HEADINGS = {
    "bound": "lower bound",
    "repeated": "transient, free operations repeated",
    "worked": "transient, at most 9 % more forward work",
    "planned": "planned in",
}
BEGIN, END = "<!-- memory: begin -->", "<!-- memory: end -->"


@dataclass(frozen=True)
class Row:
    """One network, as it is, with free operations run twice, and with `SHARE` more work in the forward pass."""

    name: str
    plan: Plan
    seconds: float  # planning
    total: float  # from the module to the plan
    free: int  # transient bytes
    paid: int
    patience: float

    @property
    def transient(self) -> int:
        return self.plan.levels["L2"].arena

    @property
    def parameters(self) -> int:
        return sum(t.nbytes for t in self.plan.program.of_role(Role.PARAMETER))

    @property
    def failures(self) -> list[str]:
        level = self.plan.levels["L2"]
        wrong = []
        if not (level.used == level.lower_bound and level.proved):
            wrong.append(f"{self.name}: {level.used} bytes are not proved to be the least ({level.lower_bound})")
        if self.seconds >= 1.0:
            wrong.append(f"{self.name}: planned in {self.seconds:.2f} s")
        if self.total >= self.patience:
            wrong.append(f"{self.name}: {self.total:.2f} s from the module to the plan")
        return wrong


@dataclass(frozen=True)
class Limit:
    """A figure that a network must reach."""

    network: str
    what: str
    bytes: int
    reached: Callable[[Row], int]


LIMITS = (
    Limit("MNIST CNN", "transient", 12_544_000, lambda r: r.transient),
    Limit("MobileNetV1-0.25, folded", "weights and transient", 1846 << 10, lambda r: r.transient + r.parameters),
    Limit("DS-CNN, folded", "transient", 315 << 10, lambda r: r.transient),
    Limit("DS-CNN, folded", "transient with 9 % more forward work", 221 << 10, lambda r: r.paid),
)


def planned(name: str, make: Callable[[], UserModel], patience: float = 60.0) -> Row:
    user = make()
    begin = time.perf_counter()
    step = program(user)
    middle = time.perf_counter()
    plan = layout(step, ROOMY, OUTER)
    end = time.perf_counter()
    forward = sum(op.kind.macs() for op in step.ops if op.phase == "forward")
    free, paid = (
        layout(within_budget(step, 0, most), ROOMY, OUTER).levels["L2"].arena for most in (0, int(SHARE * forward))
    )
    return Row(name, plan, end - middle, end - begin, free, paid, patience)


def rows(large: bool) -> list[Row]:
    found = [planned(path.stem, partial(example, path.stem)) for path in all_examples()]
    found.append(planned("MNIST CNN", mnist_cnn))
    found.append(planned("MobileNetV1-0.25, folded", folded_example("mobilenet_v1")))
    found.append(planned("DS-CNN, folded", folded_example("dscnn")))
    found.append(planned("ResNet8, folded", folded_example("resnet8")))
    if large:
        found.append(planned("MobileNetV2 1.0, 224x224, batch 10", mobilenet_v2, patience=10.0))
    return found


def table(found: list[Row]) -> list[str]:
    head = "network operations peak bound proved persistent transient repeated worked planned".split()
    lines = ["| " + " | ".join(HEADINGS.get(h, h) for h in head) + " |", "|" + "---|" * len(head)]
    for r in found:
        level = r.plan.levels["L2"]
        proved = "yes" if level.proved else "no"
        numbers = [level.used, level.lower_bound, proved, level.persistent, r.transient, r.free, r.paid]
        cells = [r.name, len(r.plan.program.ops), *numbers, f"{r.seconds:.2f} s, {r.total:.1f} s from the module"]
        lines.append("| " + " | ".join(f"{c:,}" if isinstance(c, int) else c for c in cells) + " |")
    return lines


def limits(found: list[Row]) -> list[tuple[str, bool]]:
    """One line a limit, and whether it is kept."""
    out = []
    for limit in LIMITS:
        for row in (r for r in found if r.name == limit.network):
            reached = limit.reached(row)
            kept = reached <= limit.bytes
            verdict = "reached" if kept else f"{reached - limit.bytes:,} too many"
            out.append((f"{limit.network}: {limit.what} {reached:,} of {limit.bytes:,} bytes, {verdict}", kept))
    return out


def reference(row: Row) -> list[str]:
    """The MNIST CNN as others plan it."""
    user = mnist_cnn()
    apart = sum(segments.segments(user.module, user.inputs[0]).values())
    together = segments.one_arena(user.module, user.inputs[0])
    return [
        f"{row.name}: {apart:,} transient bytes in separate segments (benchmarks/segments.py), "
        f"{together:,} for the same tensors in one arena, {row.transient:,} here"
    ]


def write(path: Path, lines: list[str], marks: tuple[str, str] = (BEGIN, END)) -> None:
    """Between the marks; the rest of the file stays."""
    begin, end = marks
    before, found, rest = path.read_text().partition(begin)
    assert found, f"{path}: no {begin}"
    path.write_text("\n".join([before + begin, *lines, end]) + rest.partition(end)[2])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="the file that keeps the numbers")
    parser.add_argument("--small", action="store_true", help="without the large network")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = rows(large=not given.small)
    verdicts = limits(found)
    compared = [line for row in found if row.name == "MNIST CNN" for line in reference(row)]
    allocated, failures = bench_arena.table()
    notes = [f"- {text}" for text in [*(text for text, _ in verdicts), *compared]]
    lines = [*table(found), "", *notes, "", "The allocator by itself:", "", *allocated]
    print("\n".join(lines))
    if given.write:
        write(given.write, lines)
    failures += [f for r in found for f in r.failures] + [text for text, kept in verdicts if not kept]
    print("\n".join(f"FAIL {f}" for f in failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
