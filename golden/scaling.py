"""Loss scaling by PyTorch's own torch.amp.GradScaler, with what it decides as tensors of a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from golden.loss_scale import LEAST, SCALING, LossScale

Array = np.ndarray[Any, Any]
NEVER = 2**31 - 1
LABELS = ("scale", "good", "skipped", "updates")


class Scaler:
    """Around an optimizer."""

    def __init__(self, how: LossScale) -> None:
        self.how = how
        self.scaler = torch.amp.GradScaler("cpu", how.start, 2.0, 0.5, how.every or NEVER)
        with _disable_current_modes():
            self.scaler.scale(torch.zeros(()))  # it makes its tensors when it is first used
        self.skipped = self.updates = 0

    def scaled(self, loss: torch.Tensor) -> torch.Tensor:
        """A sample begins, and has not been found to overflow."""
        self.skipped = 0
        return self.scaler.scale(loss)

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Its factor is float32, whatever the precision of the run."""
        with _disable_current_modes():
            self.scaler.unscale_(optimizer)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        found: Any = self.scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
        self.skipped = int(any(float(v) for v in found.values()))
        if not self.skipped:
            self.updates += 1
            optimizer.step()
        with _disable_current_modes():
            self.scaler.update(None if self.how.every else self.how.start)
            if self.scaler.get_scale() < LEAST:
                self.scaler.update(LEAST)

    def state(self) -> dict[str, Array]:
        now = self.scaler.state_dict()
        good = now["_growth_tracker"] if self.how.every else 0
        values = (now["scale"], good, self.skipped, self.updates)
        return {f"{SCALING}{k}": np.asarray(v, np.float64) for k, v in zip(LABELS, values, strict=True)}

    def take_over(self, state: Mapping[tuple[str, str], Array]) -> None:
        """Go on from what a record has."""
        found = {k: state[key] for k in LABELS if (key := ("state", f"{SCALING}{k}")) in state}
        if found:
            now = {"scale": float(found["scale"]), "_growth_tracker": int(found["good"])}
            self.scaler.load_state_dict({**self.scaler.state_dict(), **now})
            self.skipped, self.updates = int(found["skipped"]), int(found["updates"])
