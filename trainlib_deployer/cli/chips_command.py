"""trainlib-deploy chips: one network on every chip."""

from __future__ import annotations

import contextlib
import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainlib_deployer.advice.budget import Budget
from trainlib_deployer.cli.budget_options import SMALLER, budget_options, nothing_within
from trainlib_deployer.cli.console import table
from trainlib_deployer.cli.count import COUNT
from trainlib_deployer.cli.output_files import STDOUT, check_output_files, write_json, write_text
from trainlib_deployer.cli.spoken import Progress, examples, note, spoken
from trainlib_deployer.errors import DoesNotFit
from trainlib_deployer.options import DTYPES
from trainlib_deployer.version import __version__

if TYPE_CHECKING:
    from trainlib_deployer.advice.chips import Chip

FILE = click.Path(path_type=Path, allow_dash=True)


@click.command(
    "chips",
    short_help="Which chips a training step fits.",
    epilog=examples("trainlib-deploy chips --model net.py", "trainlib-deploy chips --model net.py --csv chips.csv"),
)
@click.option("--model", metavar="FILE[:NAME]", required=True, help="The Python file, as for a deployment.")
@click.option("--input", "input_shape", metavar="SHAPE", help="Shape of the input, batch first: 1x3x32x32.")
@click.option("--accumulate", metavar="N", type=COUNT, default=1, help="Samples an update.  [1]")
@click.option("--dtype", type=click.Choice(DTYPES), default="fp32", help="As of a deployment.  [fp32]")
@click.option("--l3", is_flag=True, help="With the memories that boards put beside the chips, where they do.")
@budget_options
@click.option("--json", "json_file", metavar="FILE", type=FILE, help="Write the rows; - is stdout.")
@click.option("--csv", "csv_file", metavar="FILE", type=FILE, help="Write the rows, one a line; - is stdout.")
@spoken
def chips_command(
    *,
    model: str,
    input_shape: str | None,
    accumulate: int,
    dtype: str,
    l3: bool,
    time: str | None,
    energy: str | None,
    memory: str | None,
    json_file: Path | None,
    csv_file: Path | None,
) -> None:
    """Which chip? Whether a training step fits each of them, or by how much not, and what would help. With a budget:
    what can be trained within it."""
    budget = Budget.parse(time, energy, memory)
    check_output_files(json_file, csv_file)
    say = Progress()
    say("loading the model")
    from trainlib_deployer.advice import chips  # PyTorch takes seconds to import
    from trainlib_deployer.user import load_model as user_model  # PyTorch takes seconds to import

    user = user_model.load(model, input_shape, None, 1, accumulate)
    for line in user.notes:
        note(line)
    with contextlib.redirect_stdout(sys.stderr):  # what the user's forward prints is not a result
        found = chips.chips_of(user, accumulate, say, budget, l3, dtype)
    if json_file is not None:
        rows = [c.as_json() for c in found]
        write_json(json_file, {"tool": tool(), "model": {"name": user.name}, "dtype": dtype, "chips": rows})
    if csv_file is not None:
        write_text(csv_file, chips_csv(found, chips.memories(l3)))
    if STDOUT not in (json_file, csv_file):
        right = range(2, 5 + len(chips.memories(l3)))
        table(f"{user.name}: one step, {dtype}", chips.headings(l3), (c.cells(l3) for c in found), right=right)
        if budget.given:
            print()
            table(f"within {budget}", chips.ANSWERS, (c.answer() for c in found), right=range(2, 5))
        print("\n".join(("cycles are estimated", *sources(found))))
    if budget.given and not any(c.within for c in found):
        raise nothing_within(user.name, budget)
    if not budget.given and not any(c.fits for c in found):
        raise DoesNotFit(f"a step of {user.name} fits none of these chips", remedy=SMALLER)


def sources(found: Sequence[Chip]) -> list[str]:
    energies = [c.forecast.energy if c.forecast else None for c in found]
    clocks = [f"{c.name} at {c.clock}" for c in found if c.clock]
    return clocks + [f"mJ of {c.name}: {e.source}" for c, e in zip(found, energies, strict=True) if e]


def tool() -> dict[str, str]:
    return {"name": "trainlib-deploy", "version": __version__}


def chips_csv(found: Sequence[Chip], memories: Sequence[str]) -> str:
    text = io.StringIO()
    forecast = ("cycles", "milliseconds", "millijoules_least", "millijoules_most", "energy_source")
    columns = ["name", "fits", *memories, *(f"{m}_over" for m in memories), *forecast, "helps", "within_budget", "line"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for c in found:
        used, over = ([of.get(m, "") for m in memories] for of in (c.used, c.over))
        row, best = c.as_json(), c.within
        answer = (best.what, best.line) if best else ("", "")
        writer.writerow([c.name, int(c.fits), *used, *over, *(row[k] for k in forecast), "; ".join(c.helps), *answer])
    return text.getvalue()
