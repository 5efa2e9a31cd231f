"""The reference run: the user's own model trained by PyTorch itself, in any precision, recorded tensor by tensor.

It knows nothing of graphs or plans: eager PyTorch, `loss.backward()`, `torch.optim`. Standalone, so that a copy
works in a
generated project.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

Array = np.ndarray[Any, Any]
Key = tuple[int, str, str]  # step, kind, name
COUNTERS = ("step", "num_batches_tracked")  # bookkeeping that C does without


@dataclass(frozen=True)
class Task:
    """What is trained, on what, how."""

    module: nn.Module
    loss: Callable[..., Any]
    samples: Sequence[tuple[tuple[Any, ...], Any]]  # (inputs, target)
    optimizer: str  # a class of torch.optim
    groups: Sequence[tuple[Mapping[str, Any], Sequence[str]]]  # settings, parameter names


def run(
    task: Task, steps: int, dtype: torch.dtype, noise: int = 0, resume: Mapping[Key, Array] | None = None
) -> dict[Key, Array]:
    """Train a copy of the module for `steps` steps and record everything a step computes.

    `noise` (a seed) adds rounding errors of another order of summation to what each layer computes. With `resume`, the
    record of another run, every step but the first starts from the parameters and states which that run had reached.
    """
    module = copy.deepcopy(task.module).to(dtype)
    if noise:
        disturb(module, noise)
    loss_function = cast(copy.deepcopy(task.loss), dtype)
    parameters = dict(module.named_parameters())
    optimizer = make_optimizer(task, parameters)
    record: dict[Key, Array] = {}
    for step in range(steps):
        if resume is not None and step:
            take_over(module, optimizer, {k[1:]: v for k, v in resume.items() if k[0] == step - 1})
        inputs, target = task.samples[step % len(task.samples)]
        before = {n: b.clone() for n, b in module.named_buffers()}
        optimizer.zero_grad(set_to_none=True)
        output = module(*(cast(x, dtype) for x in inputs))
        loss = loss_function(output, cast(target, dtype))
        loss.backward()
        record[step, "loss", "loss"] = array(loss)
        for name, value in named_outputs(output):
            record[step, "output", name] = array(value)
        trained = {n: p for n, p in parameters.items() if p.grad is not None}
        for name, p in trained.items():
            record[step, "gradient", name] = array(p.grad)
        optimizer.step()
        for name, p in trained.items():
            record[step, "parameter", name] = array(p)
            for label, value in optimizer.state[p].items():
                if label not in COUNTERS and isinstance(value, torch.Tensor):
                    record[step, "state", f"{name}.{label}"] = array(value)
        for name, b in module.named_buffers():
            if name.rpartition(".")[2] not in COUNTERS and not torch.equal(b, before[name]):
                record[step, "state", name] = array(b)
    return record


def take_over(module: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[tuple[str, str], Array]) -> None:
    """Continue from recorded parameters, optimizer states and buffers."""

    def load(target: torch.Tensor, *key: str) -> None:
        if key in state:
            target.copy_(torch.from_numpy(np.array(state[key[0], key[1]])).reshape(target.shape))

    with torch.no_grad():
        for name, p in module.named_parameters():
            load(p, "parameter", name)
            for label, value in optimizer.state[p].items():
                if isinstance(value, torch.Tensor) and label not in COUNTERS:
                    load(value, "state", f"{name}.{label}")
        for name, b in module.named_buffers():
            load(b, "state", name)


ROUNDING = 2.0**-22  # relative; a sum of a few hundred float32 terms is known about so well


def disturb(module: nn.Module, seed: int) -> None:
    """Every layer's output gets relative errors of the size of rounding."""
    generator = torch.Generator().manual_seed(seed)

    def on_output(_module: nn.Module, _inputs: Any, output: Any) -> Any:
        def noisy(v: Any) -> Any:
            if not isinstance(v, torch.Tensor) or not v.is_floating_point():
                return v
            return v * (1 + ROUNDING * (2 * torch.rand(v.shape, generator=generator, dtype=v.dtype) - 1))

        return pytree.tree_map(noisy, output)

    for layer in module.modules():
        if not any(True for _ in layer.children()):
            layer.register_forward_hook(on_output)


def make_optimizer(task: Task, parameters: Mapping[str, nn.Parameter]) -> torch.optim.Optimizer:
    groups = [{**settings, "params": [parameters[n] for n in names]} for settings, names in task.groups]
    kind: Any = getattr(torch.optim, task.optimizer)
    accepted = kind.__init__.__code__.co_varnames
    clean = [{k: v for k, v in g.items() if k == "params" or k in accepted} for g in groups]
    return kind(clean, lr=clean[0].get("lr", 0.01))  # type: ignore[no-any-return]


def cast(value: Any, dtype: torch.dtype) -> Any:
    """Floats to `dtype`, in tensors, modules and containers; everything else as it is."""
    if isinstance(value, nn.Module):
        return value.to(dtype)
    return pytree.tree_map(lambda v: v.to(dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v, value)


def named_outputs(output: Any) -> list[tuple[str, torch.Tensor]]:
    """One tensor is 'output'; several are numbered in the order of the tree, or take their keys."""
    if isinstance(output, torch.Tensor):
        return [("output", output)]
    if isinstance(output, dict):
        return [(str(k), v) for k, v in output.items() if isinstance(v, torch.Tensor)]
    leaves = [v for v in pytree.tree_leaves(output) if isinstance(v, torch.Tensor)]
    return [(f"output{i}", v) for i, v in enumerate(leaves)]


def array(value: torch.Tensor | None) -> Array:
    assert value is not None
    return np.array(value.detach().cpu().numpy(), copy=True)


# ---- from a generated project's model/ folder


def load_task(folder: Path) -> Task:
    """Rebuild the user's model from model/: its own code, the weights, the samples, the optimizer's settings."""
    spec = json.loads((folder / "spec.json").read_text())
    if spec["pickled"]:
        module, loss = torch.load(folder / "module.pt", weights_only=False)
    elif (folder / "net.py").exists():
        module, loss = from_file(folder / "net.py", spec["attribute"])
    else:
        raise FileNotFoundError(
            "this model came from a notebook and could not be stored; verify it there with deployment.verify()"
        )
    module.load_state_dict(torch.load(folder / "weights.pt", weights_only=True))
    trainable, training = set(spec["trainable"]), set(spec["training_modules"])
    for name, p in module.named_parameters():
        p.requires_grad_(name in trainable)
    for name, m in module.named_modules():
        m.training = name in training
    samples = torch.load(folder / "samples.pt", weights_only=True)
    if loss is None:
        loss = default_loss(samples[0][1])
    groups = [(g["settings"], g["names"]) for g in spec["groups"]]
    return Task(module, loss, samples, spec["optimizer"], groups)


def from_file(path: Path, attribute: str) -> tuple[nn.Module, Any]:
    """The model and the loss (None: the default one) of the user's file."""
    location = importlib.util.spec_from_file_location("net", path)
    assert location is not None and location.loader is not None
    file = importlib.util.module_from_spec(location)
    sys.modules["net"] = file
    location.loader.exec_module(file)
    found = getattr(file, attribute)
    return (found if isinstance(found, nn.Module) else found()), getattr(file, "loss", None)


def default_loss(target: Any) -> nn.Module:
    first = pytree.tree_leaves(target)[0]
    return nn.MSELoss() if first.is_floating_point() else nn.CrossEntropyLoss()
