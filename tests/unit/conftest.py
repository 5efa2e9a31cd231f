"""What several unit tests share."""

from __future__ import annotations

import ctypes

import pytest
import torch

from tests.unit.kernel_harness import build


@pytest.fixture(scope="session")
def lib(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The kernels, built for the host."""
    torch.set_num_threads(1)
    return build(tmp_path_factory.mktemp("kernels") / "kernels.so")
