"""`%%trainlib_deploy --cores 8 --run host` deploys the module in a cell, `%trainlib_deploy model` one that is there."""

from __future__ import annotations

import builtins
import contextlib
import shlex
import symtable
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any, cast

import click
from IPython import display as ipython
from IPython.core.magic import Magics, line_cell_magic, magics_class

from trainlib_deployer.api import Deployment, run_stages
from trainlib_deployer.cli.main import cli
from trainlib_deployer.errors import DeployError, UsageError
from trainlib_deployer.folder import check_writable, default_folder
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.options import Options, check_inference, check_types, kept_of, loss_scale_of
from trainlib_deployer.run import backend
from trainlib_deployer.user import load_model
from trainlib_deployer.user.assemble import Evaluation, Inference, Parts, assemble
from trainlib_deployer.user.code import user_code
from trainlib_deployer.user.model import UserModel
from trainlib_deployer.user.weights import load_weights

OF_A_FILE = ("model", "json_file", "verbose", "force")  # options that make no sense here
display: Any = ipython.display
NAMES = (
    "example_input",
    "example_target",
    "loss",
    "optimizer",
    "data",
    "scheduler",
    "clip_grad_norm",
    "clip_grad_value",
    "metrics",
)
STAGES = 8  # of a deployment with --run


def command() -> click.Command:
    """The options of the command line, and the names of what the notebook holds."""
    shared = [p for p in cli.params if isinstance(p, click.Option) and p.name not in OF_A_FILE and not p.is_eager]
    held = [click.Option([f"--{n.replace('_', '-')}"], metavar="NAME", help="What it is called here.") for n in NAMES]
    return click.Command(
        "trainlib_deploy", params=[click.Argument(["name"], required=False), *shared, *held], add_help_option=False
    )


@dataclass
class Progress:
    """A bar in place, with the stage that runs."""

    bar: Any = None
    done: int = 0

    def __call__(self, line: str) -> None:
        if line.startswith("note: "):
            display(shown(f"<small>{escape(line)}</small>", line), raw=True)
            return
        self.done += 1
        bar = f'<progress max="{STAGES}" value="{min(self.done, STAGES)}"></progress>'
        self.show(f"{bar} {escape(line)}", line)

    def show(self, html: str, plain: str) -> None:
        if self.bar is None:
            self.bar = display(shown(html, plain), raw=True, display_id=True)
        else:
            self.bar.update(shown(html, plain), raw=True)


def shown(html: str, plain: str) -> dict[str, str]:
    return {"text/html": html, "text/plain": plain}


@magics_class
class Deploy(Magics):
    """The magic, as a line and as a cell."""

    @line_cell_magic
    def trainlib_deploy(self, line: str, cell: str | None = None) -> Deployment:
        """Deploy a module: %%trainlib_deploy [options] before a cell that defines `model`, or %trainlib_deploy NAME
        [options] for one that is there. The options are those of `trainlib-deploy --help`."""
        given, shell = options_of(line), cast(Any, self.shell)
        machine = resolve(given["target"], given["cores"], given["l1"], given["l2"], given["l3"])
        check_types(given["dtype"], given["saved"], machine)
        check_inference(given["inference"], given["evaluate"], given["batch"], given["accumulate"], given["saved"])
        if given["run_on"]:
            backend(given["run_on"]).check_tools()
        with tempfile.TemporaryDirectory(prefix="trainlib-deploy-") as place, lines_of_the_cell(place):
            user = user_model(shell, cell, Path(place, "cell.py"), given)
            folder = given["out"] or default_folder(user.name, given["inference"])
            check_writable(folder)
            progress = Progress()
            kept = {name: given[name] for name in ("dtype", "saved", "arithmetic")}
            kept["loss_scale"] = loss_scale_of(given["loss_scale"], given["inference"])
            kept["keep"] = kept_of(given["keep"])
            options = Options(machine, folder, given["steps"], given["accumulate"], **kept)
            made = run_stages(user, options, progress)
            shell.user_ns["deployment"] = made
            if given["run_on"]:
                progress(f"building, running and verifying on {given['run_on']}")
                result = made.verify(on=given["run_on"])
                display(result)
                result.raise_if_failed()
            progress.show("", "")
        return made


def options_of(line: str) -> dict[str, Any]:
    try:
        return command().make_context("%trainlib_deploy", shlex.split(line)).params
    except (click.ClickException, ValueError) as err:
        words = err.format_message() if isinstance(err, click.ClickException) else str(err)
        raise UsageError(words, remedy="the options are those of trainlib-deploy --help") from err


