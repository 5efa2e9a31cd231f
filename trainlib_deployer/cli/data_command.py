"""trainlib-deploy data: the user's data as a file beside the program."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import click

from trainlib_deployer.cli.output_files import check_output_file
from trainlib_deployer.cli.spoken import Progress, examples, note, spoken


@click.command(
    "data",
    short_help="A file of examples to learn from.",
    epilog=examples("trainlib-deploy data net.py --out train.bin"),
)
@click.argument("spec", metavar="FILE[:NAME]")
@click.option(
    "--out", metavar="BIN", type=click.Path(path_type=Path), required=True, help="Where the examples are written to."
)
@click.option("--model", metavar="NAME", help="The module, class or function in the file.  [model]")
@click.option("--input", "input_shape", metavar="SHAPE", help="Shape of the input, batch first: 1x3x32x32.")
@spoken
def data_command(*, spec: str, out: Path, model: str | None, input_shape: str | None) -> None:
    """All examples of what the Python file calls NAME, or data, for programs to learn from."""
    check_output_file(out, "--out")
    say = Progress()
    say("loading the model")
    from trainlib_deployer.check.verify import task_of  # PyTorch takes seconds to import
    from trainlib_deployer.user.examples import check_replaced, write_examples  # PyTorch takes seconds to import
    from trainlib_deployer.user.load_model import loaded_with_data  # PyTorch takes seconds to import

    check_replaced(out)
    with contextlib.redirect_stdout(sys.stderr), loaded_with_data(spec, model, input_shape) as (user, data):
        for line in user.notes:
            note(line)
        say("writing the examples")
        task = task_of(user, 1)
        count = write_examples(task, data, out, note)
    print(f"{count:,} examples, {out.stat().st_size:,} bytes: {out}; an example: {task.layout.words}")
