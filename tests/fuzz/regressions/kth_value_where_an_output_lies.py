# cores=3 l1=24k l2=4M
"""Of what was sorted one row is read, and a result lies where all rows did: the certificate took it for an overlap."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 8, (4, 2), padding=(2, 1), dilation=(2, 1), bias=False)

    def forward(self, x):
        x = self.conv(x)
        x = x.msort() + x.kthvalue(1, 2, keepdim=True).values
        return F.log_softmax(x, 1)


model = Net()
loss = nn.KLDivLoss(reduction="batchmean")
optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
data = [(torch.randn(3, 4, 8, 14), torch.randn(3, 8, 6, 15).softmax(1)) for _ in range(4)]
example_input, example_target = data[0]
