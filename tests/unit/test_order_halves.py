"""Which comes first in mixed precision: the types or the order."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.unit.small_programs import program_of
from tests.unit.test_within_budget import peak
from trainlib_deployer import passes
from trainlib_deployer.passes.mixed import mixed
from trainlib_deployer.passes.order_halves import order_halves, ordered


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.other = (nn.Conv1d(channels, channels, 3, padding=1) for _ in range(2))
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(x + self.relu(self.other(self.relu(self.first(x)))))


@pytest.mark.parametrize("length", [17, 31])
def test_the_smaller_of_both_is_taken(length: int) -> None:
    """Fault: the gradient of a weight, a float among halves, went behind what waited for it, and more was in use at
    once than with the order that floats have."""
    net = nn.Sequential(nn.Conv1d(3, 5, 3, padding=1), *(Residual(5) for _ in range(3)), nn.Conv1d(5, 2, 1))
    program = program_of(net, (1, 3, length), passes.DIRECT[: passes.AT])
    types, order = peak(ordered(mixed(program))), peak(ordered(mixed(ordered(program))))
    assert (types > order) == (length == 17) and types != order
    assert peak(order_halves(program, mixed)) == min(types, order)
