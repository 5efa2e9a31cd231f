"""Names of any length and any characters: what people call layers, inputs and outputs becomes C that builds."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from trainlib_deployer.api import deploy

LONGEST_LINE = 120
NAMES = """größe;层;1st;for;linux;errno;a-b;a_b;a b;L1;*/ int y; /*;say "hi";back\\slash\\;%s%n;two
lines;\u202ereversed;??/;_;NULL;memcpy;loss;{{ x }}""".split(";")
NAMES += ["x" * 300, "x" * 299 + "y", "; */ //"]


class Named(nn.Module):
    """A layer and a parameter for each name; inputs that are called like functions of C, and alike but for case."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.ModuleDict({name: nn.Linear(5, 5) for name in NAMES})
        for name in NAMES:
            self.register_parameter(name, nn.Parameter(torch.randn(5)))

    def forward(self, memcpy: torch.Tensor, run: torch.Tensor, X: torch.Tensor, x: torch.Tensor) -> object:
        value = memcpy + run * X[:, :5] - x
        for layer, name in zip(self.layers.values(), NAMES, strict=True):
            value = torch.tanh(layer(value) + getattr(self, name))
        return {"a.b": value, "a_b": value * 2, "step": value + 1, "größe": value - 1}


def total(output: dict[str, torch.Tensor], target: torch.Tensor) -> torch.Tensor:
    return sum(((o - target) ** 2).mean() for o in output.values()) + torch.zeros(())


def test_layers_inputs_and_outputs_of_any_name(tmp_path: Path) -> None:
    inputs = (torch.randn(2, 5), torch.randn(2, 5), torch.randn(2, 7), torch.randn(2, 5))
    folder = tmp_path / "net"
    made = deploy(Named(), inputs, torch.randn(2, 5), loss=total, l1="4k", l2="2M", cores=2, steps=1, out=folder)
    assert made.verify(on="host").passed
    for file in folder.glob("*.[ch]"):
        long = [line for line in file.read_text().splitlines() if len(line) > LONGEST_LINE]
        assert not long, f"{file.name}: {long[0]}"


def test_long_names_wrap_lines_of_transformers(tmp_path: Path) -> None:
    """The check of the plan does not depend on where a line is broken."""
    torch.manual_seed(0)
    model = nn.Module()
    model.transformer_trans_layers_1 = nn.TransformerEncoderLayer(72, 8, 72, 0.5, batch_first=True, norm_first=True)
    model.forward = model.transformer_trans_layers_1.forward  # type: ignore[method-assign]
    x = torch.randn(1, 9, 72)
    deploy(model, x, x, loss=nn.MSELoss(), l1="64k", l2="64M", cores=8, steps=1, out=tmp_path / "net")
