"""A text classifier: token ids, nn.TransformerEncoder with dropout, the mean over the positions."""

import torch
from torch import nn

torch.manual_seed(22)


class TextClassifier(nn.Module):
    def __init__(self, words: int = 96, length: int = 24, width: int = 32, classes: int = 4) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.positions = nn.Embedding(length, width)
        self.register_buffer("places", torch.arange(length))
        layer = nn.TransformerEncoderLayer(width, 4, dim_feedforward=64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.head = nn.Linear(width, classes)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.positions(self.places)
        return self.head(self.encoder(x).mean(dim=1))


model = TextClassifier()
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True)

data = [(torch.randint(96, (2, 24)), torch.randint(4, (2,))) for _ in range(8)]
example_input, example_target = data[0]
