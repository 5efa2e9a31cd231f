"""Bytes of scratch that the kernels use; the formulas stand a second time in c_lib/include/tl_conv.h."""

from __future__ import annotations

PANEL = 64 * 4 * 4  # [TL_KC][4] floats
SLACK = 2 * 8 * 4 * 4  # around the panel of a convolution, for 3 x 3 kernels cut by a block
PACKED_ROWS = 16  # channels whose weights the input gradient packs at a time


def conv_scratch(
    direction: str,
    n: int,
    groups: int,
    ci: int,
    co: int,
    h: int,
    w: int,
    ho: int,
    wo: int,
    kh: int,
    kw: int,
    stride: tuple[int, int],
    pad: tuple[int, int],
    dil: tuple[int, int],
    cores: int,
    most_rows: int = PACKED_ROWS,
) -> int:
    """A panel and a table of taps per core, and for the input gradient packed weights.

    The weight gradient of a depthwise convolution that is split over the sum keeps the sums of its blocks.
    """
    if direction == "bw_w" and ci == 1 and co < 4:
        items = groups * co * kh * -(-kw // 3)
        blocks = items * -(-n * ho * wo // 64)
        split = cores > 1 and items < 4 * cores and items < blocks <= 512
        return 12 * blocks if split else 0
    if direction == "bw_w":
        return cores * PANEL
    if ci * co < 4:
        return 0
    own = cores * (PANEL + SLACK + 4 * min(kh * kw, 64))
    return own + (packed_rows(ci, most_rows) * 64 * 4 if direction == "bw_x" else 0)


def packed_rows(channels: int, most: int) -> int:
    return min((channels + 3) // 4 * 4, most)
