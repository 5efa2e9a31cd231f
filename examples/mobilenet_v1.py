"""The person detector of MLPerf Tiny: MobileNetV1 at a quarter of its width, on 96x96 images."""

import torch
from torch import nn

torch.manual_seed(5)

# output channels and stride of the 13 depthwise-separable blocks, at full width
BLOCKS = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)] + [(512, 1)] * 5 + [(1024, 2), (1024, 1)]


def separable(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False),
        nn.BatchNorm2d(inputs),
        nn.ReLU(),
        nn.Conv2d(inputs, outputs, 1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


class MobileNetV1(nn.Module):
    def __init__(self, classes: int = 2, width: float = 0.25) -> None:
        super().__init__()
        channels = int(32 * width)
        self.stem = nn.Sequential(nn.Conv2d(3, channels, 3, 2, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU())
        self.blocks = nn.Sequential()
        for full, stride in BLOCKS:
            self.blocks.append(separable(channels, int(full * width), stride))
            channels = int(full * width)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.pool(self.blocks(self.stem(x))).flatten(1))


model = MobileNetV1()
# One image says little about the statistics of 3x3 maps: they are taken from batches, then stay as they are.
with torch.no_grad():
    for _ in range(30):
        model(torch.randn(8, 3, 96, 96))
for module in model.modules():
    if isinstance(module, nn.BatchNorm2d):
        module.eval()
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)

data = [(torch.randn(1, 3, 96, 96), torch.randint(2, (1,))) for _ in range(8)]
example_input, example_target = data[0]
