"""What the commands print: progress and notes on stderr, results on stdout."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from trainlib_deployer.machine.sizes import show_size
from trainlib_deployer.machine.targets import cores_text
from trainlib_deployer.plan.smaller import Saved
from trainlib_deployer.report.facts import step_ops

if TYPE_CHECKING:
    from golden.compare import Verdict
    from trainlib_deployer.advice.points import Points
    from trainlib_deployer.check.verify import Verification

LONGEST_OPERATIONS = 10
MOST_CODE = 128 * 1024  # of L2; under PULP-SDK, 98 kB for a small network and 124 kB for ResNet8 were measured
GAP = 2  # between columns
NARROWEST = 12  # that a column of words becomes
PLAIN_WIDTH = 160  # of tables that go to a file or a pipe


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> None:
    """A table on stdout; the columns in `right` are numbers, which are never broken: rather is the table too wide."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows, whole = list(rows), {0, *right}
    drawn = Table(box=None, pad_edge=False)
    for i, column in enumerate(columns):
        justify: Literal["left", "right"] = "right" if i in set(right) else "left"
        drawn.add_column(column, justify=justify, overflow="fold", no_wrap=i in whole)
    for row in rows:
        drawn.add_row(*(Text(cell) for cell in row))
    widths = [max(len(row[i]) for row in [columns, *rows]) if i in whole else NARROWEST for i in range(len(columns))]
    wide = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else PLAIN_WIDTH
    console = Console(width=wide, highlight=False)
    console = Console(width=max(console.width, sum(widths) + GAP * len(widths)), highlight=False)
    with console.capture() as text:
        if title:
            console.print(Text(title, style="bold"), soft_wrap=True)
        console.print(drawn)
    print("\n".join(line.rstrip() for line in text.get().splitlines()))


def prose(line: str) -> None:
    """Broken between words, where somebody looks: of what is written to a file or a pipe, lines stay whole."""
    watched = sys.stdout.isatty() or os.environ.get("COLUMNS")
    width = shutil.get_terminal_size().columns if watched else len(line) + 1
    print(textwrap.fill(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))


def bytes_text(size: int) -> str:
    """`12,544`, or `64k (65,536)` for round ones."""
    short = show_size(size)
    return f"{size:,}" if short == str(size) else f"{short} ({size:,})"


