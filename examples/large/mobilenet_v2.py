"""MobileNetV2 at full width on images of 96x96 pixels, for ten classes: 2.2 million parameters."""

import torch
from torch import nn

torch.manual_seed(43)

STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


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
        self.shortcut = stride == 1 and before == after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(x)
        return x + y if self.shortcut else y


class MobileNetV2(nn.Module):
    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        blocks, before = [], 32
        for expand, after, count, stride in STAGES:
            for position in range(count):
                blocks.append(InvertedResidual(before, after, 1 if position else stride, expand))
                before = after
        self.stem, self.blocks = unit(3, 32, 3, stride=2), nn.Sequential(*blocks)
        self.last, self.pool, self.fc = unit(320, 1280, 1), nn.AdaptiveAvgPool2d(1), nn.Linear(1280, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.fc(self.pool(self.last(self.blocks(self.stem(images)))).flatten(1))


model = MobileNetV2()
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

data = [(torch.randn(1, 3, 96, 96), torch.randint(10, (1,))) for _ in range(2)]
example_input, example_target = data[0]
