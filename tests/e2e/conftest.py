"""Example networks as people would deploy them, at any batch size."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.user.load_model import load
from trainlib_deployer.user.model import UserModel

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = sorted(p.stem for p in (ROOT / "examples").glob("*.py"))
CORE = ["autoencoder", "dscnn", "mlp", "mobilenet_v1", "resnet8", "trainlib_default"]
torch.set_num_threads(1)


def example(name: str) -> UserModel:
    """The UserModel of an example."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load(str(ROOT / "examples" / f"{name}.py"), steps=5)


def batched(value: Any, batch: int, seed: int, classes: int = 2) -> Any:
    """A random tensor like `value` with another batch size; integers are below `classes`."""
    g = torch.Generator().manual_seed(seed)
    shape = (batch, *value.shape[1:])
    if value.is_floating_point():
        spread = value.std() if value.numel() > 1 else 0.0
        return torch.randn(shape, generator=g) * spread + value.mean()
    return torch.randint(0, classes, shape, generator=g, dtype=value.dtype)


def batched_inputs(user: UserModel, batch: int, seed: int) -> tuple[Any, ...]:
    """Every input with another batch size; integers, such as token ids, stay in the range of the samples."""
    columns = zip(*(inputs for inputs, _ in user.samples), strict=True)
    tops = [int(max(x.max() for x in column)) + 1 for column in columns]
    pairs = zip(user.inputs, tops, strict=True)
    return tuple(batched(x, batch, seed + 1000 * i, top) for i, (x, top) in enumerate(pairs))


def batched_samples(user: UserModel, batch: int, steps: int) -> list[tuple[tuple[Any, ...], Any]]:
    """Random samples of another batch size, the target equal to the first input where it is so in the example."""
    first = user.inputs[0]
    same = user.target is first or (user.target.shape == first.shape and torch.equal(user.target, first))
    classes = int(max(y.max() for _, y in user.samples)) + 1
    inputs = [batched_inputs(user, batch, 100 + i) for i in range(steps)]
    return [(x, x[0] if same else batched(user.target, batch, 200 + i, classes)) for i, x in enumerate(inputs)]


def frozen_statistics(user: UserModel) -> None:
    """Batch norm in eval mode, with the statistics of a few batches."""
    user.module.train()
    with torch.no_grad():
        for i in range(20):
            user.module(*batched_inputs(user, 8, 300 + i))
    for m in user.module.modules():
        if isinstance(m, nn.modules.batchnorm._BatchNorm):
            m.eval()


def deploy_example(
    name: str,
    out: Path,
    batch: int | None = None,
    steps: int = 5,
    change: Callable[[nn.Module], None] = lambda module: None,
    **options: Any,
) -> Deployment:
    """An example with its own data, or with random data of another batch size (statistics frozen for one)."""
    user = example(name)
    change(user.module)
    data = list(user.samples)
    if batch is not None:
        data = batched_samples(user, batch, steps)
        user.module.train()
        if batch == 1:
            frozen_statistics(user)
    parameters = dict(user.module.named_parameters())
    settings = [{**g.hyper, "params": [parameters[n] for n in g.names]} for g in user.optimizer.groups]
    optimizer = getattr(torch.optim, user.optimizer.kind)(settings, lr=settings[0]["lr"])
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
