# cores=6 l1=12k l2=128k
"""A layer norm and the transposition behind it had one tile: cores wrote where others still read."""

import torch
from torch import nn

torch.manual_seed(3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 12, 3, 3)
        self.norm = nn.LayerNorm(12)
        self.head = nn.Linear(12, 2)

    def forward(self, x):
        y = self.conv(x)
        x = self.norm(y.flatten(2).transpose(1, 2)).transpose(1, 2).unflatten(2, y.shape[2:])
        x = x.repeat_interleave(torch.tensor([1, 2, 2]), 2)
        return self.head(torch.tanh(x).mean((2, 3)))


model = Net()
loss = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
data = [(torch.randn(2, 4, 9, 14), torch.randn(2, 2)) for _ in range(4)]
example_input, example_target = data[0]
