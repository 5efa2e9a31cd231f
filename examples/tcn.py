"""A temporal convolutional network: causal convolutions of growing dilation that predict a value at every step."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(25)


class Causal(nn.Module):
    """A residual block that sees the past only."""

    def __init__(self, before: int, after: int, dilation: int) -> None:
        super().__init__()
        self.past = 2 * dilation
        self.conv1 = nn.Conv1d(before, after, 3, dilation=dilation)
        self.conv2 = nn.Conv1d(after, after, 3, dilation=dilation)
        self.skip = nn.Conv1d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.conv1(F.pad(x, (self.past, 0))))
        y = F.relu(self.conv2(F.pad(y, (self.past, 0))))
        return F.relu(y + self.skip(x))


class TCN(nn.Module):
    def __init__(self, features: int = 6, channels: int = 24) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            Causal(features, channels, 1), Causal(channels, channels, 2), Causal(channels, channels, 4)
        )
        self.head = nn.Conv1d(channels, 1, 1)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(sequence))


model = TCN()
loss = nn.SmoothL1Loss()
optimizer = torch.optim.RMSprop(model.parameters(), lr=0.0001, momentum=0.9)

data = [(torch.randn(1, 6, 50), torch.randn(1, 1, 50)) for _ in range(8)]
example_input, example_target = data[0]
