"""Keyword spotting with an LSTM: 49 frames of 40 features, the last state decides among 12 words."""

import torch
from torch import nn

torch.manual_seed(7)


class Spotter(nn.Module):
    def __init__(self, features: int = 40, hidden: int = 32, words: int = 12) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, words)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        _, (last, _) = self.lstm(frames)
        return self.fc(last[-1])


model = Spotter()
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

data = [(torch.randn(1, 49, 40), torch.randint(12, (1,))) for _ in range(8)]
example_input, example_target = data[0]
