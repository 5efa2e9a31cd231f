"""What the user calls `optimizer` to an OptimizerSpec."""

from __future__ import annotations

import inspect
import linecache
from collections import Counter
from typing import Any

import torch
from torch import nn

from golden.optimizers import make_optimizer
from trainlib_deployer.errors import Unsupported, UsageError
from trainlib_deployer.ops.optim import OPTIMIZERS
from trainlib_deployer.program.ir import Source
from trainlib_deployer.user.code import a_type, is_users, message_of, shown, source_of, user_code
from trainlib_deployer.user.model import Group, OptimizerSpec, trainable
from trainlib_deployer.user.module import kept_loss

DEFAULT_LR = 0.01


def read_optimizer(given: Any, module: nn.Module, where: str, notes: list[str], loss: Any = None) -> OptimizerSpec:
    """An instance over the model's parameters, a function making one from parameters, or None: plain SGD."""
    if given is None:
        notes.append(f"optimizer: SGD with lr {DEFAULT_LR}, as {where} names none")
        optimizer: Any = torch.optim.SGD(module.parameters(), lr=DEFAULT_LR)
    elif isinstance(given, torch.optim.Optimizer):
        optimizer = given
        if any(float(state.get("step", 1)) > 0 for state in optimizer.state.values()):
            notes.append(
                "optimizer: its state from earlier steps is not taken along; training starts with a fresh state"
            )
    elif callable(given):
        with user_code(
            "optimizer(parameters) fails", remedy="it must take model.parameters() and return a torch.optim optimizer"
        ):
            optimizer = given(module.parameters())
    else:
        optimizer = given
    if not isinstance(optimizer, torch.optim.Optimizer):
        verb = "returns" if callable(given) else "is"
        raise UsageError(
            f"'optimizer' {verb} {a_type(optimizer)}, not a torch.optim optimizer",
            remedy="for instance: optimizer = torch.optim.SGD(model.parameters(), lr=0.01)",
        )
    kind = type(optimizer).__name__
    standard = getattr(torch.optim, kind, None) is type(optimizer) and kind in OPTIMIZERS
    if not all("lr" in g for g in optimizer.param_groups):
        raise Unsupported(f"the optimizer {kind} has no learning rate", remedy="give its groups an entry 'lr'")
    groups = groups_of(optimizer, module, isinstance(given, torch.optim.Optimizer), loss)
    defaults = {k: plain(v) for k, v in optimizer.defaults.items()}
    spec = OptimizerSpec(kind, groups, defaults, None if standard else type(optimizer))
    check_made_anew(spec, module)
    return spec


def check_made_anew(spec: OptimizerSpec, module: nn.Module) -> None:
    """Over other parameters, as its trace and the reference need it."""
    if spec.own is None:
        return
    copies = {n: nn.Parameter(p.detach().clone()) for n, p in module.named_parameters()}
    try:
        make_optimizer(spec.own, [(g.hyper, g.names) for g in spec.groups], spec.defaults, copies)
    except Exception as err:
        raise Unsupported(
            f"the optimizer {spec.kind} cannot be deployed: it cannot be made of parameters and its settings"
            f" ({message_of(err).splitlines()[0]})",
            source=source_of(err) or class_line(spec.own),
            remedy="its __init__ must take parameters first and settings by the names that its groups have, as those"
            " of torch.optim do; one that is wrapped around another optimizer cannot be: what it does to gradients,"
            " as SAM, can be done in forward by torch.func.functional_call (docs/scripts.md)",
        ) from err


def class_line(kind: type) -> Source | None:
    """Where the user's file begins a class."""
    try:
        file, line = inspect.getsourcefile(kind), inspect.getsourcelines(kind)[1]
    except (OSError, TypeError):
        return None
    return Source(shown(file), line, linecache.getline(file, line).strip()) if file and is_users(file) else None


def groups_of(optimizer: torch.optim.Optimizer, module: nn.Module, instance: bool, loss: Any) -> tuple[Group, ...]:
    names = {id(p): n for n, p in module.named_parameters()}
    groups = []
    for group in optimizer.param_groups:
        foreign = [p for p in group["params"] if id(p) not in names]
        if foreign and isinstance(loss, nn.Module) and {id(p) for p in loss.parameters()}.issuperset(map(id, foreign)):
            words = f"the optimizer holds {len(foreign)} parameters of the loss, which is not a part of the model"
            raise UsageError(words, remedy=f"{kept_loss(module)}; model.parameters() has them then")
        if foreign:
            remedy = "make it a function: optimizer = lambda parameters: torch.optim.SGD(parameters, lr=0.01)"
            raise UsageError(
                f"the optimizer holds {len(foreign)} parameters that are not the model's (the first is "
                f"{'x'.join(map(str, foreign[0].shape)) or 'a scalar'})",
                remedy=remedy if instance else "",
            )
        twice = next((n for n, many in Counter(names[id(p)] for p in group["params"]).items() if many > 1), None)
        if twice is not None:
            words = f"the optimizer holds '{twice}' twice, and PyTorch updates it twice in a step"
            raise UsageError(words, remedy="give it each parameter once, as model.parameters() does")
        hyper = {k: plain(v) for k, v in group.items() if k != "params"}
        groups.append(Group(hyper, tuple(names[id(p)] for p in group["params"])))
    trained = set(trainable(module))
    if not any(n in trained for g in groups for n in g.names):
        raise UsageError("every parameter of the optimizer is frozen: there is nothing to train")
    return tuple(groups)


def plain(value: Any) -> Any:
    """A learning rate may be a tensor."""
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return value.item()
    if isinstance(value, tuple | list):
        return tuple(plain(v) for v in value)
    return value


def clip_value_limit(given: Any, module: nn.Module) -> float | None:
    """PyTorch knows no smaller one of two complex numbers."""
    limit = clip_limit(given, "clip_grad_value")
    odd = next((n for n, p in module.named_parameters() if p.requires_grad and p.is_complex()), None)
    if limit is not None and odd is not None:
        raise UsageError(f"parameter '{odd}' is complex: PyTorch clips it by no value", remedy="write clip_grad_norm")
    return limit


def clip_limit(given: Any, name: str) -> float | None:
    """A positive number; torch's own function of that name, which a file may import, is none."""
    if given is None or inspect.isfunction(given):
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not given > 0:
        raise UsageError(f"{name} is {given!r}; it must be a positive number")
    return float(given)
