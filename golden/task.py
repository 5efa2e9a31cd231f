"""What the reference runs: the user's module and what it is trained with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from golden.doubt import CERTAIN, Doubt
from golden.examples import Layout
from golden.half import BFLOAT, HALF, Half
from golden.layers import outside
from golden.loss_scale import LossScale
from golden.memory import EMPTY, Memory
from golden.metrics import Metrics
from golden.snapshot import Snapshot
from golden.tiles import Signature


@dataclass(frozen=True)
class Task:
    """What is trained, on what, how; or only run, forward, in the mode that its modules are in."""

    module: nn.Module
    loss: Any  # callable (output, target) -> scalar; None where nothing but outputs is wanted
    samples: Sequence[tuple[tuple[Any, ...], Any]]  # (inputs, target)
    optimizer: str | type[torch.optim.Optimizer]  # a class of torch.optim, or the user's own
    groups: Sequence[tuple[Mapping[str, Any], Sequence[str]]]  # settings, parameter names
    defaults: Mapping[str, Any] = field(default_factory=dict)  # what the optimizer's constructor was given
    accumulate: int = 1  # samples an update: their gradients are averaged
    clip_norm: float | None = None
    clip_value: float | None = None
    scheduler: Any = None  # the user's torch.optim.lr_scheduler, or a function making one from an optimizer
    start: Snapshot | None = None  # of the module and the loss, if they may hold something else by the time of the run
    state: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of the optimizer, from earlier updates
    metrics: Metrics = field(default_factory=dict)  # of output and target, beside the loss
    saved: str = "fp32"  # how the program stores what its forward leaves for its backward
    dtype: str = "fp32"  # what the program calculates with; "mixed", "fp16", "bf16": golden.halves
    loss_scale: LossScale | None = None
    winograd: bool = False  # 3 x 3 convolutions may be computed by Winograd's algorithm
    inference: bool = False  # nothing is trained; samples without a loss have no targets
    by_row: bool = True  # the rows of a sample are its examples
    evaluation: int | None = None  # examples of an evaluation as after model.eval(); None: as it trains
    keep: Sequence[str] = ()  # of mixed precision: layers that stay fp32
    doubt: Doubt = CERTAIN  # of mixed precision: what a program may do otherwise
    tiles: Sequence[Signature] = ()  # ... and convolutions that are done as golden.tiles has them
    memory: Memory = EMPTY  # ... and what the program to be judged has had there

    @property
    def halves(self) -> Sequence[str]:
        """Parameters that are."""
        return outside(self.module, self.keep) if self.dtype == "fp16" else ()

    @property
    def half(self) -> Half:
        """What activations and gradients are, unless they are floats."""
        return BFLOAT if self.dtype == "bf16" else HALF

    @property
    def layout(self) -> Layout:
        """Of its files of examples."""
        return Layout.of(*self.samples[0], self.by_row)

    @property
    def evaluated(self) -> Layout:
        """Of what an evaluation takes of them."""
        layout = self.layout
        return layout if self.evaluation is None else replace(layout, batch=self.evaluation)
