"""One multiplication of an element in place of two, in updates by outer products and in no others."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.unit.small_programs import program_of
from trainlib_deployer.passes.fuse_updates import by_one_number
from trainlib_deployer.program.expr import Const, Instr
from trainlib_deployer.program.ir import DType, Role
from trainlib_deployer.program.loop import Loop

F32 = DType.F32


def update(inputs: int, body: tuple[Instr, ...], gradient: int) -> Loop:
    """The weight and its gradient, over rows of 5."""
    return Loop((3, 5), 0, (F32,) * inputs, body, (), (), (inputs + len(body) - 1, gradient), (F32, F32), recorded=1)


def test_the_rate_is_multiplied_into_the_number_of_a_row() -> None:
    weight, rate, number, row = range(4)
    outer = Instr("fma", (number, row, Const(0.0)), F32)
    made = by_one_number(update(4, (outer, Instr("fma", (rate, 4, weight), F32)), 4), {weight, row})
    scaled = Instr("mul", (rate, number), F32)
    assert made.body == (outer, scaled, Instr("fma", (5, row, weight), F32)) and made.results == (6, 4)


@pytest.mark.parametrize(
    ("weight", "rate", "gradient", "more"), [(*p, m) for p in itertools.permutations(range(3)) for m in (0, 1, 2)]
)
def test_a_gradient_that_is_an_operand_stays(weight: int, rate: int, gradient: int, more: int) -> None:
    """As a bias's: nothing of the body makes it."""
    kind = update(3 + more, (Instr("fma", (rate, gradient, weight), F32),), gradient)
    assert by_one_number(kind, {weight, gradient}) == kind


def test_a_parameter_without_dimensions() -> None:
    """Its update is a loop of one element, and of no dimension."""
    program = program_of(Scaled(), (1, 3))
    gradients = dict(program.gradients)
    assert program.tensors[gradients["by"]].role is Role.RECORDED


@pytest.mark.parametrize("samples", [1, 2])
def test_the_gradient_of_a_bias_with_one_sample_is_that_of_the_output(samples: int) -> None:
    program = program_of(nn.Linear(7, 5), (samples, 7))
    sums = [op for op in program.ops if op.phase == "backward" and isinstance(op.kind, Loop) and op.kind.reductions]
    assert len(sums) == samples - 1
    assert program.tensors[dict(program.gradients)["bias"]].shape == (5,)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.by = nn.Parameter(torch.tensor(0.7))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum() * self.by


class Turned(nn.Module):
    """The gradient of an element of its weight is made of another one."""

    def __init__(self, other: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.other = other
        self.weight = nn.Parameter(torch.randn(5, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (self.weight * self.other(self.weight.detach()))


@pytest.mark.parametrize(("other", "fused"), [(torch.t, False), (lambda w: w[:1], False), (torch.clone, True)])
def test_an_element_that_others_still_read_is_not_moved(
    other: Callable[[torch.Tensor], torch.Tensor], fused: bool
) -> None:
    """Fault: rows were moved by weights of columns that had been moved before."""
    program = program_of(Turned(other), (1, 5))
    (update,) = (op for op in program.ops if "weight" in {v.tensor for v in op.writes})
    assert all(v in update.writes for v in update.reads if v.tensor == "weight")
    assert (program.tensors[dict(program.gradients)["weight"]].role is Role.RECORDED) is fused
