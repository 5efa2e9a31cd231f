"""FILE[:NAME] to UserModel: what the file defines, what may be left out, what the command line adds."""

from __future__ import annotations

import contextlib
import difflib
import dis
import inspect
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader, Dataset

from golden.script import DATA, LOSSES, found_loss
from trainlib_deployer.errors import UsageError
from trainlib_deployer.user.assemble import Evaluation, Inference, Parts, assemble
from trainlib_deployer.user.code import NOT_RUN, a_type, helpers, import_file, importable, seed, user_code
from trainlib_deployer.user.hidden import hidden_model
from trainlib_deployer.user.model import UserModel
from trainlib_deployer.user.module import held_loss
from trainlib_deployer.user.optimizer_state import with_stored_state
from trainlib_deployer.user.weights import load_weights


def load(
    spec: str,
    input_shape: str | None = None,
    weights: Path | None = None,
    steps: int = 5,
    accumulate: int = 1,
    may_miss: tuple[str, ...] = (),
    samples: int | None = None,
    inference: Inference | None = None,
    evaluation: Evaluation | None = None,
    updates: int | None = None,
    dtype: str = "fp32",
) -> UserModel:
    """The model of `FILE[:NAME]`, checked, with the samples for `steps` steps, or exactly so many, and the schedule of
    so many `updates`, if they are more."""
    count, updates = samples or steps * accumulate, max(updates or 0, steps)
    exactly = samples is not None
    return load_file(spec, input_shape, weights, count, updates, may_miss, exactly, inference, evaluation, dtype)


def load_file(
    spec: str,
    input_shape: str | None,
    weights: Path | None,
    count: int,
    updates: int | None = None,
    may_miss: tuple[str, ...] = (),
    exactly: bool = False,
    inference: Inference | None = None,
    evaluation: Evaluation | None = None,
    dtype: str = "fp32",
) -> UserModel:
    """The model with `count` samples, enough for so many `updates`."""
    path, name = split_spec(spec)
    with importable(path.parent):
        attribute = name or "model"
        file = import_file(path, [attribute])
        parts, notes = found_parts(file, path, attribute, explicit=name is not None)
        notes += load_weights(parts.module, weights, may_miss) if weights is not None else []
        parts = replace(parts, input_shape=input_shape, count=count, updates=updates or count, exactly=exactly)
        user = assemble(replace(parts, inference=inference, evaluation=evaluation, dtype=dtype))
        user = replace(user, notes=(*notes, *user.notes))
        if weights is None or not user.trains:
            return user
        optimizer, more = with_stored_state(user.optimizer, weights, user.module)
        return replace(user, optimizer=optimizer, notes=(*user.notes, *more))


@contextlib.contextmanager
def loaded_with_data(spec: str, model: str | None, input_shape: str | None) -> Iterator[tuple[UserModel, Any]]:
    """The model of `FILE[:NAME]`, and what the file calls NAME; without one, its data. The file's own imports work."""
    path, name = split_spec(spec)
    with importable(path.parent):
        attribute = model or "model"
        file = import_file(path, [attribute, *([name] if name else [])])
        parts, notes = found_parts(file, path, attribute, explicit=model is not None)
        data = parts.data if name is None else getattr(file, name, None)
        if data is None:
            raise UsageError(
                f"{path.name} has no '{name or 'data'}'", remedy="a Dataset, a DataLoader or a list of pairs"
            )
        user = assemble(replace(parts, input_shape=input_shape, data=data if parts.data is None else parts.data))
        yield replace(user, notes=(*notes, *user.notes)), data


