"""A MobileNetV2 for small images: inverted residuals with ReLU6 and linear bottlenecks."""

import torch
from torch import nn

torch.manual_seed(41)


def unit(before: int, after: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(after), nn.ReLU6())


class InvertedResidual(nn.Module):
    """Expand 1x1, depthwise 3x3, project 1x1; a shortcut where the shapes agree."""

    def __init__(self, before: int, after: int, stride: int, expand: int) -> None:
        super().__init__()
        inner = before * expand
        self.layers = nn.Sequential(
            unit(before, inner, 1) if expand > 1 else nn.Identity(),
            unit(inner, inner, 3, stride, groups=inner),
            nn.Conv2d(inner, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.layers[-1].bias.requires_grad_(False)  # its gradient is zero: every reader normalises again
        self.shortcut = stride == 1 and before == after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(x)
        return x + y if self.shortcut else y


class MobileNetV2(nn.Module):
    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.stem = unit(3, 8, 3, stride=2)
        self.blocks = nn.Sequential(
            InvertedResidual(8, 8, 1, expand=1),
            InvertedResidual(8, 12, 2, expand=6),
            InvertedResidual(12, 12, 1, expand=6),
            InvertedResidual(12, 16, 1, expand=6),
        )
        self.last = unit(16, 64, 1)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(64, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.fc(self.pool(self.last(self.blocks(self.stem(images)))).flatten(1))


model = MobileNetV2()
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.RMSprop(model.parameters(), lr=0.0005, alpha=0.9, momentum=0.9, eps=0.01)

data = [(torch.randn(2, 3, 24, 24), torch.randint(10, (2,))) for _ in range(8)]
example_input, example_target = data[0]
