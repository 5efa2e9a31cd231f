"""A convolutional variational autoencoder: the noise comes in as a second input, the loss is the user's own."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(24)


class VAE(nn.Module):
    def __init__(self, latent: int = 12) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1),
            nn.SiLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1),
            nn.SiLU(),
            nn.Flatten(),
        )
        self.mean = nn.Linear(16 * 6 * 6, latent)
        self.log_variance = nn.Linear(16 * 6 * 6, latent)
        self.decoder = nn.Sequential(
            nn.Linear(latent, 16 * 6 * 6),
            nn.SiLU(),
            nn.Unflatten(1, (16, 6, 6)),
            nn.ConvTranspose2d(16, 8, 3, stride=2, padding=1, output_padding=1),
            nn.SiLU(),
            nn.ConvTranspose2d(8, 1, 3, stride=2, padding=1, output_padding=1),
        )

    def forward(self, image: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = self.encoder(image)
        mean, log_variance = self.mean(x), self.log_variance(x)
        return self.decoder(mean + torch.exp(0.5 * log_variance) * noise), mean, log_variance


def loss(outputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor], image: torch.Tensor) -> torch.Tensor:
    """The evidence lower bound, negated: reconstruction, and divergence from the standard normal."""
    logits, mean, log_variance = outputs
    reconstruction = F.binary_cross_entropy_with_logits(logits, image, reduction="sum")
    divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
    return (reconstruction + divergence) / image.shape[0]


model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

images = [torch.rand(2, 1, 24, 24) for _ in range(8)]
data = [((image, torch.randn(2, 12)), image) for image in images]
example_input, example_target = data[0]
