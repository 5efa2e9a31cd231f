"""The command line: trainlib-deploy --model net.py, and verify, explain, sweep, targets."""

from __future__ import annotations

import contextlib
import gc
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from trainlib_deployer import interrupted
from trainlib_deployer.cli import configured
from trainlib_deployer.cli.chips_command import chips_command
from trainlib_deployer.cli.console import print_summary, print_verification
from trainlib_deployer.cli.convert_command import convert_command
from trainlib_deployer.cli.count import COUNT
from trainlib_deployer.cli.data_command import data_command
from trainlib_deployer.cli.explain import explain, explain_layer
from trainlib_deployer.cli.memory_map import biography
from trainlib_deployer.cli.output_files import check_output_file, write_file, write_json
from trainlib_deployer.cli.report_command import report_command
from trainlib_deployer.cli.spoken import Progress, each_warning_once, examples, note, spoken
from trainlib_deployer.cli.sweep_command import sweep_command
from trainlib_deployer.cli.targets_command import targets_command
from trainlib_deployer.cli.tune_command import tune_command, words
from trainlib_deployer.cli.weights_command import weights_command
from trainlib_deployer.errors import DeployError, UsageError
from trainlib_deployer.folder import check_cores, check_writable, default_folder, perhaps_another_version, read_plan
from trainlib_deployer.machine.targets import DEFAULT, MOST_CORES, TARGETS, resolve
from trainlib_deployer.options import (
    ARITHMETICS,
    BF16,
    DTYPES,
    SAVED,
    Options,
    check_inference,
    check_types,
    kept_of,
    loss_scale_of,
)
from trainlib_deployer.report.folder import note_verdict
from trainlib_deployer.run import BACKENDS
from trainlib_deployer.tune.asked import Tune
from trainlib_deployer.version import __version__

USAGE = 2


class Interrupted(DeployError):
    """Ctrl-C at a moment when something had been written."""

    exit_code = interrupted.CODE


class Tool(click.Group):
    """A click group whose errors are one line and an exit code; anything unforeseen stays a traceback."""

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        kwargs["standalone_mode"] = False
        warnings.filterwarnings("ignore", message="TF32 acceleration on top of oneDNN")
        try:
            kwargs["default_map"], kwargs["obj"] = configured.options(self, Path.cwd())
            with each_warning_once():
                code = super().main(*args, **kwargs)
        except click.ClickException as err:
            fail(usage_message(err), USAGE)
        except DeployError as err:
            tell(err)
        except (KeyboardInterrupt, click.Abort):
            fail(interrupted.WORDS, interrupted.CODE)
        sys.exit(code if isinstance(code, int) else 0)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        first = args[0]
        if self.get_command(ctx, first) is None and (first.endswith(".py") or ".py:" in first):
            raise click.UsageError(f"'{first}' is not a command; for a model write --model {first}", ctx)
        return super().resolve_command(ctx, args)


def tell(error: DeployError) -> NoReturn:
    """Part by part: what would help takes longer to find out than what is wrong."""
    for number, part in enumerate(error.parts()):
        print(f"{'' if number else 'error: '}{part}", file=sys.stderr, flush=True)
    sys.exit(error.exit_code)


def fail(message: str, code: int) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)


def usage_message(err: click.ClickException) -> str:
    ctx = getattr(err, "ctx", None)
    hint = f"; see {ctx.command_path} --help" if ctx is not None else ""
    return err.format_message().removesuffix(".") + hint


def files(ctx: click.Context, option: click.Parameter, begun: str) -> list[CompletionItem]:
    return [CompletionItem(begun, type="file")]


def targets(ctx: click.Context, option: click.Parameter, begun: str) -> list[CompletionItem]:
    return [CompletionItem(name, help=t.about) for name, t in TARGETS.items() if name.startswith(begun)]


EPILOG = """\b
The model file is Python. Looked for at its top level:
  model                          the nn.Module, its class, or a function returning it
  example_input, example_target  one batch; or --input
  data                           a Dataset, a DataLoader, a list of (input, target)
  loss                           loss(output, target)
  optimizer, scheduler           of torch.optim
  clip_grad_norm, clip_grad_value
What is left out is chosen, aloud. Training that the file does is not run.

\b
Examples:
  trainlib-deploy --model net.py --cores 8 --l1 64k --run host
  trainlib-deploy --model train.py:build --input 1x3x32x32 --target gap9
  trainlib-deploy verify generated/net --on qemu
  trainlib-deploy explain generated/net stack1.conv2
  trainlib-deploy sweep --model net.py --l2 512k

\b
Exit codes: 0 done, 2 usage, 3 does not fit, 4 cannot be deployed,
5 differs from PyTorch, 6 a tool is missing, 130 interrupted.
Options may also stand in [tool.trainlib-deploy] of pyproject.toml."""


