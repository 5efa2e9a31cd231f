"""Who holds a tensor that forward or loss writes to and that is not the model's, and how the model comes to hold it: a
teacher that follows the network, running statistics of a loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from golden.snapshot import Snapshot
from trainlib_deployer.capture import remedies
from trainlib_deployer.capture.counting import LOSS
from trainlib_deployer.capture.eager import advance, differ
from trainlib_deployer.user.model import UserModel
from trainlib_deployer.user.module import kept_loss, last_of


@dataclass(frozen=True)
class Holder:
    """The tensor, by its name, and what to do."""

    words: str
    remedy: str


def holder_of(user: UserModel, tensor: torch.Tensor) -> Holder:
    """By what is found in the model, its loss and the variables that these read."""
    places = next((found for t, found in held(user.start) if same(t, tensor)), None)
    if places is None:
        return Holder("a tensor that lies in a variable outside", remedies.OUTSIDE)
    path = places[0].removeprefix(LOSS)
    found = outermost(user, tensor)
    if found is None:
        name = path.rpartition(".")[2]
        model = last_of(user.module)
        remedy = f"make it the model's: {model}.register_buffer('{name}', {name}); write to {model}.{name} in its place"
        return Holder(f"'{path}'", remedy if name.isidentifier() else remedies.OUTSIDE)
    module, inner = found
    if module is user.loss:
        return Holder(f"'{path}' of the loss", kept_loss(user.module))
    name = path.removesuffix(f".{inner}").rpartition(".")[2]
    words = f"hold it in the model, which makes it state of the program: {last_of(user.module)}.{name} = {name}"
    return Holder(f"'{path}'", words if name.isidentifier() else remedies.OUTSIDE)


def changed_by_loss(user: UserModel) -> Holder | None:
    """What a step leaves otherwise in the loss and in variables around it, and what is no tensor of the model."""
    own = {id(t) for t in (*user.module.parameters(), *user.module.buffers())}
    with user.start.undone():
        advance(user, 1, update=False)
        now = {path: t for t, paths in held(Snapshot(user.module, user.loss, like=user.start)) for path in paths}
        for t, paths in held(user.start):
            path = next((p for p in paths if p in now), None)
            if id(t) in own or path is None or t.shape != now[path].shape:
                continue
            if differ(user.start.value(t), now[path].detach()):
                return holder_of(user, t)
    return None


def held(start: Snapshot) -> Iterator[tuple[torch.Tensor, list[str]]]:
    """Its tensors that lie in variables or attributes, with the paths to them."""
    for key, places in start.places.items():
        yield start.things[key], [p.path for p in places]


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a is b or a.untyped_storage()._cdata == b.untyped_storage()._cdata


def outermost(user: UserModel, tensor: torch.Tensor) -> tuple[nn.Module, str] | None:
    """The module that has the most around a tensor, and the tensor's name in it."""
    found = []
    for module in (m for m in user.start.things.values() if isinstance(m, nn.Module) and m is not user.module):
        named = (*module.named_parameters(), *module.named_buffers())
        found += [(module, n) for n, t in named if same(t, tensor)]
    return max(found, key=lambda pair: pair[1].count("."), default=None)
