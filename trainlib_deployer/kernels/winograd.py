"""Convolutions by Winograd's F(2x2, 3x3): transforms, and products of channels x tiles in between.

Tiles of 2 x 2 outputs take 16 multiplications instead of 36. Which operations are done like this follows from their
shapes alone, because it decides the bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Unpack

from trainlib_deployer.kernels.conv import fields as direct_fields
from trainlib_deployer.kernels.conv import row
from trainlib_deployer.kernels.panels import BLOCK, FLOAT
from trainlib_deployer.kernels.row import BLOCKS, Fields, Grain, More, Row
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.call import Operand

if TYPE_CHECKING:
    from trainlib_deployer.ops.conv import Conv

ARITHMETIC = f"Winograd's F(2x2, 3x3), {BLOCKS}"
TILE = 2  # rows and columns of outputs
SHARE = 16 / 36  # of the multiplications that the definition has
DIRECT = 2.2  # instructions a multiply-add of the definition
GRADIENT_BLOCK = 32  # tiles of a weight gradient that are added up on their own
PAIRS_BLOCK = 64  # ... of halves
SHARED = 6000  # more cycles where the work on a panel is shared out and waited for
TOGETHER = 2  # fours of channels whose products a core makes before they become outputs
ELEMENTS = 4  # of a row of the transformed 4 x 4, which is what is worked on at a time


@dataclass(frozen=True)
class Winograd:
    """What is transformed at a time; none of it changes a bit."""

    rows: int = 64  # channels of the outputs
    tiles: int = 32
    chans: int = 1 << 16  # channels of the sums: all of them, a multiple of 64, or a part of 64
    whole: bool = False  # all rows of the transformed 4 x 4 together, of floats two of them


def up(extent: int) -> int:
    """To whole panels."""
    return -(-extent // 4) * 4


def extents(kind: Conv) -> tuple[int, int, int]:
    """Channels of the outputs, tiles, channels of the sums; of weight gradients output channels, tiles, and input
    channels."""
    s = kind.shape
    rows, chans = (s.ci, s.co) if kind.direction == "bw_x" else (s.co, s.ci)
    high, wide = (s.h, s.w) if kind.direction == "bw_x" else (s.ho, s.wo)
    return rows, s.n * -(-high // TILE) * -(-wide // TILE), chans


def most(kind: Conv) -> Winograd:
    return Winograd(whole=kind.direction != "bw_w")


def leaner(kind: Conv, cores: int) -> Iterator[Conv]:
    """Less and less scratch: every transform is then done more often."""
    assert kind.winograd is not None
    found = [*chunks(replace(kind.winograd, whole=False), *extents(kind))]
    if kind.winograd.whole:
        found += twos_chunks(kind.chunk)
    yield from less_and_less(kind, found, cores)


def less_and_less(kind: Conv, found: Sequence[Winograd], cores: int) -> Iterator[Conv]:
    least = kind.scratch(cores)
    for slim in sorted((replace(kind, winograd=c) for c in found), key=lambda k: -k.scratch(cores)):
        if (size := slim.scratch(cores)) < least:
            least = size
            yield slim


def twos_chunks(slim: Winograd) -> Iterator[Winograd]:
    """Two rows of the transformed 4 x 4 at a time; with fewer channels of the outputs inputs are transformed again."""
    while slim.rows >= 8:
        for tiles in (32, 16):
            yield replace(slim, tiles=min(slim.tiles, tiles))
        slim = replace(slim, rows=up(slim.rows // 2))


def chunks(most: Winograd, rows: int, tiles: int, chans: int) -> Iterator[Winograd]:
    slim = Winograd(min(most.rows, up(rows)), min(most.tiles, up(tiles)), min(most.chans, chans))
    yield slim
    while slim.tiles > 8:
        yield (slim := replace(slim, tiles=up(slim.tiles // 2)))
    while slim.rows > 8:
        yield (slim := replace(slim, rows=up(slim.rows // 2)))
    while slim.chans > 8:
        less = BLOCK if slim.chans > BLOCK else 1 << (slim.chans - 1).bit_length() - 1
        yield (slim := replace(slim, chans=less))
    if slim.rows > 4 or slim.tiles > 4:
        yield replace(slim, rows=4, tiles=4)


def at_a_time(kind: Conv) -> Winograd:
    """No more than there is."""
    assert kind.winograd is not None
    w, (rows, tiles, chans) = kind.winograd, extents(kind)
    if kind.direction == "bw_w":
        chans = up(chans)
        return Winograd(min(w.rows, up(rows)), min(w.tiles, up(tiles), kind.block), min(up(w.chans), chans))
    return replace(w, rows=min(w.rows, up(rows)), tiles=min(w.tiles, up(tiles)), chans=min(w.chans, chans))


def fields(kind: Conv, reads: list[Operand], writes: list[Operand], scratch: str) -> Fields:
    chunk = kind.chunk
    own = {"packed_rows": chunk.rows, "chans": chunk.chans, "tiles": chunk.tiles}
    return [*((n, v) for n, v in direct_fields(kind, reads, writes, scratch) if n not in own), *own.items()]


def takes(kind: Conv, _cores: int) -> bool:
    return kind.winograd is not None


def takes_panels(kind: Conv, cores: int) -> bool:
    """Where scratch has a panel for each core and all channels that are summed, and what is saved is more than some
    cores' wait for others that have a panel more: counted on RISC-V."""
    if kind.winograd is None:
        return False
    chunk, (rows, tiles, chans) = kind.chunk, extents(kind)
    if chunk.tiles < 4 * cores or chunk.chans < chans or chans > BLOCK:
        return False
    shares, alone = -(-tiles // 4) / cores, 5000 + 310 * (rows + chans) + -(-rows // 4) * (1000 + 500 * chans)
    return math.ceil(shares) * alone < shares * (alone + SHARED)


def takes_twos(kind: Conv, _cores: int) -> bool:
    """Two rows of the transformed 4 x 4 at a time, with all channels that are summed, and whole tiles with no more than
    one column outside of the image on either side."""
    s, w, (_, _, chans) = kind.shape, kind.winograd, extents(kind)
    if w is None or not w.whole or kind.adds or not 2 < chans <= min(BLOCK, w.chans):
        return False
    if kind.direction == "bw_x":
        high, wide, before, extent = s.h, s.w, 2 - s.pad[1], s.wo
    else:
        high, wide, before, extent = s.ho, s.wo, s.pad[1], s.w
    return high % TILE == wide % TILE == 0 and before <= 1 and wide + 1 - before <= extent


def takes_twos_panels(kind: Conv, cores: int) -> bool:
    return takes_twos(kind, cores) and takes_panels(kind, cores)


def twos_scratch(kind: Conv, cores: int) -> int:
    """Transformed weights, inputs, and of each core the products of a panel."""
    chunk, (_, _, chans) = kind.chunk, extents(kind)
    return FLOAT * (2 * ELEMENTS * (chunk.rows + chunk.tiles) * chans + cores * TOGETHER * 2 * ELEMENTS * 16)


def scratch(kind: Conv, _cores: int) -> int:
    """Transformed weights, inputs, and their products; these twice where sums of several blocks go on."""
    chunk, (_, _, chans) = kind.chunk, extents(kind)
    if kind.direction == "bw_w":
        floats = (chunk.rows + chunk.chans) * chunk.tiles + chunk.rows * chunk.chans
        return 4 * ELEMENTS * floats
    sums = 2 if chunk.chans < BLOCK < chans else 1
    floats = (chunk.rows + chunk.tiles) * chunk.chans + sums * chunk.rows * chunk.tiles
    return FLOAT * ELEMENTS * floats


def apart(kind: Conv) -> float:
    """The share of panels whose tiles are in several rows of an image."""
    s = kind.shape
    wide = -(-(s.w if kind.direction == "bw_x" else s.wo) // TILE)
    return 0.0 if wide % 4 == 0 else min(3 / wide, 1.0)


def scattered(kind: Conv, times: float) -> float:
    """What panels take on average, where those in several rows take so many times as long."""
    return 1 + (times - 1) * apart(kind)


def tileable(kind: Conv) -> bool:
    s = kind.shape
    return (s.kh, s.kw, s.stride, s.dilation) == (3, 3, (1, 1), (1, 1))


def cycles(kind: Conv, cores: int, costs: Costs) -> float:
    """Inputs are transformed for each turn of channels of the outputs, weights once where they are all there."""
    c, chunk, (rows, tiles, chans), groups = costs.winograd, kind.chunk, extents(kind), kind.shape.groups
    turns, panels, fours = -(-rows // chunk.rows), -(-tiles // 4), -(-min(rows, chunk.rows) // 4)
    steps, blocks = -(-tiles // chunk.tiles), -(-chans // min(chunk.chans, BLOCK))
    more = scattered(kind, c.apart)
    weights = -(-rows * chans // cores) * c.weight * (1 if chunk.chans == chans else steps)
    inputs = turns * -(-panels * chans // cores) * c.input * more
    outputs = -(-panels * rows // cores) * c.output * more
    units = turns * steps * -(-4 * min(panels, chunk.tiles // 4) * fours // cores) / 4
    products = units * (c.tile + c.term * chans + (c.block * blocks if blocks > 1 else 0))
    around = 4 * turns * steps * -(-chans // chunk.chans) * c.step
    return c.start + groups * (weights + inputs + outputs + products + around)


def panel_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    """Every core has panels of its own; inputs are transformed for each turn of channels of the outputs."""
    c, chunk, (rows, tiles, chans) = costs.winograd_panels, kind.chunk, extents(kind)
    turns, more, panels = -(-rows // chunk.rows), scattered(kind, costs.winograd.apart), -(-tiles // 4 // cores)
    weights = -(-rows * chans // cores) * c.weight
    transforms = turns * (c.panel + chans * c.input * more) + rows * c.output * more
    products = -(-rows // 4) * (c.tile + c.term * chans)
    return c.start + kind.shape.groups * (weights + panels * (transforms + products))


def shared_out(panels: int, at_once: int, each: int, cores: int) -> int:
    """What a core has of so much for each panel, where so many panels are worked on at a time."""
    full, left = divmod(panels, at_once)
    return full * -(-at_once * each // cores) + -(-left * each // cores)


def twos_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    """Inputs are transformed for each turn of channels of the outputs."""
    c, chunk, (rows, tiles, chans) = costs.winograd_twos, kind.chunk, extents(kind)
    turns, panels, fours = -(-rows // chunk.rows), -(-tiles // 4), -(-min(rows, chunk.rows) // 4)
    at_once = chunk.tiles // 4
    inputs, units = (shared_out(panels, at_once, each, cores) for each in (chans, fours))
    weights = -(-4 * fours * chans // cores) * c.weight
    work = weights + -(-panels // at_once) * c.step + inputs * c.input + units * (c.tile + c.term * chans)
    return c.start + kind.shape.groups * turns * work


def twos_panel_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    """Every core has panels of its own."""
    c, chunk, (rows, tiles, chans) = costs.winograd_twos, kind.chunk, extents(kind)
    turns, panels, fours = -(-rows // chunk.rows), -(-tiles // 4), -(-min(rows, chunk.rows) // 4)
    weights = -(-4 * fours * chans // cores) * c.weight
    work = -(-panels // cores) * (c.panel + chans * c.input + fours * (c.tile + c.term * chans))
    return c.start + kind.shape.groups * turns * (weights + work)


def gradient_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    """Of a weight gradient: gradients are transformed for each turn of input channels, inputs for each of output
    channels; every block of tiles is transformed back."""
    c, chunk, (rows, tiles, chans), groups = costs.winograd, kind.chunk, extents(kind), kind.shape.groups
    turns, inner = -(-rows // chunk.rows), -(-chans // chunk.chans)
    blocks, panels = -(-tiles // GRADIENT_BLOCK), -(-tiles // 4)
    steps = blocks * -(-min(tiles, GRADIENT_BLOCK) // chunk.tiles)
    more = scattered(kind, c.apart)
    gradients = inner * -(-panels * rows // cores) * c.gradient * more
    inputs = turns * -(-panels * chans // cores) * c.input * more
    weights = blocks * -(-rows * chans // cores) * c.sums
    units = turns * inner * -(-ELEMENTS * (chunk.rows // 4) * (chunk.chans // 4) // cores) / ELEMENTS
    products = units * (c.tile * steps + c.term * tiles)
    around = ELEMENTS * turns * inner * steps * c.step
    return c.start + groups * (gradients + inputs + weights + products + around)


def pays(kind: Conv) -> bool:
    """Whether a convolution of this shape takes fewer instructions like this than directly, by a fifth: counted on
    RISC-V, and the same on every machine, because it decides the bits. Tiles in several rows tell less where the direct
    form packs weights, for input gradients, and forward where they are two and two side by side."""
    s, (rows, tiles, chans) = kind.shape, extents(kind)
    if not tileable(kind):
        return False
    panels, fours, blocks = -(-tiles // 4), -(-rows // 4), -(-tiles // GRADIENT_BLOCK)
    beside = kind.direction == "fw" and s.ho % TILE == s.wo % (2 * TILE) == 0
    more = scattered(kind, 1.32 if kind.direction == "bw_x" or beside else 3)
    transforms = 84 * rows * chans + 350 * more * panels * (rows + chans)
    products = panels * fours * (1000 + 440 * chans)
    if kind.direction == "bw_w":
        transforms = 120 * blocks * rows * chans + 320 * more * panels * (rows + chans)
        products = fours * -(-chans // 4) * (1000 * blocks + 440 * tiles)
    return s.groups * (20_000 + transforms + products) < 0.8 * DIRECT * s.macs()


def winograd(name: str, **more: Unpack[More[Conv]]) -> Row[Conv]:
    more = {"takes": takes, "scratch": scratch, **more}
    return replace(row("winograd", name, **more), fields=fields, arithmetic=ARITHMETIC)


image = partial(winograd, grain=Grain(4, 4, BLOCK))
shared = partial(image, cycles=cycles, split="elements x channels x tiles")
panels = partial(image, cycles=panel_cycles, takes=takes_panels, split="panels of tiles")
twos = partial(image, cycles=twos_cycles, takes=takes_twos, scratch=twos_scratch, split="channels x tiles")
twos_panels = partial(panels, cycles=twos_panel_cycles, takes=takes_twos_panels, scratch=twos_scratch)

WINOGRAD = (
    twos_panels("fw_winograd_twos_panels"),
    twos("fw_winograd_twos"),
    panels("fw_winograd_panels"),
    shared("fw_winograd"),
    twos_panels("bw_x_winograd_twos_panels"),
    twos("bw_x_winograd_twos"),
    panels("bw_x_winograd_panels"),
    shared("bw_x_winograd"),
    winograd(
        "bw_w_winograd",
        cycles=gradient_cycles,
        split="elements x channels x channels",
        grain=Grain(4, 4, GRADIENT_BLOCK),
    ),
)
