"""The first training steps of the user's model by plain PyTorch, from the state in which it was given: what a captured
step and the golden model are held against."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from golden.borrow import uncompiled
from golden.drawing import Drawing
from golden.optimizers import make_optimizer
from golden.precision import InOrder, as_real, as_scalar, one_thread
from golden.random_numbers import Numbers
from golden.reference import named_outputs
from golden.snapshot import Snapshot
from trainlib_deployer.capture.drawn import generators, states
from trainlib_deployer.capture.trace import mkldnn_off
from trainlib_deployer.user.code import user_code
from trainlib_deployer.user.model import UserModel, trainable
from trainlib_deployer.user.samples import cloned

FIRST_STEPS = 2  # the second one meets what the first has filled, counted or replaced
REMEDY = "it is plain PyTorch that fails, after an update: a smaller learning rate, or bounds on what the model returns"


@dataclass(frozen=True)
class EagerStep:
    """What the model held before and after a step, by name, and what the step computed, by kind and name. The last of
    several steps is without its update."""

    before: Mapping[str, torch.Tensor]
    after: Mapping[str, torch.Tensor]
    results: Mapping[tuple[str, str], torch.Tensor]
    plain: Mapping[str, Any]  # numbers and the like in attributes, after the step
    drawn: bool  # whether it took random numbers from Python's or NumPy's generators

    def lasting(self) -> set[str]:
        """What has the same shape after the step, and other contents."""
        both = ((n, self.before[n], t) for n, t in self.after.items() if n in self.before)
        return {n for n, old, new in both if old.shape == new.shape and old.dtype is new.dtype and differ(old, new)}


def counters(step: EagerStep) -> dict[str, int]:
    """By how much a step raises the counters of batches, which no program carries along."""
    names = [n for n in step.after if n.rpartition(".")[2] == "num_batches_tracked" and n in step.before]
    return {n: int(step.after[n] - step.before[n]) for n in names}


def differ(a: torch.Tensor, b: torch.Tensor) -> bool:
    """What is no number in both is the same."""
    if torch.strided not in (a.layout, b.layout):
        a, b = a.to_dense(), b.to_dense()
    if torch.equal(a, b):
        return False
    return a.shape != b.shape or not bool(((a == b) | (a.isnan() & b.isnan())).all())


def first_steps(user: UserModel, count: int = FIRST_STEPS) -> tuple[EagerStep, ...]:
    with user.start.undone():
        return advance(user, count, update=False)


def advance(user: UserModel, count: int, update: bool) -> tuple[EagerStep, ...]:
    """Train so many steps (or run the network so often) and leave the model as it is then; the last one with its update
    only where that is wanted."""
    parameters = trainable(user.module) if user.trains else {}
    named = dict(user.module.named_parameters())
    optimizer = optimizer_of(user, named)
    steps: list[EagerStep] = []
    with one_thread(), uncompiled(), mkldnn_off(), InOrder(), torch.enable_grad():
        before, now = held(user, user.start)
        chance = generators(user.start.things.values())
        for number in range(count):
            user.module.zero_grad(set_to_none=True)
            unused = states(chance)
            with user_code(f"training fails in step {number + 1}", REMEDY):
                results = step(user, number, parameters)
            drawn = states(chance) != unused
            after, now = held(user, now)
            changed = {n: t for n, t in after.items() if n in named and differ(t, before[n])}
            if optimizer is not None and (update or number + 1 < count):
                if user.optimizer.own is not None:  # it may write to gradients
                    results = {k: t.clone() if k[0] == "gradient" else t for k, t in results.items()}
                with contextlib.suppress(Exception):  # what is wrong with it is said when it is traced
                    optimizer.step()
                after, now = held(user, now)
            results |= {("parameter", n): t for n, t in changed.items()}
            steps.append(EagerStep(before, after, results, plain_values(user, now), drawn))
            before = after
    return tuple(steps)


def optimizer_of(user: UserModel, named: Mapping[str, nn.Parameter]) -> torch.optim.Optimizer | None:
    spec = user.optimizer
    groups = [(dict(g.hyper), g.names) for g in spec.groups]
    if not user.trains:
        return None
    return make_optimizer(spec.own or spec.kind, groups, dict(spec.defaults), named, spec.state)


def step(user: UserModel, number: int, parameters: Mapping[str, nn.Parameter]) -> dict[tuple[str, str], torch.Tensor]:
    """Forward, loss and backward of one sample; where nothing is trained, no backward."""
    inputs, target = user.samples[number % len(user.samples)]
    found: dict[tuple[str, str], torch.Tensor] = {}
    with Drawing(Numbers(number)):
        output = user.module(*cloned(inputs))
        outputs = {("output", n): as_real(v.detach()).clone() for n, v in named_outputs(output) if v.numel()}
        if user.loss is not None:
            loss = user.loss(output, cloned(target))
            if user.trains:
                loss.backward()
            found["loss", "loss"] = as_scalar(loss.detach())
    found |= outputs
    return found | {("gradient", n): as_real(p.grad.detach()) for n, p in parameters.items() if p.grad is not None}


def held(user: UserModel, like: Snapshot) -> tuple[dict[str, torch.Tensor], Snapshot]:
    """Parameters, buffers and all other tensors that are found in attributes of the model, by name, as they are now;
    what is as it was in another snapshot takes no memory."""
    module = user.module
    now = Snapshot(module, like=like, skip=[p.grad for p in module.parameters() if p.grad is not None])
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    known = {id(t) for t in own.values()}
    others = {p[0].path: p[0].held() for i, p in now.places.items() if i not in known}
    return {n: as_real(now.value(t)) for n, t in {**others, **own}.items()}, now


def plain_values(user: UserModel, now: Snapshot) -> dict[str, Any]:
    """Numbers, texts and None in attributes of the model, in its snapshot, and of the loss."""
    of_loss = Snapshot(user.module, user.loss, skip=now.things.values())
    return {n: p.value for n, p in (now.plain | of_loss.plain).items()}


@contextlib.contextmanager
def after_first_step(user: UserModel) -> Iterator[Snapshot]:
    """The model as it is after its first step, for the time being."""
    with user.start.undone():
        advance(user, 1, update=True)
        yield Snapshot(user.module, user.loss, like=user.start)
