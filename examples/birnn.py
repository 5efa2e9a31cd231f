"""A bidirectional recurrent network of two layers: what was last seen in each direction classifies a sequence."""

import torch
from torch import nn

torch.manual_seed(9)


class Classifier(nn.Module):
    def __init__(self, features: int = 6, hidden: int = 24, classes: int = 5) -> None:
        super().__init__()
        self.rnn = nn.RNN(features, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.norm = nn.LayerNorm(2 * hidden)
        self.fc = nn.Linear(2 * hidden, classes)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        _, last = self.rnn(sequence)
        both = torch.cat([last[-2], last[-1]], dim=1)
        return self.fc(self.norm(both))


model = Classifier()
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

data = [(torch.randn(1, 30, 6), torch.randint(5, (1,))) for _ in range(8)]
example_input, example_target = data[0]
