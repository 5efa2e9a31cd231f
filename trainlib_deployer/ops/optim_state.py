"""An optimizer that goes on: its state from earlier updates as the initial contents of the program's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from trainlib_deployer.ops.update import betas_of
from trainlib_deployer.program.ir import Program, Role
from trainlib_deployer.user.model import OptimizerSpec


def take_state(program: Program, spec: OptimizerSpec) -> None:
    """Tensors are called after a parameter and a label of PyTorch's, or after a group and one of ours."""
    known = {f"{n}.{label}": value for n, entries in spec.state.items() for label, value in entries.items()}
    for i, group in enumerate(spec.groups):
        first = next((spec.state[n] for n in group.names if n in spec.state), {})
        known |= {f"group{i}.{k}": v for k, v in {**counted(group.hyper, spec.updates), **first}.items()}
    for t in program.of_role(Role.STATE):
        value = known.get(t.name)
        if value is not None:
            array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
            program.values[t.name] = array.astype(np.float32).reshape(t.shape)


def counted(hyper: Mapping[str, Any], t: int) -> dict[str, float]:
    """What ops/optim.py carries from update to update, and PyTorch computes from their number."""
    b1, b2 = betas_of(hyper)
    return {
        "correction1": 1.0 - b1**t,
        "correction2": 1.0 - b2**t,
        "power": 0.96 ** (t * float(hyper.get("momentum_decay", 4e-3))),
        "weights": sum(b2**j for j in range(t)),
        "moments": sum((j + 1) * b2**j for j in range(t)),
    }
