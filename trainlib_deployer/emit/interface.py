"""What a caller of net.h gives and gets, for plan.json."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainlib_deployer.emit.fit import labels
from trainlib_deployer.program.ir import Program, Role, Tensor
from trainlib_deployer.user.model import UserModel


def interface(user: UserModel, program: Program, functions: Sequence[str]) -> dict[str, Any]:
    """`functions`: net_... that return the outputs."""
    shown = [(name, program.tensors[tensor]) for name, tensor in program.outputs]
    return {
        "arguments": [
            {"name": t.name, "role": t.role.value, **shaped(program, t), **labels(user, program, t)}
            for t in given(program)
        ],
        "outputs": [
            {"name": name, "function": f"net_{function}", **shaped(program, t)}
            for function, (name, t) in zip(functions, shown, strict=True)
        ],
        "learning_rate": learning_rate(user) if program.trains else None,
        "rates": list(user.schedule.rates),
        "momenta": list(user.schedule.momenta),
    }


def given(program: Program) -> tuple[Tensor, ...]:
    """What a caller gives: inputs, then targets."""
    return tuple(program.of_role(Role.INPUT, Role.TARGET))


def learning_rate(user: UserModel) -> float:
    return float(user.optimizer.groups[0].hyper["lr"])


def shaped(program: Program, t: Tensor) -> dict[str, Any]:
    """`evaluated`: what net_evaluate and net_forward take and give."""
    return {"shape": list(t.shape), "evaluated": list(program.evaluated.get(t.name, t.shape)), "dtype": t.dtype.name}
