"""A network for everybody becomes one user's own, on the device, and forgets nobody: the chip and PyTorch side by side.

python adapt.py [--out generated/keywords] [--updates 240] [--on-cluster 3]
"""

from __future__ import annotations

import argparse
import copy
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import torch
from keywords import EVERYBODY, USER, USERS_WORDS, WORDS, WithMemory, accuracy, corpus, pretrained
from torch import Tensor, nn

from golden.examples import Examples, Layout
from golden.fit import How, fit
from golden.load import load_task
from golden.shuffle import shuffled
from trainlib_deployer import Deployment, Session, deploy, sweep
from trainlib_deployer.advice.points import Point
from trainlib_deployer.user.examples import bytes_of

HERE = Path(__file__).resolve().parent
UPDATE = 8  # examples an update, heard and old in turns
BATCH = 20  # of inference
KEPT = 250  # old examples
BUDGET = 128 << 10  # bytes of L2 that training may take, old examples included; code and the rest need some, too
Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Story:
    """What came of it. The figures are shares of right answers: on everybody's words, on the user's."""

    trained: str
    l2_bytes: int
    replay_bytes: int
    before: tuple[float, float]
    chip_before: tuple[float, float]
    chip: tuple[float, float]
    chip_forgets: tuple[float, float]  # without old examples
    pytorch: tuple[float, float]
    pytorch_forgets: tuple[float, float]
    apart: float  # of the weights, chip and PyTorch: largest difference
    same_bits: bool  # host and emulated cluster

    def __str__(self) -> str:
        rows = [
            ("before", self.before, self.chip_before),
            ("adapted without old examples", self.pytorch_forgets, self.chip_forgets),
            ("adapted with old examples", self.pytorch, self.chip),
        ]
        lines = ["| | everybody: PyTorch | chip | the user: PyTorch | chip |", "|---|---|---|---|---|"]
        lines += [f"| {what} | {p[0]:.1%} | {c[0]:.1%} | {p[1]:.1%} | {c[1]:.1%} |" for what, p, c in rows]
        return "\n".join(
            [
                f"trained: {self.trained}",
                f"{self.l2_bytes:,} bytes of L2 planned, {self.replay_bytes:,} of them old examples",
                *lines,
                f"weights of chip and PyTorch differ by {self.apart:.1e} at most",
                f"host and emulated cluster have the same bits: {self.same_bits}",
            ]
        )


def frozen_as_advised(model: nn.Module, x: Tensor, y: Tensor) -> Point:
    """Of the ways to train it that no other beats, the one with the most parameters within the budget."""
    points = sweep(model, x, y, loss=nn.CrossEntropyLoss(), optimizer=momentum, cores=8, l1="64k")
    fitting = [p for p in points if p.l2 <= BUDGET and p.samples == UPDATE and p.line]
    chosen = max(fitting, key=lambda p: p.trained)
    exec(chosen.line, {"model": model})
    return chosen


def momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.03, momentum=0.9)


def write(path: Path, x: Tensor, labels: Tensor) -> Layout:
    """Examples for the device, as `trainlib-deploy data` writes them."""
    layout = Layout.of((x[:1],), labels[:1])
    rows = bytes_of([x, labels], layout, [x, labels], "what was heard")
    path.write_bytes(layout.header(len(x), crc32(rows)) + rows)
    return layout


def run(project: Path, machine: str, **variables: object) -> str:
    words = [f"{name}={value}" for name, value in variables.items()]
    words += ["CORES=1"] if machine == "host" else []  # quickest where a step is small; the bits are the same
    command = ["make", "-s", "-C", str(project), machine, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"make {machine} {' '.join(words)} fails:\n{done.stdout}{done.stderr}")
    return done.stdout


