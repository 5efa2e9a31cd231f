"""Functions with fewer terms: of halves, and of what is only rounded to one."""

from __future__ import annotations

import torch
from torch import nn

from tests.unit.small_programs import program_of
from trainlib_deployer.passes import chosen
from trainlib_deployer.passes.early_slopes import early_slopes
from trainlib_deployer.program.ir import Program
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.precision import Precision


class Net(nn.Module):
    """A GELU, a softmax whose numbers a product reads, and an exponential that is the output."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, 7), nn.Linear(7, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.gelu(self.first(x))
        return torch.exp(self.last(torch.softmax(y @ y.T, 1) @ y))


def called(program: Program) -> dict[str, int]:
    loops = [op.kind for op in program.ops if isinstance(op.kind, Loop)]
    names = [s.op for kind in loops for s in (*kind.body, *kind.post)]
    return {n: names.count(n) for n in names if "exp" in n or "gauss" in n}


def test_what_is_rounded_has_fewer_terms_and_what_stays_float_has_all() -> None:
    program = program_of(Net(), (4, 5), chosen(Precision(halves=True)))
    assert called(program) == {"short_gauss_cdf": 2, "short_gauss_density": 1, "short_exp": 1, "exp": 1}
    assert called(early_slopes(program))["short_gauss_cdf"] == 1  # shared by both passes, as before


def test_floats_and_layers_that_are_kept_have_all_terms() -> None:
    assert not any("short" in n for n in called(program_of(Net(), (4, 5))))
    kept = program_of(Net(), (4, 5), chosen(Precision(halves=True, keep=("",))))
    assert not any("gauss" in n and "short" in n for n in called(kept)), called(kept)
