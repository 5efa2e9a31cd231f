"""The command line: exit codes, messages, what goes to stdout and what to stderr."""

from __future__ import annotations

import configparser
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trainlib_deployer
from tests.unit.pretended_stages import LEVEL, NET, PLAN, Calls, call, existing_project
from trainlib_deployer.cli.console import print_summary
from trainlib_deployer.errors import DoesNotFit, ToolMissing, Unsupported
from trainlib_deployer.program.ir import Source
from trainlib_deployer.run.host import Host

ROOT = Path(trainlib_deployer.__file__).parent.parent
# ---- deployment


def test_deploy(calls: Calls) -> None:
    result = call("--model", "net.py")
    assert result.exit_code == 0
    assert calls.options is not None and calls.user is not None
    assert calls.options.out == Path("generated/net") and calls.options.target.name == "pulp-open"
    assert (calls.options.steps, calls.options.force, len(calls.user.samples)) == (5, False, 5)
    lines = result.stdout.splitlines()
    assert lines[0] == "generated/net"
    assert "1,818 parameters, 1,515 trained" in lines[1] and "1 operation," in lines[1]
    assert "64k (65,536)" in result.stdout and "12,345" in result.stdout and "18.8 %" in result.stdout
    assert "loading" in result.stderr and "from forward" in result.stderr and "note: loss" in result.stderr
    assert "capturing" not in result.output, "progress is for a terminal, or -v"


def test_all_options_arrive(calls: Calls) -> None:
    args = "--model net.py:model --cores 3 --l1 100k --l2 1M --target gap9 --out o/p --input 4x5 --steps 7 --force -v"
    result = call(*args.split(), "--accumulate", "1", "--dtype", "fp32", "--saved", "fp16", "--json", "p.json")
    assert result.exit_code == 0, result.output
    assert calls.options is not None and calls.user is not None
    target = calls.options.target
    assert (target.name, target.cores, target.inner.size, target.outer.size) == ("gap9", 3, 100 << 10, 1 << 20)
    assert (calls.options.out, calls.options.steps, calls.options.force) == (Path("o/p"), 7, True)
    assert (calls.options.dtype, calls.options.saved) == ("fp32", "fp16")
    assert calls.user.inputs[0].shape == (4, 5) and len(calls.user.samples) == 7
    assert "s] capturing" in result.stderr
    assert json.loads(Path("p.json").read_text()) == PLAN


def test_deploy_again_replaces(calls: Calls) -> None:
    for _ in range(2):
        assert call("--model", "net.py").exit_code == 0
    assert [p.name for p in Path("generated").iterdir()] == ["net"]


def test_run_verifies_and_writes_json(calls: Calls) -> None:
    result = call("--model", "net.py", "--run", "host", "--json", "v.json", "--steps", "3")
    assert result.exit_code == 0
    assert calls.verified == [(Path("generated/net"), "host", 3)]
    assert json.loads(Path("v.json").read_text())["passed"] is True
    assert "PASS on host: 2 of 2 tensors agree with PyTorch" in result.stdout
    assert "fc.weight (step 1)" in result.stdout and "1.00e-08" in result.stdout and "1,234,567" in result.stdout


THOUSANDS = "1" + 4999 * "0"  # of digits: more than Python reads


@pytest.mark.parametrize("error", [0.5, float("inf"), float("nan")])
def test_failed_verification(calls: Calls, error: float) -> None:
    calls.error = error
    result = call("--model", "net.py", "--run", "host", "--json", "v.json")
    assert result.exit_code == 5
    assert "error: the gradient 'fc.weight' of layer 'fc' differs" in result.stderr
    assert "FAIL on host: 1 of 2" in result.stdout
    assert json.loads(Path("v.json").read_text())["passed"] is False


