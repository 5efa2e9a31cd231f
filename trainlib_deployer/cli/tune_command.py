"""trainlib-deploy tune: a project again, in tiles that were measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from trainlib_deployer.cli.console import table
from trainlib_deployer.cli.count import COUNT
from trainlib_deployer.cli.spoken import examples, spoken
from trainlib_deployer.errors import UsageError
from trainlib_deployer.folder import perhaps_another_version, read_plan
from trainlib_deployer.run import BACKENDS, EMULATED
from trainlib_deployer.tune.asked import ROUNDS

NOT_SAID_AGAIN = ("out", "run_on", "json_file", "force", "tune")


@click.command(
    "tune",
    short_help="Measure tiles, and deploy with the fastest.",
    epilog=examples(
        "trainlib-deploy tune generated/net",
        "trainlib-deploy tune generated/net --on gvsoc --rounds 6",
        "trainlib-deploy tune generated/net --report",
    ),
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--on", default=EMULATED, type=click.Choice(tuple(BACKENDS)), help=f"Where to measure.  [{EMULATED}]")
@click.option("--rounds", metavar="N", type=COUNT, default=ROUNDS, help=f"Ways to cut each operation.  [{ROUNDS}]")
@click.option("--report", "only_report", is_flag=True, help="Only show what was measured.")
@spoken
@click.pass_context
def tune_command(ctx: click.Context, *, directory: Path, on: str, rounds: int, only_report: bool) -> None:
    """Measure the tiles that look best and write the project anew with the fastest. What was measured is kept in the
    user's cache: it is not measured again, for any network."""
    plan = read_plan(directory)
    if not only_report:
        group = ctx.find_root().command
        said_before = deployed_by(directory)
        check_folder_of(said_before, directory)
        again = [*said_before, "--tune", f"{on}:{rounds}", "--out", str(directory)]
        with group.make_context(ctx.find_root().info_name, again, obj=ctx.obj) as deployment:
            group.invoke(deployment)
        plan = read_plan(directory)
    with perhaps_another_version(directory):
        print_tuning(directory, plan)


def deployed_by(directory: Path) -> list[str]:
    """The words that deploy a project once more, from the folder that they were said in."""
    try:
        found = json.loads((directory / "model" / "spec.json").read_text()).get("command")
    except (OSError, ValueError, AttributeError) as err:
        raise UsageError(f"{directory}: model/spec.json cannot be read", remedy="deploy the model again") from err
    if not isinstance(found, list) or not found:
        raise UsageError(
            f"{directory} was not deployed from the command line",
            remedy=f"give deploy() tune='{EMULATED}'",
        )
    return [str(word) for word in found]


def check_folder_of(again: Sequence[str], directory: Path) -> None:
    """A path among these words leads where it led from the folder in which they were said."""
    from trainlib_deployer.user.load_model import split_spec  # PyTorch takes seconds to import

    for option, value in pairwise(again):
        if option == "--model":
            try:
                split_spec(value)
            except UsageError as err:
                remedy = f"call it in the folder from which {directory} was deployed"
                raise UsageError(err.message, remedy=remedy) from None


def words(ctx: click.Context) -> tuple[str, ...]:
    """What was said of a deployment, here or in pyproject.toml, but for where it goes and what is done with it."""
    return tuple(word for option in ctx.command.params for word in said(ctx, option))


def said(ctx: click.Context, option: click.Parameter) -> Iterator[str]:
    name = str(option.name)
    value = ctx.params.get(name)  # -v and -q leave none
    if name in NOT_SAID_AGAIN or value in (None, False) or ctx.get_parameter_source(name) is ParameterSource.DEFAULT:
        return
    for one in value if isinstance(value, tuple) else (value,):
        yield option.opts[0]
        if one is not True:
            yield str(one)


def tiles(way: str) -> str:
    """Their number, and the kernel if it is not the one that they would take."""
    count, kernel = way.partition(" ")[0], way.rpartition(" by ")[2]
    return f"{count} by {kernel}" if kernel.startswith("tl_") else count


def print_tuning(directory: Path, plan: Mapping[str, Any]) -> None:
    tuned = plan.get("tuned")
    if tuned is None:
        raise UsageError(f"{directory} was never tuned", remedy=f"trainlib-deploy tune {directory}")
    unit = tuned["unit"]
    rows = [
        (
            o["name"],
            tiles(o["chosen"]),
            f"{o['taken']:,}",
            f"{o['of_default']:,}",
            f"{1 - o['taken'] / max(o['of_default'], 1):.1%}" if o["chosen"] != o["default"] else "",
            f"{o['of_runner_up']:,}" if o["runner_up"] else "",
        )
        for o in tuned["operations"]
    ]
    table(f"{unit} on {tuned['on']}", ("operation", "tiles", "tuned", "estimated", "less", "next"), rows, range(1, 6))
    changed = sum(o["chosen"] != o["default"] for o in tuned["operations"])
    before, after = tuned["before"], tuned["after"]
    whole = ", as the package's measurements say"
    if before is not None:
        less = 1 - after / max(before, 1)
        whole = f"; a step took {before:,} {unit}, now takes {after:,}: {less:.1%} less"
    print(f"{changed} of {len(rows)} operations cut otherwise{whole}")
