"""A compact convolutional transformer: a convolutional tokenizer, two encoder blocks, attention pooling over tokens."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(42)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.project = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # each batch, heads, tokens, width of a head
        x = F.scaled_dot_product_attention(q, k, v)
        return self.project(x.transpose(1, 2).reshape(batch, tokens, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class CCT(nn.Module):
    def __init__(self, width: int = 32, heads: int = 2, classes: int = 10) -> None:
        super().__init__()
        self.tokenizer = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1, bias=False),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
            nn.Conv2d(16, width, 3, padding=1, bias=False),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        self.position = nn.Parameter(0.1 * torch.randn(1, 36, width))
        self.blocks = nn.Sequential(Block(width, heads), Block(width, heads))
        self.norm = nn.LayerNorm(width)
        self.pool = nn.Linear(width, 1, bias=False)  # a bias would change no softmax
        self.head = nn.Linear(width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.tokenizer(images).flatten(2).transpose(1, 2)  # batch, 36 tokens, width
        x = self.norm(self.blocks(x + self.position))
        weights = torch.softmax(self.pool(x), dim=1)
        return self.head((weights.transpose(1, 2) @ x).squeeze(1))


model = CCT()
loss = nn.CrossEntropyLoss(label_smoothing=0.1)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.0005, weight_decay=0.03)

data = [(torch.randn(2, 3, 24, 24), torch.randint(10, (2,))) for _ in range(8)]
example_input, example_target = data[0]
