"""Tiled or not, the bits of the examples are the same (test_tile_property.py has layers drawn at random)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import deploy_example
from trainlib_deployer.api import Deployment
from trainlib_deployer.folder import read_plan

Bits = dict[tuple[int, str, str], bytes]


def bits(deployed: Deployment) -> Bits:
    result = deployed.verify()
    result.raise_if_failed()
    return {k: v.tobytes() for k, v in result.computed.items()}


def tiled_operations(folder: Path) -> int:
    return sum(op["tiles"] > 1 for op in read_plan(folder)["ops"])


@pytest.mark.parametrize("name", ["resnet8", "mlp"])
def test_an_example_gives_the_same_bits_at_every_size_of_l1(name: str, tmp_path: Path) -> None:
    whole = bits(deploy_example(name, tmp_path / "whole", steps=1))
    for l1 in ("24k", "64k"):
        deployed = deploy_example(name, tmp_path / l1, steps=1, l1=l1, l2="4M", cores=4)
        assert tiled_operations(deployed.folder) >= 5
        assert bits(deployed) == whole, f"{name} with {l1} of L1"
