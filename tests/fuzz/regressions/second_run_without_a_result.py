# cores=2 l1=24k l2=12264 accumulate=2 poison=True
"""What runs again computes only what is wanted of it."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(717)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.m1 = nn.Sequential(nn.Conv2d(4, 3, 3, padding=1), nn.Softsign())
        self.m2 = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1, groups=3, bias=True), nn.BatchNorm2d(3))
        self.m3 = nn.BatchNorm2d(3)
        self.m4 = nn.Mish()
        self.m5 = nn.BatchNorm2d(3, momentum=None)
        self.m6 = nn.AdaptiveAvgPool2d((None, 3))
        self.m7 = nn.Conv2d(3, 4, 3, 2, 1)
        self.n7 = nn.Conv2d(3, 4, 1)
        self.m8 = nn.GELU()
        self.m2.requires_grad_(False)
        self.m3.requires_grad_(False)
        self.n7.requires_grad_(False)

    def forward(self, x):
        x = self.m1(x) + F.interpolate(self.m1(F.max_pool2d(x, 2)), x.shape[2:])
        y = self.m2(x)
        y += x
        x = y
        x = self.m3(x)
        x = self.m4(x)
        x = self.m5(x)
        x = self.m6(x)
        x = self.m7(x) + self.n7(F.max_pool2d(x, 2, ceil_mode=True))
        x = self.m8(x)
        return x


model = Net()
with torch.no_grad():
    for p in model.parameters():
        p.add_(torch.randn_like(p) * 0.1)
loss = nn.CrossEntropyLoss()
parameters = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.SGD(parameters, lr=0.02, momentum=0.9, weight_decay=1e-3)
clip_grad_norm = 0.5
data = [(torch.randn(1, 4, 15, 10), torch.randint(0, 4, (1, 8, 2))) for _ in range(4)]
example_input, example_target = data[0]
