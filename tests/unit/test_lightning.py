"""What a module with a training_step is taken apart into: the network and its loss, or the whole step as loss."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from golden import lightning


class Lit(nn.Module):
    """What Lightning's modules have in common."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3))
        self.back = nn.Linear(3, 4)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        x, y = batch
        return {"loss": nn.functional.cross_entropy(self.net(x), y)}

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class LitForward(Lit):
    def forward(self, x: torch.Tensor) -> Any:
        return self.net(x) * 2

    def training_step(self, batch: Any) -> Any:  # type: ignore[override]
        return nn.functional.cross_entropy(self(batch[0]), batch[1])


class LitCoder(Lit):
    def training_step(self, batch: Any, *_: Any) -> Any:
        return nn.functional.mse_loss(self.back(self.net(batch[0])), batch[0])


class LitHead(Lit):
    """A backbone, whose head comes after it."""

    def training_step(self, batch: Any, *_: Any) -> Any:
        return nn.functional.cross_entropy(self.back(self.net(batch[0])), batch[1])


class LitHeads(Lit):
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(3, 3)])
        self.heads.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> Any:
        return self.net(x)

    def training_step(self, batch: Any, *_: Any) -> Any:
        return nn.functional.cross_entropy(next(iter(self.heads))(self(batch[0])), batch[1])


class LitTable(Lit):
    """A head without a module."""

    def training_step(self, batch: Any, *_: Any) -> Any:
        return nn.functional.cross_entropy(self.net(batch[0]) @ self.back.weight.T, batch[1])


class LitSquares(Lit):
    """A loss of the network's own weights is no head."""

    def training_step(self, batch: Any, *_: Any) -> Any:
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1]) + self.net[0].weight.square().sum()


class LitOption(Lit):
    def forward(self, x: torch.Tensor, train: bool = False) -> Any:
        return self.net(x) * (2 if train else 1)

    def training_step(self, batch: Any, *_: Any) -> Any:
        return nn.functional.cross_entropy(self(x=batch[0], train=True), batch[1])


class LitNamed(LitForward):
    def training_step(self, batch: Any, *_: Any) -> Any:
        return nn.functional.cross_entropy(self(x=batch[0]), batch[1])


KINDS = [
    *((Lit, "net"), (LitForward, ""), (LitNamed, ""), (LitSquares, "net")),
    *((LitCoder, None), (LitHead, None), (LitHeads, None), (LitTable, None), (LitOption, None)),
]


@pytest.mark.parametrize(("kind", "part"), KINDS)
def test_a_training_step(kind: type[Lit], part: str | None) -> None:
    """Taken apart into network and loss, it gives the same value and gradients; the module does not notice."""
    torch.manual_seed(4)
    own, x, y = kind(), torch.randn(5, 4), torch.randint(3, (5,))
    before = {n: v.clone() for n, v in own.state_dict().items()}
    network, loss = lightning.understood(own, ((x,), y))
    assert all(torch.equal(v, before[n]) for n, v in own.state_dict().items())
    assert loss.part == part and [n for n, _ in network.named_parameters()] == [n for n, _ in own.named_parameters()]
    network.eval()
    assert not own.training and not own.net[1].training
    network.train()
    results = []
    for step in (lambda: loss(network(x), y), lambda: lightning.step_value(own, (x, y))):
        torch.manual_seed(7)
        own.zero_grad()
        value = step()
        value.backward()
        results.append((value, [p.grad for p in own.parameters()]))
    assert torch.equal(results[0][0], results[1][0])
    assert all(a is b is None or torch.equal(a, b) for a, b in zip(results[0][1], results[1][1], strict=True))


class LitMask(Lit):
    def forward(self, x: torch.Tensor, scale: Any = None, mask: Any = None) -> Any:
        return self.net(x if scale is None else 7 * scale) * (1 if mask is None else mask)

    def training_step(self, batch: Any, *_: Any) -> Any:
        (x, mask), y = batch
        return nn.functional.cross_entropy(self(x, mask=mask), y)


def test_an_argument_given_by_name_stays_that_argument() -> None:
    torch.manual_seed(4)
    own: Any = LitMask()
    inputs, y = (torch.randn(5, 4), torch.randn(5, 3)), torch.randint(3, (5,))
    network, loss = lightning.understood(own, (inputs, y))
    torch.manual_seed(7)
    value = loss(network(*inputs), y)
    torch.manual_seed(7)
    assert loss.part is None and torch.equal(value, lightning.step_value(own, (inputs, y)))


def test_forms_of_configure_optimizers() -> None:
    own: Any = Lit()
    one = own.configure_optimizers()
    schedule = torch.optim.lr_scheduler.StepLR(one, 2)
    forms = [one, [one], ([one], [schedule]), {"optimizer": one, "lr_scheduler": schedule}]
    forms += [([one], [{"scheduler": schedule, "interval": "epoch"}])]
    for form, expected in zip(forms, (None, None, schedule, schedule, schedule), strict=True):
        own.configure_optimizers = lambda form=form: form
        assert lightning.configured(own) == (one, expected)
    own.configure_optimizers = lambda: [one, one]
    with pytest.raises(ValueError, match="2 optimizers"):
        lightning.configured(own)
