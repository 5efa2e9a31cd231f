"""A small classifier of 16 sensor values, learned on the device: firmware.c beside this file is the program."""

import torch
from torch import nn

torch.manual_seed(0)

model = nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 4))
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
data = [(torch.randn(1, 16), torch.randint(4, (1,))) for _ in range(5)]