@contextlib.contextmanager
def lines_of_the_cell(place: str) -> Iterator[None]:
    """Errors name the line of the cell, not of the file that it was copied to."""
    try:
        yield
    except DeployError as err:
        source = err.source
        if source is not None and (Path(place).name in source.file or "ipy" in source.file):
            err.source = replace(source, file="cell")
        raise


def user_model(shell: Any, cell: str | None, path: Path, given: Mapping[str, Any]) -> UserModel:
    """A cell that needs nothing of the others is a file like any net.py, which can be verified later too."""
    if cell is None:
        return from_names(shell.user_ns, given)
    text = f"\n{cell}"  # in place of the magic's own line: so lines have their numbers
    used, defined = names_of(text)
    if used & set(shell.user_ns) - set(dir(builtins)):
        with user_code("the cell fails"):
            exec(compile(text, shell.compile.cache(text, shell.execution_count), "exec"), shell.user_ns)
        parts = {n: n for n in NAMES if n in defined}
        note = "the cell uses names of other cells: verify it here, from the command line it cannot be built again"
        user = from_names(shell.user_ns, {**given, **parts, "name": given["name"] or "model"})
        return replace(user, notes=(note, *user.notes))
    path.write_text(text, encoding="utf-8")
    spec = f"{path}:{given['name']}" if given["name"] else str(path)
    modules = set(sys.modules)
    user = load_model.load(
        spec,
        given["input_shape"],
        given["weights"],
        given["steps"],
        given["accumulate"],
        given["may_miss"],
        given["samples"],
        *ways(given),
        given["updates"],
        given["dtype"],
    )
    file = next(m for n, m in sys.modules.items() if n not in modules and getattr(m, "__file__", "") == str(path))
    shell.user_ns.update({n: v for n, v in vars(file).items() if n in defined})
    return replace(user, name=load_model.identifier(type(user.module).__name__))


def names_of(text: str) -> tuple[set[str], set[str]]:
    """Those that a text takes from outside, and those that it defines."""
    try:
        top = symtable.symtable(text, "cell", "exec")
    except SyntaxError:
        return set(), set()  # said where it is imported
    defined = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    used = {s.get_name() for table in tables(top) for s in table.get_symbols() if s.is_referenced() and s.is_global()}
    used |= {s.get_name() for s in top.get_symbols() if s.is_referenced()}
    return used - defined, defined


def tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from tables(child)


def from_names(namespace: Mapping[str, Any], given: Mapping[str, Any]) -> UserModel:
    """What the notebook holds under these names."""
    if not given["name"]:
        raise UsageError("which module?", remedy="%trainlib_deploy NAME --input 1x3x32x32")
    found = {n: held(namespace, given[n]) for n in NAMES if given.get(n)}
    module = held(namespace, given["name"])
    notes = load_weights(module, given["weights"], given["may_miss"]) if given["weights"] else []
    parts = Parts(
        name=load_model.identifier(type(module).__name__),
        module=module,
        example_input=found.get("example_input"),
        example_target=found.get("example_target"),
        loss=found.get("loss"),
        optimizer=found.get("optimizer"),
        data=found.get("data"),
        input_shape=given["input_shape"],
        count=given["samples"] or given["steps"] * given["accumulate"],
        exactly=given["samples"] is not None,
        where="the notebook",
        scheduler=found.get("scheduler"),
        clip_norm=found.get("clip_grad_norm"),
        clip_value=found.get("clip_grad_value"),
        metrics=found.get("metrics"),
        updates=max(given["updates"] or 0, given["steps"]),
        inference=ways(given)[0],
        evaluation=ways(given)[1],
        dtype=given["dtype"],
    )
    user = assemble(parts)
    return replace(user, notes=(*notes, *user.notes))


def ways(given: Mapping[str, Any]) -> tuple[Inference | None, Evaluation | None]:
    """What runs as after model.eval()."""
    batch = given["batch"]
    return Inference(batch) if given["inference"] else None, Evaluation(batch) if given["evaluate"] else None


def held(namespace: Mapping[str, Any], name: str) -> Any:
    if name not in namespace:
        raise UsageError(
            f"there is nothing called '{name}' in this notebook", remedy="run the cell that defines it first"
        )
    return namespace[name]
