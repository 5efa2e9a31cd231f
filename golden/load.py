"""A task from the model/ folder of a generated project."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import json
import random
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

from golden.borrow import unwrapped
from golden.first_call import first_called
from golden.holding import hold
from golden.lazy import materialize
from golden.lightning import configured, has_own_step, understood
from golden.loss_scale import LossScale
from golden.metrics import functions_of
from golden.script import LOSSES, compiled, found_loss, without_data
from golden.task import Task


def load_task(folder: Path) -> Task:
    """Rebuild the user's model from model/: its own code, the weights, the samples, the optimizer's settings."""
    spec = json.loads((folder / "spec.json").read_text())
    if spec["pickled"]:
        given = torch.load(folder / "module.pt", weights_only=False)
    elif (folder / "net.py").exists():
        given = from_file(folder / "net.py", spec["attribute"])
    else:
        raise FileNotFoundError(
            "this model came from a notebook and could not be stored; verify it there with deployment.verify()"
        )
    module, loss = given["module"], given["loss"]
    samples = torch.load(folder / "samples.pt", weights_only=True)
    trainable, training = set(spec["trainable"]), set(spec["training_modules"])
    for name, m in module.named_modules():
        m.training = name in training
    if spec.get("first_call"):
        first_called(module, samples[0][0])
    module.load_state_dict({**extra_state(module), **torch.load(folder / "weights.pt", weights_only=True)})
    materialize(module, lambda: called(module, samples[0][0]))
    for name, p in module.named_parameters():
        p.requires_grad_(name in trainable)
    inference = spec.get("inference", False)
    told = spec.get("told", not inference)
    if told and loss is None and has_own_step(module):
        module, loss = understood(module, samples[0])
    groups = [(g["settings"], g["names"]) for g in spec["groups"]]
    if told and loss is None:
        loss = default_loss(samples[0][1])
    return Task(
        module,
        loss if told else None,
        samples,
        optimizer_class(given["optimizer"], module) if spec["own_optimizer"] else spec["optimizer"],
        groups,
        spec["defaults"],
        spec["accumulate"],
        spec["clip_norm"],
        spec["clip_value"],
        given["scheduler"],
        state=torch.load(folder / "optimizer.pt", weights_only=True) if (folder / "optimizer.pt").exists() else {},
        metrics=functions_of(given.get("metrics")),
        saved=spec.get("saved", "fp32"),
        dtype=spec.get("dtype", "fp32"),
        keep=spec.get("keep", ()),
        tiles=spec.get("tiles", ()),
        loss_scale=LossScale(*spec["loss_scale"]) if spec.get("loss_scale") else None,
        winograd=spec.get("winograd", False),
        inference=inference,
        by_row=spec.get("by_row", True),
        evaluation=spec.get("evaluation"),
    )


def called(module: nn.Module, inputs: tuple[Any, ...]) -> None:
    module.eval()
    with torch.no_grad():
        module(*copy.deepcopy(inputs))


def extra_state(module: nn.Module) -> dict[str, Any]:
    """What the module keeps beside its tensors; not all of it can be stored."""
    return {n: v for n, v in module.state_dict().items() if not isinstance(v, torch.Tensor)}


def optimizer_class(given: Any, module: nn.Module) -> type[torch.optim.Optimizer]:
    """The class of what the user's file calls `optimizer`."""
    if not isinstance(given, type | torch.optim.Optimizer):
        given = given(module.parameters())
    return given if isinstance(given, type) else type(given)


def from_file(path: Path, attribute: str) -> dict[str, Any]:
    """The model, and the loss, optimizer, scheduler and metrics (None: not given) of the user's file."""
    location = importlib.util.spec_from_file_location("net", path)
    assert location is not None
    with importable(path.parent), own_arguments(path):
        text, names = path.read_bytes(), (attribute, "optimizer", "scheduler", "metrics", "loss", *LOSSES)
        try:
            file = executed(compiled(text, str(path), [attribute])[0], location)
        except Exception as error:
            try:  # the samples are stored: where the user's data is elsewhere, nothing but the model is asked for
                file = executed(without_data(text, str(path), names), location)
            except Exception:
                raise error from None
        found = getattr(file, attribute)
        if not isinstance(found, nn.Module):
            seed()
            found = found()
    _, loss = found_loss(vars(file))
    module = unwrapped(found)
    optimizer, scheduler = (getattr(file, k, None) for k in ("optimizer", "scheduler"))
    if optimizer is None and callable(getattr(module, "configure_optimizers", None)):
        optimizer, scheduler = configured(module)
    hold(module, loss, optimizer)
    return {
        "module": module,
        "loss": loss,
        "optimizer": optimizer,
        "scheduler": scheduler,
        "metrics": getattr(file, "metrics", None),
    }


def executed(code: CodeType, location: ModuleSpec) -> ModuleType:
    file = importlib.util.module_from_spec(location)
    sys.modules["net"] = file
    seed()
    exec(code, file.__dict__)
    return file


@contextlib.contextmanager
def own_arguments(path: Path) -> Iterator[None]:
    """The file is called without arguments, whatever this program was given."""
    before, sys.argv = sys.argv, [str(path)]
    try:
        yield
    finally:
        sys.argv = before


def seed() -> None:
    """As when the project was written."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)


@contextlib.contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Modules beside the file are found, and found there: others of the same names make way for the time being."""
    names = {p.stem for p in folder.iterdir() if p.suffix == ".py" or p.is_dir()} - {"net"}
    aside = {n: sys.modules.pop(n) for n in list(sys.modules) if n.partition(".")[0] in names}
    path, bytecode = list(sys.path), sys.dont_write_bytecode
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.path[:], sys.dont_write_bytecode = path, bytecode
        sys.modules.update(aside)


def default_loss(target: Any) -> nn.Module:
    losses = [nn.MSELoss() if t.is_floating_point() else nn.CrossEntropyLoss() for t in pytree.tree_leaves(target)]
    return losses[0] if isinstance(target, torch.Tensor) else EachLoss(losses)


class EachLoss(nn.Module):
    """The sum of a loss for each output and its target, in the order of both."""

    def __init__(self, parts: Sequence[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, output: Any, target: Any) -> Any:
        outputs, targets = pytree.tree_leaves(output), pytree.tree_leaves(target)
        return sum(loss(o, t) for loss, o, t in zip(self.parts, outputs, targets, strict=True))
