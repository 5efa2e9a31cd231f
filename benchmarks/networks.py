"""Networks of the memory benchmark: the examples, and those that another planner's figures are known of."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from trainlib_deployer import passes
from trainlib_deployer.capture.step import capture
from trainlib_deployer.ops.lower import lower
from trainlib_deployer.program.ir import Program
from trainlib_deployer.user.assemble import Parts, assemble
from trainlib_deployer.user.load_model import load
from trainlib_deployer.user.model import UserModel

ROOT = Path(__file__).resolve().parent.parent


def example(name: str) -> UserModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load(str(ROOT / "examples" / f"{name}.py"), steps=1)


def user_model(name: str, module: nn.Module, shape: tuple[int, ...], classes: int, optimizer: Any) -> UserModel:
    x, y = torch.randn(shape), torch.randint(classes, shape[:1])
    loss = nn.CrossEntropyLoss()
    return assemble(Parts(name, module, x, y, loss, optimizer(module.parameters()), None, None, 1, "the benchmark"))


def program(user: UserModel) -> Program:
    return passes.run(lower(user, capture(user)))


def folded(module: nn.Module) -> nn.Module:
    """As deployed for inference: batch norm is part of the convolutions, which get a bias each."""
    module = copy.deepcopy(module)
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.BatchNorm2d):
                setattr(parent, name, nn.Identity())
            elif isinstance(child, nn.Conv2d) and child.bias is None:
                child.bias = nn.Parameter(torch.zeros(child.out_channels))
    return module


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01)


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters)


def mnist_cnn() -> UserModel:
    module = nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2),
        nn.ReLU(),
        nn.Conv2d(32, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(3136, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    return user_model("mnist_cnn", module, (32, 1, 28, 28), 10, adam)


def folded_example(name: str) -> Callable[[], UserModel]:
    def make() -> UserModel:
        user = example(name)
        shape, classes = tuple(user.inputs[0].shape), 2
        return user_model(f"{name}, folded", folded(user.module).train(), shape, classes, sgd)

    return make


class Inverted(nn.Module):
    """Widen by a 1x1 convolution, 3x3 depthwise, narrow; a shortcut where shapes allow."""

    def __init__(self, inputs: int, outputs: int, stride: int, widen: int) -> None:
        super().__init__()
        wide = inputs * widen
        layers: list[nn.Module] = [nn.Conv2d(inputs, wide, 1), nn.ReLU6()] if widen > 1 else []
        layers += [nn.Conv2d(wide, wide, 3, stride, 1, groups=wide), nn.ReLU6(), nn.Conv2d(wide, outputs, 1)]
        self.layers = nn.Sequential(*layers)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return x + y if self.shortcut else y


STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def mobilenet_v2() -> UserModel:
    """Width 1.0, 224x224, a batch of 10, batch norm folded."""
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU6()]
    channels = 32
    for widen, outputs, count, stride in STAGES:
        for i in range(count):
            layers.append(Inverted(channels, outputs, stride if i == 0 else 1, widen))
            channels = outputs
    layers += [nn.Conv2d(channels, 1280, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    return user_model("mobilenet_v2", nn.Sequential(*layers), (10, 3, 224, 224), 1000, adam)