@pytest.mark.parametrize(
    ("error", "code", "phrase"),
    [
        (
            DoesNotFit("100 bytes over in L1", remedy="a smaller batch"),
            3,
            "error: 100 bytes over in L1; a smaller batch\n",
        ),
        (
            Unsupported("no aten.fft", source=Source("net.py", 7, "y = fft(x)")),
            4,
            "error: no aten.fft\n  at net.py:7:  y = fft(x)",
        ),
        (ToolMissing("gcc is missing"), 6, "error: gcc is missing"),
        (KeyboardInterrupt(), 130, "error: interrupted; nothing was changed"),
    ],
)
def test_exit_codes_of_the_stages(calls: Calls, error: BaseException, code: int, phrase: str) -> None:
    existing_project()
    before = {p: p.stat().st_mtime_ns for p in Path().rglob("*")}
    calls.fails = error
    result = call("--model", "net.py", "--out", "out")
    assert result.exit_code == code
    assert phrase in result.stderr and result.stdout == ""
    after = {p: p.stat().st_mtime_ns for p in Path().rglob("*")}
    assert {p for p in after if p.is_file()} == {p for p in before if p.is_file()} and before.keys() == after.keys()


def test_our_own_bug_is_a_traceback(calls: Calls) -> None:
    calls.fails = IndexError("ours")
    with pytest.raises(IndexError, match="ours"):
        call("--model", "net.py")


