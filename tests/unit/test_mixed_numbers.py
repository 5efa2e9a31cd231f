"""What is infinite or no number in mixed precision: of the program alone it fails, of a reference it hides nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from golden import reference
from tests.unit.test_mixed_judged import cornered, family, verdict
from trainlib_deployer.api import deploy
from trainlib_deployer.cli.console import print_verification


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_fails_where_pytorch_has_one(value: float) -> None:
    """One element of one tensor, or one of each gradient."""
    task = cornered()
    runs = [reference.run(task, 1, torch.float64), *(reference.run(task, 1, torch.float32, noise=n) for n in range(2))]
    program = reference.run(task, 1, torch.float32, noise=2)
    assert verdict(program, runs).passed
    spoiled = {key: values.copy() for key, values in program.items()}
    for values in spoiled.values():
        values.reshape(-1)[-1:] = value
    gradients = {key: v for key, v in spoiled.items() if key[1] == "gradient"}
    for wrong in (*({key: v} for key, v in spoiled.items()), gradients):
        found = verdict({**program, **wrong}, runs)
        assert {t.key for t in found.tensors if not t.passed} == wrong.keys()


def test_a_run_that_has_overflown_hides_nothing() -> None:
    """Fault: where one gradient of the run next to the program was no number, that of the program might be anything."""
    *runs, program = family(7)
    key = (0, "gradient", "c")
    lost = {**program, key: np.full_like(program[key], np.nan)}
    for value in (program[key] * 1.05, np.zeros_like(program[key])):
        found = verdict({**program, key: value}, [*runs, lost])
        assert [t.name for t in found.tensors if not t.passed] == ["c"]
    assert verdict(program, [*runs, lost]).passed and verdict({**lost}, [*runs, lost]).passed
    assert not verdict(lost, runs).passed


class Overflowing(nn.Module):
    """What is between its layers is larger than any half."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(13, 17), nn.Linear(17, 5), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.last(self.middle(self.first(x) * 1e5))
        return y


@pytest.mark.slow
@pytest.mark.compiler
def test_where_the_reference_overflows_it_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fault: `6 of 6 tensors agree`, where there were 28."""
    torch.manual_seed(3)
    x, y = torch.randn(11, 13), torch.randn(11, 3)
    made = deploy(Overflowing(), x, y, cores=3, l1="64k", steps=2, dtype="mixed", out=tmp_path / "net")
    run = made.verify()
    print_verification(run)
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("not compared: ")]
    lost = sum(not t.compared for t in run.verdict.tensors)
    assert len(said) == 1 and said[0].startswith(f"not compared: {lost} of {len(run.verdict.tensors)} tensors")
    assert lost and "halves end at 65,504" in said[0] and said[0] == run.as_json()["unjudged"]
    assert run.summary.endswith(f"tensors agree with PyTorch, {lost} not compared")
