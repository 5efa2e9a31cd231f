"""trainlib-deploy sweep: the ways to train a network, from the least memory to the most."""

from __future__ import annotations

import contextlib
import csv
import io
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trainlib_deployer.advice.budget import Budget
from trainlib_deployer.cli.budget_options import SMALLER, budget_options, nothing_within
from trainlib_deployer.cli.console import print_points
from trainlib_deployer.cli.count import COUNT
from trainlib_deployer.cli.output_files import STDOUT, check_output_files, write_json, write_text
from trainlib_deployer.cli.spoken import Progress, examples, note, spoken
from trainlib_deployer.errors import DoesNotFit
from trainlib_deployer.machine.targets import DEFAULT, MOST_CORES, TARGETS, resolve
from trainlib_deployer.options import DTYPES, dtypes_of
from trainlib_deployer.version import __version__

if TYPE_CHECKING:
    from trainlib_deployer.advice.points import Points
    from trainlib_deployer.machine.machine import Machine

FILE = click.Path(path_type=Path, allow_dash=True)


@click.command(
    "sweep",
    short_help="What training all of it, or parts, takes.",
    epilog=examples(
        "trainlib-deploy sweep --model net.py --l2 512k", "trainlib-deploy sweep --model net.py --all --csv points.csv"
    ),
)
@click.option("--model", metavar="FILE[:NAME]", required=True, help="The Python file, as for a deployment.")
@click.option("--cores", metavar="N", help=f"Cores of the cluster, 1 to {MOST_CORES}.  [the target's]")
@click.option("--l1", metavar="SIZE", help="Bytes of L1.  [the target's]")
@click.option("--l2", metavar="SIZE", help="Bytes of L2.  [the target's]")
@click.option("--l3", metavar="SIZE", help="Bytes of a memory behind L2, for what does not fit there.  [none]")
@click.option("--target", metavar="NAME", help=f"Preset cores and sizes: {', '.join(TARGETS)}.  [{DEFAULT}]")
@click.option("--input", "input_shape", metavar="SHAPE", help="Shape of the input, batch first: 1x3x32x32.")
@click.option("--accumulate", metavar="N", type=COUNT, default=1, help="Samples an update.  [1]")
@click.option("--dtype", metavar="TYPES", default="fp32", help=f"Some of {','.join(DTYPES)}, with commas.  [fp32]")
@click.option("--all", "every", is_flag=True, help="The points that others beat, too.")
@budget_options
@click.option("--json", "json_file", metavar="FILE", type=FILE, help="Write the points; - is stdout.")
@click.option("--csv", "csv_file", metavar="FILE", type=FILE, help="Write the points, one a line; - is stdout.")
@spoken
def sweep_command(
    *,
    model: str,
    cores: str | None,
    l1: str | None,
    l2: str | None,
    l3: str | None,
    target: str | None,
    input_shape: str | None,
    accumulate: int,
    dtype: str,
    every: bool,
    time: str | None,
    energy: str | None,
    memory: str | None,
    json_file: Path | None,
    csv_file: Path | None,
) -> None:
    """What training takes: all of it or parts, batch sizes, recomputation; the points that no other one beats. With a
    budget: those that keep within it, and the most that can be trained."""
    budget, dtypes = Budget.parse(time, energy, memory), dtypes_of(dtype)
    machine = resolve(target, cores, l1, l2, l3)
    check_output_files(json_file, csv_file)
    say = Progress()
    say("loading the model")
    from trainlib_deployer.advice import sweeping  # PyTorch takes seconds to import
    from trainlib_deployer.user import load_model as user_model  # PyTorch takes seconds to import

    user = user_model.load(model, input_shape, None, 1, accumulate)
    for line in user.notes:
        note(line)
    with contextlib.redirect_stdout(sys.stderr):  # what the user's forward prints is not a result
        points = sweeping.sweep_user_model(user, machine, accumulate, every, say, budget, dtypes)
    if budget.given and not points.within:
        least = f"; {', '.join(points.excess(points[0]))} is what the least takes" if points else ""
        raise nothing_within(user.name, budget, least)
    points = points.within if budget.given else points
    if json_file is not None:
        write_json(json_file, points_json(points, machine))
    if csv_file is not None:
        write_text(csv_file, points_csv(points))
    if STDOUT not in (json_file, csv_file):
        print_points(points, every)
    if all(p.over for p in points):
        missing = min(p.over for p in points)
        raise DoesNotFit(
            f"nothing of {user.name} fits {machine.name}: {missing:,} bytes over at the least",
            remedy=f"more memory, or {SMALLER}",
        )


def points_json(points: Points, target: Machine) -> dict[str, Any]:
    return {
        "tool": {"name": "trainlib-deploy", "version": __version__},
        "model": {"name": points.name},
        "target": {"name": target.name, "cores": target.cores, "l1": target.inner.size, "l2": target.outer.size},
        "budget": asdict(points.budget),
        "best": points.best.as_json() if points.budget.given and points.best else None,
        "points": [p.as_json() for p in points],
    }


def points_csv(points: Points) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(points[0].as_json()), lineterminator="\n")
    writer.writeheader()
    writer.writerows(p.as_json() for p in points)
    return text.getvalue()
