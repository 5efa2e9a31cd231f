"""The captured fx graph becomes a Program: every node through the rule of its family, then the optimizer's updates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from torch import fx

from trainlib_deployer import ops
from trainlib_deployer.capture import Captured, Slot
from trainlib_deployer.errors import Unsupported
from trainlib_deployer.ir import DType, Program, Role, Tensor, View
from trainlib_deployer.ops.build import TORCH_DTYPES, Builder, Where
from trainlib_deployer.ops.optim import OPTIMIZERS, Group, Parameter
from trainlib_deployer.ops.registry import RULES
from trainlib_deployer.user_model import UserModel

ROLES = {
    "parameter": Role.PARAMETER,
    "buffer": Role.BUFFER,
    "input": Role.INPUT,
    "target": Role.TARGET,
    "constant": Role.CONSTANT,
}
NUMPY = {DType.F32: np.float32, DType.I32: np.int32, DType.U8: np.uint8, DType.U16: np.uint16}

assert ops, "the families fill the registry when they are imported"


def lower(user: UserModel, captured: Captured) -> Program:
    """The whole training step as a Program."""
    b = Builder(Program(user.name))
    env: dict[fx.Node, Any] = {}
    slots = iter(captured.inputs)
    for node in captured.graph.graph.nodes:
        if node.op == "placeholder":
            env[node] = persistent(b, next(slots))
        elif node.op == "get_attr":
            value = getattr(captured.graph, node.target)
            env[node] = persistent(b, Slot("constant", str(node.target), False, value))
        elif node.op == "call_function":
            env[node] = lower_node(b, node, env)
        elif node.op == "output":
            results = fx.node.map_arg(node.args[0], lambda n: env[n])
            finish(b, user, captured, list(flatten(results)))
    return b.program


def flatten(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from flatten(item)
    elif value is not None:
        yield value


def persistent(b: Builder, slot: Slot) -> View:
    """A tensor that has contents before the step begins."""
    value = slot.value.detach()
    dtype = TORCH_DTYPES.get(value.dtype)
    if dtype is None:
        raise Unsupported(
            f"{slot.kind} '{slot.name}' has the type {value.dtype}; only 32-bit floats and integers are deployed"
        )
    role = Role.SCALAR if slot.name == "step" and slot.kind == "constant" else ROLES[slot.kind]
    tensor = Tensor(b.fresh(slot.name), tuple(value.shape), dtype, role, slot.name.rpartition(".")[0])
    b.program.tensors[tensor.name] = tensor
    b.program.values[tensor.name] = value.contiguous().numpy().astype(NUMPY[dtype])
    return View.whole(tensor)


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
        raise unsupported(node, b.where)
    return rule(b, *args, **kwargs)


def unsupported(node: fx.Node, where: Where) -> Unsupported:
    name = str(node.target).removeprefix("aten.").rpartition(".")[0] or str(node.target)
    user_name = where.function or name
    layer = f" in layer '{where.layer}'" if where.layer else ""
    return Unsupported(
        f"'{user_name}'{layer} needs the operation '{name}', which cannot be deployed yet",
        source=where.source,
    )


def finish(b: Builder, user: UserModel, captured: Captured, results: list[View]) -> None:
    """Name the results, then append the updates of buffers and parameters."""
    p = b.program
    gradients: dict[str, View] = {}
    buffers: dict[str, View] = {}
    for out, view in zip(captured.outputs, results, strict=True):
        b.where = Where(
            "forward" if out.kind in ("loss", "output") else "backward", out.name.rpartition(".")[0], out.kind
        )
        if out.kind == "loss":
            p.loss = result(b, view, Role.LOSS, "loss")
        elif out.kind == "output":
            p.outputs += ((out.name, result(b, view, Role.OUTPUT, out.name)),)
        elif out.kind == "gradient":
            name = result(b, view, Role.GRADIENT, f"{out.name}.grad")
            p.gradients += ((out.name, name),)
            gradients[out.name] = View.whole(p.tensors[name])
        else:
            buffers[out.name] = view
    for name, view in buffers.items():
        b.where = Where("update", name.rpartition(".")[0], "buffer")
        target = View.whole(p.tensors[name])
        if view.tensor != name:
            b.copy_into(b.reshape(view, target.shape), target, name)
    updates(b, user, gradients)


def result(b: Builder, view: View, role: Role, name: str) -> str:
    """The tensor that holds a result, dense and under its own name; a copy where it is a window on something else."""
    tensor = b.program.tensors[view.tensor]
    if (
        tensor.role.persistent
        or tensor.role in (Role.LOSS, Role.OUTPUT)
        or not (view.covers(tensor) or relaid(b, view))
    ):
        view = b.map(lambda v: v, view, suffix="result")
        tensor = b.program.tensors[view.tensor]
    tensor = b.program.tensors[view.tensor]
    if tensor.role is not Role.GRADIENT or role is not Role.GRADIENT:
        tensor = replace(tensor, role=role)
    renamed = replace(tensor, shape=view.shape)
    if name not in b.program.tensors and name != tensor.name:
        rename(b.program, tensor.name, renamed, name)
        return name
    b.program.tensors[tensor.name] = renamed
    return tensor.name


def rename(program: Program, old: str, tensor: Tensor, new: str) -> None:
    del program.tensors[old]
    program.tensors[new] = replace(tensor, name=new)

    def moved(v: View) -> View:
        return replace(v, tensor=new) if v.tensor == old else v

    program.ops[:] = [
        replace(op, reads=tuple(map(moved, op.reads)), writes=tuple(map(moved, op.writes))) for op in program.ops
    ]
    program.outputs = tuple((n, new if t == old else t) for n, t in program.outputs)
    program.gradients = tuple((n, new if t == old else t) for n, t in program.gradients)


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
    users = [v for op in b.program.ops for v in (*op.reads, *op.writes) if v.tensor == tensor.name]
    for v in users:
        if (
            v.offset
            or v.numel != tensor.numel
            or any(s not in swap for s, e in zip(v.strides, v.shape, strict=True) if e > 1)
        ):
            return False

    def moved(v: View) -> View:
        if v.tensor != tensor.name:
            return v
        return replace(
            v, strides=tuple(swap.get(s, 0) if e > 1 else 1 for s, e in zip(v.strides, v.shape, strict=True))
        )

    if any(
        not takes_strides(op.kind)
        for op in b.program.ops
        if any(v.tensor == tensor.name for v in (*op.reads, *op.writes))
    ):
        return False
    b.program.ops[:] = [
        replace(op, reads=tuple(map(moved, op.reads)), writes=tuple(map(moved, op.writes))) for op in b.program.ops
    ]
    return True


def takes_strides(kind: Any) -> bool:
    return kind.name in ("matmul", "map", "reduce")


def updates(b: Builder, user: UserModel, gradients: dict[str, View]) -> None:
    spec = user.optimizer
    rule = OPTIMIZERS[spec.kind]
    lr, step = scalar(b, "lr", DType.F32), scalar(b, "step", DType.I32)
    first_lr = spec.groups[0].hyper["lr"]
    for index, group in enumerate(spec.groups):
        parameters = [
            Parameter(n, View.whole(b.program.tensors[n]), gradients[n]) for n in group.names if n in gradients
        ]
        if not parameters:
            continue
        b.where = Where("update", "", spec.kind.lower())
        ratio = float(group.hyper["lr"]) / float(first_lr) if first_lr else 1.0
        rate = lr if ratio == 1.0 else b.map(lambda v, r=ratio: v * r, lr, suffix=f"lr{index}")
        rule(b, Group({**group.hyper, "kind": spec.kind}, rate, step, index), parameters)


def scalar(b: Builder, name: str, dtype: DType) -> View:
    """A number that the caller of the step sets."""
    if name not in b.program.tensors:
        b.program.tensors[b.fresh(name)] = Tensor(name, (), dtype, Role.SCALAR)
        b.program.values[name] = np.zeros((), NUMPY[dtype])
    return View.whole(b.program.tensors[name])
