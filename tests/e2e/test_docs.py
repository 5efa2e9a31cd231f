"""What the pages tell people to type works, and prints what it should."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tomllib
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.e2e.test_firmware import EXPECTED
from tests.pages import ROOT, Block, blocks, pages, runnable

torch.set_num_threads(1)
# Pages that a person reads one after the other, in one folder.
JOURNEYS = [
    ["README.md", "docs/start.md", "docs/weights.md", "docs/state.md"],
    ["docs/options.md", "docs/memory.md", "docs/speed.md", "docs/tuning.md"],
    ["docs/trainlib.md", "docs/notebook.md"],
    ["docs/one_operation.md"],
]
ELSEWHERE = {
    "docs/adapt.md": "test_adapt.py, made small",
    "docs/data.md": "test_data_page.py, with a flash and the emulated cluster",
    "docs/python.md": "test_stepping_from_python, with a stand-in for Lightning",
}
NOT_RUN = {
    "README.md": 2,  # make demo and make test; pip install
    "CONTRIBUTING.md": 1,  # make
    "docs/adapt.md": 1,  # a part of the example
    "docs/firmware.md": 1,  # test_firmware.py
    "docs/machine.md": 1,  # test_made_up_chip.py
    "docs/memory.md": 1,  # half a minute each
    "docs/options.md": 1,  # for the start of a shell
    "docs/notebook.md": 2,  # pip install; names of another notebook
    "docs/python.md": 1,  # Lightning
    "docs/scripts.md": 1,  # a part of a file
}


def test_no_block_escapes() -> None:
    """Every page with code is on a journey, and what is not run is known."""
    covered = {page for journey in JOURNEYS for page in journey} | set(ELSEWHERE)
    found = {p: [b for b in runnable(p) if "not run" not in b.notes] for p in pages()}
    assert {p for p, some in found.items() if some} <= covered
    left_out = {p: sum("not run" in b.notes for b in blocks(p)) for p in pages()}
    assert {p: n for p, n in left_out.items() if n} == NOT_RUN
    others = [b for p in pages() for b in blocks(p) if b.language not in ("sh", "python", "ipython", "c")]
    for block in others:
        assert block.language == "toml" and tomllib.loads(block.text), f"{block}: nothing runs it, nor prints it"


def typed(commands: str, folder: Path, exits: int = 0) -> str:
    """What a person sees who types these lines there."""
    tools = folder / ".tools"
    tools.mkdir(exist_ok=True)
    (tools / "trainlib-deploy").write_text(f'#!/bin/sh\nexec {sys.executable} -m trainlib_deployer.cli.main "$@"\n')
    (tools / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "160", "PATH": path}
    environment["XDG_CACHE_HOME"] = str(folder / ".cache")
    done = subprocess.run(
        ["bash", "-ec", commands], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == exits, done.stdout + done.stderr
    return done.stdout + (done.stderr if exits else "")


def same(text: str, loose: bool) -> list[str]:
    """Lines without what another processor rounds otherwise."""
    lines = [re.sub(r" +\d\.\d\de-\d\d.*", "", line.rstrip()) for line in text.splitlines()]
    if loose:
        lines = [re.sub(r"[\d,.]*\d[kM]?", "#", re.sub(r" {2,}", " ", line)) for line in lines]
    return [line for line in lines if line]


def assert_shown(block: Block, printed: str) -> None:
    """Every line of the page, in order; what is printed besides may be left out."""
    seen = iter(same(printed, block.loose))
    missing = [line for line in same(block.shown, block.loose) if line not in seen]
    assert not missing, f"{block}: not printed: {missing}\n{printed}"


def run(block: Block, folder: Path, names: dict[str, Any]) -> None:
    if "file" in block.notes:
        (folder / block.notes["file"]).write_text(block.text)
    elif block.language == "sh":
        assert_shown(block, typed(block.text, folder, int(block.notes.get("exits", 0))))
    elif block.language == "ipython":
        lines = (f"shell.run_cell({text!r}).raise_error()" for text in ("%load_ext trainlib_deployer", block.text))
        start = "from IPython.core.interactiveshell import InteractiveShell\nshell = InteractiveShell.instance()\n"
        (folder / "cell.py").write_text(start + "\n".join(lines))
        assert_shown(block, typed("python cell.py", folder))
    else:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(block.text, str(block), "exec"), names)
        assert_shown(block, printed.getvalue())


@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda j: j[0])
def test_a_reader_gets_what_is_shown(journey: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("net", "trainlib_settings"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for page in journey:
        names: dict[str, Any] = {}
        for block in runnable(page):
            if "not run" not in block.notes:
                run(block, tmp_path, names)
    sys.modules.pop("net", None)


def test_stepping_from_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lightning: Any = types.ModuleType("lightning")
    lightning.Callback = object
    monkeypatch.setitem(__import__("sys").modules, "lightning", lightning)
    names: dict[str, Any] = {}
    for block in runnable("docs/python.md"):
        exec(block.text, names)
    here, there, same, steps, frozen = capsys.readouterr().out.splitlines()
    assert abs(float(here) - float(there)) < 2e-3 and float(here) < 1.0
    assert (same, steps, frozen) == ("True", "1 0", "True")
    logged: dict[str, float] = {}
    module = types.SimpleNamespace(log=logged.__setitem__)
    names["OnChip"](names["deployment"]).on_train_batch_start(None, module, names["batches"][0], 0)
    assert 0 < logged["loss on the chip"] < 2


def test_the_firmware_page_shows_what_the_example_prints() -> None:
    assert f"```\n{EXPECTED}```" in (ROOT / "docs" / "firmware.md").read_text()


def test_words_are_found_where_the_glossary_says() -> None:
    rows = re.findall(r"^\| (.*?) \| .* \| (`.*`) \|$", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
    assert len(rows) > 40
    assert [word for word, _ in rows] == sorted(word for word, _ in rows)
    files = {p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*") if p.suffix in (".py", ".h")}
    for word, places in rows:
        for place in re.findall(r"`(.*?)`", places):
            assert any(f"/{place}" in f"/{name}" for name in files), f"{word}: there is no {place}"
