# cores=3 l1=24k
"""Rolling by nothing, empty slices, and constants of a single element."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 6)
        self.b = nn.Linear(1, 3)
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        x = self.a(x).roll(0, 1)
        x = torch.cat([x[:, :0], x.roll(6, 1), x[:, 6:]], 1)
        a, b = x.split([6, 0], 1)
        x = a + b.sum(1, keepdim=True)
        y = torch.tanh(self.b(x[:, :1].roll(1, 1)))
        y = torch.cat([F.pad(y, (0, 0)), y.roll((1, 1), (0, 1))], 1)
        return self.head(x * y) + torch.arange(1) + torch.linspace(0.3, 2, 1)


model = Net()
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = [(torch.randn(1, 6), torch.randint(4, (1,))) for _ in range(2)]
