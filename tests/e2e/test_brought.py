"""Scans whose weights pass through a small memory block by block: as PyTorch, and the same bits as where all is at
hand. The host's transfers happen when they start, the emulated cluster's when they are awaited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

from tests.e2e.simulators import SIMULATORS, needs
from tests.e2e.test_recurrent import KINDS, SideBySide, check, scans_of
from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.folder import read_plan
from trainlib_deployer.ops.recurrent import Scan
from trainlib_deployer.run.host import Host
from trainlib_deployer.run.record import read_record

UNITS = {"rnn_tanh": 131, "rnn_relu": 96, "lstm": 61, "gru": 66}
Recorded = dict[tuple[int, str, str], bytes]


class Wide(nn.Module):
    """Both directions, from states that are trained, over a sequence that is, too."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.net = KINDS[kind](3, UNITS[kind], bidirectional=True)
        self.x = nn.Parameter(torch.randn(4, 2, 3))
        self.states = nn.ParameterList(torch.randn(2, 2, UNITS[kind]) for _ in range(1 + (kind == "lstm")))

    def forward(self) -> list[torch.Tensor]:
        states = tuple(self.states)
        return list(pytree.tree_leaves(self.net(self.x, states if len(states) == 2 else states[0])))


def parts() -> dict[str, nn.Module]:
    torch.manual_seed(8)
    return {kind: Wide(kind) for kind in KINDS}


def loss(outputs: dict[str, torch.Tensor], weights: torch.Tensor) -> torch.Tensor:
    """Every element of every output has another slope."""
    return (torch.cat([v.flatten() for v in outputs.values()]) * weights).sum()


def deployed(folder: Path, l1: str, dtype: str = "fp32") -> Deployment:
    model = SideBySide(parts())
    size = sum(v.numel() for v in model(torch.ones(3)).values())
    data = [((torch.randn(3),), torch.randn(size))]
    options: dict[str, Any] = {"cores": 8, "l1": l1, "l2": "8M", "loss": loss, "dtype": dtype, "steps": 1}
    return deploy(
        model, *data[0], data=data, out=folder, optimizer=torch.optim.SGD(model.parameters(), 0.01), **options
    )


def blocks(made: Deployment) -> list[Scan]:
    """Of all scans, by their direction and cell."""
    kinds = scans_of(made)
    assert len(kinds) == 2 * 2 * len(KINDS)
    return kinds


def bits(folder: Path, record: Path) -> Recorded:
    return {key: value.tobytes() for key, value in read_record(record, read_plan(folder)["trace"]).items()}


def on_host(folder: Path, cores: int) -> Recorded:
    record = folder / "record.bin"
    Host().run(folder, 1, cores, record)
    return bits(folder, record)


@pytest.fixture(scope="module", params=["fp32", "mixed"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Deployment, Recorded]:
    """One whose weights pass, and the bits of one in a large memory."""
    folder = tmp_path_factory.mktemp("brought")
    small, large = (deployed(folder / l1, l1, request.param) for l1 in ("44k", "128M"))
    assert all(kind.rows for kind in blocks(small))
    assert not any(kind.rows for kind in blocks(large))
    return small, on_host(large.folder, 8)


@pytest.mark.parametrize("cores", [1, 3, 8])
def test_same_bits_as_with_all_at_hand(cores: int, pair: tuple[Deployment, Recorded]) -> None:
    small, wanted = pair
    assert on_host(small.folder, cores) == wanted


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_same_bits_where_transfers_happen_when_awaited(simulator: str, pair: tuple[Deployment, Recorded]) -> None:
    needs(simulator)
    small, wanted = pair
    SIMULATORS[simulator]("clang").run(small.folder, 1, None, small.folder / "late.bin")
    assert bits(small.folder, small.folder / "late.bin") == wanted


def test_as_pytorch(tmp_path: Path) -> None:
    made = deployed(tmp_path / "project", "44k")
    check(made, parts(), 1)
    plan = read_plan(made.folder)
    of_scans = [op for op in plan["ops"] if "brought" in op["kernel"]]
    assert all(op["moved"] > 0 for op in of_scans) and plan["traffic"]["bytes"] == sum(
        op["moved"] for op in plan["ops"]
    )
