"""The anomaly detector of MLPerf Tiny: a fully connected autoencoder on 640 spectrogram features; the target is
the input."""

import torch
from torch import nn

torch.manual_seed(2)


def block(inputs: int, outputs: int) -> list[nn.Module]:
    return [nn.Linear(inputs, outputs, bias=False), nn.BatchNorm1d(outputs), nn.ReLU()]


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            *block(640, 128), *block(128, 128), *block(128, 128), *block(128, 128), *block(128, 8)
        )
        self.decoder = nn.Sequential(
            *block(8, 128), *block(128, 128), *block(128, 128), *block(128, 128), nn.Linear(128, 640)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decoder(self.encoder(x))


model = Autoencoder()
loss = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

# spectra of machines that run normally: a few modes and a little noise
modes = torch.randn(12, 640) / 12**0.5
frames = [torch.randn(8, 12) @ modes + 0.1 * torch.randn(8, 640) for _ in range(8)]
data = [(x, x) for x in frames]
example_input, example_target = data[0]
