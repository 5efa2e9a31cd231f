"""Convolutions of halves by one tap with long sums are products, and no others."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.unit.small_programs import program_of
from trainlib_deployer import passes
from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.passes import order_halves
from trainlib_deployer.program.precision import Precision

HALVES = passes.chosen(Precision(halves=True))


def shapes(channels: tuple[int, int], shape: tuple[int, ...], **more: int) -> list[tuple[str, ...] | tuple[int, ...]]:
    """Of what a layer multiplies, behind one whose gradient it makes: the directions of convolutions, the extents of
    products."""
    torch.manual_seed(2)
    net = nn.Sequential(nn.Conv2d(3, channels[0], 3, padding=1), nn.Tanh(), nn.Conv2d(*channels, 1, **more), nn.Tanh())
    kinds = [op.kind for op in program_of(net, (shape[0], 3, *shape[1:]), HALVES).ops]
    found = [(k.direction,) for k in kinds if isinstance(k, Conv) and k.shape.pointwise]
    return [*found, *((k.m, k.n, k.k) for k in kinds if isinstance(k, MatMul) and not k.update)]


def test_each_direction_is_asked_for_its_own_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_halves, "ENOUGH", 9.0)  # nothing is taken apart
    assert shapes((131, 133), (1, 2, 7)) == [(133, 14, 131), (131, 14, 133)]
    assert shapes((131, 16), (1, 2, 7)) == [("bw_x",), (16, 14, 131)]
    assert shapes((16, 131), (1, 2, 7)) == [("fw",), (16, 14, 131)]


@pytest.mark.parametrize(
    ("channels", "shape", "more"),
    [((128, 128), (1, 2, 7), {}), ((131, 133), (2, 2, 7), {}), ((131, 133), (1, 3, 7), {"stride": 2})],
)
def test_others_stay(channels: tuple[int, int], shape: tuple[int, ...], more: dict[str, int]) -> None:
    assert all(isinstance(part, str) for found in shapes(channels, shape, **more) for part in found)
