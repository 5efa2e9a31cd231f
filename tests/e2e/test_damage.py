"""A share of the damaged files of tests/fuzz/damage.py; ten thousand of each kind are tried there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.damage import KINDS

SHARE = {"weights": 400, "dumps": 100, "states": 2000, "projects": 300}


@pytest.mark.parametrize("kind", KINDS)
def test_damaged(kind: str, tmp_path: Path) -> None:
    """Most are refused."""
    found = KINDS[kind](SHARE[kind], 7, tmp_path)
    refused = sum(n for what, n in found.items() if what.endswith("refused"))
    assert found.total() == SHARE[kind] and refused > SHARE[kind] // 3
