# cores=7
"""A random network: seed 51."""

import torch
from torch import nn

torch.manual_seed(51)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.m2 = nn.Conv2d(4, 17, (3, 1), (1, 2), (0, 0), (1, 1), 1, bias=False, padding_mode="zeros")
        self.head = nn.Linear(17, 8)

    def forward(self, x):
        x = self.m2(x)
        return self.head(x.mean((2, 3))), x


model = Net()
criterion = nn.CrossEntropyLoss(weight=torch.rand(8) + 0.5)


def loss(output, target):
    return criterion(output[0], target) + 0.1 * output[1].square().mean()


parameters = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.SGD(parameters, lr=0.03)
data = [(torch.randn(1, 4, 7, 10), torch.randint(8, (1,))) for _ in range(4)]
example_input, example_target = data[0]
