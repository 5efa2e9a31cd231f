"""trainlib-deploy targets: the presets."""

from __future__ import annotations

import click

from trainlib_deployer.cli.console import bytes_text, table
from trainlib_deployer.machine.targets import DEFAULT, TARGETS


@click.command("targets")
def targets_command() -> None:
    """The presets: cores, L1, L2."""
    rows = [
        (
            t.name + (" (default)" if t.name == DEFAULT else ""),
            str(t.cores),
            bytes_text(t.inner.size),
            bytes_text(t.outer.size),
            t.about,
        )
        for t in TARGETS.values()
    ]
    table("", ("target", "cores", "L1", "L2", ""), rows, right=(1, 2, 3))
