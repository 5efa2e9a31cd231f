"""What is worked out once: templates, and the functions of loops."""

from __future__ import annotations

import sys
from pathlib import Path

import jinja2
import pytest

from trainlib_deployer.compiled import Compiled
from trainlib_deployer.emit.loop_library import LoopLibrary
from trainlib_deployer.program.expr import Const, Instr
from trainlib_deployer.program.ir import DType, View
from trainlib_deployer.program.loop import Loop


def rendered(folder: Path) -> str:
    loader = jinja2.FileSystemLoader(folder)
    cache = Compiled(str(folder / "module.py"))
    return jinja2.Environment(loader=loader, bytecode_cache=cache).get_template("page.j2").render(name="it")


@pytest.mark.parametrize("written", [True, False])
def test_a_template_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool) -> None:
    """Unless Python writes no bytecode; and again when it has changed."""
    monkeypatch.setattr(sys, "dont_write_bytecode", not written)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    page = tmp_path / "page.j2"
    page.write_text("{{ name }}")
    assert rendered(tmp_path) == "it"
    assert len([*tmp_path.glob("__pycache__/*.cache")]) == written
    with monkeypatch.context() as m:
        m.setattr(jinja2.Environment, "_parse", None if written else jinja2.Environment._parse)
        assert rendered(tmp_path) == "it"
    page.write_text("{{ name }}!")
    assert rendered(tmp_path) == "it!"


def test_where_nothing_can_be_written_templates_work_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    (tmp_path / "page.j2").write_text("{{ name }}")
    (tmp_path / "__pycache__").write_text("")
    assert rendered(tmp_path) == "it"


def test_loops_that_differ_by_the_sign_of_a_zero_are_two() -> None:
    library, views = LoopLibrary(), (View("x", (8,), (1,)),)
    loops = [Loop.pointwise(8, (DType.F32,), Instr("add", (0, Const(zero)), DType.F32)) for zero in (0.0, -0.0)]
    assert loops[0] != loops[1]
    assert len({library.function(loop, views, views) for loop in loops}) == 2
