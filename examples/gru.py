"""Keyword spotting with a GRU of two layers: 49 frames of 40 features; the mean over time decides among 12 words."""

import torch
from torch import nn

torch.manual_seed(8)


class Spotter(nn.Module):
    def __init__(self, features: int = 40, hidden: int = 32, words: int = 12) -> None:
        super().__init__()
        self.gru = nn.GRU(features, hidden, num_layers=2, batch_first=True)
        self.fc = nn.Linear(hidden, words)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        states, _ = self.gru(frames)
        return self.fc(states.mean(1))


model = Spotter()
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.002)

data = [(torch.randn(1, 49, 40), torch.randint(12, (1,))) for _ in range(8)]
example_input, example_target = data[0]
