"""Networks whose forward changes the network: tables filled at the first call, states, constraints, layers with two
names. Each is of the shape of one that people have, made small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Tensor = torch.Tensor


class Rotary(nn.Module):
    """A table filled once, and a number that says so."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(6, 6), nn.Linear(6, 3)
        self.register_buffer("table", torch.zeros(7, 6), persistent=False)
        self.filled = 0

    def angles(self, n: int) -> Tensor:
        if self.filled >= n:
            return self.table[:n].detach()
        angles = torch.outer(torch.arange(float(n)), 1.7 ** torch.arange(6.0))
        self.table[:n] = angles
        self.filled = n
        return angles

    def forward(self, x: Tensor) -> Any:
        return self.out(self.fc(x) * self.angles(x.shape[1]).cos()).mean(1)


class TableAfterwards(Rotary):
    """The first call fills the table, and all of them read it."""

    def angles(self, n: int) -> Tensor:
        super().angles(n)
        return self.table[:n]


class Relative(nn.Module):
    """A buffer that gets its shape in forward."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.place = nn.Linear(6, 3), nn.Linear(2, 1)
        self.register_buffer("indices", torch.zeros(1, 1, 1, 2), persistent=False)

    def forward(self, x: Tensor) -> Any:
        n = x.shape[1]
        if self.indices.shape[1] != n:
            at = torch.arange(n, dtype=torch.float32)
            apart = at.view(1, -1) - at.view(-1, 1)
            self.indices = torch.stack([apart, apart**2], -1).unsqueeze(0)
        weights = self.place(self.indices).squeeze(-1).softmax(-1)
        return self.fc(weights @ x).mean(1)


class Leaky(nn.Module):
    """A neuron whose potential is a buffer without a shape; reset before each call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mem", torch.zeros(0), persistent=False)
        self.register_buffer("beta", torch.tensor(0.8))
        self.last: Any = None

    def forward(self, x: Tensor, mem: Tensor) -> tuple[Tensor, Tensor]:
        self.mem = mem
        if self.mem.shape != x.shape:
            self.mem = torch.zeros_like(x)
        self.mem = self.beta.clamp(0, 1) * self.mem + x
        self.last = self.mem.sigmoid()
        return self.last, self.mem


class Spiking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.lif, self.out = nn.Linear(6, 5), Leaky(), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Any:
        mem = self.lif.mem = torch.zeros_like(self.lif.mem)
        for t in range(x.shape[1]):
            spikes, mem = self.lif(self.fc(x[:, t]), mem)
        return self.out(spikes)


class Carried(nn.Module):
    """A state that is None, then a plain attribute that goes on from step to step."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.Linear(11, 5), nn.Linear(5, 3)
        self.h: Tensor | None = None

    def forward(self, x: Tensor) -> Any:
        h = torch.zeros(len(x), 5) if self.h is None else self.h
        for t in range(x.shape[1]):
            h = self.cell(torch.cat([x[:, t], h], 1)).tanh()
        self.h = h.detach()
        return self.out(h)


class Averages(nn.Module):
    """Buffers and plain attributes that forward replaces; two that change places; a list; a count in a class."""

    calls = 0

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(6, 5), nn.Linear(5, 3)
        self.register_buffer("mean", torch.zeros(5))
        self.register_buffer("a", torch.randn(5))
        self.register_buffer("b", torch.randn(5))
        self.plain = torch.ones(5)
        self.inner = {"list": [torch.zeros(5), torch.ones(5)]}

    def forward(self, x: Tensor) -> Any:
        type(self).calls += 1
        h = self.fc(x).mean(1)
        self.mean = 0.9 * self.mean + 0.1 * h.detach().mean(0)
        self.plain.mul_(0.5).add_(h.detach().mean(0))
        self.inner["list"][0] = self.inner["list"][0] + h.detach().amax(0)
        self.a, self.b = self.b, self.a
        return self.out((h - self.mean + self.plain).tanh() * self.a + self.inner["list"][0] * self.inner["list"][1])


class MaxNorm(nn.Linear):
    def forward(self, x: Tensor) -> Any:
        self.weight.data = torch.renorm(self.weight.data, p=2, dim=0, maxnorm=0.6)
        return super().forward(x)


class Constrained(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.norm, self.out = MaxNorm(6, 5), nn.BatchNorm1d(5, momentum=1.0), MaxNorm(5, 3)

    def forward(self, x: Tensor) -> Any:
        with torch.no_grad():
            self.fc.bias.clamp_(-0.2, 0.2)
        return self.out(self.norm(self.fc(x).mean(1)).relu())


class TwoNames(nn.Module):
    """The usual block of temporal convolutional networks; a norm that is held twice; one weight in two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.utils.parametrizations.weight_norm(nn.Conv1d(6, 4, 3, padding=1))
        self.bn = nn.BatchNorm1d(4, momentum=None)
        self.drop = nn.Dropout(0.25)
        self.net = nn.Sequential(self.conv1, self.bn, nn.ReLU(), self.drop)
        self.again = nn.ModuleList([self.bn])
        self.tied, self.other, self.out = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.other.weight = self.tied.weight

    def forward(self, x: Tensor) -> Any:
        return self.out(self.other(self.tied(self.net(x.transpose(1, 2)).mean(-1)).relu()))


class Recurrent(nn.Module):
    """Its parameters are in a list, too; hooks; an old-style weight norm sets an attribute before each call."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(6, 4, batch_first=True)
        self.out = nn.Linear(4, 3)
        self.seen: list[Any] = []
        self.register_forward_hook(lambda module, given, output: self.seen.append(output))

    def forward(self, x: Tensor) -> Any:
        return self.out(self.gru(x)[0][:, -1])


NETWORKS: list[Callable[[], nn.Module]] = [
    Rotary,
    TableAfterwards,
    Relative,
    Spiking,
    Carried,
    Averages,
    Constrained,
    TwoNames,
    Recurrent,
]


def example(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    return torch.randn(3, 5, 6, generator=generator), torch.tensor([2, 0, 1])


def made(network: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(3)
    return network()


def plain_steps(model: nn.Module, samples: Any, count: int, lr: float) -> list[float]:
    """The losses of a training loop as everybody writes it."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    losses = []
    for inputs, target in samples[:count]:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(*inputs), target)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses
