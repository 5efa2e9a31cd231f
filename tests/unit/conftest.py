"""What several unit tests share."""

from __future__ import annotations

import ctypes
import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # what hands out tests to processes reads this file as well, and has no use for PyTorch
    from tests.unit.pretended_stages import Calls

COMPILED = {"lib", "kernel_objects"}

gc.set_threshold(100_000, 50, 100)  # PyTorch's objects stay; looking at them again and again is a tenth of the time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What calls kernels waits for them to be built; `make unit` leaves that to `make kernels`."""
    for item in items:
        if COMPILED & {*getattr(item, "fixturenames", ())}:
            item.add_marker("compiler")


@pytest.fixture(autouse=True)
def _without_tools(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not marked finds no compiler, so that `make unit` really needs none."""
    if not {"compiler", "slow"} & {mark.name for mark in request.node.iter_markers()}:
        monkeypatch.setenv("PATH", str(Path(sys.executable).parent))


@pytest.fixture(scope="session")
def kernel_objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(scope="session")
def lib(kernel_objects: Path) -> ctypes.CDLL:
    """The kernels, built for the host."""
    import torch

    from tests.unit.kernel_harness import build

    torch.set_num_threads(1)
    return build(kernel_objects)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Calls:
    """What a command asks of the stages behind it, none of which works."""
    from tests.unit.pretended_stages import pretended

    return pretended(monkeypatch, tmp_path)
