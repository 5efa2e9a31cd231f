# cores=6 l1=32k
"""The positions of a causal mask are a constant of one element."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(128)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inputs = nn.Linear(8, 24)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = x + F.scaled_dot_product_attention(*self.inputs(x).chunk(3, -1), is_causal=True)
        return self.head(x.mean(1))


model = Net()
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.Adamax(model.parameters(), lr=2e-3)
data = [(torch.randn(3, 1, 8), torch.randint(5, (3,))) for _ in range(2)]
