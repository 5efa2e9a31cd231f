# cores=3 l1=24k
"""PyTorch's own gradient of a batch or instance norm is wrong where what follows takes the channels last."""

import torch
from torch import nn

torch.manual_seed(206)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 5, 3)
        self.batch = nn.BatchNorm2d(5)
        self.wide = nn.Conv2d(5, 3, 2)
        self.instance = nn.InstanceNorm2d(3, affine=True, track_running_stats=True)
        self.head = nn.Linear(3, 4)

    def forward(self, x):
        x = self.batch(self.conv(x))
        x = x.flatten(2).transpose(1, 2).contiguous().transpose(1, 2).unflatten(2, x.shape[2:])
        x = self.instance(self.wide(torch.tanh(x)))
        return self.head(x.permute(0, 2, 3, 1).contiguous())


model = Net()
loss = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = [(torch.randn(1, 2, 7, 6), torch.randn(1, 4, 3, 4)) for _ in range(2)]
