"""Tiled or not, the bits are the same: for the examples, and for layers drawn at random, at many sizes of L1."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.e2e.conftest import deploy_example
from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.errors import DoesNotFit
from trainlib_deployer.verify import read_plan

Bits = dict[tuple[int, str, str], bytes]


def bits(deployed: Deployment) -> Bits:
    result = deployed.verify()
    result.raise_if_failed()
    return {k: v.tobytes() for k, v in result.computed.items()}


def tiled_operations(folder: Path) -> int:
    return sum(op["tiles"] > 1 for op in read_plan(folder)["ops"])


@pytest.mark.parametrize("name", ["resnet8", "dscnn", "mlp"])
def test_an_example_gives_the_same_bits_at_every_size_of_l1(name: str, tmp_path: Path) -> None:
    whole = bits(deploy_example(name, tmp_path / "whole", steps=1))
    for l1 in ("24k", "64k"):
        deployed = deploy_example(name, tmp_path / l1, steps=1, l1=l1, l2="4M", cores=4)
        assert tiled_operations(deployed.folder) > 5
        assert bits(deployed) == whole, f"{name} with {l1} of L1"


class Layers(nn.Module):
    """Random layers side by side, each on a parameter of its own, so that all their gradients are computed."""

    def __init__(self, seed: int, count: int) -> None:
        super().__init__()
        rng = random.Random(seed)
        self.inputs = nn.ParameterList()
        self.layers = nn.ModuleList()
        while len(self.layers) < count:
            shape, layer = random_layer(rng)
            self.layers.append(layer)
            self.inputs.append(torch.randn(shape))

    def forward(self, scale: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(layer(x * scale) for layer, x in zip(self.layers, self.inputs, strict=True))


def random_layer(rng: random.Random) -> tuple[tuple[int, ...], nn.Module]:
    batch, channels, height, width = rng.randint(1, 3), rng.randint(1, 21), rng.randint(5, 33), rng.randint(5, 33)
    image = (batch, channels, height, width)
    kernel = (rng.randint(1, 5), rng.randint(1, 5))
    conv = {
        "kernel_size": kernel,
        "stride": (rng.randint(1, 3), rng.randint(1, 3)),
        "padding": (rng.randint(0, kernel[0] // 2), rng.randint(0, kernel[1] // 2)),
    }
    choice = rng.randrange(7)
    if choice <= 2:
        return image, nn.Conv2d(channels, rng.randint(1, 40), **conv, bias=rng.random() < 0.5)
    if choice == 3:
        return image, nn.Conv2d(channels, channels * rng.randint(1, 2), **conv, groups=channels)
    if choice == 4:
        return (rng.randint(1, 70), rng.randint(1, 300)), nn.LazyLinear(rng.randint(1, 300))
    if choice == 5:
        return image, nn.Sequential(nn.BatchNorm2d(channels), nn.GELU())
    return image, nn.MaxPool2d(kernel, rng.randint(1, 3)) if min(height, width) >= 5 else nn.ReLU()


def all_sums(outputs: tuple[torch.Tensor, ...], _target: torch.Tensor) -> torch.Tensor:
    return sum((o * torch.linspace(-1, 1, o.numel()).reshape(o.shape)).mean() for o in outputs)  # type: ignore[return-value]


def random_case(seed: int, folder: Path, count: int = 8) -> int:
    """Compare untiled with tiled at three sizes of L1; the number of tiled operations that were compared."""
    torch.manual_seed(seed)
    layers = Layers(seed, count)
    for layer, x in zip(layers.layers, layers.inputs, strict=True):
        layer(x)  # lazy ones learn their shape
    data = [(torch.ones(1), torch.zeros(1))]

    def run(name: str, l1: str, cores: int) -> tuple[Deployment, Bits]:
        deployed = deploy(
            layers,
            *data[0],
            loss=all_sums,
            data=data,
            steps=1,
            out=folder / name,
            l1=l1,
            l2="16M",
            cores=cores,
        )
        return deployed, bits(deployed)

    _, whole = run("whole", "128M", 8)
    compared = 0
    rng = random.Random(seed)
    for kilobytes in rng.sample(range(18, 100), 3):
        cores = rng.randint(1, 8)
        try:
            deployed, found = run(f"tiled{kilobytes}", f"{kilobytes}k", cores)
        except DoesNotFit:
            continue
        assert found == whole, f"seed {seed}, {kilobytes} kB of L1, {cores} cores"
        compared += tiled_operations(deployed.folder)
    return compared


@pytest.mark.parametrize("seed", [1])
def test_random_layers_give_the_same_bits_tiled(seed: int, tmp_path: Path) -> None:
    assert random_case(seed, tmp_path) >= 20
