"""Training memory by the rules of a framework that plans each kind of tensor in a segment of its own.

Those rules, as the on-device training of ONE's runtime has them: ReLU belongs to its layer; a layer keeps its input for
its weight gradient and its output for ReLU's mask; gradients of weights take turns; scratch holds two transposed copies
of the output gradient and of the weight. `segments` plans them apart, as there; `one_arena` places the same tensors
together, each for as long as it is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn

from trainlib_deployer.arena.arena import Interval, Problem, place

ALIGNMENT = 16
FLOAT = 4
WEIGHTED = (nn.Conv2d, nn.Linear)


@dataclass(frozen=True)
class Stage:
    """A layer of a chain, with its ReLU: bytes of its output for the batch, of its weight, of its bias."""

    output: int
    weight: int = 0
    bias: int = 0
    masked: bool = False

    @property
    def scratch(self) -> int:
        return 2 * self.output + 2 * self.weight if self.weight else 0


def stages(network: nn.Sequential, x: torch.Tensor) -> list[Stage]:
    """The input first, the prediction (softmax) last."""
    found = [Stage(x.numel() * FLOAT)]
    with torch.no_grad():
        for layer in network:
            x = layer(x)
            if isinstance(layer, nn.ReLU):
                found[-1] = replace(found[-1], masked=True)
            elif isinstance(layer, WEIGHTED):
                sizes = (p.numel() * FLOAT for p in (layer.weight, layer.bias) if p is not None)
                found.append(Stage(x.numel() * FLOAT, *sizes))
            else:
                found.append(Stage(x.numel() * FLOAT))
    return [*found, Stage(found[-1].output)]


def forward(chain: list[Stage], batch: int) -> list[Interval]:
    """Stage i runs at position i, the loss at n, stage i's backward at 2n - i."""
    n = len(chain)
    found = [Interval("target", chain[-1].output, 0, n + 1), Interval("loss", batch * FLOAT, n, n + 1)]
    for i, stage in enumerate(chain):
        last = i + 1
        if i + 1 < n and chain[i + 1].weight:
            last = 2 * n - (i + 1)
        if stage.masked or i == n - 1:
            last = 2 * n - i
        found.append(Interval(f"output{i}", stage.output, i, last + 1))
    return found


def gradients(chain: list[Stage]) -> list[Interval]:
    """Of every stage's output, from its reader's backward to its own."""
    n = len(chain)
    return [Interval(f"gradient{i}", chain[i].output, 2 * n - i - 1, 2 * n - i + 1) for i in range(1, n)]


def at_backward(chain: list[Stage]) -> list[Interval]:
    """What exists during one layer's backward and update: its weight's and bias's gradients, and its scratch."""
    found = []
    for i, stage in enumerate(chain):
        at = 2 * len(chain) - i
        sizes = {"weight": stage.weight, "bias": stage.bias, "scratch": stage.scratch}
        found += [Interval(f"{name}{i}", size, at, at + 1) for name, size in sizes.items() if size]
    return found


def segments(network: nn.Sequential, x: torch.Tensor) -> dict[str, int]:
    """Bytes of each segment. The target stays throughout, and so does the gradient of the prediction."""
    chain = stages(network, x)
    end = 2 * len(chain) + 1
    kept = [replace(i, death=end) if i.name == "target" else i for i in forward(chain, len(x))]
    last = f"gradient{len(chain) - 1}"
    back = [replace(i, death=end) if i.name == last else i for i in gradients(chain)]
    return {
        "forward": peak(kept),
        "back-propagation": peak(back),
        "gradient": max(s.weight + s.bias for s in chain),
        "scratch": max(s.scratch for s in chain),
    }


def one_arena(network: nn.Sequential, x: torch.Tensor) -> int:
    chain = stages(network, x)
    return peak([*forward(chain, len(x)), *gradients(chain), *at_backward(chain)])


def peak(intervals: list[Interval]) -> int:
    found = place(Problem(tuple(intervals), alignment=ALIGNMENT))
    assert found.proved
    return found.peak
