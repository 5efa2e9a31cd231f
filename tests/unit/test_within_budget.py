"""What runs twice is legal: operands are there with their old values, results are read by nobody too early."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.unit.small_programs import program_of
from trainlib_deployer.passes.reorder import Scale
from trainlib_deployer.passes.within_budget import Uses, added_macs, again, within_budget
from trainlib_deployer.program.ir import Program, readers, writers


@pytest.fixture(scope="module")
def program() -> Program:
    torch.manual_seed(1)
    layers: list[nn.Module] = []
    channels = 3
    for width in (6, 5, 7, 4):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    return program_of(nn.Sequential(*layers), (2, 3, 11, 9))


def peak(program: Program) -> int:
    return Scale.of(program).weigh(program.ops).peak


def test_free_work_first_then_the_budget_is_met(program: Program) -> None:
    free = within_budget(program, 0, most_macs=0)
    assert peak(free) < peak(program) and added_macs(free) == 0
    smallest = within_budget(program, 0)
    assert peak(smallest) < peak(free) and added_macs(smallest) > 0
    middle = (peak(free) + peak(program)) // 2
    assert peak(free) <= peak(within_budget(program, middle)) <= middle
    assert within_budget(program, peak(program)) is program


@pytest.mark.parametrize("most", [0, None])
def test_every_operand_is_written_before_it_is_read(program: Program, most: int | None) -> None:
    small = within_budget(program, 0, most)
    made = {t.name for t in small.tensors.values() if t.role.persistent}
    for op in small.ops:
        assert {v.tensor for v in op.reads} <= made, op.name
        made |= {v.tensor for v in op.writes}
    assert all(op.phase == "backward" for op in small.ops if op.name.endswith(".again"))
    names = [op.name for op in small.ops if not op.name.endswith(".again")]
    assert sorted(names) == sorted(op.name for op in program.ops)


def test_what_is_overwritten_meanwhile_is_kept(program: Program) -> None:
    """Batch norm's running mean changes in the step: nothing that reads it may run again behind that."""
    uses = Uses(program, writers(program), readers(program))
    changed = {n for n, at in uses.writers.items() if program.tensors[n].role.persistent}
    for at, op in enumerate(program.ops):
        if op.phase == "forward" and any(v.tensor in changed for v in op.reads):
            for name in {v.tensor for v in op.writes}:
                last = max(p for v in op.reads for p in uses.writers.get(v.tensor, [-1]))
                assert last < at or uses.chain(name, len(program.ops), deep=False) is None


def test_a_second_run_reads_and_writes_under_new_names(program: Program) -> None:
    uses = Uses(program, writers(program), readers(program))
    name = next(n for n, at in uses.readers.items() if "relu" in n.lower() and len(at) > 1)
    later = uses.readers[name][-1]
    chain = uses.chain(name, later, deep=False)
    assert chain is not None and len(chain) == 1
    twice = again(program, chain, name, later)
    assert len(twice.ops) == len(program.ops) + 1
    assert twice.ops[later].writes[0].tensor == f"{name}.again1"
    assert f"{name}.again1" in {v.tensor for v in twice.ops[later + 1].reads}
    assert name not in {v.tensor for op in twice.ops[later:] for v in op.reads if op is not twice.ops[later]}


def test_what_moves_a_weight_reads_what_is_made_again() -> None:
    """Fault: products that store weights are updates, and all that these read was kept."""
    layers = [layer for _ in range(4) for layer in (nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU())]
    whole = program_of(nn.Sequential(*layers, nn.Linear(8, 3)), (5, 8))
    small = within_budget(whole, 0, most_macs=0)
    read = {v.tensor for op in small.ops if op.phase == "update" for v in op.reads}
    assert peak(small) < peak(whole) and any(".relu.again" in name for name in read)
