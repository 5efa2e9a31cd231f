"""The time of a deployment, stage by stage, for networks that have the same blocks more and more often.

    OMP_NUM_THREADS=1 python -m benchmarks.bench_growth [--dtype mixed] [residual=22,45,90,178 ...]

Seconds of CPU. Prints the table of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from benchmarks.networks import sgd, user_model
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.options import Options
from trainlib_deployer.pipeline import deploy_user_model
from trainlib_deployer.user.model import UserModel

Made = tuple[nn.Module, tuple[int, ...]]  # a network, and the shape of its input
CHANNELS, CLASSES, TOKENS = 8, 10, 9
STAGES = {
    "capturing": "capture",
    "lowering": "passes",
    "planning": "plan",
    "training": "PyTorch",
    "writing": "writing, proof",
}


class Residual(nn.Module):
    """Two convolutions and what they are added to."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False), nn.BatchNorm2d(CHANNELS)
        self.conv2, self.norm2 = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False), nn.BatchNorm2d(CHANNELS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + x)


class Attention(nn.Module):
    """A block of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(CHANNELS), nn.LayerNorm(CHANNELS)
        self.attention = nn.MultiheadAttention(CHANNELS, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(CHANNELS, 4 * CHANNELS), nn.GELU(), nn.Linear(4 * CHANNELS, CHANNELS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


def residual(blocks: int) -> Made:
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(CHANNELS, CLASSES))
    body = (Residual() for _ in range(blocks))
    return nn.Sequential(nn.Conv2d(3, CHANNELS, 3, padding=1), *body, *head), (1, 3, 8, 8)


def mlp(layers: int) -> Made:
    body = (m for _ in range(layers - 1) for m in (nn.Linear(CHANNELS, CHANNELS), nn.ReLU()))
    return nn.Sequential(*body, nn.Linear(CHANNELS, CLASSES)), (4, CHANNELS)


def transformer(blocks: int) -> Made:
    body = (Attention() for _ in range(blocks))
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(TOKENS * CHANNELS, CLASSES)), (2, TOKENS, CHANNELS)


NETWORKS: dict[str, Callable[[int], Made]] = {
    "residual": residual,
    "mlp": mlp,
    "transformer": transformer,
}
ASKED = ("residual=22,45,90,178", "mlp=125,250,500", "transformer=12,24,48")


def network(kind: str, blocks: int) -> UserModel:
    torch.manual_seed(3)
    module, shape = NETWORKS[kind](blocks)
    return user_model(kind, module, shape, CLASSES, sgd)


@dataclass
class Clock:
    """Seconds of CPU between the lines that a deployment says."""

    stage: str = ""
    since: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)

    def say(self, line: str) -> None:
        self.turn(STAGES.get(line.split(maxsplit=1)[0], self.stage))

    def turn(self, stage: str) -> None:
        now = sum(os.times()[:4])  # with what a copy of the process has taken, once it has ended
        if self.stage:
            self.seconds[self.stage] = self.seconds.get(self.stage, 0.0) + now - self.since
        self.stage, self.since = stage, now


def row(kind: str, blocks: int, dtype: str, folder: Path) -> str:
    user, clock = network(kind, blocks), Clock()
    options = Options(resolve(cores=8, l1="64k", l2="64M"), folder, dtype=dtype)
    done = deploy_user_model(user, options, clock.say)
    clock.turn("")
    seconds = [clock.seconds[stage] for stage in STAGES.values()]
    words = (f"{kind}, {blocks}", f"{len(done.plan.program.ops):,}", *(f"{s:.1f}" for s in (*seconds, sum(seconds))))
    return f"| {' | '.join(words)} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("asked", nargs="*", default=ASKED, metavar="KIND=BLOCKS,...")
    given = parser.parse_args()
    print(f"| network, blocks | operations | {' | '.join((*STAGES.values(), 'all'))} |")
    print(f"|---{'|---:' * (len(STAGES) + 2)}|")
    for kind, _, counts in (word.partition("=") for word in given.asked):
        for blocks in counts.split(","):
            with tempfile.TemporaryDirectory() as work:
                print(row(kind, int(blocks), given.dtype, Path(work) / "project"), flush=True)


if __name__ == "__main__":
    main()
