"""Templates to text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from trainlib_deployer.compiled import Compiled
from trainlib_deployer.emit.names import narrow, quoted


@cache
def environment() -> jinja2.Environment:
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        bytecode_cache=Compiled(__file__),
    )
    env.filters["quoted"] = quoted
    return env


def rendered(template: str, context: Mapping[str, Any]) -> str:
    """A file; C with lines that fit on a page."""
    text = environment().get_template(template).render(context)
    return narrow(text) if template.removesuffix(".j2").endswith((".c", ".h")) else text
