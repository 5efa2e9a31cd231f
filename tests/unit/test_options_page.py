"""docs/options.md knows every option of a deployment, and the README every command."""

from __future__ import annotations

import re

from tests.pages import ROOT
from trainlib_deployer.cli.main import cli

PAGE = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
COMMANDS = (ROOT / "README.md").read_text(encoding="utf-8").partition("<!-- [commands] -->")[2].partition("<!-- [/")[0]
UNSAID = {"--version", "--help"}


def test_every_option_is_on_the_page() -> None:
    offered = {name for option in cli.params for name in option.opts if name.startswith("--")} - UNSAID
    assert len(offered) > 15
    assert {name for name in offered if not re.search(rf"`[^`]*{name}\b", PAGE)} == set()


def test_every_command_is_on_the_first_page() -> None:
    assert {name for name in cli.commands if f"`trainlib-deploy {name}" not in COMMANDS} == set()
