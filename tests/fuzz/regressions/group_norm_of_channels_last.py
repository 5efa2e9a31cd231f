# cores=4 l1=24k
"""A norm whose gradient comes in another order than its input: real strides differ from traced ones."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(3, 5)
        self.norm = nn.InstanceNorm2d(5, affine=True)
        self.act = nn.SELU()
        self.head = nn.Linear(5, 4)

    def forward(self, x):
        x = self.norm(self.mix(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
        x = F.fold(F.unfold(self.act(x), (3, 1)), x.shape[2:], (3, 1))
        return self.head(x.mean((2, 3)))


model = Net()
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = [(torch.randn(3, 3, 5, 4), torch.randint(4, (3,))) for _ in range(2)]
