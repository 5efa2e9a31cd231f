"""An activation that lies elsewhere as well is read there; a product of one term is part of the loop that reads it."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from torch import nn

from tests.unit.small_programs import program_of
from tests.unit.test_passes import Array, evaluate, finished, random_program, started
from tests.unit.test_within_budget import peak
from trainlib_deployer.passes.coalesce import coalesce
from trainlib_deployer.passes.fuse_loops import fuse_loops
from trainlib_deployer.passes.read_copies import read_from_copy
from trainlib_deployer.program.ir import DType, Program, readers, writers


class Fire(nn.Module):
    """Both halves of what comes out are kept, joined, for the next layer's gradient."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.one, self.three = nn.Conv2d(channels, 7, 1), nn.Conv2d(channels, 11, 3, padding=1)
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.relu(self.one(x)), self.relu(self.three(x))], 1)


def without(program: Program, name: str) -> Program | None:
    return read_from_copy(program, name, writers(program).get(name, []), readers(program).get(name, []))


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_keep_their_values(seed: int) -> None:
    program, given = random_program(seed)
    program = coalesce(fuse_loops(program))
    expected = evaluate(program, given)
    for name in set(program.tensors) - set(program.shown):
        changed = without(program, name)
        if changed is not None:
            assert name not in changed.tensors
            found = evaluate(changed, given)
            for _, shown in program.outputs:
                np.testing.assert_array_equal(found[shown], expected[shown], err_msg=name)


def padded(overwritten: bool) -> tuple[Program, dict[str, Array]]:
    """Twice x, kept for a sum and the end, and in a frame."""
    b, v, given = started(x=(3, 5))
    twice = b.map(lambda x: x + x, v["x"])
    frame = b.fill((3, 8), 0.0, DType.F32)
    b.copy_into(twice, frame.sliced(1, 2, 7))
    rows = b.reduce("sum", [1], frame)
    if overwritten:
        b.copy_into(v["x"].sliced(1, 0, 1), frame.sliced(1, 3, 4))
    whole = b.reduce("sum", [], frame)
    squares = b.reduce("sum", [0, 1], b.map(lambda t: t * t, twice))
    program = finished(b, rows, whole, squares, b.map(lambda t, x: t * x, twice, v["x"]))
    return coalesce(fuse_loops(program)), given


def test_what_lies_in_a_frame_is_read_there() -> None:
    """Fault: a sum over all of it became one over its columns, as the frame's rows are apart."""
    program, given = padded(overwritten=False)
    (name,) = (n for n in program.tensors if without(program, n) is not None)
    changed = without(program, name)
    assert changed is not None and len(changed.ops) == len(program.ops)
    before, after = evaluate(program, given), evaluate(changed, given)
    assert all(np.array_equal(before[n], after[n]) for n in program.shown)


def test_but_not_where_something_else_is_written_in_its_place() -> None:
    """Fault that this would find: the last column of what was kept had become another one."""
    program, _ = padded(overwritten=True)
    assert all(without(program, n) is None for n in program.tensors)


def test_joined_activations_need_no_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: the signs of both lay in memory from the forward pass on, beside the activations themselves."""
    net = nn.Sequential(Fire(3), Fire(18), Fire(18), nn.MaxPool2d(2), Fire(18), nn.Conv2d(18, 2, 3))

    def signs(program: Program) -> int:
        return sum(t.dtype is DType.U8 and t.name.endswith(".sign") for t in program.tensors.values())

    program = program_of(net, (1, 3, 13, 11))
    monkeypatch.setattr(sys.modules["trainlib_deployer.passes.early_masks"], "read_from_copy", lambda *_: None)
    before = program_of(net, (1, 3, 13, 11))
    assert signs(program) < signs(before) and peak(program) < peak(before)


def test_a_product_of_one_term_is_never_in_memory() -> None:
    """Fault: the gradients behind a pooling by attention lay as floats beside the sum that they went into."""

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm, self.score = nn.Linear(3, 7), nn.LayerNorm(7), nn.Linear(7, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.norm(self.first(x))
            return (self.score(x).softmax(1).transpose(1, 2) @ x).squeeze(1)

    program = program_of(Attention(), (2, 13, 3))
    made = [op for op in program.ops if op.kind.name == "matmul" and op.phase == "backward"]
    assert made and all(op.kind.k > 1 for op in made if op.writes[0].numel == 2 * 13 * 7)
    assert any(getattr(op.kind, "terms", 0) == 2 for op in program.ops)


class Nothing(nn.Module):
    """Puts no number anywhere: its gradient has no elements, and no operation makes it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.last = nn.Parameter(torch.randn(3, 2)), nn.Linear(2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(x) @ torch.put(self.weight.tanh(), torch.zeros(0).long(), torch.zeros(0))


def test_what_has_no_elements_is_there_at_no_moment() -> None:
    assert len(program_of(Nothing(), (4, 2)).ops) > 5
