"""Short-time Fourier transforms, in terms of windows and of transforms of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

aten = torch.ops.aten
Tensor = torch.Tensor


def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:
    """PyTorch's own reads its windows by their strides in memory, and its gradient writes element by element."""
    if input.is_complex() or align_to_window:
        return NotImplemented
    x = input if input.dim() == 2 else input.unsqueeze(0)
    if center:
        x = F.pad(x.unsqueeze(1), [n_fft // 2, n_fft // 2], pad_mode).squeeze(1)
    frames = x.unfold(1, n_fft, hop_length or n_fft // 4)
    weights = whole_window(window, win_length, n_fft)
    if weights is not None:
        frames = frames * weights
    transform = torch.fft.fft if onesided is False or (weights is not None and weights.is_complex()) else torch.fft.rfft
    found = transform(frames, norm="ortho" if normalized else "backward").transpose(1, 2)
    found = found if input.dim() == 2 else found.squeeze(0)
    return found if return_complex else torch.view_as_real(found)


def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Any:
    """Without the check that some window covers each sample, which reads their values."""
    if onesided is False or return_complex:
        return NotImplemented
    hop = hop_length or n_fft // 4
    spectra = input if input.dim() == 3 else input.unsqueeze(0)
    frames = torch.fft.irfft(spectra.transpose(1, 2), n_fft, norm="ortho" if normalized else "backward")
    weights = whole_window(window, win_length, n_fft)
    if weights is None:
        weights = torch.ones(n_fft)
    batch, count, _ = frames.shape
    total = n_fft + hop * (count - 1)
    sums = aten.unfold_backward(frames * weights, [batch, total], 1, n_fft, hop)
    squares = aten.unfold_backward((weights * weights).expand(1, count, n_fft), [1, total], 1, n_fft, hop)
    start = n_fft // 2 if center else 0
    stop = total - start if length is None else min(start + length, total)
    found = sums[:, start:stop] / squares[:, start:stop]
    if length is not None:
        found = F.pad(found, [0, length - found.shape[1]])
    return found if input.dim() == 3 else found.squeeze(0)


def whole_window(window: Tensor | None, win_length: int | None, n_fft: int) -> Tensor | None:
    """In the middle of a frame; None for ones."""
    width = n_fft if win_length is None else win_length
    if width == n_fft:
        return window
    left = (n_fft - width) // 2
    return F.pad(torch.ones(width) if window is None else window, [left, n_fft - width - left])


REWRITES: dict[Any, Callable[..., Any]] = {torch.stft: stft, torch.istft: istft}
