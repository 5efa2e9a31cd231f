"""Scans that go two at a time: which do, in which order, and what that takes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.unit.small_programs import program_of
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.machine.targets import TARGETS
from trainlib_deployer.ops.recurrent import Scan, Scans
from trainlib_deployer.passes.join_scans import join_scans
from trainlib_deployer.passes.reorder import fullest
from trainlib_deployer.program.ir import Program

PULP = TARGETS["pulp-open"]


class Both(nn.Module):
    """A layer, or several, in both directions of time."""

    def __init__(self, kind: type[nn.RNNBase], hidden: int, layers: int = 1) -> None:
        super().__init__()
        self.net = kind(5, hidden, layers, bidirectional=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.net(x)[0]
        return out


class Behind(nn.Module):
    """The second one goes over what the first one made."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.RNN(24, 24), nn.RNN(24, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.second(self.first(x)[0])[0]
        return out


def names(program: Program) -> list[str]:
    return [op.kind.name for op in program.ops if isinstance(op.kind, Scan | Scans)]


def in_order(program: Program) -> bool:
    """Is all that an operation reads made before it, and nothing twice?"""
    made = {n for n, t in program.tensors.items() if t.role.persistent}
    for op in program.ops:
        if any(v.tensor not in made for v in op.reads):
            return False
        made |= {v.tensor for v in op.writes}
    return True


@pytest.mark.parametrize(("kind", "cell"), [(nn.RNN, "rnn"), (nn.GRU, "gru"), (nn.LSTM, "lstm")])
def test_both_directions_of_small_layers(kind: type[nn.RNNBase], cell: str) -> None:
    program = program_of(Both(kind, 16, 2), (7, 1, 5))
    found = join_scans(program, PULP)
    assert names(found) == [f"{cell}_fw_both"] * 2 + [f"{cell}_bw_both"] * 2
    assert in_order(found)
    assert sum(op.kind.macs() for op in found.ops) == sum(op.kind.macs() for op in program.ops)


def with_inner(machine: Machine, size: int) -> Machine:
    inner, *others = machine.memories
    return replace(machine, memories=(replace(inner, size=size), *others))


def test_not_where_it_takes_as_long_or_weights_do_not_fit() -> None:
    program = program_of(Both(nn.GRU, 32), (7, 1, 5))
    assert names(join_scans(program, PULP)) == ["gru_fw", "gru_fw", "gru_bw", "gru_bw"]
    small = program_of(Both(nn.GRU, 16), (7, 1, 5))
    weights = 2 * 3 * 16 * 16 * 4
    assert names(join_scans(small, with_inner(PULP, 2 * weights))) == ["gru_fw_both", "gru_bw_both"]
    assert names(join_scans(small, with_inner(PULP, 2 * weights - 4))) == names(small)


def test_not_one_behind_the_other() -> None:
    program = program_of(Behind(), (7, 1, 24))
    assert names(join_scans(program, PULP)) == ["rnn_fw", "rnn_fw", "rnn_bw", "rnn_bw"]


def test_no_fuller_where_memory_is_short() -> None:
    """Both directions' gradients of the gates are there at once; with half of the room, that is no matter."""
    program = program_of(Both(nn.RNN, 24, 2), (30, 1, 5))
    lasting = sum(t.nbytes for t in program.tensors.values() if t.role.persistent)
    inner, outer, *others = PULP.memories
    short = replace(PULP, memories=(inner, replace(outer, size=outer.reserved + lasting + fullest(program)), *others))
    least, most = join_scans(program, short), join_scans(program, PULP)
    assert fullest(least) <= fullest(program) < fullest(most)
    assert names(most) == ["rnn_fw_both"] * 2 + ["rnn_bw_both"] * 2
    assert len(names(least)) > len(names(most))
