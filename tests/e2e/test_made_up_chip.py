"""A chip that nobody has, added by the one file in docs/machine.md: three memories, six cores, words of 12 bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.check.certificate import CertificateError, check_folder
from trainlib_deployer.emit.addresses import Addresses
from trainlib_deployer.emit.listed import listed
from trainlib_deployer.emit.loop_library import LoopLibrary
from trainlib_deployer.errors import DoesNotFit
from trainlib_deployer.folder import read_plan
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.machine.targets import TARGETS
from trainlib_deployer.plan.cycles import transfer_cycles

PAGE = Path(__file__).resolve().parents[2] / "docs" / "machine.md"


@pytest.fixture(autouse=True)
def wren(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    made: dict[str, object] = {}
    exec(blocks[0], made)
    chip = made["WREN"]
    assert isinstance(chip, Machine)
    monkeypatch.setitem(TARGETS, chip.name, chip)
    yield chip


def convolutions() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Conv2d(3, 11, 3, padding=1), nn.BatchNorm2d(11), nn.ReLU(), nn.Conv2d(11, 13, 3, stride=2), nn.ReLU()
    )


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.rows, self.head = convolutions(), nn.GRU(13 * 6, 17), nn.Linear(17, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps = self.body(x)
        out: torch.Tensor = self.head(self.rows(maps.permute(2, 0, 1, 3).flatten(2))[0][-1])
        return out


def deployed(folder: Path, net: nn.Module, *shape: int, outputs: int) -> Deployment:
    torch.manual_seed(7)
    data = [(torch.randn(*shape), torch.randn(shape[0], outputs)) for _ in range(2)]
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    return deploy(net, *data[0], data=data, loss=nn.MSELoss(), optimizer=optimizer, target="wren", steps=2, out=folder)


def wide() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3 * 7, 83), nn.Tanh(), nn.Linear(83, 19))


@pytest.mark.parametrize(
    ("net", "shape", "outputs"), [(Mixed, (2, 3, 15, 13), 5), (wide, (5, 21), 19)], ids=["convolutions", "linear"]
)
def test_networks_are_deployed_run_and_verified(
    net: type[nn.Module], shape: tuple[int, ...], outputs: int, tmp_path: Path, wren: Machine
) -> None:
    made = deployed(tmp_path / "net", net(), *shape, outputs=outputs)
    plan = read_plan(made.folder)
    assert (plan["target"]["cores"], plan["target"]["alignment"]) == (6, 48)
    assert list(plan["levels"]) == ["L1", "L2"] and all(level["used"] for level in plan["levels"].values())
    assert all(b["offset"] % 12 == b["offset"] % 16 == 0 for b in plan["buffers"])
    streams = [s for t in made.plan.tilings.values() for s in t.streams]
    assert streams and all(s.size % 12 == 0 for s in streams)
    assert max(len(t.streams) for t in made.plan.tilings.values()) <= wren.link.channels
    assert "uint8_t gap_" in (made.folder / "plan.h").read_text()
    bits = []
    for cores in (6, 1):
        result = made.verify(cores=cores)
        result.raise_if_failed()
        bits.append({k: v.tobytes() for k, v in result.computed.items()})
    assert bits[0] == bits[1]


def test_what_does_not_fit_the_two_inner_memories_lives_in_the_third(tmp_path: Path) -> None:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(61, 301), nn.ReLU(), nn.Linear(301, 97))
    made = deployed(tmp_path / "net", net, 3, 61, outputs=97)
    plan = read_plan(made.folder)
    assert list(plan["levels"]) == ["L1", "L2", "L3"] and plan["carried"]["moved"] > plan["carried"]["bytes"]
    assert made.verify().passed


def test_what_does_not_fit_the_third_memory_either_is_refused(
    tmp_path: Path, wren: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TARGETS, wren.name, wren.with_memory(2, 64 << 10))
    net = nn.Sequential(nn.Linear(61, 301), nn.ReLU(), nn.Linear(301, 97))
    with pytest.raises(DoesNotFit, match="L2: needs"):
        deployed(tmp_path / "net", net, 3, 61, outputs=97)


def test_its_figures_are_what_estimates_are_made_of(tmp_path: Path, wren: Machine) -> None:
    made = deployed(tmp_path / "net", wide(), 5, 21, outputs=19)
    windows = [m.window for t in made.plan.tilings.values() for s in t.streams for m in s.moves if m.moves]
    assert windows
    for w in windows:
        assert transfer_cycles(w, wren.link) >= w.nbytes / 4 + 300 * -(-w.nbytes // 4092)


def test_the_certificate_knows_the_alignment(tmp_path: Path) -> None:
    made = deployed(tmp_path / "net", wide(), 5, 21, outputs=19)
    listing = listed(made.plan, Addresses.of(made.plan), LoopLibrary())
    name, place = next((n, p) for n, p in listing.places.items() if p.level == "L2" and p.offset)
    assert place.offset % 48 == 0
    check_folder(made.folder, listing)
    moved = {**listing.places, name: replace(place, offset=place.offset + 16)}
    with pytest.raises(CertificateError, match="not a multiple of 48"):
        check_folder(made.folder, replace(listing, places=moved))
