# cores=3 l1=24k
"""The mean over whole rows, where the channels lie last in memory."""

import torch
from torch import nn

torch.manual_seed(4)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(3, 5)
        self.pool = nn.AdaptiveAvgPool1d(1)
        self.head = nn.Linear(5, 4)

    def forward(self, x):
        x = self.mix(x).transpose(1, 2)
        return self.head((x * self.pool(x).sigmoid() + self.pool(x.relu())).mean(2))


model = Net()
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = [(torch.randn(2, 7, 3), torch.randint(4, (2,))) for _ in range(2)]
example_input, example_target = data[0]
