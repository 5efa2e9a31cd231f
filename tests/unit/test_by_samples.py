"""What is used up a few samples at a time: all of it, and not where a sum over samples has to be whole."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.unit.small_programs import FLOATS, program_of
from tests.unit.test_within_budget import peak
from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.passes.by_samples import by_samples
from trainlib_deployer.passes.early_masks import compared_last
from trainlib_deployer.passes.mixed import mixed
from trainlib_deployer.passes.order_halves import ordered
from trainlib_deployer.program.ir import Program


def network(bias: bool) -> nn.Module:
    first = nn.Conv2d(2, 5, 3, padding=1, bias=bias), nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(*first, nn.Conv2d(5, 7, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())


def program(bias: bool, batch: int = 6) -> Program:
    torch.manual_seed(0)
    return mixed(program_of(network(bias), (batch, 2, 16, 16), FLOATS))


def passed_back(whole: Program, by: str = "2.max_pool2d.grad") -> str:
    (name,) = {v.tensor for op in whole.ops if op.name == by for v in op.writes}
    return name


@pytest.mark.parametrize("count", [2, 3, 6])
def test_each_part_is_used_up_before_the_next_one(count: int) -> None:
    whole = program(bias=False)
    name, parts = passed_back(whole), [f"part{at}" for at in range(count)]
    small = by_samples(whole, name, parts)
    assert small is not None and name not in small.tensors
    assert sum(small.tensors[p].numel for p in parts) == whole.tensors[name].numel
    uses = [[at for at, op in enumerate(small.ops) if p in {v.tensor for v in (*op.reads, *op.writes)}] for p in parts]
    assert [at for own in uses for at in own] == list(range(uses[0][0], uses[0][0] + 2 * count))
    gradients = [small.ops[own[-1]].kind for own in uses]
    assert [isinstance(kind, Conv) and kind.onto for kind in gradients] == [False] + [True] * (count - 1)
    assert peak(small) < peak(whole)


def test_not_where_samples_are_a_sum_or_do_not_come_out_even() -> None:
    summed, odd = program(bias=True), program(bias=False, batch=3)
    assert by_samples(summed, passed_back(summed), ["a", "b"]) is not None
    assert by_samples(summed, passed_back(summed, "5.max_pool2d.grad"), ["a", "b"]) is None  # of a bias
    assert by_samples(odd, passed_back(odd), ["a", "b"]) is None


def test_a_weight_gradient_first_leaves_a_sign() -> None:
    """Fault: at the fullest operation an activation was there for the gradient of a ReLU or, behind that, of a weight;
    with the other order alone, or with a sign alone, it took as much."""
    torch.manual_seed(0)
    first = nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, padding=1), nn.MaxPool2d(2)
    net = nn.Sequential(*first, nn.Flatten(), nn.Linear(1024, 3))
    whole = ordered(mixed(program_of(net, (2, 1, 16, 16), FLOATS)))
    small = compared_last(whole, 0)
    assert peak(small) < peak(whole) and any(n.endswith(".sign") for n in small.tensors)
    assert compared_last(whole, peak(whole)) is whole
