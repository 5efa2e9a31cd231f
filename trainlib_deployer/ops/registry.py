"""Which rule lowers which ATen operation. Each family's file fills it with @covers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Rule = Callable[..., Any]
RULES: dict[object, Rule] = {}
FAMILY: dict[object, str] = {}


def covers(*targets: object) -> Callable[[Rule], Rule]:
    """Register `rule(builder, *args, **kwargs)` for these graph targets; operands arrive as Views or plain values."""

    def register(rule: Rule) -> Rule:
        for target in targets:
            assert target not in RULES, f"{target} has two rules"
            RULES[target] = rule
            FAMILY[target] = rule.__module__.rsplit(".", 1)[-1]
        return rule

    return register