@click.group(
    cls=Tool,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=EPILOG,
)
@click.version_option(__version__, prog_name="trainlib-deploy")
@click.option(
    "--model",
    metavar="FILE[:NAME]",
    shell_complete=files,
    help="The Python file; NAME is the module, class or function in it.",
)
@click.option("--cores", metavar="N", help=f"Cores of the cluster, 1 to {MOST_CORES}.  [the target's]")
@click.option("--l1", metavar="SIZE", help="Bytes of L1: 65536, 64k, 64KiB.  [the target's]")
@click.option("--l2", metavar="SIZE", help="Bytes of L2.  [the target's]")
@click.option("--l3", metavar="SIZE", help="Bytes of a memory behind L2, such as a board's HyperRAM: 8M.  [none]")
@click.option(
    "--target",
    metavar="NAME",
    shell_complete=targets,
    help=f"Preset cores and sizes: {', '.join(TARGETS)}.  [{DEFAULT}]",
)
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), help="Output folder.  [generated/<model name>]")
@click.option("--input", "input_shape", metavar="SHAPE", help="Shape of the input, batch first: 1x3x32x32.")
@click.option("--weights", metavar="FILE", type=click.Path(path_type=Path), help="Start from .pt, .safetensors, .npz.")
@click.option(
    "--weights-allow-missing",
    "may_miss",
    metavar="LAYER",
    multiple=True,
    help="A layer that keeps its own weights where the file has none that fit; may be given again.",
)
@click.option("--steps", metavar="K", type=COUNT, default=5, help="Training steps of a verification.  [5]")
@click.option("--accumulate", metavar="N", type=COUNT, default=1, help="Samples an update.  [1]")
@click.option(
    "--samples",
    metavar="N",
    type=COUNT,
    help="Bake the first N of data; steps cycle.  [as many as steps]",
)
@click.option("--updates", metavar="N", type=COUNT, help="Updates that a schedule covers.  [as many as steps]")
@click.option(
    "--dtype",
    type=click.Choice((*DTYPES, BF16)),
    default="fp32",
    help="Mixed: activations in halves; fp16: weights, too; bf16: as mixed.  [fp32]",
)
@click.option("--keep", metavar="fp32=LAYER,...", help="Of mixed: layers that stay fp32, as head,norm*.  [none]")
@click.option("--loss-scale", metavar="N", help="Of mixed: a factor, or dynamic[:START:UPDATES].  [none]")
@click.option("--saved", type=click.Choice(SAVED), default="fp32", help="Activations kept for the backward.  [fp32]")
@click.option("--arithmetic", type=click.Choice(ARITHMETICS), default="fastest", help="Direct: no Winograd.  [fastest]")
@click.option("--inference", is_flag=True, help="The forward pass alone, as after model.eval().")
@click.option("--evaluate", is_flag=True, help="Loss and metrics as after model.eval(), too.")
@click.option("--batch", metavar="N", type=COUNT, help="Batch of --inference or --evaluate.  [the example's]")
@click.option("--tune", metavar="PLACE", help=f"Measure tiles there, keep the fastest: {', '.join(BACKENDS)}.")
@click.option("--run", "run_on", type=click.Choice(tuple(BACKENDS)), help="Then build, run and verify there.")
@click.option(
    "--json", "json_file", metavar="FILE", type=click.Path(path_type=Path), help="Write the verdict (or the plan)."
)
@click.option("--force", is_flag=True, help="Write even where the captured step and eager PyTorch disagree.")
@spoken
@click.pass_context
def cli(ctx: click.Context, /, **given: Any) -> None:
    """From a PyTorch module to a verified C program that trains it on a PULP cluster."""
    ctx.default_map = ctx.obj  # of commands, of which one is called like an option
    if ctx.invoked_subcommand is not None:
        extra = [n for n in given if ctx.get_parameter_source(n) is click.core.ParameterSource.COMMANDLINE]
        if extra:
            raise click.UsageError(f"options of a deployment before the command '{ctx.invoked_subcommand}'", ctx)
        return
    configured.note_used(ctx)
    if given["model"] is None:
        raise click.UsageError("--model FILE[:NAME] is missing", ctx)
    deploy_command(**given, command=words(ctx))


