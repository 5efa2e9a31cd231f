"""Handwritten digits, 8 x 8: a small convolutional network that learns them from scratch; README.md says how."""

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset

torch.manual_seed(0)
table = torch.from_numpy(np.loadtxt(Path(__file__).with_name("digits.csv.gz"), delimiter=","))
table = table[torch.randperm(len(table))]  # its writers come one behind the other
x, y = (table[:, :64] / 8 - 1).reshape(-1, 1, 8, 8).float(), table[:, 64].long()

model = nn.Sequential(
    nn.Conv2d(1, 12, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(12, 24, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(24 * 4 * 4, 10),
)
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
data, held_out = TensorDataset(x[:1437], y[:1437]), TensorDataset(x[1437:], y[1437:])
example_input, example_target = x[:20], y[:20]
