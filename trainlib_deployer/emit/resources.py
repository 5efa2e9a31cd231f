"""The two folders that are installed beside the package: the C library and the golden model."""

from __future__ import annotations

from importlib import resources as files
from pathlib import Path

import golden


def c_lib_dir() -> Path:
    """c_lib/ of the checkout, or its installed copy inside the package."""
    beside = Path(__file__).resolve().parents[2] / "c_lib"
    inside = Path(str(files.files("trainlib_deployer"))) / "c_lib"
    return inside if inside.is_dir() else beside


def golden_dir() -> Path:
    return Path(golden.__file__).resolve().parent
