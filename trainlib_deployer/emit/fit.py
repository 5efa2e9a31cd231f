"""What the loop over examples knows of a network: where a sample lies, which labels are classes, what is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import prod
from typing import Any

from trainlib_deployer.emit.addresses import Addresses
from trainlib_deployer.emit.names import unique_identifiers
from trainlib_deployer.program.ir import DType, Program, Role, Tensor, View
from trainlib_deployer.user.model import UserModel

C_TYPES = {d.numpy_name: d.c_name for d in DType}


def fit_context(
    user: UserModel, at: Addresses, arguments: Sequence[Mapping[str, Any]], outputs: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    program = at.plan.program
    layout = user.layout
    given = program.of_role(Role.INPUT, Role.TARGET)
    assert layout.nbytes * layout.batch == sum(t.nbytes for t in given), "examples are what a step takes"
    classes = classes_of(program)
    fields = [
        {"pointer": a["pointer"], "bytes": t.nbytes // layout.batch, **labels(user, program, t)}
        for a, t in zip(arguments, given, strict=True)
    ]
    return {
        "layout": layout,
        "fields": fields,
        "places": ", ".join(a["pointer"] for a in arguments),
        "evaluated": user.evaluation.layout.batch if user.evaluation else layout.batch,
        "metrics": own_metrics(program, at) or accuracy(program, classes, arguments, outputs),
    }


def evaluation_context(user: UserModel, at: Addresses, outputs: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """What the program knows that only runs, and counts what it names rightly; None where that is no classifier."""
    layout, program = user.examples, at.plan.program
    if program.loss:
        return {"layout": layout} if not program.trains else None
    targets = [f for f in layout.fields if f.role == "target"] if layout is not None else []
    if layout is None or len(program.outputs) != 1 or len(targets) != 1 or targets[0].kind != DType.I32.numpy_name:
        return None
    scores = program.tensors[program.outputs[0][1]]
    shape = (layout.batch, *targets[0].shape) if layout.by_row else targets[0].shape
    classes = classes_among(scores, shape)
    if not classes:
        return None
    fields = [
        {
            "name": f"{f.role}{i}",
            "c_type": C_TYPES[f.kind],
            "numel": prod(f.shape) * layout.batch,
            "bytes": f.nbytes,
        }
        for i, f in enumerate(layout.fields)
    ]
    label = fields[-1]
    value = f"tl_accuracy(net_{outputs[0]['name']}(), {label['name']}, {prod(shape)}, {classes}, {prod(shape[1:])})"
    given = ", ".join(str(f["name"]) for f in fields[:-1])
    return {"layout": layout, "fields": fields, "given": given, "value": value}


def labels(user: UserModel, program: Program, t: Tensor) -> dict[str, int]:
    """What a label may be, where it must be a class."""
    known = user.labels.get(program.of_role(Role.TARGET).index(t)) if t.role is Role.TARGET else None
    return {"classes": 0, "ignored": 0} if known is None or t.dtype is not DType.I32 else asdict(known)


def classes_of(program: Program) -> int:
    """How many scores the output has for each integer of the target; 0 where it is no classifier."""
    targets = program.of_role(Role.TARGET)
    if len(program.outputs) != 1 or len(targets) != 1 or targets[0].dtype is not DType.I32:
        return 0
    return classes_among(program.tensors[program.outputs[0][1]], targets[0].shape)


def classes_among(scores: Tensor, labels: tuple[int, ...]) -> int:
    n, *others = scores.shape or (0,)
    there = len(others) > 0 and scores.dtype is DType.F32 and (n, *others[1:]) == labels
    return others[0] if there else 0


def own_metrics(program: Program, at: Addresses) -> list[dict[str, str]]:
    """What the user's functions measure, in the step itself."""
    names = unique_identifiers(name for name, _ in program.metrics)
    return [
        {"name": name, "pointer": at.pointer(View.whole(program.tensors[t])), "function": f"net_metric_{names[name]}"}
        for name, t in program.metrics
    ]


def accuracy(
    program: Program, classes: int, arguments: Sequence[Mapping[str, Any]], outputs: Sequence[Mapping[str, Any]]
) -> list[dict[str, str]]:
    """The share of labels that have the highest score, of what an evaluation takes."""
    if not classes:
        return []
    target = program.of_role(Role.TARGET)[0]
    labels = next(a["pointer"] for a in arguments if not a["is_input"])
    count, apart = prod(program.evaluated.get(target.name, target.shape)), prod(target.shape[1:])
    value = f"tl_accuracy(net_{outputs[0]['name']}(), {labels}, {count}, {classes}, {apart})"
    return [{"name": "accuracy", "value": value, "pointer": ""}]
