"""Steps through Fourier transforms and complex numbers, and steps that draw random numbers."""

from __future__ import annotations

import random

from tests.fuzz.step import Shape, Step, step


@step(2, 3, 4, times=2)
def spectral(rng: random.Random, shape: Shape) -> Step:
    """Along any dimension: lengths, angles, filters, transforms there and back."""
    d = rng.randrange(1, len(shape))
    n, last = shape[d], shape[-1]
    bins = last // 2 + 1
    norm = rng.choice(("backward", "ortho", "forward"))
    filtered = (
        f"self.w@ = nn.Parameter(torch.randn({bins}, dtype=torch.complex64))",
        f"self.w@ = nn.Buffer(torch.polar(torch.ones({bins}), torch.arange({bins}) * 0.7))",
    )
    calls = (
        f"x = torch.fft.rfft(x, dim={d}, norm='{norm}').abs()",
        f"x = torch.fft.fft(x, dim={d}, norm='{norm}').real",
        f"x = torch.fft.fftn(x, dim=({d}, 0), norm='ortho').imag",
        f"x = torch.fft.irfft(torch.fft.rfft(x, dim={d}) ** 2, n={n}, dim={d}, norm='{norm}')",
        f"z@ = torch.fft.rfft2(x, dim=(0, {d}), norm='ortho')\nx = torch.cat([z@.real, z@.imag], {d})",
        "z@ = torch.complex(x, torch.tanh(x))\nx = (z@ * z@.flip(-1).conj() / (z@.abs() + 1)).imag",
        "z@ = torch.polar(torch.sigmoid(x) + 0.5, x)\nx = (z@.log() * 1j).real + z@.angle()",
    )
    if rng.random() < 0.3:
        return Step((rng.choice(filtered),), (f"x = torch.fft.irfft(torch.fft.rfft(x) * self.w@, n={last})",))
    return Step((), tuple(rng.choice(calls).split("\n")))


@step(2, 3, 4)
def random_numbers(rng: random.Random, shape: Shape) -> Step:
    ones = (1,) * (len(shape) - 1)
    calls = (
        "x = x + 0.1 * torch.randn_like(x)",
        f"x = x * torch.rand{shape}",
        f"x = x / 0.8 * torch.empty({shape[0]}, *{ones}).bernoulli_(0.8)",
        "x = F.gumbel_softmax(x, tau=0.7)",
        "x = F.rrelu(x, 0.1, 0.4, training=True)",
        f"x = x[..., torch.randperm({shape[-1]})]",
        f"x = x * torch.randint(1, 4, ({shape[-1]},))",
        "x = x + torch.empty_like(x).exponential_(3.0)",
    )
    return Step((), (rng.choice(calls),))
