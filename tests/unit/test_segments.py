"""The memory that others' rules need for the MNIST CNN, to the byte: published numbers."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from torch import nn

from benchmarks.networks import mnist_cnn
from benchmarks.segments import one_arena, segments


def test_published_segments() -> None:
    user = mnist_cnn()
    found = segments(user.module, user.inputs[0])
    assert found == {
        "forward": 11_341_056,
        "back-propagation": 6_423_808,
        "gradient": 1_606_144,
        "scratch": 6_627_328,
    }
    assert sum(found.values()) == 25_998_336


def test_the_same_tensors_in_one_arena() -> None:
    user = mnist_cnn()
    assert one_arena(user.module, user.inputs[0]) == 19_675_264


@pytest.mark.parametrize("seed", range(5))
def test_one_arena_needs_no_more(seed: int) -> None:
    draw = random.Random(seed)
    widths = [draw.randrange(1, 60) for _ in range(draw.randrange(2, 7))]
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    network, x = nn.Sequential(*layers), torch.randn(draw.randrange(1, 9), widths[0])
    apart = segments(network, x)
    assert max(apart.values()) <= one_arena(network, x) <= sum(apart.values()) + 16 * 8 * len(layers)
