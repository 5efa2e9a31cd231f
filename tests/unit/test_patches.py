"""Convolutions whose windows lie side by side are matrix products, and no others; transposed ones are of one tap."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.unit.small_programs import program_of
from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.ops.conv_shape import ConvShape
from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.ops.patches import in_patches, in_taps

LARGE = ConvShape(1, 1, 4, 33, 11, 13, 4, 9, 5, 3, (2, 1), (0, 0), (1, 2))
SHAPE = ConvShape(2, 1, 3, 5, 6, 9, 3, 3, 2, 3, (2, 3), (0, 0), (1, 1))


def test_patches_are_copied_once_for_three_products() -> None:
    torch.manual_seed(5)
    network = nn.Sequential(nn.Conv2d(4, 3, 3, padding=1), nn.Conv2d(3, 5, (2, 3), stride=(2, 3)), nn.Flatten())
    program = program_of(network, (2, 4, 6, 9))
    products = [op for op in program.ops if isinstance(op.kind, MatMul)]
    convolutions = [op.kind.direction for op in program.ops if isinstance(op.kind, Conv)]
    assert sorted((op.kind.m, op.kind.n, op.kind.k) for op in products) == [(5, 18, 18), (18, 5, 18), (18, 18, 5)]
    assert convolutions == ["fw", "bw_w"]
    forward, weight = products[0], next(op for op in products if op.kind.m == 5)
    assert forward.reads[0].tensor == weight.reads[1].tensor


def test_a_sample_is_copied_again_for_the_weights() -> None:
    """No copy of it lives from forward to backward, beside the sample."""
    torch.manual_seed(6)
    network = nn.Sequential(nn.Conv2d(3, 5, (2, 3), stride=(2, 3)), nn.ReLU(), nn.Flatten(), nn.Linear(45, 4))
    program = program_of(network, (2, 3, 6, 9))
    copied = [op for op in program.ops if any(v.tensor == "input" for v in op.reads)]
    assert [op.phase for op in copied] == ["forward", "backward"]
    assert not any(isinstance(op.kind, MatMul | Conv) for op in copied)


def test_a_transposed_convolution_is_of_one_tap_and_its_gradient_taken_apart_once() -> None:
    torch.manual_seed(7)
    network = nn.Sequential(nn.Conv2d(3, 5, 1), nn.ConvTranspose2d(5, 3, (2, 3), stride=(2, 3)), nn.Flatten())
    program = program_of(network, (2, 3, 3, 3))
    planes = [op for op in program.ops if isinstance(op.kind, Conv) and op.kind.shape.ci == 18]
    assert [op.kind.direction for op in planes] == ["bw_x", "fw", "bw_w"]
    assert {(op.kind.shape.kh, op.kind.shape.kw, op.kind.bias) for op in planes} == {(1, 1, False)}
    _, back, weight = planes
    assert back.reads[0] == weight.reads[0]


@pytest.mark.parametrize(
    "other",
    [
        replace(SHAPE, stride=(2, 2), wo=4),
        replace(SHAPE, pad=(0, 3), wo=5),
        replace(SHAPE, dilation=(1, 2), w=12, wo=3),
        replace(SHAPE, w=10),
        replace(SHAPE, groups=3, ci=1, co=5),
        replace(SHAPE, kh=1, kw=1, stride=(1, 1), ho=6, wo=9),
        replace(SHAPE, co=3),
        replace(SHAPE, n=1, h=2, ho=1),
    ],
)
def test_what_overlaps_or_leaves_a_gap_or_is_small_stays(other: ConvShape) -> None:
    assert in_patches(SHAPE)
    assert not in_patches(other)


def test_large_kernels_on_few_channels_have_one_tap_on_copies() -> None:
    """The input's gradient has no use for them."""
    torch.manual_seed(8)
    network = nn.Sequential(nn.Conv2d(2, 4, 1), nn.Conv2d(4, 33, (5, 3), (2, 1), dilation=(1, 2)), nn.Flatten())
    program = program_of(network, (1, 2, 11, 13))
    kinds = [op.kind for op in program.ops if isinstance(op.kind, Conv) and op.kind.shape.co == 33]
    found = {k.direction: (k.shape.ci, k.shape.kh, k.shape.kw, k.shape.stride) for k in kinds}
    one_tap = (60, 1, 1, (1, 1))
    assert found == {"fw": one_tap, "bw_x": (4, 5, 3, (2, 1)), "bw_w": one_tap}


@pytest.mark.parametrize(
    "other",
    [
        replace(LARGE, ci=5),
        replace(LARGE, co=31),
        replace(LARGE, groups=2, ci=2),
        replace(LARGE, pad=(0, 1), w=11),
        replace(LARGE, kh=3, ho=5),
        replace(LARGE, kh=4, kw=4, ci=3, h=24, w=24, ho=6, wo=6, stride=(4, 4), dilation=(1, 1)),
        replace(LARGE, ho=3),
    ],
)
def test_small_kernels_many_terms_and_few_results_stay(other: ConvShape) -> None:
    assert in_taps(LARGE)
    assert not in_taps(other)
