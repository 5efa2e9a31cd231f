"""What golden.py needs: in model/ the user's file as it was, the weights, the samples; in golden/ the golden model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import torch
from torch import nn

from golden.task import Task
from trainlib_deployer.emit import resources
from trainlib_deployer.user.model import UserModel


def write_model_files(
    user: UserModel,
    folder: Path,
    task: Task,
    counters: Mapping[str, int] | None = None,
    decided: Sequence[str] = (),
    command: Sequence[str] = (),
) -> None:
    folder.mkdir()
    if user.source is not None:
        for helper in user.helpers:
            place = folder / helper.relative_to(user.source.parent)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(helper, place)
        shutil.copyfile(user.source, folder / "net.py")
    torch.save({n: v for n, v in user.module.state_dict().items() if is_plain(v)}, folder / "weights.pt")
    if user.optimizer.state:
        torch.save({n: dict(s) for n, s in user.optimizer.state.items()}, folder / "optimizer.pt")
    torch.save([(tuple(x), y) for x, y in user.samples], folder / "samples.pt")
    pickled = pickle_module(user, folder / "module.pt") if user.source is None else False
    (folder / "spec.json").write_text(
        json.dumps(
            spec(user, pickled)
            | {"loss_scale": task.loss_scale and astuple(task.loss_scale)}
            | {"accumulate": task.accumulate, "saved": task.saved, "winograd": task.winograd}
            | {"dtype": task.dtype, "keep": list(task.keep), "tiles": list(task.tiles)}
            | {"counters": counters or {}, "decided": decided, "command": command},
            indent=1,
            default=str,
        )
        + "\n"
    )


def is_plain(value: Any) -> bool:
    """What can be loaded without running code: tensors, and of get_extra_state numbers and words."""
    if isinstance(value, dict):
        return all(map(is_plain, (*value.keys(), *value.values())))
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return isinstance(value, torch.Tensor | int | float | str | None)


def write_golden_model(folder: Path) -> None:
    folder.mkdir()
    for module in sorted(resources.golden_dir().glob("*.py")):
        shutil.copyfile(module, folder / module.name)


def pickle_module(user: UserModel, path: Path) -> bool:
    """A model that came from a notebook has no file; a pickle of it serves where its class can be imported."""
    try:
        own = {"optimizer": user.optimizer.own, "scheduler": user.scheduler}
        torch.save({"module": user.module, "loss": user.loss, **own}, path)
    except Exception:
        path.unlink(missing_ok=True)
        return False
    return True


def aliases(module: nn.Module) -> dict[str, str]:
    """Names of the state dict whose tensor the program knows by another one: tied weights."""
    first = {id(t): n for n, t in (*module.named_parameters(), *module.named_buffers())}
    every = (
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    )
    return {n: first[id(t)] for n, t in every if first[id(t)] != n}


def spec(user: UserModel, pickled: bool) -> dict[str, Any]:
    return {
        "name": user.name,
        "attribute": user.attribute,
        "pickled": pickled,
        "aliases": aliases(user.module),
        "trainable": [n for n, p in user.module.named_parameters() if p.requires_grad],
        "training_modules": [n for n, m in user.module.named_modules() if m.training],
        "optimizer": user.optimizer.kind,
        "updates": user.optimizer.updates,
        "inference": not user.trains,
        "told": user.loss is not None,
        "evaluation": None if user.evaluation is None else user.evaluation.layout.batch,
        "by_row": user.by_row,
        "first_call": user.first_call,
        "own_optimizer": user.optimizer.own is not None,
        "clip_norm": user.clip_norm,
        "clip_value": user.clip_value,
        "defaults": dict(user.optimizer.defaults),
        "groups": [{"settings": dict(g.hyper), "names": list(g.names)} for g in user.optimizer.groups],
    }
