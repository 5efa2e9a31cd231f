# cores=5 accumulate=2 poison=True
"""A gradient whose strides the traced operation and the real one choose in different ways."""

import torch
from torch import nn

torch.manual_seed(11)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.m9 = nn.Linear(10, 4)

    def forward(self, x):
        x = self.m9(x.transpose(1, 2)).transpose(1, 2)
        return x


model = Net()
loss = nn.MSELoss()
parameters = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.SGD(parameters, lr=0.03)
data = [(torch.randn(2, 10, 4), torch.randn(2, 4, 4)) for _ in range(4)]
example_input, example_target = data[0]
