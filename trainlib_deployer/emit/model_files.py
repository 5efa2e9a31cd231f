"""The folder model/: the user's file as it was, the weights, the samples, and what golden.py needs to train again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch

from trainlib_deployer import resources
from trainlib_deployer.user_model import UserModel


def write_model_files(user: UserModel, folder: Path, steps: int) -> None:
    folder.mkdir()
    if user.source is not None:
        shutil.copyfile(user.source, folder / "net.py")
    torch.save(user.module.state_dict(), folder / "weights.pt")
    torch.save([(tuple(x), y) for x, y in user.samples[:steps]], folder / "samples.pt")
    pickled = pickle_module(user, folder / "module.pt") if user.source is None else False
    (folder / "spec.json").write_text(json.dumps(spec(user, pickled), indent=1, default=str) + "\n")
    shutil.copyfile(resources.golden_dir() / "reference.py", folder / "reference.py")


def pickle_module(user: UserModel, path: Path) -> bool:
    """A model that came from a notebook has no file; a pickle of it serves where its class can be imported."""
    try:
        torch.save((user.module, user.loss), path)
    except Exception:
        path.unlink(missing_ok=True)
        return False
    return True


def spec(user: UserModel, pickled: bool) -> dict[str, Any]:
    return {
        "name": user.name,
        "attribute": user.attribute,
        "pickled": pickled,
        "trainable": [n for n, p in user.module.named_parameters() if p.requires_grad],
        "training_modules": [n for n, m in user.module.named_modules() if m.training],
        "optimizer": user.optimizer.kind,
        "groups": [{"settings": dict(g.hyper), "names": list(g.names)} for g in user.optimizer.groups],
    }
