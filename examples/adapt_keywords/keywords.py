"""Spoken keywords, made up: spectrograms in 8 bits of eight words, by many speakers and then by one user."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

WORDS, TIMES, BANDS = 8, 21, 15
USERS_WORDS = range(4, 8)  # the user says only these


@dataclass(frozen=True)
class Voice:
    """What a spectrogram has besides the word: means and spreads over speakers, and the microphone."""

    pitch: tuple[float, float] = (1.0, 0.05)  # of the tracks' frequencies
    tempo: tuple[float, float] = (1.0, 0.08)
    late: tuple[float, float] = (0.0, 1.0)  # frames
    tilt: float = 0.0  # the microphone's loss from the lowest band to the highest
    noise: float = 0.7


EVERYBODY = Voice()
USER = Voice(pitch=(0.72, 0.03), tempo=(1.25, 0.05), late=(2.0, 0.5), tilt=0.7, noise=0.8)


def spoken(words: Tensor, voice: Voice, seed: int) -> Tensor:
    """Spectrograms [n, 1, TIMES, BANDS] in 8 bits: each word is two syllables of two tracks."""
    g = torch.Generator().manual_seed(seed)
    n = len(words)

    def drawn(mean: float, spread: float) -> Tensor:
        return (mean + spread * torch.randn(n, generator=g))[:, None, None, None]

    tracks = torch.rand(
        WORDS, 2, 2, 4, generator=torch.Generator().manual_seed(7)
    )  # syllable, track: from, to, loudness
    begin, end, loud, bend = tracks[words].unbind(-1)  # [n, syllable, track]
    pitch, tempo, late = drawn(*voice.pitch), drawn(*voice.tempo), drawn(*voice.late)
    times = (torch.arange(TIMES).float()[None, None, None] - late) * tempo
    start = torch.tensor([2.0, 11.0])[None, :, None, None]
    along = ((times - start) / 8).clamp(-0.5, 1.5)  # [n, syllable, 1, time]
    swell = torch.exp(-((along - 0.5) ** 2) / 0.12)
    low = torch.tensor([1.0, 6.0])[None, None, :, None]
    height = pitch * (low + 6 * (begin[..., None] + (end - begin)[..., None] * along + 0.4 * (bend[..., None] - 0.5)))
    bands = torch.arange(BANDS).float()
    lines = torch.exp(-((bands - height[..., None]) ** 2) / 1.5) * (swell * (0.6 + 0.8 * loud[..., None]))[..., None]
    clean = lines.sum((1, 2)) * (1 - voice.tilt * bands / BANDS)
    return in_8_bits(clean + voice.noise * torch.rand(clean.shape, generator=g))[:, None]


def in_8_bits(x: Tensor) -> Tensor:
    return (x * 100).round().clamp(0, 255).to(torch.uint8)


def corpus(count: int, words: range, voice: Voice, seed: int) -> tuple[Tensor, Tensor]:
    labels = torch.randint(words.start, words.stop, (count,), generator=torch.Generator().manual_seed(seed))
    return spoken(labels, voice, seed + 1), labels


class Keywords(nn.Module):
    """Convolutions over bytes, as a front end hands them over."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = block(1, 8, 1)
        self.body = nn.Sequential(block(8, 16, 2), block(16, 24, 2))
        self.head = nn.Linear(24, WORDS)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.stem(x.float() * 0.02 - 1.0)).mean((2, 3)))  # type: ignore[no-any-return]


def block(inputs: int, outputs: int, stride: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())


class WithMemory(nn.Module):
    """The network, and old examples that go where it goes: into the plan, into what is saved, and back to PyTorch."""

    replay: Tensor

    def __init__(self, net: nn.Module, x: Tensor, labels: Tensor) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("replay", torch.cat([x.flatten(1), labels[:, None].to(torch.uint8)], 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)  # type: ignore[no-any-return]


def accuracy(net: nn.Module, x: Tensor, labels: Tensor) -> float:
    with torch.no_grad():
        return float((net(x).argmax(1) == labels).float().mean())


def pretrained(count: int, epochs: int) -> Keywords:
    """On everybody's voice."""
    torch.manual_seed(0)
    net = Keywords()
    x, labels = corpus(count, range(WORDS), EVERYBODY, seed=1)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(epochs):
        for rows in torch.randperm(count).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[rows]), labels[rows]).backward()
            optimizer.step()
    return net.eval()