def counted(number: int, what: str) -> str:
    """`1 operation`, `1,558 operations`."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def print_summary(folder: object, plan: Mapping[str, Any]) -> None:
    """Where it is, what it takes."""
    model, target = plan["model"], plan["target"]
    counts = model.get("parameters", {})
    part = "forward alone" if model.get("inference") else f"{counts.get('trained', 0):,} trained"
    trained = f"{counts['total']:,} parameters, {part}, " if counts else ""
    print(f"{folder}")
    operations = counted(len(step_ops(plan["ops"])), "operation")
    print(f"{model['name']}: {trained}{operations}, for {cores_text(target['name'], target['cores'])}")
    if target.get("working", target["cores"]) < target["cores"]:
        working = f"{target['working']} of the {target['cores']} cores take part"
        print(f"{working}: their stacks and scratch would leave too little of L1 for tiles")
    if kept := Saved(**plan.get("saved", {})).sentence:
        print(kept)
    level_table(plan)
    if known := plan.get("samples"):
        print(f"beside it, {known['bytes']:,} bytes of data.bin for {counted(known['count'], 'sample')}")
    if image := plan.get("image"):
        print_image(image)
    elif (l2 := plan["levels"].get("L2", {"size": 0}))["size"] and l2["headroom"] < MOST_CODE:
        print(
            f"{l2['headroom']:,} bytes of L2 are left; code and constants need up to about {show_size(MOST_CODE)} "
            "of it under PULP-SDK, and are not counted without --target"
        )


def print_image(image: Mapping[str, Any]) -> None:
    """What lies in the outer memory besides tensors, and what the verification run adds."""
    sums: dict[str, int] = {}
    for share in image["shares"]:
        if share["only"] != "verification run":
            kind = share["kind"] or share["what"]
            sums[kind] = sums.get(kind, 0) + share["bytes"]
    parts = ", ".join(f"{kind} {size:,}" for kind, size in sums.items())
    prose(f"{image['level']} in a firmware: {image['firmware']:,} bytes: {parts}")
    more = f"the verification run, with its samples and references: {image['run']:,} bytes"
    there = max(image["simulated"], image["size"] if not image["simulated"] else 0)
    lacks = f"; the simulator has {there:,}" if image["run"] > there else ""
    print(f"{more}{lacks}")
    if (flash := image["flash"])["size"]:
        print(f"flash: {flash['firmware']:,} of {flash['size']:,} bytes in a firmware, {flash['run']:,} in the run")


def level_table(plan: Mapping[str, Any]) -> None:
    rows = [
        (
            name,
            bytes_text(level["size"]),
            f"{level['used']:,}",
            f"{100 * level['used'] / level['size']:.1f} %" if level["size"] else "-",
            f"{level['peak_live']:,}",
            f"{level['lower_bound']:,}",
            f"{level['stacks']:,}",
            f"{level['headroom']:,}",
        )
        for name, level in plan["levels"].items()
    ]
    columns = ("level", "bytes", "used", "", "peak live", "lower bound", "stacks", "left")
    table("", columns, rows, right=range(1, 8))


def operation_table(operations: Sequence[Mapping[str, Any]]) -> None:
    """Where the instructions go: the slowest core's, over all steps."""
    if not operations:
        return
    total = sum(op["instructions"] for op in operations)
    most = sorted(operations, key=lambda op: -op["instructions"])[:LONGEST_OPERATIONS]
    rows = [
        (f"{op['position']}", op["name"], f"{op['instructions']:,}", f"{100 * op['instructions'] / total:.1f} %")
        for op in most
    ]
    if len(operations) > len(most):
        rest = total - sum(op["instructions"] for op in most)
        rows.append(("", f"{len(operations) - len(most)} others", f"{rest:,}", f"{100 * rest / total:.1f} %"))
    table("", ("at", "operation", "instructions", ""), rows, right=(0, 2, 3))


def print_points(points: Points, every: bool) -> None:
    """One row a point, then the lines to paste."""
    table("", points.headings, points.rows, right=points.numbers)
    target = points[0].plan.target
    beaten = f"; {len(points.front)} of them beaten by none" if every else ", each beaten by none"
    print(f"\n{points.name} on {target.name} with {target.cores} cores: {len(points)} points{beaten}")
    if points.budget.given and points.best is not None:
        best = points.best
        typed = f" in {best.dtype}" if points.typed else ""
        print(f"within {points.budget}: {best.what}, batch {best.update}{typed}, is the most that can be trained")
    if points.lines():
        print("to train a part, paste its line behind the model:")
    for what, line in points.lines().items():
        print(f"\n# {what}\n{line}")


def unseen(verdict: Verdict) -> list[str]:
    """What the check could not tell from rounding: a line for each kind of tensor."""
    from trainlib_deployer.check.verify import KINDS

    lines = []
    for tensors, words in (
        (verdict.rounding_only, "rounding only, not judged beyond its bound"),
        (verdict.coarse, "a factor of 1.01 would be within rounding"),
    ):
        for kind in [k for k in KINDS if any(t.kind == k for t in tensors)]:
            names = list(dict.fromkeys(t.name for t in tensors if t.kind == kind))
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            lines.append(f"{kind} of {', '.join(names[:3])}{more}: {words}")
    return lines


def print_verification(result: Verification) -> None:
    """One row a kind of tensor, then the verdict."""
    from trainlib_deployer.check.verify import HEADINGS

    table("", HEADINGS, result.rows(), right=range(1, 5))
    if result.losses:
        print(f"loss {result.losses[0]:.6g} -> {result.losses[-1]:.6g} in {result.steps} steps")
    for name, value in result.counts.items():
        if name != "operations":
            print(f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}")
    operation_table(result.counts.get("operations", []))
    if result.memory:
        marks = (f"{n} {m['touched']:,} of {m['planned']:,}" for n, m in result.memory.items())
        print(f"bytes touched of those planned: {', '.join(marks)}")
    for line in (result.verdict.divergence, result.unjudged):
        if line:
            print(line)
    for line in unseen(result.verdict):
        print(line)
    print(result.summary)
