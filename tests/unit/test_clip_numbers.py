"""Which clamps know a number of their row that is finite only where nothing in it is a NaN."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.unit.small_programs import program_of
from trainlib_deployer.passes.clip_numbers import clip_numbers
from trainlib_deployer.program.expr import Instr
from trainlib_deployer.program.ir import Program
from trainlib_deployer.program.loop import Loop


def clamps(program: Program) -> list[Instr]:
    loops = [op.kind for op in program.ops if isinstance(op.kind, Loop)]
    return [step for kind in loops for step in kind.body if step.op == "min"]


def network(norm: nn.Module, activation: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 5, 3), norm, activation, nn.Flatten(), nn.Linear(5 * 9, 3))


class Centred(nn.Module):
    """As a norm, about another row's mean."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.clamp((x - x.flip(1).mean((2, 3), keepdim=True)) * 2.0, 0.0, 6.0)


@pytest.mark.parametrize(
    ("norm", "activation", "known"),
    [
        (nn.BatchNorm2d(5), nn.ReLU6(), 1),
        (nn.BatchNorm2d(5), nn.Hardtanh(0.0, 0.75), 1),
        (nn.BatchNorm2d(5), nn.Hardtanh(), 0),  # below 0 the bits of numbers fall
        (nn.BatchNorm2d(5, affine=False), nn.ReLU6(), 0),
        (nn.Identity(), nn.ReLU6(), 0),
        (nn.Identity(), Centred(), 0),
    ],
)
def test_a_norm_by_the_mean_of_its_row_does(norm: nn.Module, activation: nn.Module, known: int) -> None:
    program = clip_numbers(program_of(network(norm, activation), (2, 3, 5, 5)))
    assert [len(step.args) - 2 for step in clamps(program)] == [known]
    assert clip_numbers(program) == program


def test_statistics_of_other_steps_say_nothing_of_this_one() -> None:
    """Running statistics are finite whatever comes in."""
    net = network(nn.BatchNorm2d(5), nn.ReLU6())
    net[1].eval()
    assert all(len(step.args) == 2 for step in clamps(clip_numbers(program_of(net, (2, 3, 5, 5)))))
