"""Example networks as people would deploy them, at any batch size."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.user_model import UserModel, load

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = sorted(p.stem for p in (ROOT / "examples").glob("*.py"))
torch.set_num_threads(1)


def example(name: str) -> UserModel:
    """The UserModel of an example."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load(str(ROOT / "examples" / f"{name}.py"), steps=5)


def batched(value: Any, batch: int, seed: int, classes: int = 2) -> Any:
    """A random tensor like `value` with another batch size."""
    g = torch.Generator().manual_seed(seed)
    shape = (batch, *value.shape[1:])
    if value.is_floating_point():
        return torch.randn(shape, generator=g) * value.std() + value.mean()
    return torch.randint(0, classes, shape, generator=g, dtype=value.dtype)


def frozen_statistics(module: nn.Module, example: torch.Tensor) -> None:
    """Batch norm in eval mode, with the statistics of a few batches."""
    module.train()
    with torch.no_grad():
        for i in range(20):
            module(batched(example, 8, 300 + i))
    for m in module.modules():
        if isinstance(m, nn.modules.batchnorm._BatchNorm):
            m.eval()


def deploy_example(name: str, out: Path, batch: int | None = None, steps: int = 5, **options: Any) -> Deployment:
    """An example with its own data, or with random data of another batch size (statistics frozen for one)."""
    user = example(name)
    data = list(user.samples)
    if batch is not None:
        same = user.target is user.inputs[0] or (
            user.target.shape == user.inputs[0].shape and torch.equal(user.target, user.inputs[0])
        )
        inputs = [batched(user.inputs[0], batch, 100 + i) for i in range(steps)]
        classes = int(max(y.max() for _, y in user.samples)) + 1
        data = [((x,), x if same else batched(user.target, batch, 200 + i, classes)) for i, x in enumerate(inputs)]
        user.module.train()
        if batch == 1:
            frozen_statistics(user.module, user.inputs[0])
    settings = [
        {**g.hyper, "params": [dict(user.module.named_parameters())[n] for n in g.names]} for g in user.optimizer.groups
    ]
    kind = getattr(torch.optim, user.optimizer.kind)
    optimizer = kind(settings, lr=settings[0]["lr"])
    options = {"cores": 8, "l1": "128M", **options}
    return deploy(
        user.module,
        data[0][0],
        data[0][1],
        loss=user.loss,
        optimizer=optimizer,
        data=data,
        out=out,
        steps=steps,
        **options,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return tmp_path / "project"