def test_missing_tool_is_said_before_the_work(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(self: object) -> None:
        raise ToolMissing("there is no gcc")

    monkeypatch.setattr(Host, "check_tools", missing)
    result = call("--model", "net.py", "--run", "host")
    assert result.exit_code == 6 and "there is no gcc" in result.stderr
    assert calls.options is None and not Path("generated").exists()


def test_interrupted_verification_says_what_is_there(calls: Calls) -> None:
    existing_project()
    calls.fails = KeyboardInterrupt()
    result = call("verify", "out")
    assert result.exit_code == 130 and "out is complete, but not verified" in result.stderr


@pytest.mark.parametrize(
    ("args", "phrase"),
    [
        ("", "--model FILE[:NAME] is missing"),
        ("--cores 8", "--model FILE[:NAME] is missing"),
        ("--model", "requires an argument"),
        ("--model none.py", "there is no file none.py"),
        ("--model .", "is a directory"),
        ("--model net.py:Net", "has no 'Net'"),
        ("--model net.py --cores 0", "--cores '0' is not a number of cores"),
        ("--model net.py --cores x", "from 1 to 16"),
        ("--model net.py --l1 64q", "--l1 '64q' is not a size"),
        ("--model net.py --l2 -5", "--l2 '-5' is not a size"),
        ("--model net.py --l3 8q", "--l3 '8q' is not a size"),
        ("--model net.py --l3 8M --target cortex-m7", "cortex-m7 has nothing to connect a third memory to"),
        ("--model net.py --l3 8M --target gap9", "--l3 goes with pulp-open, siracusa"),
        ("--model net.py --target gap8", "targets: pulp-open, siracusa"),
        ("--model net.py --target siracusa --cores 9", "siracusa has 8 cores, not 9; give at most 8"),
        ("--model net.py --target esp32-c6 --cores 2", "esp32-c6 has 1 core, not 2; leave --cores out"),
        ("--model net.py --target esp32-c3 --l1 4k", "esp32-c3 has one memory, which is --l2"),
        ("--model net.py --target esp32-c3 --l3 8M", "esp32-c3 has nothing to connect a third memory to"),
        ("--model net.py --target cortex-m4f --l2 8G", "more than the 4 GiB address space"),
        ("--model net.py --target generic --cores 4", "generic has 1 core, not 4; leave --cores out"),
        ("--model net.py --target generic --l1 64k", "generic has one memory, which is --l2"),
        ("--model net.py --target pulp-open --l1 193M", "L1 of 193M runs into L2: on pulp-open L2 begins 192M behind"),
        ("--model net.py --l1 3G --l2 2G", "L1 and L2 are 5,368,709,120 bytes together, more than the 4 GiB"),
        ("sweep --model net.py --target generic --cores 2", "generic has 1 core, not 2"),
        ("sweep --model net.py --l1 3G --l2 1025M", "bytes together, more than the 4 GiB address space"),
        ("sweep --model net.py --memory 0", "--memory '0' is no amount"),
        ("chips --model net.py --memory 0k", "--memory '0k' is no amount"),
        ("chips --model net.py --l3 8M", "unexpected extra argument"),
        *((f"--model net.py {o} {THOUSANDS}", f"{o} '1000000000") for o in ("--cores", "--l1", "--l3", "--input")),
        *((f"--model net.py {o} {THOUSANDS}", f"'{o}': '1000000000") for o in ("--steps", "--samples", "--accumulate")),
        (f"sweep --model net.py --memory {THOUSANDS}k", "(5,001 characters) is more than the 4 GiB address space"),
        (f"--model net.py --tune host:{THOUSANDS}", "rounds is 1000"),
        ("--model net.py --input 1xx3", "is not a shape"),
        ("--model net.py --input 2x6", "only the batch may differ"),
        ("--model net.py --weights none.pt", "there is no file none.pt"),
        ("--model net.py --weights net.py", "not a file of weights"),
        ("--model net.py --steps 0", "'--steps'"),
        ("--model net.py --steps two", "'--steps'"),
        ("--model net.py --accumulate 0", "'--accumulate'"),
        ("--model net.py --dtype fp64", "'--dtype'"),
        ("--model net.py --dtype bf16", "pulp-open: its record does not say that it adds up products of bf16"),
        ("--model net.py --dtype mixed --saved fp16", "mixed keeps all activations in half precision"),
        ("--model net.py --saved fp64", "'--saved'"),
        ("--model net.py --run renode", "'--run'"),
        ("--model net.py --json no/x.json", "there is no directory no"),
        ("--model net.py --json .", "is a directory"),
        ("--model net.py --out net.py", "net.py is a file"),
        ("--model net.py --out net.py/deeper", "net.py is a file"),
        ("--model net.py --out .", "was not written by trainlib-deploy"),
        ("--model net.py --fast", "No such option"),
        ("--model net.py verify out", "before the command 'verify'"),
        ("net.py", "write --model net.py"),
        ("net.py:Net", "write --model net.py:Net"),
        ("deploy", "No such command 'deploy'"),
        ("verify", "Missing argument 'DIR'"),
        ("verify none", "there is no folder none"),
        ("verify net.py", "is a file"),
        ("verify .", "no plan.json"),
        ("verify out --on renode", "'--on'"),
        ("verify out --steps 0", "'--steps'"),
        ("verify out --json no/v.json", "there is no directory"),
        ("verify out --dump no/v.npz", "there is no directory"),
        ("verify out --dump .", "is a directory"),
        ("verify out extra", "unexpected extra argument"),
        ("explain", "Missing argument 'DIR'"),
        ("explain none", "there is no folder none"),
        ("explain .", "no plan.json"),
        ("targets x", "unexpected extra argument"),
    ],
)
def test_bad_usage(calls: Calls, args: str, phrase: str) -> None:
    existing_project()
    result = call(*args.split())
    assert result.exit_code == 2, result.output
    assert result.stderr.splitlines()[-1] and phrase in result.stderr, result.stderr
    assert "error: " in result.stderr and "Traceback" not in result.stderr
    assert result.stdout == "" and calls.options is None
    assert sorted(p.name for p in Path().iterdir()) == ["net.py", "out"]


@pytest.mark.parametrize(
    ("change", "phrase"),
    [
        ("raise ValueError('mine')", "net.py:8:  raise ValueError('mine')"),
        ("def f(:", "SyntaxError"),
        ("del model", "no nn.Module"),
        ("example_target = torch.tensor([2, 3])", "class index 3"),
        ("example_input = torch.randn(2, 6)", "mat1 and mat2"),
        ("loss = lambda o, t: o", "not a scalar"),
        ("optimizer = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=1)", "not the model's"),
        ("model.double()", "is float64"),
        ("model.requires_grad_(False)", "frozen"),
    ],
)
def test_a_bad_file_changes_nothing(calls: Calls, change: str, phrase: str) -> None:
    Path("net.py").write_text(NET + change + "\n")
    result = call("--model", "net.py")
    assert result.exit_code == 2 and phrase in result.stderr and result.stdout == ""
    assert [p.name for p in Path().iterdir()] == ["net.py"]


def test_unsupported_scheduler_is_exit_4(calls: Calls) -> None:
    Path("net.py").write_text(NET + "scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, 'max')\n")
    assert call("--model", "net.py").exit_code == 4


# ---- the other commands


def test_verify(calls: Calls) -> None:
    existing_project()
    result = call("verify", "out", "--on", "host", "--steps", "2", "--json", "v.json", "--dump", "d.npz")
    assert result.exit_code == 0 and calls.verified == [(Path("out"), "host", 2)]
    assert json.loads(Path("v.json").read_text())["on"] == "host"
    assert np.load("d.npz")["0/loss/loss"].tolist() == [1.0]


def test_targets() -> None:
    result = call("targets")
    assert result.exit_code == 0
    assert "pulp-open (default)" in result.stdout and "256k (262,144)" in result.stdout and "gap9" in result.stdout


def test_version_and_help() -> None:
    assert call("--version").stdout == f"trainlib-deploy, version {trainlib_deployer.__version__}\n"
    for args in (["--help"], ["-h"], ["verify", "--help"], ["explain", "-h"], ["targets", "-h"]):
        result = call(*args)
        assert result.exit_code == 0 and "Usage:" in result.stdout


# ---- as a process


def process(*args: str, **more: Any) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, *args], env=env, **pipes, **more)