def found_parts(file: ModuleType, path: Path, attribute: str, explicit: bool) -> tuple[Parts, list[str]]:
    """What a file defines, and notes; one sample is enough for it."""
    module = make_module(file, path, attribute, explicit)
    (loss_name, loss), (data_name, data) = found_loss(vars(file)), found_data(vars(file))
    parts = Parts(
        name=identifier(path.stem if attribute == "model" else attribute),
        module=module,
        example_input=getattr(file, "example_input", None),
        example_target=getattr(file, "example_target", None),
        loss=loss,
        optimizer=getattr(file, "optimizer", None),
        data=data,
        input_shape=None,
        count=1,
        where=path.name,
        source=path,
        attribute=attribute,
        scheduler=getattr(file, "scheduler", None),
        clip_norm=getattr(file, "clip_grad_norm", None),
        clip_value=getattr(file, "clip_grad_value", None),
        metrics=getattr(file, "metrics", None),
        updates=1,
        helpers=tuple(helpers(path.parent)),
    )
    notes = notes_on(path, getattr(file, NOT_RUN), loss_name, data_name)
    notes += held_loss(module, loss, parts.optimizer)  # before weights are loaded, which may have it
    return parts, notes + clipping_note(path, vars(file))


def notes_on(path: Path, lines: list[int], loss: str, data: str) -> list[str]:
    """What was understood of a script that was not written for this tool."""
    notes = [f"{path.name}:{line} is not run, as it trains or needs what training gives" for line in lines]
    notes += [f"loss: '{loss}' of {path.name}"] if loss != "loss" else []
    notes += [f"data: '{data}' of {path.name}"] if data != "data" else []
    return notes


def clipping_note(path: Path, names: dict[str, Any]) -> list[str]:
    """Of a loop that is not run."""
    found = re.search(r"\b(clip_grad_(?:norm|value))_\(|\bgradient_clip_val\b", path.read_text(errors="replace"))
    if found is None or any(isinstance(names.get(n), int | float) for n in ("clip_grad_norm", "clip_grad_value")):
        return []
    what = found[1] or "clip_grad_norm"
    return [f"gradients are not clipped as in {path.name}'s own training: for that, write {what} = its limit"]


def found_data(names: dict[str, Any]) -> tuple[str, Any]:
    """What a file's data is called, and the data."""
    if names.get("data") is not None:
        return "data", names["data"]
    return next(
        ((n, names[n]) for n in DATA if isinstance(names.get(n), DataLoader | Dataset) or pairs(names.get(n))),
        ("data", None),
    )


def pairs(given: Any) -> bool:
    """Whether it is a list as `data` may be one: other lists may bear these names, too."""
    first = given[0] if isinstance(given, list) and given else None
    return isinstance(first, tuple | list) and len(first) == 2 and any(map(torch.is_tensor, pytree.tree_leaves(first)))


def split_spec(spec: str) -> tuple[Path, str | None]:
    """FILE[:NAME]; a colon in a path that exists is part of the path."""
    path, name = Path(spec), None
    if not path.exists():
        head, colon, tail = spec.rpartition(":")
        if colon and head and ("/" not in tail and "\\" not in tail):
            path, name = Path(head), tail
    if not str(spec).strip() or not path.exists():
        raise UsageError(
            f"there is no file {path if str(spec).strip() else repr(spec)}{near(path)}", remedy="--model FILE[:NAME]"
        )
    if path.is_dir():
        raise UsageError(
            f"{path} is a directory", remedy="give the Python file in it that defines the model: --model FILE[:NAME]"
        )
    if not path.is_file():
        raise UsageError(f"{path} is not a regular file")
    if name is not None and not name.isidentifier():
        raise UsageError(
            f"'{name}' in '{spec}' is not a Python name", remedy="--model FILE[:NAME], for instance net.py:Net"
        )
    return path.resolve(), name


def near(path: Path) -> str:
    """A hint for a mistyped file name."""
    try:
        names = [p.name for p in path.parent.iterdir() if p.suffix == ".py"]
    except OSError:
        return ""
    close = difflib.get_close_matches(path.name, names, 1)
    return f"; did you mean {path.parent / close[0]}?" if close else ""


def identifier(text: str) -> str:
    clean = re.sub(r"\W", "_", text, flags=re.ASCII) or "net"
    return f"net_{clean}" if clean[0].isdigit() else clean


# ---- the module


