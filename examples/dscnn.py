"""The keyword spotter of MLPerf Tiny: a depthwise-separable network on 49 frames of 10 coefficients."""

import torch
from torch import nn

torch.manual_seed(4)


class Separable(nn.Module):
    """Depthwise 3x3, pointwise 1x1, each with BatchNorm and ReLU."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.pointwise = nn.Conv2d(channels, channels, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.bn1(self.depthwise(x)))
        return self.relu(self.bn2(self.pointwise(x)))


class DSCNN(nn.Module):
    def __init__(self, words: int = 12, channels: int = 64) -> None:
        super().__init__()
        self.pad = nn.ZeroPad2d((1, 1, 4, 5))  # 49x10 to maps of 25x5
        self.conv = nn.Conv2d(1, channels, (10, 4), stride=2, bias=False)
        self.bn = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU()
        self.blocks = nn.Sequential(*(Separable(channels) for _ in range(4)))
        self.pool = nn.AvgPool2d((25, 5))
        self.fc = nn.Linear(channels, words)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.bn(self.conv(self.pad(x))))
        return self.fc(self.pool(self.blocks(x)).flatten(1))


model = DSCNN()
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

data = [(torch.randn(1, 1, 49, 10), torch.randint(12, (1,))) for _ in range(8)]
example_input, example_target = data[0]
