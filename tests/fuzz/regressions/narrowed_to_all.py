# cores=4 l1=24k accumulate=2
"""A random network: seed 30075."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(30075)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.m3 = nn.Conv2d(4, 13, 1, 2, bias=True)
        self.m6 = nn.Sequential(nn.Conv2d(13, 6, 3, padding=1), nn.LogSigmoid())
        self.m7 = nn.Sequential(nn.Conv2d(19, 2, 1, padding=0), nn.Softsign())
        self.register_buffer("k8", torch.tensor([0.5]))
        self.register_buffer("n8", torch.tensor(21))

    def forward(self, x):
        x = self.m3(x)
        x = torch.cat((self.m6(x), x), dim=1)
        x = torch.cat([x, self.m7(x)], 1)
        x = x * sum(self.k8.tolist()) if (self.k8 > 0).all() else -x
        x = x.narrow(1, 0, int(self.n8.item()))
        return [x, torch.tanh(x)]


model = Net()
criterion = nn.CrossEntropyLoss(label_smoothing=0.05)


def loss(output, target):
    return criterion(output[0], target) + 0.1 * output[1].square().mean()


parameters = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.Rprop(parameters, lr=1e-3)
data = [(torch.randn(3, 4, 15, 9), F.softmax(torch.randn(3, 21, 8, 5), 1)) for _ in range(4)]
example_input, example_target = data[0]
