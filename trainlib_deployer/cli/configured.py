"""Options from [tool.trainlib-deploy] of the nearest pyproject.toml: what the command line does not give."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from trainlib_deployer.cli.spoken import note
from trainlib_deployer.errors import UsageError

FILE, TABLE = "pyproject.toml", "trainlib-deploy"
PATHS = ("model", "out", "weights", "json")  # as the file sees them


Options = dict[str, Any]


def options(group: click.Group, folder: Path) -> tuple[Options, dict[str, Options]]:
    """Of the group, and of its commands by name; each is a default_map of click's."""
    path = next((d / FILE for d in (folder, *folder.parents) if (d / FILE).is_file()), None)
    table = {} if path is None else read(path)
    if path is None or not table:
        return {}, {}
    own = {k: v for k, v in table.items() if not isinstance(v, Mapping)}
    commands = {}
    for name, command in group.commands.items():
        theirs = table.get(name, {})
        shared = {k: v for k, v in own.items() if name == "sweep" and k in long_names(command)}
        commands[name] = named(command, {**shared, **theirs}, path, folder)
    unknown = next((k for k, v in table.items() if isinstance(v, Mapping) and k not in group.commands), None)
    if unknown is not None:
        raise UsageError(f"{path}: [tool.{TABLE}.{unknown}] is no command")
    return named(group, own, path, folder), commands


def read(path: Path) -> Mapping[str, Any]:
    """A file that is not ours, or damaged where it does not speak of us, is none of our business."""
    try:
        text = path.read_text()
        table = tomllib.loads(text).get("tool", {}).get(TABLE, {})
    except (OSError, ValueError, AttributeError) as err:
        if isinstance(err, OSError | UnicodeDecodeError) or TABLE not in text:
            return {}
        raise UsageError(f"{path} cannot be read: {err}") from err
    if not isinstance(table, Mapping):
        raise UsageError(f"{path}: tool.{TABLE} is not a table")
    return table


def long_names(command: click.Command) -> dict[str, click.Parameter]:
    """`input`: the option --input."""
    return {o.removeprefix("--"): p for p in command.params for o in p.opts if o.startswith("--")}


def named(command: click.Command, table: Mapping[str, Any], path: Path, folder: Path) -> dict[str, Any]:
    """By click's names instead of the options'."""
    known, found = long_names(command), {}
    for key, value in table.items():
        if key not in known:
            close = difflib.get_close_matches(key, known, 1)
            raise UsageError(
                f"{path}: [tool.{TABLE}] has '{key}', which is no option",
                remedy=f"did you mean {close[0]}?" if close else "",
            )
        option = known[key]
        if (option.multiple if isinstance(option, click.Option) else False) != isinstance(value, list):
            raise UsageError(f"{path}: {key} = {value!r} is not what --{key} takes")
        for one in value if isinstance(value, list) else [value]:
            try:
                option.type.convert(one, option, None)
            except click.BadParameter as err:
                raise UsageError(f"{path}: {key} = {one!r}: {err.message}") from err
        found[str(option.name)] = beside(path, value, folder) if key in PATHS and value != "-" else value
    return found


def beside(path: Path, value: Any, folder: Path) -> str:
    return str(value) if path.parent == folder else str(path.parent / str(value))


def note_used(ctx: click.Context) -> None:
    """Aloud, as a person may have forgotten the file."""
    names = {p.name: k for k, p in long_names(ctx.command).items()}
    given = (n for n, value in ctx.params.items() if value not in (None, False, ()))
    used = [n for n in given if ctx.get_parameter_source(n) is ParameterSource.DEFAULT_MAP]
    if used:
        note(f"of {FILE}: {', '.join(f'--{names[n]} {shown(ctx.params[n])}' for n in used)}")


def shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
