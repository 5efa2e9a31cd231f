# cores=4 l1=24k accumulate=2
"""Weight decay written into the loss, by the names of the file."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
mse = nn.MSELoss()


def loss(y, t):
    return mse(y, t) + 0.5 * sum(p.square().sum() for p in model.parameters())


optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = [(torch.randn(2, 5), torch.randn(2, 3)) for _ in range(3)]
