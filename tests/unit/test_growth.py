"""Twice the network, twice the work: what it takes to lower, plan, write and check a step, counted in lines."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import trainlib_deployer
from golden.sketch import UNCHECKED, Key, Sketch
from tests.unit.small_programs import program_of
from trainlib_deployer import passes
from trainlib_deployer.arena.greedy import by_length, met_in
from trainlib_deployer.capture.agreement import captured_and_checked
from trainlib_deployer.capture.slots import Captured
from trainlib_deployer.check.certificate import check_folder
from trainlib_deployer.emit.project import Project
from trainlib_deployer.emit.trace import traces
from trainlib_deployer.far.carried import Jobs, carried
from trainlib_deployer.far.pieces import Pieces
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.ops.carry import Carry
from trainlib_deployer.ops.lower import lower
from trainlib_deployer.plan.best_tiling import cuttings, prospects
from trainlib_deployer.plan.build import plan
from trainlib_deployer.user.assemble import Parts, assemble
from trainlib_deployer.user.model import UserModel

BLOCKS = 4
WIDTH = 37
MOST = 2.7  # twice as much and what small numbers scatter; in proportion to the square it would be four times
COUNTED = 1000  # lines of a function that are enough to tell
OURS = str(Path(trainlib_deployer.__file__).parent)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.fc = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.fc(self.norm(x)))


def network(blocks: int) -> UserModel:
    torch.manual_seed(5)
    model = nn.Sequential(*(Block() for _ in range(blocks)))
    parts = Parts(
        name="net",
        module=model,
        example_input=torch.randn(3, WIDTH),
        example_target=torch.randn(3, WIDTH),
        loss=nn.MSELoss(),
        optimizer=torch.optim.Adam(model.parameters()),
        data=None,
        input_shape=None,
        count=1,
        where="the test",
        clip_norm=1.0,
        updates=1,
    )
    return assemble(parts)


def project(user: UserModel, captured: Captured, folder: Path) -> None:
    planned = plan(passes.run(lower(user, captured)), resolve(cores=3, l1="12k", l2="8M"))
    assert len(planned.tilings) > len(planned.program.ops) // 3
    references: dict[Key, Sketch] = {(0, t.kind, t.name): UNCHECKED for t in traces(planned.program)}
    folder.mkdir()
    written = Project(user, planned, 1)
    written.write(folder, references)
    check_folder(folder, written.listing)


def lines_of(work: Callable[[], None]) -> Counter[CodeType]:
    """Lines that each of our functions runs; each turn of a loop on one line is one, too."""
    found: Counter[CodeType] = Counter()

    def line(frame: FrameType, event: str, _: Any) -> Any:
        found[frame.f_code] += event == "line"
        return line

    before = sys.gettrace()
    sys.settrace(lambda frame, event, _: line if frame.f_code.co_filename.startswith(OURS) else None)
    try:
        work()
    finally:
        sys.settrace(before)
    return found


def test_numbers_of_copies_are_found_without_a_look_at_all_of_them() -> None:
    """Fault: each was compared with all copies before it, 62 million times in a step of 7,000."""

    def work(copies: int) -> None:
        jobs = Jobs()
        for k in range(copies):
            assert jobs.free(3 * k, 3 * k + 2 + k % 5) < 3

    small, large = (sum(lines_of(lambda n=n: work(n)).values()) for n in (500, 1000))  # type: ignore[misc]
    assert small > 500 and large < MOST * small


def test_buffers_are_held_against_those_of_their_time() -> None:
    """Fault: each that was placed was held against all others, and a step of 5,700 operations was planned for 54 s."""

    def compared(count: int) -> int:
        numbers = np.arange(count)
        birth = numbers // 3
        death = birth + np.where(numbers % (count // 5), 1 + numbers % 4, count // 4)  # five of them live for longer
        line, groups = by_length(birth, death)
        windows = [met_in(group, birth[line], death[line]) for group in groups]
        return sum(behind[i] - first[i] for first, behind in windows for i in range(count))

    small, large = compared(2000), compared(4000)
    assert small > 2000 * 10 and large < MOST * small


@pytest.mark.slow
def test_work_grows_with_the_copies_and_no_faster() -> None:
    """Layers whose weights and activations leave."""
    chip, counts, copies = resolve(cores=3, l1="8k", l2="20k", l3="8M"), [], []
    for layers in (9, 18):
        torch.manual_seed(5)
        chain = (m for _ in range(layers) for m in (nn.Linear(37, 37), nn.Tanh()))
        pieces = Pieces(program_of(nn.Sequential(*chain), (3, 37)), chip)
        counts.append(lines_of(lambda p=pieces: carried(p, p.room)))  # type: ignore[misc]
        step = carried(pieces, pieces.room).program
        copies.append(sum(isinstance(op.kind, Carry) for op in step.ops))
    small, large = (sum(c.values()) for c in counts)
    assert copies[0] > 20 and small > 10_000
    assert large < MOST / 2 * copies[1] / copies[0] * small


@pytest.mark.slow
def test_work_grows_with_the_operations_and_no_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["trainlib_deployer.passes.reorder"], "ATTEMPTS", 0)  # so many, however large
    counts, shapes = [], []
    for blocks in (BLOCKS, 2 * BLOCKS):
        user = network(blocks)
        captured, _ = captured_and_checked(user)
        prospects.cache_clear()
        cuttings.cache_clear()
        counts.append(lines_of(lambda u=user, c=captured, n=blocks: project(u, c, tmp_path / str(n))))  # type: ignore[misc]
        shapes.append(cuttings.cache_info().misses)
    small, large = counts
    assert shapes[1] < 1.2 * shapes[0], "layers of one shape are cut once"
    assert len(small) > 500 and sum(small.values()) > 100_000
    fast = {
        f"{code.co_qualname}, {code.co_filename}:{code.co_firstlineno}": large[code] / max(small[code], 1)
        for code in large
        if large[code] > max(COUNTED, MOST * small[code])
    }
    assert not fast
