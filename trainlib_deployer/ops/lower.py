"""The captured fx graph becomes a Program: every node through the rule of its family, then the optimizer's updates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import numpy as np
import torch
from torch import fx

from golden.wide import is_bounded, is_sum, is_wide
from trainlib_deployer import ops
from trainlib_deployer.capture.refuse import unsupported
from trainlib_deployer.capture.slots import WRITTEN, Captured, Out, Slot
from trainlib_deployer.errors import Unsupported
from trainlib_deployer.ops import scaling
from trainlib_deployer.ops.build import Builder, Where
from trainlib_deployer.ops.gradients import accumulated, clipped_by_norm, clipped_by_value
from trainlib_deployer.ops.optim import OPTIMIZERS
from trainlib_deployer.ops.optim_state import take_state
from trainlib_deployer.ops.own_optimizer import own_optimizer
from trainlib_deployer.ops.plateau import on_plateau
from trainlib_deployer.ops.registry import RULES
from trainlib_deployer.ops.update import Group, Parameter, entitle
from trainlib_deployer.program.expr import apply
from trainlib_deployer.program.ir import LEARNING_RATE, MOMENTUM, STEP, DType, Mentions, Program, Role, Tensor, View
from trainlib_deployer.program.precision import FP32, Precision
from trainlib_deployer.torch_types import CALCULATED, NARROWEST, value_fault
from trainlib_deployer.user.model import Group as Settings
from trainlib_deployer.user.model import UserModel

ROLES = {
    "parameter": Role.PARAMETER,
    "buffer": Role.BUFFER,
    "input": Role.INPUT,
    "target": Role.TARGET,
    "constant": Role.CONSTANT,
    "scalar": Role.SCALAR,
}

SEED = "seed"  # capture/step.py
assert ops, "the families fill the registry when they are imported"


def lower(
    user: UserModel,
    captured: Captured,
    accumulate: int = 1,
    beside: frozenset[str] | None = None,
    precision: Precision = FP32,
) -> Program:
    """The whole step as a Program. With `accumulate`, each such number of steps is one update. `beside` a training that
    writes these tensors, an evaluation writes none. The backward pass begins with the loss scale or, for halves, with
    its share of that: not all numbers are halves."""
    b = Builder(Program(user.name, learns=user.trains), halves=precision.halves)
    if precision.loss_scale is not None:
        scaling.declare(b, precision.loss_scale)
    env: dict[fx.Node, Any] = {}
    slots = iter(captured.inputs)
    written = captured.written if beside is None else beside
    for node in captured.graph.graph.nodes:
        if node.op == "placeholder":
            slot = next(slots)
            env[node] = persistent(b, slot, slot.name not in written, slot.name in precision.weights)
        elif node.op == "get_attr":
            value = getattr(captured.graph, node.target)
            env[node] = persistent(b, Slot("constant", str(node.target), False, value), still=True)
        elif node.op == "call_function":
            seeded = precision.halves and is_seed(node)
            env[node] = scaling.seed(b, precision.loss_scale, accumulate) if seeded else lower_node(b, node, env)
        elif node.op == "output":
            results = fx.node.map_arg(node.args[0], lambda n: env[n])
            kept = [
                (out, view)
                for out, view in zip(captured.outputs, flatten(results), strict=True)
                if beside is None or out.kind not in WRITTEN
            ]
            finish(b, user, kept, accumulate, precision)
    b.program.fixed = {n: crc32(np.asarray(b.program.values[n]).tobytes()) for n in captured.decided}
    return b.program


def flatten(value: Any) -> Any:
    if isinstance(value, list | tuple) and not isinstance(value, View):
        for item in value:
            yield from flatten(item)
    elif value is not None:
        yield value


def persistent(b: Builder, slot: Slot, still: bool, half: bool = False) -> View:
    """A tensor that has contents before the step begins; `still`: it has the same after it; `half`: it will be one."""
    value = slot.value.detach()
    fault = value_fault(value)
    if fault is not None:
        raise Unsupported(f"{slot.kind} '{slot.name}' {fault[0]}", remedy=fault[1])
    if half:
        value = as_halves(slot.name, value)
    role, wide = ROLES[slot.kind], CALCULATED[value.dtype]
    dtype = NARROWEST.get(value.dtype, wide) if still else wide
    tensor = Tensor(b.fresh(slot.name, exact=True), tuple(value.shape), dtype, role, slot.name.rpartition(".")[0])
    b.program.tensors[tensor.name] = tensor
    b.program.values[tensor.name] = value.contiguous().numpy().astype(dtype.numpy_name, copy=False)
    view = View.whole(tensor)
    return view if dtype is wide else b.map(lambda v: v, view, dtype=wide, suffix=f"{tensor.name}.wide")


def as_halves(name: str, value: torch.Tensor) -> torch.Tensor:
    """The nearest ones, as floats."""
    found = value.half().to(value.dtype)
    if not found.isfinite().equal(value.isfinite()):
        words = f"parameter '{name}' goes up to {float(value.abs().max()):,.0f}, beyond half precision's 65,504"
        raise Unsupported(words, remedy=keep_float(name))
    return found


def keep_float(name: str) -> str:
    layer = name.rpartition(".")[0]
    return (f"keep its layer in fp32: --keep fp32={layer}; or give " if layer else "give ") + "--dtype mixed"


def is_seed(node: fx.Node) -> bool:
    """The one that the backward pass begins with."""
    origin = node.meta.get("origin")
    return origin is not None and (origin.phase, origin.function) == ("backward", SEED)


def lower_node(b: Builder, node: fx.Node, env: dict[fx.Node, Any]) -> Any:
    rule = RULES.get(node.target)
    origin = node.meta.get("origin")
    b.where = (
        Where(origin.phase, origin.layer, origin.function, origin.call, origin.source)
        if origin is not None
        else Where()
    )
    b.meta = node.meta.get("val")
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: env[n])
    if rule is None:
        raise unsupported(node)
    if b.where.phase == "forward" and is_wide(b.where.function):
        widen(b, (v for v in args if isinstance(v, View)))
    return rule(b, *args, **kwargs)


def widen(b: Builder, views: Iterable[View]) -> None:
    """What a function with a wide result is of, or a sum that it is of, where that is next to 1."""
    todo, seen = [v.tensor for v in views], set[str]()
    while todo:
        name = todo.pop()
        tensor = b.program.tensors[name]
        if is_bounded(tensor.function):
            b.program.tensors[name] = replace(tensor, wide=True)
        elif is_sum(tensor.function) and name not in seen:
            seen.add(name)
            made = (op for op in map(b.program.ops.__getitem__, b.mentions.of(name)) if op.writes[0].tensor == name)
            todo += [v.tensor for op in made for v in op.reads]


def finish(
    b: Builder,
    user: UserModel,
    results: Sequence[tuple[Out, View]],
    accumulate: int,
    precision: Precision,
) -> None:
    """Name the results, then append the updates of buffers and parameters."""
    p = b.program
    gradients: dict[str, View] = {}
    buffers: dict[str, View] = {}
    times = Counter(v.tensor for _, v in results)
    traced = len(p.ops)
    for out, view in results:
        alone = times[view.tensor] == 1
        b.where = Where(
            "forward" if out.kind in ("loss", "output", "metric") else "backward", out.name.rpartition(".")[0], out.kind
        )
        if out.kind == "loss":
            p.loss = result(b, view, Role.LOSS, "loss", alone)
        elif out.kind == "output":
            if view.numel:
                p.outputs += ((out.name, result(b, view, Role.OUTPUT, out.name, alone)),)
        elif out.kind == "metric":
            p.metrics += ((out.name, result(b, view, Role.OUTPUT, f"metric {out.name}", alone)),)
        elif out.kind == "gradient":
            name = result(b, view, Role.GRADIENT, f"{out.name}.grad", alone)
            p.gradients += ((out.name, name),)
            gradients[out.name] = View.whole(p.tensors[name])
        else:
            buffers[out.name] = view
    before_backward(b, traced)
    for name, view in buffers.items():
        if name in precision.weights:
            remedy = keep_float(name)
            raise Unsupported(f"forward writes the parameter '{name}', which only updates may round", remedy=remedy)
        always = accumulate > 1 or precision.loss_scale is not None  # whether or not the update runs
        b.where = Where("accumulate" if always else "update", name.rpartition(".")[0], "buffer")
        target = View.whole(p.tensors[name])
        if view.tensor != name:
            b.copy_into(b.reshape(view, target.shape), target, name)
    if user.trains:
        updates(b, user, gradients, accumulate, precision)


def before_backward(b: Builder, traced: int) -> None:
    """Copies of what forward and loss give belong to them: net_forward and net_evaluate run no further."""
    ops = b.program.ops
    late = [op for op in ops[traced:] if op.phase == "forward"]
    others = [op for op in ops[traced:] if op.phase != "forward"]
    first = next((i for i, op in enumerate(ops[:traced]) if op.phase != "forward"), traced)
    ops[:] = [*ops[:first], *late, *ops[first:traced], *others]
    b.mentions = Mentions(ops)


def result(b: Builder, view: View, role: Role, name: str, alone: bool) -> str:
    """The tensor that holds a result, dense and under its own name; a copy where it is a window on something else or
    not `alone`: another result, too."""
    tensor = b.program.tensors[view.tensor]
    if (
        not alone
        or tensor.role.persistent
        or tensor.role in (Role.LOSS, Role.OUTPUT)
        or not (view.covers(tensor) or relaid(b, view))
    ):
        view = b.map(lambda v: v, view, suffix="result")
        tensor = b.program.tensors[view.tensor]
    tensor = b.program.tensors[view.tensor]
    if tensor.role is not Role.GRADIENT or role is not Role.GRADIENT:
        tensor = replace(tensor, role=role)
    fresh = replace(tensor, shape=view.shape)
    if name not in b.program.tensors and name != tensor.name:
        rename(b, tensor.name, fresh, name)
        return name
    b.program.tensors[tensor.name] = fresh
    return tensor.name


def rename(b: Builder, old: str, tensor: Tensor, new: str) -> None:
    """Of a tensor that is no result of the step yet."""
    p = b.program
    del p.tensors[old]
    p.tensors[new] = replace(tensor, name=new)
    b.mentions.rename(old, new)


def relaid(b: Builder, view: View) -> bool:
    """Store a tensor in the order of `view`, a permutation of it, instead of copying it (weight gradients of
    linear layers)."""
    tensor = b.program.tensors[view.tensor]
    if view.offset or view.numel != tensor.numel or 0 in view.strides:
        return False
    wide = [d for d, e in enumerate(view.shape) if e > 1]
    if sorted(view.strides[d] for d in wide) != sorted({view.strides[d] for d in wide}):
        return False
    new_strides = View.whole(replace(tensor, shape=view.shape)).strides
    swap = {view.strides[d]: new_strides[d] for d in wide}
    extents = {view.strides[d]: view.shape[d] for d in wide}
    places = b.mentions.of(tensor.name)
    mentioning = [b.program.ops[i] for i in places]
    for v in (v for op in mentioning for v in (*op.reads, *op.writes) if v.tensor == tensor.name):
        if (
            v.offset
            or v.numel != tensor.numel
            or any(extents.get(s) != e for s, e in zip(v.strides, v.shape, strict=True) if e > 1)
        ):
            return False

    def moved(v: View) -> View:
        if v.tensor != tensor.name:
            return v
        return v._replace(
            strides=tuple(swap.get(s, 0) if e > 1 else 1 for s, e in zip(v.strides, v.shape, strict=True))
        )

    if not all(op.kind.strided for op in mentioning):
        return False
    for i, op in zip(places, mentioning, strict=True):
        b.program.ops[i] = replace(op, reads=tuple(map(moved, op.reads)), writes=tuple(map(moved, op.writes)))
    return True


def updates(
    b: Builder,
    user: UserModel,
    gradients: dict[str, View],
    accumulate: int,
    precision: Precision,
) -> None:
    spec, schedule = user.optimizer, user.schedule
    lr, step = scalar(b, LEARNING_RATE, DType.F32), scalar(b, STEP, DType.I32)
    drawn = step
    gradients, step = for_update(b, user, gradients, step, accumulate, precision)
    if spec.updates:
        step = b.map(lambda s: s + spec.updates, step, shape=(), suffix="updates_before")
    if user.clip_norm is not None:
        gradients = clipped_by_norm(b, gradients, user.clip_norm)
    if user.clip_value is not None:
        gradients = clipped_by_value(b, gradients, user.clip_value)
    rates = [group_rate(b, spec.groups, i, lr) for i in range(len(spec.groups))]
    if schedule.plateau is not None:
        rates = on_plateau(b, schedule.plateau, list(zip(rates, map(own_rate, spec.groups), strict=True)))
    momentum = scalar(b, MOMENTUM, DType.F32) if schedule.momenta else None
    for index, group in enumerate(spec.groups):
        parameters = [
            Parameter(n, View.whole(b.program.tensors[n]), gradients[n]) for n in group.names if n in gradients
        ]
        if not parameters:
            continue
        b.where = Where("update", "", spec.kind.lower())
        hyper = {**group.hyper, "kind": spec.kind, "defaults": spec.defaults}
        settings = Group(hyper, rates[index], step, index, momentum, drawn, precision.weights)
        if spec.own is not None:
            own_optimizer(b, spec, settings, parameters)
        else:
            OPTIMIZERS[spec.kind](b, settings, parameters)
    if precision.loss_scale is not None:
        scaling.counted(b)
    take_state(b.program, spec)


def for_update(
    b: Builder,
    user: UserModel,
    gradients: dict[str, View],
    step: View,
    accumulate: int,
    precision: Precision,
) -> tuple[dict[str, View], View]:
    """The gradients of all samples of an update, and how many updates there were."""
    if accumulate > 1:
        share = 1.0 if precision.halves else 1.0 / accumulate
        gradients = accumulated(b, gradients, step, accumulate, share)
        b.program.gradients = tuple((name, sums.tensor) for name, sums in gradients.items())
    if precision.loss_scale is not None:
        if user.schedule.plateau is not None:
            raise Unsupported(
                "ReduceLROnPlateau watches the losses of updates that are skipped, too",
                remedy="leave out the loss scale, or take another scheduler",
            )
        return scaling.unscaled(b, gradients, precision.loss_scale, step, accumulate), scaling.kept(b, scaling.UPDATES)
    if accumulate > 1:
        b.where = Where("update", "", "accumulate")
        step = b.map(lambda s: apply("idiv", [s, accumulate]), step, shape=(), suffix="updates")
    return gradients, step


def group_rate(b: Builder, groups: Sequence[Settings], index: int, lr: View) -> View:
    """A group's learning rate of that which the caller gives, the first group's."""
    ratio = rate_ratio(groups, index)
    if ratio == 1.0:
        return lr
    b.where = Where("update", "", "rate")
    made = b.map(lambda v: v * ratio, lr, suffix=f"lr{index}")
    entitle(b, f"group {index}", "learning rate")
    return made


def rate_ratio(groups: Sequence[Settings], index: int) -> float:
    """A group's learning rate as a multiple of the first group's, which is the one that the caller gives."""
    first, own = own_rate(groups[0]), own_rate(groups[index])
    if first == own:
        return 1.0
    if first == 0.0:
        raise Unsupported(
            "the first parameter group has the learning rate 0 and another one has not",
            remedy="freeze its parameters with requires_grad_(False), or give the other group first",
        )
    return own / first


def own_rate(group: Settings) -> float:
    return float(group.hyper.get("initial_lr", group.hyper["lr"]))


def scalar(b: Builder, name: str, dtype: DType) -> View:
    """A number that the caller of the step sets."""
    if name not in b.program.tensors:
        b.program.tensors[b.fresh(name, exact=True)] = Tensor(name, (), dtype, Role.SCALAR)
        b.program.values[name] = np.zeros((), dtype.numpy_name)
    return View.whole(b.program.tensors[name])
