"""Functions with fewer terms: where what they make becomes halves, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.unit.small_programs import program_of
from trainlib_deployer.passes import chosen
from trainlib_deployer.passes.coarse import coarse, with_fewer_terms
from trainlib_deployer.passes.early_slopes import early_slopes
from trainlib_deployer.program.expr import Arg, Instr
from trainlib_deployer.program.ir import DType
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.precision import Precision

F32, F16 = DType.F32, DType.F16


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, 7), nn.Linear(7, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.gelu(self.first(x))
        return self.last(torch.softmax(x @ x.T, -1) @ x)


def calls(precision: Precision) -> set[str]:
    program = coarse(early_slopes(program_of(Attention(), (4, 5), chosen(precision))))
    loops = [op.kind for op in program.ops if isinstance(op.kind, Loop)]
    return {s.op for kind in loops for s in kind.body if "exp" in s.op or "gauss" in s.op}


@pytest.mark.parametrize("half", [F16, DType.BF16])
def test_halves_take_fewer_terms(half: DType) -> None:
    assert calls(Precision(halves=True, half=half)) == {"coarse_exp", "coarse_gauss_cdf", "coarse_gauss_density"}


def test_floats_do_not() -> None:
    assert calls(Precision()) == {"exp", "gauss_cdf", "gauss_density"}


def loop(*steps: tuple[str, tuple[Arg, ...]]) -> Loop:
    body = tuple(Instr(op, args, F16 if op == "to_half" else F32) for op, args in steps)
    return Loop((40,), 0, (F32,), body, (), (), (len(steps),), (F16,))


ROUNDED = loop(("exp", (0,)), ("to_half", (1,)))


def test_an_exponential_is_coarse_where_it_is_rounded_itself() -> None:
    assert [s.op for s in with_fewer_terms(ROUNDED).body] == ["coarse_exp", "to_half"]
    cancels = loop(("exp", (0,)), ("sub", (1, 0)), ("to_half", (2,)))
    assert with_fewer_terms(cancels) == cancels


def test_nothing_is_where_a_result_stays_a_float() -> None:
    both = replace(ROUNDED, results=(2, 1), outputs=(F16, F32))
    assert with_fewer_terms(both) == both
