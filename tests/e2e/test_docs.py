"""What the pages tell people to type works, and prints what it should."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.e2e.test_firmware import EXPECTED

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
torch.set_num_threads(1)


def blocks(page: str, language: str = "python") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


def typed(commands: str, folder: Path) -> str:
    """What a person sees who types these lines there."""
    known = commands.replace("trainlib-deploy ", f"{sys.executable} -m trainlib_deployer.cli.main ")
    known = re.sub(r"^python ", f"{sys.executable} ", known, flags=re.MULTILINE)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "160"}
    done = subprocess.run(
        ["bash", "-ec", known], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def without_errors(text: str) -> list[str]:
    """Lines without what another processor rounds otherwise, and a better plan uses less of."""
    return [re.sub(r" +\d\.\d\de-\d\d.*|(?<=planned: ).*", "", line) for line in text.splitlines()]


def test_the_first_pages_of_the_readme(tmp_path: Path) -> None:
    """A network of one's own, trained: its loss falls; and its weights, back in PyTorch."""
    text = (ROOT / "README.md").read_text()
    quick, _, rest = text.partition("## Quick start")[2].partition("## The command line")
    (tmp_path / "net.py").write_text(re.findall(r"^```python\n(.*?)^```$", quick, re.MULTILINE | re.DOTALL)[0])
    [command] = re.findall(r"^```sh\n(.*?)^```$", quick, re.MULTILINE | re.DOTALL)
    shown = re.findall(
        r"^```\n(.*?)^```$", quick.partition("```sh\n")[2].partition("```\n")[2], re.MULTILINE | re.DOTALL
    )
    printed = typed(command, tmp_path)
    assert without_errors(shown[0]) == without_errors(printed)[-len(shown[0].splitlines()) :]
    own = rest.partition("## Your own data")[2].partition("## And back")[0]
    [commands] = re.findall(r"^```sh\n(.*?)^```$", own, re.MULTILINE | re.DOTALL)
    [shown] = re.findall(
        r"^```\n(.*?)^```$", own.partition("```sh\n")[2].partition("```\n")[2], re.MULTILINE | re.DOTALL
    )
    assert typed(commands, tmp_path).endswith(shown)
    back = rest.partition("## And back")[2].partition("## From Python")[0]
    [commands] = re.findall(r"^```sh\n(.*?)^```$", back, re.MULTILINE | re.DOTALL)
    assert "tensors after 40 updates" in typed(commands, tmp_path)
    typed(
        f"{sys.executable} -c \"import torch; assert torch.load('trained.pt')['1.num_batches_tracked'] == 40\"",
        tmp_path,
    )


def test_stepping_from_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lightning: Any = types.ModuleType("lightning")
    lightning.Callback = object
    monkeypatch.setitem(__import__("sys").modules, "lightning", lightning)
    names: dict[str, Any] = {}
    for block in blocks("python.md"):
        exec(block, names)
    here, there, same, steps, frozen = capsys.readouterr().out.splitlines()
    assert abs(float(here) - float(there)) < 2e-3 and float(here) < 1.0
    assert (same, steps, frozen) == ("True", "1 0", "True")
    logged: dict[str, float] = {}
    module = types.SimpleNamespace(log=logged.__setitem__)
    names["OnChip"](names["deployment"]).on_train_batch_start(None, module, names["batches"][0], 0)
    assert 0 < logged["loss on the chip"] < 2


def test_the_firmware_page_shows_what_the_example_prints() -> None:
    assert f"```\n{EXPECTED}```" in (DOCS / "firmware.md").read_text()
