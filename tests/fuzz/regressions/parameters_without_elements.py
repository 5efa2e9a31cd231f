# cores=7
"""A linear layer of no outputs: empty parameters, and a product over nothing."""

import torch
from torch import nn

torch.manual_seed(89)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.m2 = nn.Linear(14, 1, bias=True)
        self.q3 = nn.Linear(1, 0)
        angles = torch.arange(10)[:, None] * torch.rand(0)
        self.register_buffer("turn3", torch.stack([angles.cos(), angles.sin()]))

    def forward(self, x):
        x = self.m2(x)
        a, b = self.q3(x).chunk(2, -1)
        q = torch.cat([a * self.turn3[0] - b * self.turn3[1], a * self.turn3[1] + b * self.turn3[0]], -1)
        x = torch.softmax(q.matmul(q.transpose(1, 2)), -1).matmul(x)
        return x


model = Net()
loss = nn.MSELoss()
parameters = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.SGD(parameters, lr=0.03)
data = [(torch.randn(1, 10, 14), torch.randn(1, 10, 1)) for _ in range(4)]
example_input, example_target = data[0]
