"""examples/adapt_keywords, made small: the device learns what PyTorch learns, and old examples keep what was known."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest
import torch

from tests.e2e.simulators import needs
from tests.pages import blocks

torch.set_num_threads(1)
HERE = Path(__file__).resolve().parents[2] / "examples" / "adapt_keywords"


def without_numbers(text: str) -> str:
    return re.sub(r"\d[\d.,%]*(e-\d+)?", "#", text)


def test_a_user_is_understood_and_nobody_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("qemu")
    monkeypatch.syspath_prepend(HERE)
    told = importlib.import_module("adapt").story(tmp_path, updates=40, on_cluster=1, tests=200, count=800)
    for name in ("adapt", "keywords"):
        del sys.modules[name]
    assert told.same_bits and told.apart < 1e-5
    assert max(abs(a - b) for a, b in zip(told.chip, told.pytorch, strict=True)) <= 0.01
    assert max(abs(a - b) for a, b in zip(told.chip_forgets, told.pytorch_forgets, strict=True)) <= 0.01
    assert told.chip_before == pytest.approx(told.before, abs=0.01)
    everybody, user = told.before
    assert everybody > 0.9 and told.chip[1] > user + 0.2
    assert told.chip[0] > 0.8 and told.chip_forgets[0] < told.chip[0] - 0.3
    [page, *_] = blocks("docs/adapt.md")
    assert without_numbers(str(told)) == without_numbers(page.shown.strip())
    assert told.replay_bytes == 250 * (21 * 15 + 1) and told.l2_bytes < 128 << 10