def deploy_command(
    *,
    model: str,
    cores: str | None,
    l1: str | None,
    l2: str | None,
    l3: str | None,
    target: str | None,
    out: Path | None,
    input_shape: str | None,
    weights: Path | None,
    may_miss: tuple[str, ...],
    steps: int,
    accumulate: int,
    samples: int | None,
    updates: int | None,
    dtype: str,
    keep: str | None,
    loss_scale: str | None,
    saved: str,
    arithmetic: str,
    inference: bool,
    evaluate: bool,
    batch: int | None,
    tune: str | None,
    run_on: str | None,
    json_file: Path | None,
    force: bool,
    command: tuple[str, ...],
) -> None:
    """Everything that can be refused is refused before the work begins."""
    machine = resolve(target, cores, l1, l2, l3)
    check_types(dtype, saved, machine)
    scale, kept = loss_scale_of(loss_scale, inference), kept_of(keep)
    check_inference(inference, evaluate, batch, accumulate, saved)
    if may_miss and weights is None:
        raise UsageError("--weights-allow-missing goes with --weights FILE")
    check_output_file(json_file, "--json")
    if out is not None:
        check_writable(out)
    measured = Tune.parse(tune)
    for place in (run_on, measured.on if measured else None):
        if place is not None:
            check_backend(place)
    say = Progress()
    say("loading the model")
    from trainlib_deployer import pipeline  # PyTorch takes seconds to import
    from trainlib_deployer.user import load_model as user_model  # PyTorch takes seconds to import
    from trainlib_deployer.user.assemble import Evaluation, Inference

    forward = Inference(batch) if inference else None
    evaluation = Evaluation(batch) if evaluate else None
    counts = (steps, accumulate, may_miss, samples)
    user = user_model.load(model, input_shape, weights, *counts, forward, evaluation, updates, dtype)
    for line in user.notes:
        note(line)
    folder = out if out is not None else default_folder(user.name, inference)
    check_writable(folder)
    kinds = (dtype, saved, arithmetic, scale)
    options = Options(machine, folder, steps, accumulate, *kinds, force, kept, measured, command)
    with contextlib.redirect_stdout(sys.stderr):  # what the user's forward prints is not a result
        pipeline.deploy_user_model(user, options, say)
    print_summary(folder, read_plan(folder))
    files = Files(json_file)
    if run_on is not None:
        verify_project(folder, Run(run_on, steps), files, say)
    elif files.json is not None:
        write_json(files.json, read_plan(folder))


def check_backend(name: str) -> None:
    """A missing compiler or emulator is said before the work, not after."""
    from trainlib_deployer.run import backend

    backend(name).check_tools()


# ---- the other commands


@cli.command(
    "verify",
    epilog=examples("trainlib-deploy verify generated/net", "trainlib-deploy verify generated/net --on qemu --cores 4"),
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--on", "run_on", type=click.Choice(tuple(BACKENDS)), default="host", help="Where to run it.  [host]")
@click.option("--steps", metavar="K", type=COUNT, help="Training steps.  [as deployed]")
@click.option("--cores", metavar="N", type=COUNT, help="Of the project's cores.  [all]")
@click.option("--json", "json_file", metavar="FILE", type=click.Path(path_type=Path), help="Write the verdict.")
@click.option("--dump", metavar="FILE.npz", type=click.Path(path_type=Path), help="Write what the program computed.")
@spoken
def verify_command(
    *, directory: Path, run_on: str, steps: int | None, cores: int | None, json_file: Path | None, dump: Path | None
) -> None:
    """Build a project, run it, and hold every tensor against PyTorch."""
    plan = read_plan(directory)
    with perhaps_another_version(directory):
        check_cores(cores, plan)
    check_output_file(json_file, "--json")
    check_output_file(dump, "--dump")
    check_backend(run_on)
    say = Progress()
    say("loading PyTorch")
    verify_project(directory, Run(run_on, steps, cores), Files(json_file, dump), say)


@dataclass(frozen=True)
class Run:
    """What of a project is run where."""

    on: str
    steps: int | None = None
    cores: int | None = None


@dataclass(frozen=True)
class Files:
    """Where a verification is written to, besides the terminal."""

    json: Path | None = None
    dump: Path | None = None


def verify_project(folder: Path, run: Run, files: Files, say: Progress) -> None:
    """The table and the files are written for a failed verification too."""
    from trainlib_deployer.check.verify import verify

    try:
        with contextlib.redirect_stdout(sys.stderr):
            result = verify(folder, on=run.on, steps=run.steps, cores=run.cores, say=say)
    except KeyboardInterrupt as err:
        raise Interrupted(f"interrupted; {folder} is complete, but not verified") from err
    print_verification(result)
    note_verdict(folder, result.as_json())
    if files.json is not None:
        write_json(files.json, result.as_json())
    if files.dump is not None:
        write_file(files.dump, result.dump)
    result.raise_if_failed()


@cli.command(
    "explain",
    epilog=examples(
        "trainlib-deploy explain generated/net",
        "trainlib-deploy explain generated/net stack1.conv2",
        "trainlib-deploy explain generated/net --tensor stack1.conv2.weight",
    ),
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("layer", metavar="[LAYER]", required=False)
@click.option("--tensor", metavar="NAME", help="The life of one tensor: who makes it, who reads it, and why.")
@click.option("--all", "everything", is_flag=True, help="The memory map and the whole schedule, too.")
def explain_command(directory: Path, layer: str | None, tensor: str | None, everything: bool) -> None:
    """What a project takes and where; or what one LAYER does."""
    plan = read_plan(directory)
    with perhaps_another_version(directory):
        if layer is not None:
            explain_layer(layer, plan)
        elif tensor is not None:
            print("\n".join(biography(tensor, plan)))
        else:
            explain(directory, plan, everything)


cli.add_command(chips_command)
cli.add_command(convert_command)
cli.add_command(report_command)
cli.add_command(data_command)
cli.add_command(sweep_command)
cli.add_command(targets_command)
cli.add_command(tune_command)
cli.add_command(weights_command)


def main() -> None:
    try:
        cli()
    finally:
        gc.freeze()  # the process ends: its memory need not be searched for garbage first


if __name__ == "__main__":
    main()
