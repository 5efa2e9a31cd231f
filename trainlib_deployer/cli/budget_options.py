"""`--time`, `--energy`, `--memory`: what a step may take at the most, in `sweep` and `chips`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from trainlib_deployer.advice.budget import Budget
from trainlib_deployer.errors import DoesNotFit

Command = Callable[..., Any]
SMALLER = "a network with smaller layers"


def budget_options(command: Command) -> Command:
    for option in (
        click.option("--memory", metavar="SIZE", help="Only what needs no more for tensors, where they live: 300k."),
        click.option("--energy", metavar="ENERGY", help="Only steps of no more than that, by published figures: 2mJ."),
        click.option("--time", metavar="TIME", help="Only steps of no more than that at the chip's clock: 50ms."),
    ):
        command = option(command)
    return command


def nothing_within(name: str, budget: Budget, more: str = "") -> DoesNotFit:
    return DoesNotFit(f"nothing of {name} can be trained within {budget}{more}", remedy=f"give more, or {SMALLER}")
