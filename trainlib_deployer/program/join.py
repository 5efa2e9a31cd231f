"""A training step and, behind it, its evaluation as after model.eval(): one program, one plan, one arena.

Both have the same parameters, buffers and inputs, and show their results in the same places: those of an evaluation of
fewer examples are the first ones of a step's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from trainlib_deployer.program.ir import EVALUATION, Op, Program, Role, Tensor, renamed

PREFIX = "evaluation."
SHARED = (Role.PARAMETER, Role.BUFFER, Role.INPUT, Role.TARGET, Role.SCALAR)


def joined(step: Program, evaluation: Program) -> Program:
    """Nothing of the step changes. Nothing that an evaluation writes lasts, but what it shows."""
    names = shared(step, evaluation)
    tensors, values = dict(step.tensors), dict(step.values)
    for tensor in evaluation.tensors.values():
        name = names.get(tensor.name) or PREFIX + tensor.name
        names[tensor.name] = name
        if name not in tensors:
            tensors[name] = replace(tensor, name=name)
            if tensor.name in evaluation.values:
                values[name] = evaluation.values[tensor.name]
        assert tensors[name].dtype is tensor.dtype and tensors[name].numel >= tensor.numel, f"{name} is the same"
    ops = [evaluated(op, names) for op in evaluation.ops]
    lasting = {t.name for t in tensors.values() if t.role.persistent}
    assert not any(v.tensor in lasting for op in ops for v in op.writes), "an evaluation leaves everything as it is"
    seen = (*evaluation.of_role(Role.INPUT, Role.TARGET), *(evaluation.tensors[n] for n in evaluation.shown))
    shapes = {names[t.name]: t.shape for t in seen}
    fixed = {**step.fixed, **evaluation.fixed}
    return replace(step, tensors=tensors, values=values, ops=[*step.ops, *ops], fixed=fixed, evaluated=shapes)


def shared(step: Program, evaluation: Program) -> dict[str, str]:
    """What the evaluation calls by one name and the step by another, or by the same."""
    names = {t.name: t.name for t in evaluation.tensors.values() if is_same(step, evaluation, t)}
    names[evaluation.loss] = step.loss
    for mine, other in ((step.outputs, evaluation.outputs), (step.metrics, evaluation.metrics)):
        names |= {tensor: dict(mine)[name] for name, tensor in other}
    return names


def is_same(step: Program, evaluation: Program, tensor: Tensor) -> bool:
    there = step.tensors.get(tensor.name)
    if there is None or there.role is not tensor.role:
        return False
    if tensor.role is Role.CONSTANT:
        return np.array_equal(step.values[tensor.name], evaluation.values[tensor.name])  # type: ignore[arg-type]
    return tensor.role in SHARED


def evaluated(op: Op, names: Mapping[str, str]) -> Op:
    reads, writes = renamed(op.reads, names), renamed(op.writes, names)
    return replace(op, name=PREFIX + op.name, reads=reads, writes=writes, phase=EVALUATION)
