"""Convolutions of halves by Winograd's F(2x2, 3x3): transformed inputs and weights are halves, in pairs of channels;
of weight gradients, transformed gradients and inputs, in pairs of tiles.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.panels import FLOAT
from trainlib_deployer.kernels.row import Grain, Row
from trainlib_deployer.kernels.winograd import (
    PAIRS_BLOCK,
    Winograd,
    extents,
    fields,
    less_and_less,
    scattered,
    shared_out,
    tileable,
    up,
)
from trainlib_deployer.machine.costs import Costs

if TYPE_CHECKING:
    from trainlib_deployer.ops.conv import Conv

ARITHMETIC = "Winograd's F(2x2, 3x3), one chain of sums of two products, those of neighbouring channels"
GRADIENTS = f"Winograd's F(3x3, 2x2), chains of {PAIRS_BLOCK} tiles, of sums of two products, added up"
PAIR = 4 * 4  # words: elements of a row of the transformed 4 x 4, of four tiles or channels
ROWS = 4
FEWER = (64, 32, 16)  # tiles: whole panels for eight cores, or halves of them
PARTS = (32, 24, 16)  # summed channels, of more
UNIT = 4 * 4 * 4  # floats: its products for 4 channels x 4 tiles, and their outputs
MOST = Winograd(tiles=128)
WHOLE = replace(MOST, whole=True)
DIRECT = 1.0  # instructions a multiply-add of the definition


def most(kind: Conv) -> Winograd:
    return MOST if kind.direction == "bw_w" else WHOLE


def pairs(chans: int) -> int:
    return -(-chans // 2)


def leaner(kind: Conv, cores: int) -> Iterator[Conv]:
    """Less and less scratch: every transform is then done more often. Sums that go on are put aside."""
    assert kind.winograd is not None
    most, (rows, tiles, chans) = kind.chunk, extents(kind)
    if kind.direction == "bw_w":
        found = [*gradient_chunks(most)]
    else:
        found = [*(whole_chunks(most) if kind.winograd.whole else ()), *chunks(up(rows), up(tiles), chans)]
    yield from less_and_less(kind, found, cores)


def whole_chunks(most: Winograd) -> Iterator[Winograd]:
    """All rows of the transformed 4 x 4 together; with fewer channels of the outputs inputs are transformed again, with
    a part of the summed ones products wait for the others."""
    parts = [part for part in PARTS if part < most.chans]
    for rows, chans in itertools.product((most.rows, up(most.rows // 2)), (most.chans, *parts)):
        for tiles in (most.tiles, *(t for t in FEWER if t < most.tiles)):
            yield replace(most, rows=rows, tiles=tiles, chans=chans, whole=True)


def chunks(rows: int, tiles: int, chans: int) -> Iterator[Winograd]:
    slim = Winograd(min(MOST.rows, rows), min(MOST.tiles, tiles))
    yield slim
    while slim.tiles > 8 or slim.rows > 8:
        wide = slim.tiles >= slim.rows
        slim = replace(slim, tiles=up(slim.tiles // 2)) if wide else replace(slim, rows=up(slim.rows // 2))
        yield slim
    slim = replace(slim, chans=1 << chans.bit_length())
    while slim.chans > 8:
        slim = replace(slim, chans=slim.chans // 2)
        yield slim
    yield replace(slim, rows=4, tiles=4)


def gradient_chunks(slim: Winograd) -> Iterator[Winograd]:
    """Fewer tiles at a time than a block has mean products that are put aside, so channels come first."""
    for least in (16, 8, 4):
        while max(slim.rows, slim.chans) > least:
            more = slim.rows >= slim.chans
            slim = replace(slim, rows=up(slim.rows // 2)) if more else replace(slim, chans=up(slim.chans // 2))
            yield slim
        while slim.tiles > least:
            yield (slim := replace(slim, tiles=up(slim.tiles // 2)))


def scratch(kind: Conv, cores: int) -> int:
    """Transformed weights and inputs, sums of outputs, and products: of each core or, where they go on, all of them."""
    chunk, (_, tiles, chans) = kind.chunk, extents(kind)
    if kind.direction == "bw_w":
        rows, inner = chunk.rows // 4, chunk.chans // 4
        products = cores if chunk.tiles >= min(tiles, PAIRS_BLOCK) else rows * inner
        return FLOAT * (PAIR * (rows + inner) * (chunk.tiles // 2) + UNIT * products)
    fours, panels = chunk.rows // 4, chunk.tiles // 4
    products = cores if chunk.chans >= chans else fours * panels
    return FLOAT * (PAIR * (fours + panels) * pairs(chunk.chans) + UNIT * (fours * panels + products))


def whole_scratch(kind: Conv, cores: int) -> int:
    """Transformed weights and inputs, and products of each core, or of all where they go on."""
    chunk, (_, _, chans) = kind.chunk, extents(kind)
    fours, panels = chunk.rows // 4, chunk.tiles // 4
    products = cores if chunk.chans >= chans else fours * panels
    return FLOAT * ROWS * (PAIR * (fours + panels) * pairs(chunk.chans) + UNIT * products)


def takes_rows(kind: Conv, _cores: int) -> bool:
    return kind.winograd is not None and not kind.winograd.whole


def takes_whole(kind: Conv, _cores: int) -> bool:
    return kind.winograd is not None and kind.winograd.whole


def whole_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    """Inputs are transformed for each turn of channels of the outputs, and so are weights; these also for each step of
    tiles, where a part of the summed channels is there at a time."""
    c, chunk, (rows, tiles, chans), groups = costs.winograd_whole, kind.chunk, extents(kind), kind.shape.groups
    turns, panels, fours = -(-rows // chunk.rows), -(-tiles // 4), -(-min(rows, chunk.rows) // 4)
    at_once, parts = chunk.tiles // 4, -(-chans // chunk.chans)
    steps = -(-panels // at_once)
    weights = -(-4 * fours * pairs(chans) // cores) * c.weight * (steps if parts > 1 else 1)
    inputs = shared_out(panels, at_once, pairs(chans), cores) * c.input
    units = shared_out(panels, at_once, fours, cores)
    products = units * (c.tile * parts + c.term * pairs(chans) + c.output)
    around = steps * parts * c.step
    return c.start + groups * turns * (weights + inputs * scattered(kind, c.apart) + products + around)


def cycles(kind: Conv, cores: int, costs: Costs) -> float:
    """Inputs are transformed for each turn of channels of the outputs, weights for each step of tiles."""
    c, chunk, (rows, tiles, chans), groups = costs.winograd_pairs, kind.chunk, extents(kind), kind.shape.groups
    turns, panels, fours = -(-rows // chunk.rows), -(-tiles // 4), -(-min(rows, chunk.rows) // 4)
    steps, parts = -(-tiles // chunk.tiles), -(-chans // chunk.chans)
    weights = turns * steps * -(-4 * fours * pairs(chans) // cores) * c.weight
    inputs = turns * -(-panels * pairs(chans) // cores) * c.input * scattered(kind, c.apart)
    units = turns * steps * -(-min(panels, chunk.tiles // 4) * fours // cores)
    products = units * (c.tile * parts + c.term * pairs(chans) + c.output)
    return c.start + groups * (weights + inputs + products + 4 * turns * steps * parts * c.step)


def gradient_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    """Gradients are transformed for each turn of input channels, inputs for each of output channels, two tiles of one
    channel at a time; every block of tiles is transformed back."""
    c, chunk, (rows, tiles, chans), groups = costs.winograd_pairs, kind.chunk, extents(kind), kind.shape.groups
    turns, inner, twos = -(-rows // chunk.rows), -(-chans // chunk.chans), -(-tiles // 2)
    blocks = -(-tiles // PAIRS_BLOCK)
    steps, more = blocks * -(-min(tiles, PAIRS_BLOCK) // chunk.tiles), scattered(kind, c.apart)
    gradients = inner * -(-twos * rows // cores) * c.input / 6 * more
    inputs = turns * -(-twos * chans // cores) * c.input / 4 * more
    units = turns * inner * -(-(chunk.rows // 4) * (chunk.chans // 4) // cores)
    products = units * (c.tile * steps + c.term * twos + c.output * blocks)
    return c.start + groups * (gradients + inputs + products + 4 * turns * inner * steps * c.step)


def pays(kind: Conv) -> bool:
    """Whether a convolution of this shape takes fewer instructions like this than directly, by a quarter."""
    s, (rows, tiles, chans) = kind.shape, extents(kind)
    if not tileable(kind):
        return False
    if kind.direction == "bw_w":
        twos, units = -(-tiles // 2), -(-rows // 4) * -(-chans // 4)
        transforms = scattered(kind, 3) * twos * (100 * rows + 150 * chans)
        products = units * (3000 * -(-tiles // PAIRS_BLOCK) + 16 * 24 * twos)
        return s.groups * (20_000 + transforms + products) < 0.75 * DIRECT * s.macs()
    panels, fours, terms = -(-tiles // 4), -(-rows // 4), pairs(chans)
    transforms = 1160 * fours * terms + 430 * scattered(kind, 3) * panels * terms
    products = panels * fours * (2300 + 16 * 24 * terms)
    return s.groups * (20_000 + transforms + products) < 0.75 * DIRECT * s.macs()


row = partial(
    Row,
    struct="tl_conv2d",
    header="tl_conv.h",
    fields=fields,
    takes=takes_rows,
    scratch=scratch,
    cycles=cycles,
    arithmetic=ARITHMETIC,
    split="channels x tiles",
    grain=Grain(4, 4, 2),
    storage=DType.F16,
)

whole = partial(row, takes=takes_whole, scratch=whole_scratch, cycles=whole_cycles)

WINOGRAD_F16 = (
    whole("conv2d_fw", "tl_conv2d_fw_winograd_whole_f16", "winograd/conv2d_fw_winograd_whole_f16.c"),
    whole("conv2d_bw_x", "tl_conv2d_bw_x_winograd_whole_f16", "winograd/conv2d_bw_x_winograd_whole_f16.c"),
    row("conv2d_fw", "tl_conv2d_fw_winograd_f16", "winograd/conv2d_fw_winograd_f16.c"),
    row("conv2d_bw_x", "tl_conv2d_bw_x_winograd_f16", "winograd/conv2d_bw_x_winograd_f16.c"),
    row(
        "conv2d_bw_w",
        "tl_conv2d_bw_w_winograd_f16",
        "winograd/conv2d_bw_w_winograd_f16.c",
        cycles=gradient_cycles,
        arithmetic=GRADIENTS,
        split="channels x channels",
        grain=Grain(4, 4, PAIRS_BLOCK),
    ),
)