def make_module(file: ModuleType, path: Path, attribute: str, explicit: bool) -> nn.Module:
    """The module itself, or what the class or function of that name makes."""
    if not hasattr(file, attribute):
        raise missing_model(file, path, attribute, explicit)
    found = getattr(file, attribute)
    if isinstance(found, nn.Module):
        return found
    if isinstance(found, torch.export.ExportedProgram):
        raise UsageError(
            f"'{attribute}' in {path.name} is what torch.export made", remedy=f"give its module: {attribute}.module()"
        )
    if not callable(found):
        raise UsageError(
            f"'{attribute}' in {path.name} is {a_type(found)}, not an nn.Module",
            remedy="it must be an nn.Module, its class, or a function returning one",
        )
    what = "class" if isinstance(found, type) else "function"
    needed = required_arguments(found)
    if needed:
        raise UsageError(
            f"the {what} '{attribute}' in {path.name} needs arguments: {', '.join(needed)}",
            remedy=f"give them in the file: model = {attribute}(...)",
        )
    seed()
    with user_code(f"{attribute}() in {path.name} fails"):
        module = found()
    if not isinstance(module, nn.Module):
        raise UsageError(f"{attribute}() in {path.name} returns {a_type(module)}, not an nn.Module")
    return module


def required_arguments(function: Any) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def missing_model(file: ModuleType, path: Path, attribute: str, explicit: bool) -> UsageError:
    factories = factories_of(file, modules_of(file))
    one = any(isinstance(v, nn.Module) for n, v in vars(file).items() if n not in ("loss", *LOSSES))
    if not explicit and not one and not factories:
        hidden = hidden_model(path, modules_of(file))
        if hidden is not None:
            return hidden
    choices = [*modules_of(file), *factories]
    head = f"{path.name} has no '{attribute}'"
    if choices:
        likely = [*factories, outermost(file, choices)]  # a function knows what its class must be given
        close = (difflib.get_close_matches(attribute, choices, 1) or likely)[0]
        return UsageError(
            f"{head}; what makes a module in it: {', '.join(choices)}", remedy=f"use --model {path.name}:{close}"
        )
    there = [n for n, v in vars(file).items() if not n.startswith("_") and is_of(v, file)]
    what = f"it defines: {', '.join(there)}" if there else "it defines nothing"
    if explicit:
        return UsageError(f"{head}; {what}")
    return UsageError(f"{head} and no nn.Module; {what}", remedy="write: model = Net()")


def modules_of(file: ModuleType) -> list[str]:
    """Names of modules and module classes that the file itself defines."""
    return [
        name
        for name, value in vars(file).items()
        if not name.startswith("_")
        and (
            (isinstance(value, nn.Module) and name != "loss")
            or (isinstance(value, type) and issubclass(value, nn.Module) and value.__module__ == file.__name__)
        )
    ]


def factories_of(file: ModuleType, modules: list[str]) -> list[str]:
    """Functions of the file that can be called without arguments and return a module untrained, as far as one can
    tell."""
    functions = {n: v for n, v in vars(file).items() if inspect.isfunction(v) and is_of(v, file)}
    makers = {*modules, "Sequential"}
    found = []
    for name, function in functions.items():
        code = function.__code__
        declared = function.__annotations__.get("return")
        says = getattr(declared, "__name__", str(declared)).rpartition(".")[2] in {"Module", *makers}
        makes = bool(makers & set(code.co_names)) and returns_value(function)
        trains = name.startswith("_") or "backward" in code.co_names
        if (says or makes) and not trains and not required_arguments(function):
            found.append(name)
    return found


def returns_value(function: Any) -> bool:
    return any(
        before.opname != "LOAD_CONST" and after.opname == "RETURN_VALUE"
        for before, after in pairwise(dis.get_instructions(function))
    )


def outermost(file: ModuleType, names: list[str]) -> str:
    """The network rather than one of its parts: the last that no other one makes."""
    made = {n: getattr(getattr(file, n), "__init__", None) for n in names if isinstance(getattr(file, n), type)}
    parts = {used for init in made.values() for used in getattr(getattr(init, "__code__", None), "co_names", ())}
    alone = [n for n in names if n not in parts]
    return (alone or names)[-1]


def is_of(value: Any, file: ModuleType) -> bool:
    """Not imported from elsewhere, as far as one can tell."""
    return not isinstance(value, ModuleType) and getattr(value, "__module__", file.__name__) == file.__name__
