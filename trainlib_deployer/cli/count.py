"""A whole number of at least 1, as options take it."""

from __future__ import annotations

from typing import Any

import click
from click.types import IntParamType

from trainlib_deployer.arguments import MOST


class Count(IntParamType):
    """In words that say what to give instead."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MOST:
            self.fail(f"'{text}' is not a whole number of at least 1", param, ctx)
        return int(text)


COUNT = Count()
