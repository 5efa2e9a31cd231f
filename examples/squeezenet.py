"""A small SqueezeNet: fire modules, ceil-mode pooling, a convolution as classifier."""

import torch
from torch import nn

torch.manual_seed(30)


class Fire(nn.Module):
    """Squeeze 1x1, then 1x1 and 3x3 side by side."""

    def __init__(self, before: int, squeezed: int, after: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(before, squeezed, 1)
        self.expand1 = nn.Conv2d(squeezed, after // 2, 1)
        self.expand3 = nn.Conv2d(squeezed, after // 2, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.squeeze(x))
        return torch.cat([self.relu(self.expand1(x)), self.relu(self.expand3(x))], dim=1)


model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1),
    nn.ReLU(inplace=True),
    nn.MaxPool2d(3, stride=2, ceil_mode=True),
    Fire(16, 8, 32),
    Fire(32, 8, 32),
    nn.MaxPool2d(3, stride=2, ceil_mode=True),
    Fire(32, 12, 48),
    nn.Dropout(0.5),
    nn.Conv2d(48, 10, 1),
    nn.ReLU(inplace=True),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
)
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=2e-4)

data = [(torch.randn(1, 3, 24, 24), torch.randint(10, (1,))) for _ in range(8)]
example_input, example_target = data[0]
