# cores=6 l1=64k
"""A random network: seed 20049."""

import torch
from torch import nn

torch.manual_seed(20049)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.m1 = nn.Conv2d(2, 1, 5, padding="same", bias=False)
        self.head = nn.Linear(5, 6)

    def forward(self, x):
        x = x * torch.sigmoid(self.m1(torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)))
        z2 = torch.complex(x, torch.tanh(x))
        x = (z2 * z2.flip(-1).conj() / (z2.abs() + 1)).imag
        return self.head(x.mean((2, 3)))


model = Net()
loss = nn.MultiMarginLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
data = [(torch.randn(2, 5, 13, 11), torch.randint(6, (2,))) for _ in range(4)]
example_input, example_target = data[0]
