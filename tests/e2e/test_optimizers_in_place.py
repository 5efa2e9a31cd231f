"""Optimizers of one's own that write where the gradients lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tests.e2e.test_optimizers import Lion, deployed


class Centralized(torch.optim.SGD):
    """It changes gradients where they lie, then does what SGD does."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in (p for p in group["params"] if p.grad is not None and p.grad.dim() > 1):
                p.grad.sub_(p.grad.mean(1, keepdim=True))
        super().step()


def test_own_optimizer_that_writes_to_gradients(project: Path) -> None:
    """Faults: what plain PyTorch had computed was compared after the optimizer had changed it; the step of the class
    below had the profiler around it, once there had been such an optimizer."""
    torch.optim.SGD([torch.zeros(1)])
    made = deployed(lambda parameters: Centralized([p for p in parameters if p.requires_grad], lr=0.01), project)
    made.verify().raise_if_failed()


class Ahead(Lion):
    """Nesterov's momentum, laid where the gradient was, as Muon has it."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            if not state:
                state["mean"] = torch.zeros_like(p)
            state["mean"].lerp_(p.grad, 0.1)
            p.sub_(p.grad.lerp_(state["mean"], 0.9) * self.param_groups[0]["lr"])


def test_own_optimizer_with_a_mean_that_writes_to_gradients(project: Path) -> None:
    """Fault: its mean was said to begin with something else than zeros, found by a gradient that it had changed."""
    made = deployed(lambda parameters: Ahead([p for p in parameters if p.requires_grad], lr=0.01), project)
    made.verify().raise_if_failed()
