"""Networks that the fuzzer found: each was wrong once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.fuzz.modules import Recipe, source
from tests.fuzz.run import REGRESSIONS, fields, setting_of
from tests.fuzz.trial import MISMATCH, PASSED, ROUNDING, Setting, attempt
from trainlib_deployer.program.expr import C_FORM

torch.set_num_threads(1)
FILES = sorted(REGRESSIONS.glob("*.py"))
GOOD = (PASSED, ROUNDING)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("objects")


def test_a_kept_file_tells_all_of_its_setting(tmp_path: Path) -> None:
    """Fault: its type was forgotten, and what had failed in halves ran in floats."""
    where = Setting(3, "24k", "64k", "gap9", 2, True, "address", "mixed")
    assert all(getattr(where, name) != value for name, value in vars(Setting()).items())
    (tmp_path / "net.py").write_text(f"# {fields(where)}\n")
    assert setting_of(tmp_path / "net.py") == where


@pytest.mark.parametrize("net", FILES, ids=lambda p: p.stem)
def test_regression(net: Path, tmp_path: Path, store: Path) -> None:
    found = attempt(net, setting_of(net), tmp_path / "project", store)
    assert found.kind in GOOD, f"{found.kind}: {found.detail}"


def test_a_seed_is_always_the_same_network() -> None:
    assert source(Recipe(11)) == source(Recipe(11)) != source(Recipe(12))


def test_what_a_try_has_left_is_in_nobodys_way() -> None:
    """Fault: a layer of a try that failed had the name that the next one's buffer was to have, and the run ended."""
    compile(source(Recipe(40401)), "net.py", "exec")


def test_something_is_trained() -> None:
    """Fault: of a layer and a buffer the buffer was to be trained, and the layer frozen."""
    names: dict[str, Any] = {}
    exec(source(Recipe(396)), names)
    assert any(p.requires_grad for p in names["model"].parameters())


NET = """
import torch
from torch import nn
torch.manual_seed(5)
model = nn.Sequential(nn.Linear(7, 9), nn.Tanh(), nn.Linear(9, 3))
loss = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
data = [(torch.randn(2, 7), torch.randn(2, 3)) for _ in range(2)]
"""


@pytest.mark.parametrize("wrong", [False, True])
def test_a_small_mistake_is_no_rounding(
    wrong: bool, tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: what rounding cannot do is put down to rounding."""
    if wrong:
        monkeypatch.setitem(C_FORM, "tanh", "tl_tanhf({0}) * 1.00001f")
    net = tmp_path / "net.py"
    net.write_text(NET)
    found = attempt(net, Setting(cores=3), tmp_path / "project", store)
    assert found.kind == (MISMATCH if wrong else PASSED), found.detail
