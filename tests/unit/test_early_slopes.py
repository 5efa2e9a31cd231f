"""Slopes of activations: which networks keep them, and what they save."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.unit.small_programs import program_of
from trainlib_deployer.formats import CONVERSIONS, DType
from trainlib_deployer.passes import chosen, order_halves
from trainlib_deployer.passes.early_slopes import early_slopes
from trainlib_deployer.passes.reorder import Facts, Scale, facts_of
from trainlib_deployer.program.expr import Instr
from trainlib_deployer.program.ir import Op, Program, View
from trainlib_deployer.program.loop import CHEAP, Loop
from trainlib_deployer.program.precision import Precision


class Twice(nn.Module):
    """Backward reads the operand of the first activation for a product as well."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return nn.functional.silu(x) + x @ x.T @ x


class Later(nn.Module):
    """Forward reads the operand of the activation once more at its fullest."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 31)
        self.second = nn.Linear(31, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        y = self.second(nn.functional.silu(x))
        return y * torch.cumsum(x.detach(), 1)[:, :1]


def layers(activation: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(5, 7), activation, nn.Linear(7, 11), activation, nn.Linear(11, 3))


def functions(program: Program) -> int:
    """Calls of costly functions by loops."""
    loops = [op.kind for op in program.ops if isinstance(op.kind, Loop)]
    return sum(s.op not in {*CHEAP, *CONVERSIONS} for kind in loops for s in (*kind.body, *kind.post))


def peak(program: Program) -> int:
    return Scale.of(program).weigh(program.ops).peak


def slopes(program: Program) -> list[str]:
    return [name for name in program.tensors if name.endswith(".slope")]


@pytest.mark.parametrize(
    ("activation", "saved"),
    [
        (nn.GELU(), 1),
        (nn.GELU("tanh"), 1),
        (nn.SiLU(), 1),
        (nn.Mish(), 2),
        (nn.ReLU(), 0),
        (nn.Tanh(), 0),
        (nn.ELU(), 0),
    ],
)
def test_functions_that_both_passes_call_are_called_once(activation: nn.Module, saved: int) -> None:
    before = program_of(layers(activation), (4, 5))
    after = early_slopes(before)
    assert len(slopes(after)) == 2 * (saved > 0)
    assert functions(before) - functions(after) == 2 * saved
    assert peak(after) <= peak(before)


@pytest.mark.parametrize(("activation", "saved"), [(nn.GELU(), 1), (nn.SiLU(), 1), (nn.Mish(), 2)])
def test_the_slope_of_a_half_is_a_half(activation: nn.Module, saved: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_halves, "ENOUGH", 9.0)  # no activation is made again
    before = program_of(layers(activation), (4, 5), chosen(Precision(halves=True)))
    after = early_slopes(before)
    assert [after.tensors[n].dtype for n in slopes(after)] == [DType.F16, DType.F16]
    assert functions(before) - functions(after) == 2 * saved
    assert peak(after) <= peak(before)


def test_what_is_looked_for_among_others_is_made_of_no_rounded_slope(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two results of the gradient of an activation are compared. Halves stay as they are then, floats may go."""
    monkeypatch.setattr(order_halves, "ENOUGH", 9.0)
    for halves, left in ((True, 1), (False, 2)):
        before = program_of(layers(nn.GELU()), (4, 5), chosen(Precision(halves=halves)))
        late = next(op for op in before.ops if op.phase == "backward" and any("gelu" in v.tensor for v in op.writes))
        made = before.tensors[late.writes[0].tensor]
        look = Loop((made.numel,), 0, (made.dtype,) * 2, (Instr("eq", (0, 1), DType.F32),), (), (), (2,), (DType.U8,))
        seen = replace(made, name="seen", dtype=DType.U8)
        view = View(made.name, (made.numel,), (1,))
        op = replace(late, name="seen", kind=look, reads=(view, view), writes=(view._replace(tensor="seen"),))
        after = early_slopes(replace(before, tensors={**before.tensors, "seen": seen}, ops=[*before.ops, op]))
        assert len(slopes(after)) == left


def test_nobody_reads_the_operand_any_more() -> None:
    program = early_slopes(program_of(layers(nn.GELU()), (4, 5)))
    for slope in slopes(program):
        operand = slope.removesuffix(".slope")
        late = [op for op in program.ops if op.phase != "forward"]
        assert not any(v.tensor == operand for op in late for v in op.reads)
        assert sum(v.tensor == slope for op in late for v in op.reads) == 1


def test_an_operand_that_is_kept_anyway_has_no_slope() -> None:
    before = program_of(Twice(), (4, 5))
    assert early_slopes(before) is before


def test_memory_decides() -> None:
    """Fault: the operand, the result and the slope at once where a later layer reads the operand, too."""
    before = program_of(Later(), (4, 5))
    after = early_slopes(before)
    assert not slopes(after) and peak(after) == peak(before)


def test_operations_are_weighed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: all operations were looked at again for each activation."""
    asked = []

    def counted(program: Program, op: Op, lives: dict[str, int]) -> Facts:
        asked.append(op)
        return facts_of(program, op, lives)

    monkeypatch.setattr(sys.modules["trainlib_deployer.passes.reorder"], "facts_of", counted)
    chain = [m for _ in range(9) for m in (nn.Linear(7, 7), nn.GELU())]
    program = program_of(nn.Sequential(*chain), (5, 7))
    asked.clear()
    found = early_slopes(program)
    changed = {id(op) for op in found.ops} - {id(op) for op in program.ops}
    assert len(changed) > 12 and len(asked) <= len(program.ops) + 4 * len(chain)
