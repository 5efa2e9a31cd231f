"""Products that store weights moved by their sums: where, and where not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.unit.small_programs import program_of
from trainlib_deployer import passes
from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.passes.reorder import fullest
from trainlib_deployer.passes.store_updates import moved_by, store_updates
from trainlib_deployer.program.expr import Instr
from trainlib_deployer.program.ir import DType, Program, Role
from trainlib_deployer.program.loop import Loop

BEFORE = passes.DEFAULT[: passes.DEFAULT.index(store_updates)]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(9, 7), nn.Tanh(), nn.Linear(7, 5))


def stored(program: Program) -> list[str]:
    return [op.name for op in program.ops if isinstance(op.kind, MatMul) and op.kind.update]


@pytest.mark.parametrize(("batch", "found"), [(1, False), (2, False), (3, True), (32, True), (33, False)])
def test_sums_of_one_block(batch: int, found: bool) -> None:
    program = program_of(network(), (batch, 9))
    assert stored(program) == (["2.weight: sgd", "0.weight: sgd"] if found else [])
    gradients = dict(program.gradients)
    kept = {p for p in ("0.weight", "2.weight") if program.tensors[gradients[p]].role is not Role.RECORDED}
    assert not kept or (batch > 1 and not found)


@pytest.mark.parametrize(
    ("layer", "shape", "found"),
    [
        (nn.Conv2d(5, 7, 1), (1, 5, 4, 8), True),
        (nn.Conv1d(6, 11, 1, bias=False), (1, 6, 13), True),
        (nn.Conv2d(5, 7, 1), (2, 5, 3, 3), False),  # of two images
        (nn.Conv2d(5, 7, 1), (1, 5, 3, 11), False),  # more than a block
        (nn.Conv2d(5, 7, 1, stride=2), (1, 5, 5, 5), False),
        (nn.Conv2d(5, 7, 1, padding=1), (1, 5, 3, 3), False),
        (nn.Conv2d(6, 8, 1, groups=2), (1, 6, 3, 3), False),
        (nn.Conv2d(5, 7, (1, 2)), (1, 5, 3, 3), False),
    ],
    ids=str,
)
def test_convolutions_by_one_tap_are_products(layer: nn.Module, shape: tuple[int, ...], found: bool) -> None:
    assert stored(program_of(nn.Sequential(layer, nn.Tanh()), shape)) == (["0.weight: sgd"] if found else [])


def test_a_product_stands_behind_all_that_needs_the_old_weight() -> None:
    program = program_of(network(), (6, 9))
    for at, op in enumerate(program.ops):
        if isinstance(op.kind, MatMul) and op.kind.update:
            weight, gradient = (v.tensor for v in op.writes)
            assert op.reads[2] == op.writes[0] and op.phase == "update"
            assert all(weight not in {v.tensor for v in later.reads} for later in program.ops[at + 1 :])
            assert program.tensors[gradient].role is Role.RECORDED
            assert program.tensors[weight].role is Role.PARAMETER


def test_the_step_gets_no_fuller() -> None:
    before = program_of(network(), (6, 9), BEFORE)
    assert fullest(store_updates(before)) <= fullest(before)


class Twice(nn.Module):
    """Its weight has two gradients, which are added up."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.tanh(self.layer(x)))  # type: ignore[no-any-return]


class OfItself(nn.Module):
    """The gradient of its weight is a product of that weight, and of all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(7, 7))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (self.weight @ self.weight.detach())


def test_a_weight_is_not_stored_where_the_product_reads_it() -> None:
    """Fault: where tiles cut the product, later ones read rows that the first ones had moved."""
    assert not stored(program_of(OfItself(), (1, 7)))


def test_gradients_that_are_added_up_are_kept() -> None:
    assert not stored(program_of(Twice(), (6, 8)))


def test_another_update_than_plain_sgd_is_none() -> None:
    program = program_of(network(), (6, 9), BEFORE)
    gradient = dict(program.gradients)["0.weight"]
    (op,) = (op for op in program.ops if op.phase == "update" and any(v.tensor == gradient for v in op.reads))
    assert moved_by(op, gradient) is not None
    kind = op.kind
    assert isinstance(kind, Loop)
    negative, last = kind.body
    decayed = Instr("fma", (last.args[0], last.args[2], last.args[1]), DType.F32)  # -rate * weight + gradient
    wrong = (
        replace(kind, body=(negative, decayed)),
        replace(kind, body=(replace(negative, op="abs"), last)),
        replace(kind, body=(negative, replace(last, op="add", args=last.args[:2]))),
        replace(kind, body=(*kind.body, Instr("neg", (4,), DType.F32)), results=(5,)),
    )
    assert all(moved_by(replace(op, kind=k), gradient) is None for k in wrong)
    assert moved_by(replace(op, phase="backward"), gradient) is None
    assert moved_by(op, "another") is None