def batches(heard: Pair, old: Pair, updates: int) -> Iterator[Pair]:
    """Those of adapt.c."""
    for first in range(0, updates * UPDATE, UPDATE):
        rows = [drawn((heard, old)[n % 2], 1 + n % 2, n // 2) for n in range(first, first + UPDATE)]
        yield torch.stack([x for x, _ in rows]), torch.stack([y for _, y in rows])


def drawn(given: Pair, seed: int, before: int) -> Pair:
    x, labels = given
    at = order(len(x), seed, before // len(x))[before % len(x)]
    return x[at], labels[at]


order = cache(shuffled)


def adapted_by_pytorch(model: nn.Module, given: Iterator[Pair]) -> nn.Module:
    model = copy.deepcopy(model)
    optimizer = momentum([p for p in model.parameters() if p.requires_grad])
    for x, y in given:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model


def brought_back(device: Deployment, state: Path, model: nn.Module) -> nn.Module:
    """What the device has learned, in PyTorch."""
    device.session.load(state)
    model = copy.deepcopy(model)
    model.load_state_dict(device.state_dict())
    return model


class OnChip(nn.Module):
    """The same network's inference in C, without old examples and optimizer, in a batch of its own."""

    def __init__(self, net: nn.Module, x: Tensor, out: Path) -> None:
        super().__init__()
        made = deploy(net, x, inference=True, batch=BATCH, cores=8, l1="64k", out=out, steps=1)
        self.session = Session(made.folder)

    def having(self, net: nn.Module) -> OnChip:
        self.session.load_state_dict(net.state_dict())
        return self

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.session.predict(rows) for rows in x.split(BATCH)])


def story(out: Path, updates: int = 240, on_cluster: int = 3, tests: int = 600, count: int = 1600) -> Story:
    """So many of the updates run on the emulated cluster, too."""
    steps = updates * UPDATE
    out.mkdir(parents=True, exist_ok=True)
    heard, old = corpus(160, USERS_WORDS, USER, seed=70), corpus(KEPT, range(WORDS), EVERYBODY, seed=80)
    held_out = corpus(tests, range(WORDS), EVERYBODY, seed=50), corpus(tests, USERS_WORDS, USER, seed=60)
    model = WithMemory(pretrained(count, epochs=6), *old).eval()
    point = frozen_as_advised(model, heard[0][:UPDATE], heard[1][:UPDATE])
    x, y = heard[0][: point.batch], heard[1][: point.batch]
    settings: dict[str, Any] = {"loss": nn.CrossEntropyLoss(), "optimizer": momentum, "cores": 8, "l1": "64k"}
    device = deploy(model, x, y, **settings, accumulate=point.accumulate, out=out / "device", steps=2)
    device.verify().raise_if_failed()
    layout = write(out / "heard.bin", *heard)
    data = (out / "heard.bin").resolve()

    def chip(machine: str, name: str, **variables: object) -> Path:
        state = (out / name).resolve()
        run(device.folder, machine, DATA=data, SAVE=state, **variables)
        return state

    adapt, few = {"MAIN": HERE / "adapt.c"}, on_cluster * UPDATE
    replayed = chip("host", "adapted.state", **adapt, STEPS=steps)
    forgot = chip("host", "forgot.state", EPOCHS=steps, STEPS=steps)
    both = [chip(machine, f"{machine}.state", **adapt, STEPS=few) for machine in ("host", "qemu")]
    inference = OnChip(model.net, x, out / "inference")
    chips = [brought_back(device, state, model) for state in (replayed, forgot)]
    golden = adapted_by_pytorch(model, batches(heard, old, updates))
    alone = fit(load_task(device.folder / "model"), Examples.read(data, layout), None, How(epochs=steps, steps=steps))
    forgetful = copy.deepcopy(model)
    forgetful.load_state_dict(alone.state)

    def shares(net: nn.Module) -> tuple[float, float]:
        return accuracy(net, *held_out[0]), accuracy(net, *held_out[1])

    pairs = zip(chips[0].parameters(), golden.parameters(), strict=True)
    return Story(
        trained=f"{point.what}: {point.trained:,} of {point.total:,} parameters",
        l2_bytes=device.plan.outer.used,
        replay_bytes=device.plan.program.tensors["replay"].nbytes,
        before=shares(model),
        chip_before=shares(inference.having(model.net)),
        chip=shares(inference.having(chips[0].net)),  # type: ignore[arg-type]
        chip_forgets=shares(inference.having(chips[1].net)),  # type: ignore[arg-type]
        pytorch=shares(golden),
        pytorch_forgets=shares(forgetful),
        apart=max(float((a - b).detach().abs().max()) for a, b in pairs),
        same_bits=len({state.read_bytes() for state in both}) == 1,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("generated/keywords"))
    parser.add_argument("--updates", type=int, default=240)
    parser.add_argument("--on-cluster", type=int, default=3, help="updates that run on the emulated cluster, too")
    args = parser.parse_args()
    print(story(args.out, args.updates, args.on_cluster))


if __name__ == "__main__":
    main()
