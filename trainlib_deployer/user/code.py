"""Running the user's own code: importing a file, calling a function, answering what goes wrong with their own line."""

from __future__ import annotations

import contextlib
import functools
import importlib.machinery
import importlib.util
import linecache
import random
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

import golden
from golden.load import own_arguments
from golden.script import compiled
from trainlib_deployer.errors import DeployError, UsageError
from trainlib_deployer.program.ir import Source

LIBRARIES = [Path(sysconfig.get_path(kind)) for kind in ("stdlib", "purelib", "platlib")]
OURS = (Path(__file__).parents[1], Path(golden.__file__).parent)  # the second is no part of the first in a checkout
NOT_THE_USERS = tuple(f"{p.resolve()}/" for p in (Path(torch.__file__).parent, *OURS, *LIBRARIES))
ARGUMENTS = """give them defaults, or add above that line, with what it shall get:
    import sys
    sys.argv += ["--name", "value"]"""
LONGEST_MESSAGE = 600
MAIN = "__trainlib_deploy__"  # marks the user's file among their modules
NOT_RUN = "__trainlib_deploy_not_run__"  # lines of it that were left out
_helpers: set[str] = set()  # modules that earlier user files brought along


@contextlib.contextmanager
def user_code(what: str, remedy: str = "") -> Iterator[None]:
    """Run the user's code: an exception becomes '<what>: <its message>' with their line; prints go to stderr."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except DeployError:
        raise
    except (Exception, SystemExit) as err:
        source = source_of(err)
        if (
            source is not None
            and isinstance(err, SystemExit | IndexError)
            and re.search(r"parse_args|argv", source.text)
        ):
            raise UsageError(f"{what}: it asks for arguments of its own", source=source, remedy=ARGUMENTS) from err
        raise UsageError(f"{what}: {message_of(err)}", source=source, remedy=remedy) from err


def message_of(err: BaseException) -> str:
    """`ValueError: text`, without the stacks that torch appends."""
    text = str(err).strip().split("\nException raised from")[0]
    if len(text) > LONGEST_MESSAGE:
        text = text[:LONGEST_MESSAGE] + " ..."
    name = type(err).__name__
    return f"{name}: {text}" if text else name


def source_of(err: BaseException) -> Source | None:
    """The innermost line of the user's in a traceback."""
    if isinstance(err, SyntaxError) and err.filename and err.lineno:
        return Source(
            shown(err.filename), err.lineno, (err.text or linecache.getline(err.filename, err.lineno)).strip()
        )
    frames = [f for f in traceback.extract_tb(err.__traceback__) if is_users(f.filename)]
    for frame in reversed(frames):
        return Source(shown(frame.filename), frame.lineno or 0, (frame.line or "").strip())
    return None


def source_in_stack(text: str) -> Source | None:
    """The innermost line of the user's in a printed stack."""
    frames = re.findall(r'File "(.+)", line (\d+), in .+\n *(.*)', text)
    users = [Source(shown(file), int(line), code.strip()) for file, line, code in frames if is_users(file)]
    return users[-1] if users else None


def is_users(filename: str) -> bool:
    if filename.startswith("<") and not filename.startswith("<ipython"):
        return False
    return not real_path(filename).startswith(NOT_THE_USERS)


def real_path(filename: str) -> str:
    """Without links."""
    return without_links(filename if filename.startswith("/") else str(Path(filename).absolute()))


@functools.cache
def without_links(absolute: str) -> str:
    """Remembered, and by text: two thousand modules are asked for theirs at every deployment."""
    return str(Path(absolute).resolve())


def shown(filename: str) -> str:
    """As the user would write it from where they are."""
    path = Path(filename)
    with contextlib.suppress(ValueError):
        return str(path.resolve().relative_to(Path.cwd()))
    return str(path)


def a_type(value: Any) -> str:
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def seed() -> None:
    """Same file, same numbers, whichever generator it asks."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)


@contextlib.contextmanager
def importable(directory: Path) -> Iterator[None]:
    """The user's own modules beside their file can be imported; no __pycache__ is left there."""
    while _helpers:
        sys.modules.pop(_helpers.pop(), None)
    before, path, bytecode = set(sys.modules), list(sys.path), sys.dont_write_bytecode
    sys.path.insert(0, str(directory))
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.path[:] = path
        sys.dont_write_bytecode = bytecode
        for name in set(sys.modules) - before:
            if is_helper(sys.modules[name], directory):
                _helpers.add(name)


def is_helper(module: ModuleType, directory: Path) -> bool:
    """A module of the user's beside their file; the file itself stays registered, for pickle and inspect. Thousands of
    modules have few folders."""
    origin = getattr(module, "__file__", None)
    if not origin or not f"{real_path(str(origin).rpartition('/')[0])}/".startswith(f"{directory}/"):
        return False
    return is_users(str(origin)) and not hasattr(module, MAIN)


def helpers(directory: Path) -> list[Path]:
    """The files of the user's own modules that have been imported so far."""
    return sorted(Path(str(m.__file__)).resolve() for m in list(sys.modules.values()) if is_helper(m, directory))


def import_file(path: Path, wanted: Iterable[str] = ()) -> ModuleType:
    """The user's file as a module, registered under its stem or, where that is taken, the stem with a number. Training
    that it does is left out, unless it makes one of the `wanted` names."""
    name, count = path.stem, 1
    while name in sys.modules:
        count += 1
        name = f"{path.stem}_{count}"
    linecache.checkcache(str(path))
    loader = importlib.machinery.SourceFileLoader(name, str(path))
    location = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert location is not None
    module = importlib.util.module_from_spec(location)
    setattr(module, MAIN, True)
    sys.modules[name] = module
    seed()
    try:
        with user_code(f"{path.name} cannot be imported"), own_arguments(path):
            code, skipped = compiled(read_source(path), str(path), wanted)
            setattr(module, NOT_RUN, skipped)
            exec(code, module.__dict__)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def read_source(path: Path) -> str:
    """Not through the loader: it trusts a stale __pycache__."""
    try:
        text = importlib.util.decode_source(path.read_bytes())
    except OSError as err:
        raise UsageError(f"{path} cannot be read: {err.strerror or err}") from err
    except (UnicodeDecodeError, SyntaxError) as err:
        raise UsageError(f"{path} is not a Python file: it is not text") from err
    if "\0" in text:
        raise UsageError(f"{path} is not a Python file: it is not text")
    return text
