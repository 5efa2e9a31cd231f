"""Fourier transforms and complex numbers inside of a network, as cases of the table of operations."""

from __future__ import annotations

import torch
from torch import nn

from tests.e2e.operation_cases import case, cases, fixed, integers, module

fft = torch.fft


def pairs(z: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(z.resolve_conj())


def number(x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_complex(x.contiguous())


case("spectral", "part_of_a_conjugate", lambda x: (number(x) * number(x).conj()).real + number(x).conj().imag, (5, 2))
case("spectral", "flat_parts", lambda x: fft.fft2(number(x)).abs().reshape(2, -1), (2, 3, 5, 2))
case("spectral", "nothing_of_it", lambda x: (number(x) * 0j + number(x)).abs(), (7, 2))

# One product, two stages, a prime length, three stages; odd lengths have no middle.
for n in (7, 36, 37, 45):
    case("spectral", f"rfft_{n}", lambda x: fft.rfft(x).abs(), (2, n))
case("spectral", "rfft_long", lambda x: pairs(fft.rfft(x, n=1000)[:, ::37]), (1, 977))
case("spectral", "rfft_three_stages", lambda x: pairs(fft.rfft(x)[:, :50]), (1, 4488))
case("spectral", "irfft", lambda x: fft.irfft(number(x), norm="ortho"), (3, 5, 2))
case("spectral", "irfft_odd", lambda x: fft.irfft(number(x), n=39), (2, 20, 2))
case("spectral", "fft_middle", lambda x: pairs(fft.fft(x, dim=1, norm="forward")), (2, 6, 3))
case("spectral", "ifft", lambda x, y: pairs(fft.ifft(fft.fft(number(x)) * fft.fft(number(y)))), (40, 2), (40, 2))
case("spectral", "hfft", lambda x: fft.hfft(number(x), n=9), (2, 5, 2))
case("spectral", "ihfft", lambda x: pairs(fft.ihfft(x)), (2, 9))
case("spectral", "rfft2", lambda x: pairs(fft.rfft2(x, norm="ortho")), (2, 5, 8))
case("spectral", "irfft2", lambda x, y: fft.irfft2(fft.rfft2(x) * number(y), s=(6, 7)), (2, 6, 7), (6, 4, 2))
case("spectral", "fftn", lambda x: fft.fftn(x, dim=(1, 2)).real, (2, 6, 5))
case("spectral", "fftshift", lambda x: pairs(fft.fftshift(fft.fft(x), 1)), (2, 5))
cases(
    "spectral",
    {
        "stft": lambda x, w: torch.stft(x, 16, 4, window=w, return_complex=True).abs().square(),
        "stft_short": lambda x, w: pairs(torch.stft(x, 20, 5, 16, w, False, normalized=True, return_complex=True)),
        "istft": lambda x, w: torch.istft(torch.stft(x * x, 16, 4, window=w, return_complex=True), 16, 4, window=w),
    },
    (2, 41),
    fixed(torch.hann_window(16) + 0.25),
)
for name, function in {
    "product": lambda x, y: pairs(x * y.conj() + 2j * x - (1 + 0.5j)),
    "quotient": lambda x, y: pairs(x / (y * y + 3)),
    "length": lambda x, y: (x.abs() * y.real, x.angle(), x.imag.sum(), (x - x).abs()),
    "direction": lambda x, y: pairs(x.sgn() * y),
    "functions": lambda x, y: pairs(torch.exp(x * 0.5) + torch.log(y) + torch.sqrt(x) ** 3 + torch.tanh(y)),
    "pieces": lambda x, y: pairs(torch.cat([x[:, :2], torch.stack([y[0], x[1]])], 1).T.mean(1)),
    "placed": lambda x, y: pairs(torch.zeros(3, 4, dtype=x.dtype).index_add(0, torch.tensor([2, 0]), x + y[0])),
    "einsum": lambda x, y: pairs(torch.einsum("bi,bj->ij", x, y)),
    "where": lambda x, y: pairs(torch.where(x.real > 0, x, y).masked_fill(y.imag > 1, 0)),
    "written": lambda x, y: pairs(written(x, y)),
}.items():
    case("spectral", name, lambda x, y, f=function: f(number(x), number(y)), (2, 4, 2), (2, 4, 2))
case("spectral", "polar", lambda x, y: pairs(torch.polar(x, y) * torch.complex(x, y)), (3, 4), (3, 4))
case("spectral", "angle_of_real", lambda x, y: x.angle() * y, (3, 4), (3, 4))
case("spectral", "rotary", lambda x, a: pairs(number(x) * torch.polar(torch.ones(6), a)), (2, 6, 2), (6,))
case("spectral", "chosen", lambda x, i: pairs(fft.rfft(x)[:, i]), (3, 8), integers((4,), 5))


def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x * 2
    z[:, 1] = y[:, 0]
    z[0] *= 1j
    return z


class SpectralConvolution(nn.Module):
    """A Fourier neural operator's: complex weights, a complex buffer, and one that forward changes."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 3, 4, dtype=torch.complex64))
        self.register_buffer("turn", torch.polar(torch.ones(4), torch.arange(4) * 0.3))
        self.register_buffer("mean", torch.zeros(4, dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        spectrum = fft.rfft(x)
        low = torch.einsum("bim,iom->bom", spectrum[..., :4] * self.turn, self.weight)
        self.mean.mul_(0.5).add_(low.detach().mean((0, 1)))
        out = torch.zeros(len(x), 3, spectrum.shape[-1], dtype=low.dtype)
        out[..., :4] = low
        return fft.irfft(out, n=x.shape[-1]), pairs(self.mean * self.weight)


module("spectral", "operator", SpectralConvolution(), (2, 2, 9))
