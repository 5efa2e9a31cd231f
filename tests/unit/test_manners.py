"""What the command line says while it works and of a plan, what it takes from pyproject.toml, and completion."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

import click
import pytest

import trainlib_deployer
from tests.unit.pretended_stages import Calls, call, existing_project
from trainlib_deployer.cli import spoken
from trainlib_deployer.cli.console import prose
from trainlib_deployer.cli.main import cli
from trainlib_deployer.errors import UsageError

ROOT = Path(trainlib_deployer.__file__).parent.parent


def test_explain_begins_with_a_summary(calls: Calls) -> None:
    existing_project()
    result = call("explain", "out")
    assert result.exit_code == 0 and result.stderr == "" and "memory map of" not in result.stdout
    assert re.search(r"^weights +1 +60$", result.stdout, re.MULTILINE)
    for text in ("gap 345", "3,030 multiply-adds", "L1 at its peak, operation 0", "what for", "fc"):
        assert text in result.stdout, result.stdout


def test_explain_a_layer(calls: Calls) -> None:
    existing_project()
    result = call("explain", "out", "fc")
    assert result.exit_code == 0 and "fc: 1 operation, 3,030 multiply-adds" in result.stdout
    assert (
        "net.py:4: model = x[0]\n" in result.stdout and "layer" not in result.stdout and "source" not in result.stdout
    )
    result = call("explain", "out", "fx")
    assert result.exit_code == 2 and "there is no layer 'fx'; did you mean: fc" in result.stderr


def test_prose_breaks_between_words_where_somebody_looks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "L2 in a firmware: 242,524 bytes: tensors 160,688, code 38,892"
    for columns in ("", "30"):
        monkeypatch.setenv("COLUMNS", columns)
        prose(line)
        shown = capsys.readouterr().out
        assert shown.split() == line.split() and (
            shown == line + "\n" if not columns else len(shown.split("\n")[0]) <= 30
        )


@pytest.mark.parametrize("columns", ["20", "45", "200"])
def test_tables_never_break_a_number(columns: str, monkeypatch: pytest.MonkeyPatch, calls: Calls) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    existing_project()
    shown = call("explain", "out", "--all").stdout
    assert all(number in shown for number in ("64k (65,536)", "12,345", "53,191", "4,720", "operation 0"))
    monkeypatch.setenv("COLUMNS", "30")
    assert "262,144" in call("targets").stdout


def test_explain_everything(calls: Calls) -> None:
    existing_project()
    result = call("explain", "out", "--all")
    assert result.exit_code == 0 and result.stderr == ""
    for text in (
        "memory map of L1",
        "[red]weight.grad",
        "weight = same",
        "4,720",
        "x[0]",
        "gap 345",
        "3,030 multiply-adds",
    ):
        assert text in result.stdout, text
    assert not any(line.endswith(" ") for line in result.stdout.splitlines())


def test_help_has_examples(calls: Calls) -> None:
    words = call("--help").stdout
    assert "  trainlib-deploy --model net.py" in words and "example_input, example_target" in words
    assert "x>=1" not in words and "..." not in words.split("Commands:")[1]
    for name in cli.commands:
        assert name == "targets" or f"  trainlib-deploy {name} " in call(name, "--help").stdout, name


# ---- what is said while it works


def test_quiet(calls: Calls) -> None:
    """Results and errors alone; before a command, too."""
    assert call("--model", "net.py", "-q").stderr == "loading\nfrom forward\n"
    calls.fails = UsageError("no")
    assert call("--model", "net.py", "-q").stderr == "loading\nfrom forward\nerror: no\n"
    calls.fails = None
    existing_project()
    assert call("-q", "verify", "out").stderr == "" and "PASS" in call("verify", "out", "-q").stdout


@pytest.mark.parametrize("quiet", [False, True])
def test_progress_of_what_takes_long(
    quiet: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing for a while, then the stage that still runs, again and again, and every other one as it begins."""
    monkeypatch.setattr(spoken, "PATIENCE", 0.2)
    monkeypatch.setattr(spoken, "AGAIN", 0.05)
    with click.Context(cli) as ctx:
        ctx.meta[spoken.QUIET] = quiet
        say = spoken.Progress()
        say("first")
        say("second")
        time.sleep(0.4)
        say("third")
    time.sleep(0.15)
    lines = capsys.readouterr().err.splitlines()
    words = [line.partition(" s] ")[2] for line in lines]
    assert words == [] if quiet else words[-1] == "third" and set(words[:-1]) == {"second ..."} and len(words) > 2


