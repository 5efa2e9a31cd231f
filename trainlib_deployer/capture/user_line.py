"""Which line of the user's own code is running: the innermost frame outside of PyTorch, Python and this package."""

from __future__ import annotations

import linecache
import os
import sysconfig
import traceback
from functools import cache
from pathlib import Path
from types import FrameType

import torch

import golden
from trainlib_deployer.program.ir import Source

OURS = str(Path(__file__).resolve().parents[1]) + os.sep
NOT_THE_USERS = (
    str(Path(torch.__file__).resolve().parent) + os.sep,
    OURS,
    str(Path(golden.__file__).resolve().parent) + os.sep,
    sysconfig.get_paths()["stdlib"] + os.sep,
    sysconfig.get_paths()["purelib"] + os.sep,
    sysconfig.get_paths()["platlib"] + os.sep,
    "<frozen",
    "<string>",
)


@cache
def is_users(file: str) -> bool:
    return not file.startswith(NOT_THE_USERS) and file not in ("<stdin>",)


def user_line(frame: FrameType | None) -> Source | None:
    while frame is not None:
        if frame.f_code.co_filename.startswith(OURS):
            return None  # called by us: whatever is further out did not write this
        if is_users(frame.f_code.co_filename):
            return line_of(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


def user_line_of_error(error: BaseException) -> Source | None:
    """The innermost of the user's lines that an exception passed through."""
    for place in reversed(traceback.extract_tb(error.__traceback__)):
        if is_users(place.filename):
            return line_of(place.filename, place.lineno or 0)
    return None


def line_of(file: str, line: int) -> Source:
    return Source(shown(file), line, linecache.getline(file, line).strip())


@cache
def shown(file: str) -> str:
    """Relative where that is shorter, as a compiler would print it."""
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here)) if path.is_absolute() and path.is_relative_to(here) else file
