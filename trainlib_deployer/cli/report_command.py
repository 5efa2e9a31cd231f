"""trainlib-deploy report: report.html with what runs have found out since, and beside another project's."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from trainlib_deployer.cli.spoken import Progress, examples, spoken
from trainlib_deployer.report.folder import compared, refreshed

FOLDER = click.Path(path_type=Path)


@click.command(
    "report",
    short_help="Write report.html anew, or a comparison.",
    epilog=examples(
        "trainlib-deploy report generated/net --open", "trainlib-deploy report generated/net --compare generated/other"
    ),
)
@click.argument("directory", metavar="DIR", type=FOLDER)
@click.option("--compare", "other", metavar="DIR2", type=FOLDER, help="Begin with how that project's plan differs.")
@click.option("--profile", metavar="FILE", type=FOLDER, help="What a run with PROFILE=1 printed: measured times.")
@click.option("--open", "show", is_flag=True, help="Show it in the browser.")
@spoken
def report_command(*, directory: Path, other: Path | None, profile: Path | None, show: bool) -> None:
    """Write report.html anew: the plan for people, with the last verification. With --compare, build/compare.html."""
    Progress()("drawing the plan")
    if other is None:
        page = refreshed(directory, profile)
    else:
        page = compared(directory, other, directory / "build" / "compare.html", profile)
    print(page)
    if show:
        webbrowser.open(page.resolve().as_uri())
