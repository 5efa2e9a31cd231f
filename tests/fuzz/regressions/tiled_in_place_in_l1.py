# cores=7 l1=32k
"""A random network: seed 248."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(248)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.m1 = nn.Sequential(nn.Conv2d(4, 2, 1, padding=0), nn.Mish())
        self.m2 = nn.Conv2d(6, 6, 3, padding=1, bias=False)

    def forward(self, x):
        x = torch.cat((self.m1(x), x), dim=1)
        x = self.m2(F.relu(self.m2(x)))
        return x


model = Net()
loss = nn.MSELoss()
parameters = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.SGD(parameters, lr=0.03)
data = [(torch.randn(1, 4, 8, 11), torch.randn(1, 6, 8, 11)) for _ in range(4)]
example_input, example_target = data[0]