def test_each_warning_once() -> None:
    """Fault: what a model warns of was said at each of its runs, a dozen times, with two paths."""
    with warnings.catch_warnings(record=True) as said, spoken.each_warning_once():
        for text in ("old", "old", "slow"):
            warnings.resetwarnings()
            warnings.warn(text, stacklevel=1)
        warnings.warn("old", stacklevel=1)
    assert [str(w.message) for w in said] == ["old", "slow"]


# ---- pyproject.toml


@pytest.mark.compiler
def test_options_of_pyproject(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under those of the command line; paths are the file's; commands have tables of their own."""
    table = "[tool.trainlib-deploy]\nmodel = 'net.py'\ncores = 3\nl1 = '32k'\nsteps = 4\n"
    Path("pyproject.toml").write_text(f"{table}[tool.trainlib-deploy.verify]\non = 'qemu'\n")
    result = call("--l1", "16k")
    assert result.exit_code == 0 and calls.options is not None and calls.options.steps == 4
    assert (calls.options.target.cores, calls.options.target.inner.size) == (3, 16384)
    assert "note: of pyproject.toml: --model net.py, --cores 3, --steps 4" in result.stderr
    existing_project()
    assert call("verify", "out").exit_code == 0 and calls.verified[-1][1] == "qemu"
    Path("deeper").mkdir()
    monkeypatch.chdir("deeper")
    assert call().exit_code == 0 and Path("generated/net").is_dir()


WRONG_TABLES = {
    "coers = 3": "did you mean cores?",
    "samples = 0": "pyproject.toml: samples = 0",
    "cores = [3]": "is not what --cores takes",
    "steps = 'many'": "'many' is not a whole number",
    "weights-allow-missing = 'fc'": "is not what --weights-allow-missing takes",
    "[tool.trainlib-deploy.verifi]": "is no command",
    "cores = = 3": "cannot be read",
}


@pytest.mark.parametrize("line", WRONG_TABLES)
def test_mistakes_in_pyproject(line: str, calls: Calls) -> None:
    Path("pyproject.toml").write_text(f"[tool.trainlib-deploy]\n{line}\n")
    result = call("--model", "net.py")
    assert result.exit_code == 2 and WRONG_TABLES[line] in result.stderr and "Traceback" not in result.stderr


def test_other_peoples_pyproject(calls: Calls) -> None:
    for text in ("[tool.ruff]\nline-length = 3\n", "no toml", "[tool]\n"):
        Path("pyproject.toml").write_text(text)
        assert call("--model", "net.py").exit_code == 0


# ---- completion


def test_completion(tmp_path: Path) -> None:
    (tmp_path / "net.py").touch()
    for words, expected in (("verify out --o", "--on"), ("--target pul", "pulp-open"), ("ver", "verify")):
        line = f"trainlib-deploy {words}"
        env = {**os.environ, "PYTHONPATH": str(ROOT), "_TRAINLIB_DEPLOY_COMPLETE": "bash_complete"}
        env |= {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
        code = "import sys; sys.argv[0] = 'trainlib-deploy'; from trainlib_deployer.cli.main import main; main()"
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
        assert f"plain,{expected}" in done.stdout.split(), (words, done.stdout, done.stderr)
