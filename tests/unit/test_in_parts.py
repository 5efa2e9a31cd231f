"""Gradients of weights in parts: where, and where not."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.unit.small_programs import FLOATS, program_of
from tests.unit.test_within_budget import peak
from trainlib_deployer.passes.in_parts import in_parts, split
from trainlib_deployer.passes.mixed import mixed
from trainlib_deployer.program.ir import Program, Role


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(3, 13, 3), nn.Tanh(), nn.Conv1d(13, 17, 2), nn.Tanh(), nn.Flatten(), nn.Linear(85, 4)
    )


def program() -> Program:
    torch.manual_seed(0)
    return mixed(program_of(network(), (3, 3, 8), FLOATS))


def test_until_there_is_enough() -> None:
    whole = program()
    most = peak(whole)
    small = in_parts(whole, 0)
    assert peak(small) < most
    assert in_parts(whole, most) is whole
    middle = (peak(small) + most) // 2
    assert peak(in_parts(whole, middle)) <= middle


@pytest.mark.parametrize("count", [2, 3])
def test_parts_are_all_of_the_gradient_and_of_the_weight(count: int) -> None:
    whole = program()
    gradient = dict(whole.gradients)["2.weight"]
    small = split(whole, gradient, count)
    assert small is not None and small.tensors[gradient].role is Role.RECORDED
    parts = [t for t in small.tensors.values() if t.name.startswith(f"{gradient}.part")]
    assert len(parts) == count and sum(t.numel for t in parts) == small.tensors[gradient].numel
    for at, part in enumerate(parts):
        product, update = (op for op in small.ops if part.name in {v.tensor for v in (*op.reads, *op.writes)})
        assert small.ops.index(update) == small.ops.index(product) + 1
        written = {v.tensor: v for v in update.writes}
        assert set(written) == {"2.weight", gradient}
        assert {v.numel for v in written.values()} == {part.numel}
        assert all(v.offset == written["2.weight"].offset for v in written.values()) and (at > 0) == (
            written["2.weight"].offset > 0
        )


class OfItself(nn.Module):
    """The gradient of its weight is a product of that weight, and of all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (self.weight @ self.weight.detach())


def test_a_gradient_made_of_its_weight_stays_whole() -> None:
    """Fault: the second part was made of rows that the first one's update had moved."""
    whole = mixed(program_of(OfItself(), (8, 8), FLOATS))
    assert split(whole, dict(whole.gradients)["weight"], 2) is None
