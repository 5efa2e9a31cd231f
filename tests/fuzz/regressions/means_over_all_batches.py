# cores=5 l1=24k accumulate=2
"""Batch norms without a momentum, one of which has seen batches before."""

import torch
from torch import nn

torch.manual_seed(15)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 5, 3)
        self.norm = nn.BatchNorm2d(5, momentum=None)
        self.flat = nn.BatchNorm1d(5, momentum=None)
        self.head = nn.Linear(5, 4)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.head(self.flat(x.mean((2, 3))))


model = Net()
for _ in range(3):
    model.norm(torch.randn(2, 5, 3, 3) * 2 + 1)
loss = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = [(torch.randn(3, 2, 7, 6), torch.randn(3, 4)) for _ in range(4)]
