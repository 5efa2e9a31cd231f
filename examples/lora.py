"""On-device adaptation: a frozen network whose linear layers learn corrections of low rank."""

import torch
from torch import nn

torch.manual_seed(27)


class LoRA(nn.Module):
    """A frozen linear layer plus a trainable product of two thin matrices, zero at first."""

    def __init__(self, linear: nn.Linear, rank: int = 4, alpha: float = 8.0) -> None:
        super().__init__()
        self.linear = linear.requires_grad_(False)
        self.down = nn.Linear(linear.in_features, rank, bias=False)
        self.up = nn.Linear(rank, linear.out_features, bias=False)
        self.scale = alpha / rank
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) + self.scale * self.up(self.down(x))


class Adapted(nn.Module):
    def __init__(self, features: int = 40, hidden: int = 64, classes: int = 6) -> None:
        super().__init__()
        self.fc1 = LoRA(nn.Linear(features, hidden))
        self.norm = nn.LayerNorm(hidden).requires_grad_(False)
        self.fc2 = LoRA(nn.Linear(hidden, hidden))
        self.head = nn.Linear(hidden, classes)
        self.act = nn.GELU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.act(self.fc1(x)))
        return self.head(self.act(self.fc2(x)))


model = Adapted()
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.005, weight_decay=0.01)

data = [(torch.randn(4, 40), torch.randint(6, (4,))) for _ in range(8)]
example_input, example_target = data[0]
