"""A whole number of at least 1, as options take it."""

from __future__ import annotations

from typing import Any

import click
from click.types import IntParamType

from trainlib_deployer.arguments import MOST, digits, quoted


class Count(IntParamType):
    """In words that say what to give instead."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        number = digits(text)
        if number is None or not 1 <= number <= MOST:
            self.fail(f"{quoted(text)} is not a whole number of at least 1", param, ctx)
        return number


COUNT = Count()
