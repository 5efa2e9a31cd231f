"""A small frozen backbone; only the second pointwise convolution and the classifier learn."""

import torch
from torch import nn

torch.manual_seed(6)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.dw1 = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False)
        self.pw1 = nn.Conv2d(8, 8, 1, bias=False)
        self.dw2 = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False)
        self.pw2 = nn.Conv2d(8, 8, 1, bias=False)
        self.dw3 = nn.Conv2d(8, 8, 5, stride=2, padding=2, groups=8, bias=False)
        self.pw3 = nn.Conv2d(8, 8, 1, bias=False)
        self.linear = nn.Linear(512, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x).relu()
        x = self.pw1(self.dw1(x)).relu()
        x = self.pw2(self.dw2(x)).sigmoid()
        x = nn.functional.leaky_relu(self.pw3(self.dw3(x)))
        return self.linear(x.flatten(1))


model = Net()
for name, parameter in model.named_parameters():
    parameter.requires_grad_(name.startswith(("pw2", "linear")))

loss = nn.MSELoss()
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05)

data = [(torch.randn(1, 3, 32, 32), torch.randn(1, 2)) for _ in range(8)]
example_input, example_target = data[0]
