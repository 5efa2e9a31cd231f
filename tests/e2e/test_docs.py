"""What the pages tell people to type works, and prints what it should."""

from __future__ import annotations

import re
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.e2e.test_firmware import EXPECTED

DOCS = Path(__file__).resolve().parents[2] / "docs"
torch.set_num_threads(1)


def blocks(page: str, language: str = "python") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


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
    here, there, same, steps = capsys.readouterr().out.splitlines()
    assert abs(float(here) - float(there)) < 2e-3 and float(here) < 1.0
    assert (same, steps) == ("True", "1 0")
    logged: dict[str, float] = {}
    module = types.SimpleNamespace(log=logged.__setitem__)
    names["OnChip"](names["deployment"]).on_train_batch_start(None, module, names["batches"][0], 0)
    assert 0 < logged["loss on the chip"] < 2


def test_the_firmware_page_shows_what_the_example_prints() -> None:
    assert f"```\n{EXPECTED}```" in (DOCS / "firmware.md").read_text()
