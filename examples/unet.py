"""A U-Net of three levels for segmentation: strided transposed convolutions up, concatenated skips."""

import torch
from torch import nn

torch.manual_seed(23)


def two_convolutions(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(),
        nn.Conv2d(after, after, 3, padding=1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(),
    )


class UNet(nn.Module):
    def __init__(self, channels: int = 8, classes: int = 3) -> None:
        super().__init__()
        c = channels
        self.down1 = two_convolutions(3, c)
        self.down2 = two_convolutions(c, 2 * c)
        self.bottom = two_convolutions(2 * c, 4 * c)
        self.pool = nn.MaxPool2d(2)
        self.up2 = nn.ConvTranspose2d(4 * c, 2 * c, 2, stride=2)
        self.merge2 = two_convolutions(4 * c, 2 * c)
        self.up1 = nn.ConvTranspose2d(2 * c, c, 2, stride=2)
        self.merge1 = two_convolutions(2 * c, c)
        self.head = nn.Conv2d(c, classes, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        fine = self.down1(images)
        middle = self.down2(self.pool(fine))
        coarse = self.bottom(self.pool(middle))
        x = self.merge2(torch.cat([self.up2(coarse), middle], dim=1))
        x = self.merge1(torch.cat([self.up1(x), fine], dim=1))
        return self.head(x)


model = UNet()
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.RMSprop(model.parameters(), lr=0.0001)

data = [(torch.randn(2, 3, 24, 24), torch.randint(3, (2, 24, 24))) for _ in range(8)]
example_input, example_target = data[0]
