"""trainlib-deploy convert: a net.py from the settings of PULP-TrainLib's deployer."""

from __future__ import annotations

from pathlib import Path

import click

from trainlib_deployer.cli.output_files import STDOUT, check_output_file, write_text
from trainlib_deployer.cli.spoken import examples, note, spoken
from trainlib_deployer.convert.network import Network
from trainlib_deployer.convert.settings import read_settings
from trainlib_deployer.errors import UsageError

FILE = click.Path(path_type=Path)


@click.command(
    "convert",
    short_help="A net.py from PULP-TrainLib's layer lists.",
    epilog=examples("trainlib-deploy convert TrainLib_Deployer.py --out net.py"),
)
@click.argument("settings", metavar="TrainLib_Deployer.py", type=FILE)
@click.option("--out", metavar="FILE", type=FILE, default=Path("net.py"), help="What to write; - is stdout.  [net.py]")
@spoken
def convert_command(*, settings: Path, out: Path) -> None:
    """A net.py from the lists of layers that PULP-TrainLib's deployer takes, and the command that deploys it."""
    check_output_file(out, "--out")
    found = read_settings(settings)
    if out != STDOUT and out.exists():
        raise UsageError(f"{out} exists; nothing was changed", remedy="choose another file with --out")
    network = Network.of(found, str(found.get("project_name", settings.stem)))
    text = network.text()
    for line in network.notes():
        note(line)
    write_text(out, text)
    if out != STDOUT:
        print(f"trainlib-deploy --model {out} {network.options()} --run host")
