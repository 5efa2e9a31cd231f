"""Another order, and operations that run twice: less memory, the same bits of every tensor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.e2e.conftest import deploy_example
from trainlib_deployer import passes
from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.folder import read_plan
from trainlib_deployer.passes import order_halves
from trainlib_deployer.passes.order_halves import ordered
from trainlib_deployer.passes.reorder import Scale
from trainlib_deployer.passes.within_budget import added_macs, within_budget
from trainlib_deployer.program.ir import Program
from trainlib_deployer.run.host import Host
from trainlib_deployer.run.record import read_record


def results(folder: Path, poison: bool) -> dict[tuple[int, str, str], bytes]:
    path = folder / "record.bin"
    Host(poison=poison).run(folder, 2, 3, path)
    return {key: value.tobytes() for key, value in read_record(path, read_plan(folder)["trace"]).items()}


def peak(program: Program) -> int:
    return Scale.of(program).weigh(program.ops).peak


def plain_steps() -> tuple[passes.Pass, ...]:
    """Without what is done for the sake of memory."""
    steps = tuple(s for s in passes.DEFAULT if s.__name__ not in ("reorder", "early_masks"))
    assert len(steps) == len(passes.DEFAULT) - 2
    return steps


@pytest.mark.parametrize(("name", "budget", "share"), [("dscnn", 300_000, 0.09)])
def test_less_memory_and_the_same_bits(
    name: str, budget: int, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs: list[Program] = []

    def tight(whole: Program) -> Program:
        macs = sum(op.kind.macs() for op in whole.ops if op.phase == "forward")
        small = within_budget(whole, budget, int(share * macs))
        assert 0 < added_macs(small) <= share * macs
        programs.extend([whole, small])
        return small

    for folder, variant in {"plain": plain_steps(), "tight": (*passes.DEFAULT, tight)}.items():
        monkeypatch.setattr(passes, "chosen", lambda precision, arithmetic, steps=variant: steps)
        deploy_example(name, tmp_path / folder, steps=2)
    whole, small = programs
    assert peak(small) <= budget < peak(whole)
    plain = results(tmp_path / "plain", poison=False)
    assert len(plain) > 50
    assert results(tmp_path / "tight", poison=True) == plain


def pooled_net() -> nn.Sequential:
    """Not with ReLUs: maxima are taken before those, of which nothing is kept then."""
    torch.manual_seed(8)
    first = nn.Conv2d(2, 7, 3, padding=1), nn.LeakyReLU(), nn.MaxPool2d(2)
    second = nn.Conv2d(7, 5, 3), nn.LeakyReLU(), nn.MaxPool2d(2)
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(45, 4))


@pytest.mark.parametrize(("dtype", "part"), [("fp32", 0.9), ("mixed", 1.0)])
def test_signs_instead_of_activations(dtype: str, part: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = torch.randn(3, 2, 17, 19), torch.randint(4, (3,))
    programs: dict[str, Program] = {}
    every = passes.chosen
    for folder, left_out in {"plain": ("reorder", "early_masks"), "signs": ()}.items():

        def kept(program: Program, folder: str = folder) -> Program:
            programs[folder] = program
            return program

        def chosen(*asked: Any, left_out: tuple[str, ...] = left_out, last: passes.Pass = kept) -> Any:
            return (*(s for s in every(*asked) if getattr(s, "__name__", "") not in left_out), last)

        monkeypatch.setattr(passes, "chosen", chosen)
        monkeypatch.setattr(order_halves, "ordered", (lambda program: program) if left_out else ordered)
        made: dict[str, Any] = {"l1": "64M", "steps": 2, "dtype": dtype, "out": tmp_path / folder}
        deploy(pooled_net(), x, y, loss=nn.CrossEntropyLoss(), **made)
    signs = [t for t in programs["signs"].tensors.values() if t.name.endswith(".sign")]
    assert signs and all(t.dtype.size == 1 for t in signs)
    assert peak(programs["signs"]) < part * peak(programs["plain"])
    plain = results(tmp_path / "plain", poison=False)
    assert len(plain) > 20
    assert results(tmp_path / "signs", poison=True) == plain


def operations(made: Deployment) -> int:
    """A chain counts as what it is made of."""
    return sum(1 + len(getattr(op.kind, "followers", ())) for op in made.plan.program.ops)


def test_a_deployment_says_what_is_done_twice_and_saved(tmp_path: Path) -> None:
    whole = deploy_example("dscnn", tmp_path / "full", steps=1, l1="64k", l2="2M")
    full = read_plan(whole.folder)
    assert full["recomputed"] == {"operations": 0, "macs": 0, "bytes_saved": 0}
    budget = full["levels"]["L2"]["used"] - 100_000
    tight = deploy_example("dscnn", tmp_path / "small", steps=1, l1="64k", l2=str(budget))
    small = read_plan(tight.folder)
    done = small["recomputed"]
    assert done["operations"] == operations(tight) - operations(whole) > 0
    assert done["macs"] == sum(op["macs"] for op in small["ops"]) - sum(op["macs"] for op in full["ops"])
    assert done["bytes_saved"] >= 100_000
    assert small["levels"]["L2"]["used"] <= budget
