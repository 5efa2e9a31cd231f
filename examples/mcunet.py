"""Blocks of MCUNet: inverted residuals whose kernel size and expansion differ from block to block."""

import torch
from torch import nn

torch.manual_seed(44)


class MBConv(nn.Module):
    def __init__(self, before: int, after: int, kernel: int, stride: int, expand: int) -> None:
        super().__init__()
        inner = before * expand
        self.expand = nn.Sequential(nn.Conv2d(before, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU6())
        self.depthwise = nn.Sequential(
            nn.Conv2d(inner, inner, kernel, stride, kernel // 2, groups=inner, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU6(),
        )
        self.project = nn.Sequential(nn.Conv2d(inner, after, 1, bias=False), nn.BatchNorm2d(after))
        self.project[1].bias.requires_grad_(False)  # its gradient is zero: every reader normalises again
        self.shortcut = stride == 1 and before == after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.project(self.depthwise(self.expand(x)))
        return x + y if self.shortcut else y


class MCUNet(nn.Module):
    def __init__(self, classes: int = 6) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6())
        self.blocks = nn.Sequential(
            MBConv(8, 8, kernel=3, stride=1, expand=3),
            MBConv(8, 16, kernel=7, stride=2, expand=4),
            MBConv(16, 16, kernel=5, stride=1, expand=5),
            MBConv(16, 24, kernel=3, stride=1, expand=3),
        )
        self.mix = nn.Sequential(nn.Conv2d(24, 48, 1, bias=False), nn.BatchNorm2d(48), nn.ReLU6())
        self.fc = nn.Linear(48, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.fc(self.mix(self.blocks(self.stem(images))).mean(dim=(2, 3)))


model = MCUNet()
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)

data = [(torch.randn(2, 3, 24, 24), torch.randint(6, (2,))) for _ in range(8)]
example_input, example_target = data[0]
