"""A small DenseNet: every layer of a block sees the concatenated outputs of all before it."""

import torch
from torch import nn

torch.manual_seed(31)


class Layer(nn.Module):
    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU()
        self.conv = nn.Conv2d(channels, growth, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, self.conv(self.relu(self.norm(x)))], dim=1)


class Transition(nn.Sequential):
    def __init__(self, before: int, after: int) -> None:
        norm, conv = nn.BatchNorm2d(before), nn.Conv2d(before, after, 1, bias=False)
        super().__init__(norm, nn.ReLU(), conv, nn.AvgPool2d(2))


class DenseNet(nn.Module):
    def __init__(self, growth: int = 8, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False)
        self.block1 = nn.Sequential(*(Layer(16 + i * growth, growth) for i in range(3)))
        self.transition = Transition(16 + 3 * growth, 20)
        self.block2 = nn.Sequential(*(Layer(20 + i * growth, growth) for i in range(3)))
        self.norm = nn.BatchNorm2d(20 + 3 * growth)
        self.relu = nn.ReLU()
        self.fc = nn.Linear(20 + 3 * growth, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.block2(self.transition(self.block1(self.stem(images))))
        return self.fc(self.relu(self.norm(x)).mean(dim=(2, 3)))


model = DenseNet()
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)

data = [(torch.randn(2, 3, 24, 24), torch.randint(10, (2,))) for _ in range(8)]
example_input, example_target = data[0]
