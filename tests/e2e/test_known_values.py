"""What decides about a step while it is traced must be the same in every step."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from trainlib_deployer.api import deploy
from trainlib_deployer.errors import DeployError


class Switched(nn.Module):
    """A switch that falls in the third step."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(7, 3)
        self.register_buffer("ready", torch.tensor(False))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        y = y * 3 if self.ready else y
        self.count += 1
        self.ready.copy_(self.count >= 3)
        return y


class Hidden(nn.Module):
    """A constant that is written to behind its back."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.layer, self.how = nn.Linear(7, 3), how
        self.register_buffer("seen", torch.zeros(7))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = (x > 5).float().sum(0)
        z = self.seen if self.how == "buffer" else torch.zeros(7)
        if self.how == "assigned":
            z.data = found
        else:
            z.data.copy_(found)
        return self.layer(x) * (2 if z.sum().item() > 0 else 1)


class Rare(nn.Module):
    """A sum that only the third sample moves; nothing hangs on it but numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(7, 3)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x) * (1 + self.count)
        self.count += (x > 5).any()
        return y


def samples() -> list[tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(0)
    data = [(torch.randn(2, 7), torch.randn(2, 3)) for _ in range(4)]
    data[2][0][0, 0] = 9.0
    return data


@pytest.mark.parametrize(
    "model",
    [Switched(), Hidden("copied"), Hidden("assigned"), Hidden("buffer")],
    ids=["buffer written", "copied", "assigned", "buffer copied"],
)
def test_what_a_step_may_change_decides_nothing(model: nn.Module, tmp_path: Path) -> None:
    data = samples()
    with pytest.raises(DeployError):
        deploy(model, *data[0], data=data, loss=nn.MSELoss(), steps=2, out=tmp_path / "net")


def test_what_changes_late_is_part_of_the_step(tmp_path: Path) -> None:
    data = samples()
    made = deploy(Rare(), *data[0], data=data, loss=nn.MSELoss(), steps=4, out=tmp_path / "net")
    assert made.verify().passed


class Degrees(nn.Module):
    """Of a graph that is a buffer, with more nodes than were thought of."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(7, 3)
        self.register_buffer("edges", torch.tensor([0, 2, 2, 6, 1]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x * torch.bincount(self.edges, minlength=3))
        return y


def test_known_values_say_how_many_there_are(tmp_path: Path) -> None:
    made = deploy(Degrees(), *samples()[0], loss=nn.MSELoss(), steps=2, out=tmp_path / "net")
    made.verify().raise_if_failed()
