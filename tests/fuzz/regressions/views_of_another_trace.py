# cores=3 accumulate=1 poison=True
"""The second trace, which the gradient of maximum asks for, has other strides than the first, and no such views."""

import torch
from torch import nn

torch.manual_seed(3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.m5 = nn.MultiheadAttention(16, 2, batch_first=True, bias=False)

    def forward(self, x):
        x = self.m5(x, x, x)[0]
        x = torch.maximum(x, 0.1 * x)
        return x


model = Net()
loss = nn.MSELoss()
parameters = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.SGD(parameters, lr=0.03)
data = [(torch.randn(2, 2, 16), torch.randn(2, 2, 16)) for _ in range(4)]
example_input, example_target = data[0]
