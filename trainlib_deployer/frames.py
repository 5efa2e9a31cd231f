"""Rows as a pandas DataFrame, where pandas is installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from trainlib_deployer.errors import ToolMissing


def frame(rows: Iterable[Mapping[str, Any]]) -> Any:
    try:
        pandas = import_module("pandas")
    except ImportError as err:
        raise ToolMissing("'pandas' is not installed", remedy="pip install 'trainlib-deploy[notebook]'") from err
    return pandas.DataFrame.from_records(list(rows))
