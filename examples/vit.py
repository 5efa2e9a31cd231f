"""A vision transformer of one block: patches of 4x4 pixels, a class token, nn.MultiheadAttention."""

import torch
from torch import nn

torch.manual_seed(21)


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, size: int = 24, patch: int = 4, width: int = 48, classes: int = 10) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.token = nn.Parameter(0.1 * torch.randn(1, 1, width))
        self.position = nn.Parameter(0.1 * torch.randn(1, (size // patch) ** 2 + 1, width))
        self.block = Block(width, heads=4)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.position
        return self.head(self.norm(self.block(x))[:, 0])


model = ViT()
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

data = [(torch.randn(2, 3, 24, 24), torch.randint(10, (2,))) for _ in range(8)]
example_input, example_target = data[0]
