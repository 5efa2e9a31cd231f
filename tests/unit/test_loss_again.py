"""What a loss function keeps of outputs and targets from forward to backward, and the bits with and without it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from trainlib_deployer import passes
from trainlib_deployer.capture.step import capture
from trainlib_deployer.ops.lower import lower
from trainlib_deployer.passes.loss_again import loss_again
from trainlib_deployer.passes.mixed import LOSS
from trainlib_deployer.program.ir import Program, readers, writers
from trainlib_deployer.program.precision import Precision
from trainlib_deployer.user.assemble import Parts, assemble

SIZE = 3 * 7


def program(loss: nn.Module, steps: tuple[passes.Pass, ...], mixed: bool = False) -> Program:
    torch.manual_seed(0)
    x, y = torch.randn(3, 5), torch.rand(3, 7)
    user = assemble(Parts("net", nn.Linear(5, 7), x, y, loss, None, None, None, 1, "the test"))
    return passes.run(lower(user, capture(user), precision=Precision(mixed)), steps)


def kept(program: Program) -> list[str]:
    """As large as the output, made by the loss in forward, read in backward."""
    read, written = readers(program), writers(program)
    found = []
    for name, at in written.items():
        inside = program.ops[at[0]].layer == LOSS and program.ops[at[0]].phase == "forward"
        late = any(program.ops[i].phase == "backward" for i in read.get(name, []))
        if inside and late and program.tensors[name].numel == SIZE:
            found.append(name)
    return found


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("loss", [nn.BCEWithLogitsLoss(), nn.MSELoss(), nn.L1Loss(), nn.SmoothL1Loss()], ids=str)
def test_nothing_as_large_as_the_output_is_kept_beside_it(loss: nn.Module, mixed: bool) -> None:
    assert kept(program(loss, passes.chosen(Precision(mixed)), mixed)) == []


def test_without_it_something_is() -> None:
    steps = tuple(step for step in passes.DEFAULT if step is not loss_again)
    assert len(kept(program(nn.BCEWithLogitsLoss(), steps))) == 2


class Slope(nn.Module):
    """1 - 3 x y, whose factor 3 x is read again by the gradient; 3 x + the exponential of x, which is none."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (torch.exp(x) * (3 * x) * y).mean()


def test_what_takes_more_than_one_instruction_is_kept() -> None:
    found = kept(program(Slope(), passes.DEFAULT))
    assert len(found) == 1 and "exp" in found[0]


def test_it_is_the_same_instruction_of_the_same_operands() -> None:
    steps = (*passes.DEFAULT[: passes.DEFAULT.index(loss_again)], loss_again)
    made = program(nn.BCEWithLogitsLoss(), steps)
    clones = [op for op in made.ops if op.name.endswith(".again")]
    forward = [(op.kind, op.reads) for op in made.ops if op.phase == "forward"]
    assert clones
    for clone in clones:
        assert clone.phase == "backward" and (clone.kind, clone.reads) in forward
        assert made.tensors[clone.writes[0].tensor].wide
