"""A multilayer perceptron for handwritten digits: 784-128-128-10."""

import torch
from torch import nn

torch.manual_seed(1)

model = nn.Sequential(
    nn.Linear(784, 128),
    nn.ReLU(),
    nn.Linear(128, 128),
    nn.ReLU(),
    nn.Linear(128, 10),
)
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

data = [(torch.rand(1, 784), torch.randint(10, (1,))) for _ in range(8)]
example_input, example_target = data[0]