def test_help_does_not_import_what_takes_long() -> None:
    code = "import sys, trainlib_deployer.cli.main; print({'torch', 'numpy', 'jinja2'} & sys.modules.keys())"
    assert process("-c", code).communicate()[0].strip() == "set()"


def test_ctrl_c_while_the_package_is_read() -> None:
    """It was a traceback: seconds pass there on a slow disk."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    module, _, function = setup["options.entry_points"]["console_scripts"].partition("= ")[2].strip().partition(":")
    reader = "class Reader:\n def find_spec(self, name, *more):\n  if name == 'click': raise KeyboardInterrupt"
    code = f"import sys, {module} as program\n{reader}\nsys.meta_path.insert(0, Reader())\nprogram.{function}()"
    tool = process("-c", code)
    assert (*tool.communicate(), tool.returncode) == ("", "error: interrupted; nothing was changed\n", 130)


@pytest.mark.slow
def test_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("import sys, time\nprint('here', file=sys.stderr, flush=True)\ntime.sleep(60)\n")
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # shells start what runs in the background deaf to it
    tool = process("-m", "trainlib_deployer", "--model", "net.py", cwd=tmp_path, preexec_fn=heard)
    assert tool.stderr is not None and "here\n" in iter(tool.stderr.readline, "")
    time.sleep(0.1)
    tool.send_signal(signal.SIGINT)
    out, err = tool.communicate(timeout=30)
    assert (tool.returncode, out) == (130, "") and err.splitlines()[-1] == "error: interrupted; nothing was changed"
    assert [p.name for p in tmp_path.iterdir()] == ["net.py"]


@pytest.mark.parametrize(("left", "said"), [(131071, True), (131072, False)])
def test_little_room_for_code_is_said(left: int, said: bool, capsys: pytest.CaptureFixture[str]) -> None:
    level = {**LEVEL, "size": 524288, "used": 524288 - left, "headroom": left}
    print_summary("out", {**PLAN, "levels": {"L1": LEVEL, "L2": level}})
    assert (f"{left:,} bytes of L2 are left; code" in capsys.readouterr().out) is said


@pytest.mark.parametrize("working", [6, 8])
def test_cores_that_take_no_part_are_said(working: int, capsys: pytest.CaptureFixture[str]) -> None:
    target = {**PLAN["target"], "cores": 8, "working": working}
    print_summary("out", {**PLAN, "target": target, "levels": {"L1": LEVEL}})
    out = capsys.readouterr().out
    assert "with 8 cores" in out
    assert ("6 of the 8 cores take part" in out) == (working == 6)


@pytest.mark.parametrize("number", ["x", "0", "-1", "2.0", "", "\u0665"])
def test_numbers_of_options_say_what_they_must_be(number: str, calls: Calls) -> None:
    done = call("--model", "net.py", "--steps", number)
    assert done.exit_code == 2 and f"'--steps': '{number}' is not a whole number of at least 1" in done.stderr
