"""Strings in tables of C: those longer than a line are one element still, for compilers that suspect a comma."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from trainlib_deployer.emit.initial import string_lines

LONG = "net.model.1.submodule.adn.N.instance_norm.gradient.input of a layer far inside of others"


@pytest.mark.compiler
@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_long_names_are_one_element(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    rows = ",\n".join("\n".join(string_lines(text)) for text in ("first", LONG, "second", "third", "fourth"))
    source = tmp_path / "names.c"
    check = '_Static_assert(sizeof names / sizeof *names == 5, "one too many or too few");'
    source.write_text(f"const char *const names[] = {{\n{rows}\n}};\n{check}\n")
    subprocess.run([compiler, "-std=gnu99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", source], check=True)
