"""Which parameters the user's optimizer holds, and whose they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.user_file import GOOD, mistake, user
from trainlib_deployer.errors import Unsupported


@pytest.mark.parametrize(("model", "holder"), [("", "model"), ("model = torch.nn.Sequential(model)\n", "model[-1]")])
def test_parameters_of_a_loss(tmp_path: Path, model: str, holder: str) -> None:
    """The model holds them, but nowhere where its forward runs the loss as a layer."""
    loss = (
        "class Weighted(torch.nn.Linear):\n"
        "    def forward(self, y, target):\n"
        "        return torch.nn.functional.cross_entropy(y * self.bias, target)\n"
        "loss = Weighted(1, 1)\n"
    )
    optimizer = "optimizer = torch.optim.SGD([*model.parameters(), *loss.parameters()], lr=0.1)\n"
    found = user(tmp_path, GOOD + model + loss + optimizer)
    assert found.optimizer.groups[0].names[-1].endswith("criterion.bias")
    assert any("the model holds" in n and f"{holder}.criterion is set" in n for n in found.notes)
    optimizer = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    own = user(tmp_path, GOOD + model + loss + f"{holder}.criterion = loss\n" + optimizer)
    assert own.optimizer.groups[0].names[-1].endswith("criterion.bias")
    assert not any("the model holds" in n for n in own.notes)


def test_parameters_that_are_nobodys(tmp_path: Path) -> None:
    optimizer = "w = torch.nn.Parameter(torch.ones(3))\noptimizer = torch.optim.SGD([*model.parameters(), w], lr=0.1)\n"
    assert "1 parameters that are not the model's" in mistake(tmp_path, GOOD + optimizer, "").render()


def test_a_parameter_given_twice(tmp_path: Path) -> None:
    """Fault: the program updated it once, PyTorch twice."""
    optimizer = "optimizer = torch.optim.SGD([*model.parameters(), model.norm.bias], lr=0.1)\n"
    rendered = mistake(tmp_path, GOOD + optimizer).render()
    assert "'norm.bias' twice" in rendered and "each parameter once" in rendered


def test_one_around_another(tmp_path: Path) -> None:
    """Fault: a line of this package was said to be the user's."""
    optimizer = (
        "class Sharp(torch.optim.SGD):\n"
        "    def __init__(self, params, base, lr):\n"
        "        super().__init__(params, lr=lr)\n"
        "optimizer = Sharp(model.parameters(), torch.optim.SGD, lr=0.1)\n"
    )
    with pytest.raises(Unsupported) as found:
        user(tmp_path, GOOD + optimizer)
    assert found.value.source is not None and found.value.source.text == "class Sharp(torch.optim.SGD):"
    assert "missing 1 required positional argument" in found.value.message and "docs/scripts.md" in found.value.remedy
