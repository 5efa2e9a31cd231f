"""A Siamese network: one convolutional trunk embeds three images, the triplet loss sets them apart."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(26)


class Siamese(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16 * 4 * 4, width),
        )

    def forward(
        self, anchor: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.embed(anchor), self.embed(positive), self.embed(negative)

    def embed(self, image: torch.Tensor) -> torch.Tensor:
        return F.normalize(self.trunk(image), dim=1)


triplet = nn.TripletMarginLoss(margin=0.5)


def loss(embeddings: tuple[torch.Tensor, torch.Tensor, torch.Tensor], weight: torch.Tensor) -> torch.Tensor:
    """The target says how much the triplet counts."""
    return (triplet(*embeddings) * weight).mean()


def example() -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """Two images of one kind and one of another, for each of two triplets."""
    anchor, negative = torch.randn(2, 1, 16, 16), torch.randn(2, 1, 16, 16)
    return (anchor, anchor + 0.5 * torch.randn_like(anchor), negative), torch.ones(1)


model = Siamese()
optimizer = torch.optim.NAdam(model.parameters(), lr=0.001)

data = [example() for _ in range(8)]
example_input, example_target = data[0]
