"""Where a plan's tensors are more than what PyTorch stores, `explain` says why, to the byte."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.unit.test_stored import user_of
from trainlib_deployer import passes
from trainlib_deployer.advice.beyond import MOST, SAVED, reasons
from trainlib_deployer.advice.what_if import at_peak
from trainlib_deployer.capture.agreement import captured_and_checked
from trainlib_deployer.capture.stored import stored
from trainlib_deployer.cli.explain import print_least
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.ops.lower import lower


class Apart(nn.Module):
    """Sums of exponentials along a dimension are made of several operations."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.logcumsumexp(x, 1)


class Wide(nn.Module):
    """Forward makes more than it keeps."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.cumsum(x.detach().repeat(1, 19), 1)[:, ::19]


NETS = {
    "taken apart: logcumsumexp": lambda: nn.Sequential(nn.Linear(5, 53), Apart(), nn.Linear(53, 2)),
    "results of forward beyond PyTorch's fullest moment": lambda: nn.Sequential(
        nn.Linear(5, 97), Wide(), nn.Linear(97, 2)
    ),
    "rounded up to 16 bytes": lambda: nn.Sequential(
        *(nn.Linear(5, 5) if i % 2 else nn.Tanh() for i in range(12)), nn.Linear(5, 2)
    ),
}
MACHINE = resolve(cores=1, l1="64k", l2="1M")


@pytest.mark.parametrize("words", NETS)
def test_what_is_beyond_is_accounted_for(words: str) -> None:
    user = user_of("SGD", NETS[words]())
    captured, _ = captured_and_checked(user)
    program, least = passes.run(lower(user, captured, 1)), stored(user, 1)
    taken = at_peak(program, MACHINE)
    found = reasons(program, MACHINE, least)
    assert taken > MOST * least.total
    assert any(words in r.words for r in found), (found, least)
    assert taken - sum(r.bytes for r in found) == least.total
    assert all(r.bytes > 0 for r in found[:-1]) and (found[-1].bytes < 0) == (found[-1].words == SAVED)


def test_what_is_not_beyond_asks_for_no_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    user = user_of("Adam", nn.Sequential(nn.Linear(5, 131), nn.Tanh(), nn.Linear(131, 2)))
    captured, _ = captured_and_checked(user)
    program, least = passes.run(lower(user, captured, 1)), stored(user, 1)
    assert reasons(program, MACHINE, least) == []


def test_explain_says_it(capsys: pytest.CaptureFixture[str]) -> None:
    parts = {"parameters": 60, "state": 0, "sample": 20, "saved": 20, "flight": 0}
    print_least({**parts, "total": 100, "tensors": 130, "ratio": 1.3, "why": [{"words": "of waves", "bytes": 1234}]})
    assert "1,234 bytes: of waves" in capsys.readouterr().out
