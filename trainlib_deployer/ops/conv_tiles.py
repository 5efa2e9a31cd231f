"""How convolutions are cut into tiles.

Rows of the output with the rows of the input that they read (a halo where windows overlap), channels, groups, samples.
A weight gradient adds up over rows and samples: its tiles then end where a block of terms ends, so that the order of
the sum stays what it is without tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import gcd
from typing import NamedTuple, Protocol

from trainlib_deployer.ops.conv_shape import ConvShape
from trainlib_deployer.program.cuts import MOST_TILES, Made, Range, ranges, sizes, span, there_and_back
from trainlib_deployer.program.ir import Kind, Part, View
from trainlib_deployer.program.loop import inside

GRAIN = 4  # channels of a micro-kernel


class Cut(NamedTuple):
    """One tile. Channels count within a group; a tile has several groups or several channels, not both."""

    samples: Range
    groups: Range
    channels: Range  # of what is written; for the weight gradient, output channels
    inputs: Range  # input channels of a weight gradient
    rows: Range  # of what is written; for the weight gradient, of y
    first: bool = True  # nothing to add to yet


class Convolution(Protocol):
    """A convolution or one of its gradients."""

    @property
    def direction(self) -> str: ...

    @property
    def shape(self) -> ConvShape: ...

    @property
    def row_grain(self) -> int: ...

    @property
    def block(self) -> int: ...

    @property
    def known(self) -> dict[tuple[object, ...], Kind]: ...

    def tile(self, shape: ConvShape, accumulate: bool = False) -> Kind: ...


def cuts(kind: Convolution) -> Iterator[Sequence[Cut]]:
    s = kind.shape
    if kind.direction == "bw_w":
        yield from gradient_cuts(kind)
        return
    own, rows = (s.co, s.ho) if kind.direction == "fw" else (s.ci, s.h)
    for samples in sample_sizes(s.n):
        for r in sizes(rows, kind.row_grain) if samples in (1, s.n) else [rows]:
            for groups, channels in channel_sizes(s.groups, own):
                yield from both_orders(s, own, (samples, groups, channels), ranges(rows, r))


def sample_sizes(n: int) -> list[int]:
    return [n] if n == 1 else [n, 1]


def channel_sizes(groups: int, own: int) -> Iterator[tuple[int, int]]:
    """(groups, channels of each) of a tile."""
    for g in sizes(groups):
        yield g, own
    if groups == 1:
        for c in sizes(own, GRAIN)[1:]:
            yield 1, c


def both_orders(s: ConvShape, own: int, size: tuple[int, int, int], rows: list[Range]) -> Iterator[Sequence[Cut]]:
    """Weights stay while the image passes, or the image stays while the weights pass."""
    samples, groups, channels = size
    if len(rows) * -(-s.n // samples) * -(-s.groups // groups) * -(-own // channels) > MOST_TILES:
        return
    places = [(n, r) for n in ranges(s.n, samples) for r in rows]
    filters = [(g, c) for g in ranges(s.groups, groups) for c in ranges(own, channels)]

    def cut(place: tuple[Range, Range], some: tuple[Range, Range]) -> Cut:
        (n, r), (g, c) = place, some
        return Cut(n, g, c, (0, s.ci), r)

    yield there_and_back(filters, places).through(lambda pair: cut(pair[1], pair[0]))
    if len(filters) > 1 and len(places) > 1:
        yield there_and_back(places, filters).through(lambda pair: cut(*pair))


def gradient_cuts(kind: Convolution) -> Iterator[Sequence[Cut]]:
    s = kind.shape
    for places in sums(kind):
        for g in sizes(s.groups):
            for co in sizes(s.co, GRAIN) if s.groups == 1 else [s.co]:
                for ci in sizes(s.ci, GRAIN) if s.groups == 1 else [s.ci]:
                    if len(places) * -(-s.groups // g) * -(-s.co // co) * -(-s.ci // ci) <= MOST_TILES:
                        filters = there_and_back(ranges(s.co, co), ranges(s.ci, ci))
                        yield added_up(ranges(s.groups, g), filters, places)


def added_up(
    groups: Sequence[Range], filters: Sequence[tuple[Range, Range]], places: Sequence[tuple[Range, Range]]
) -> Made[Cut]:
    """Of each group each of these output and input channels, over all places before the next ones come."""

    def cut(at: int) -> Cut:
        filter_at, place_at = divmod(at, len(places))
        group_at, filter_at = divmod(filter_at, len(filters))
        (n, rows), (outputs, inputs) = places[place_at], filters[filter_at]
        return Cut(n, groups[group_at], outputs, inputs, rows, first=place_at == 0)

    return Made(len(groups) * len(filters) * len(places), cut)


def sums(kind: Convolution) -> Iterator[list[tuple[Range, Range]]]:
    """Samples and rows of y that are added up together; every piece but the last is a number of whole blocks of terms:
    outputs, or tiles of them."""
    s, whole = kind.shape, (0, kind.shape.ho)
    yield [((0, s.n), whole)]
    samples_alone, rows_alone = grains(kind)
    if samples_alone < s.n:
        for n in sizes(s.n, samples_alone)[1:]:
            yield [(samples, whole) for samples in ranges(s.n, n)]
    if rows_alone < s.ho and (s.n == 1 or samples_alone == 1):
        for r in sizes(s.ho, rows_alone)[1:]:
            yield [(samples, rows) for samples in ranges(s.n, 1) for rows in ranges(s.ho, r)]


def grains(kind: Convolution) -> tuple[int, int]:
    """Samples, and rows of one of them, that begin a block of terms."""
    s, side = kind.shape, kind.row_grain
    if not kind.block:
        return 1, s.block_rows
    high, wide = -(-s.ho // side), -(-s.wo // side)
    return kind.block // gcd(kind.block, high * wide), kind.block // gcd(kind.block, wide) * side


def part(kind: Convolution, cut: Cut, reads: tuple[View, ...], writes: tuple[View, ...]) -> Part:
    return {"fw": forward, "bw_x": input_gradient, "bw_w": weight_gradient}[kind.direction](kind, cut, reads, writes)


def kind_of_tile(
    kind: Convolution, n: int, groups: int, ci: int, co: int, h: int, ho: int, pad: int, accumulate: bool = False
) -> Kind:
    """Most tiles of a convolution are alike, and share one."""
    key = (n, groups, ci, co, h, ho, pad, accumulate)
    if key not in kind.known:
        s = kind.shape
        shape = replace(s, n=n, groups=groups, ci=ci, co=co, h=h, ho=ho, pad=(pad, s.pad[1]))
        kind.known[key] = kind.tile(shape, accumulate)
    return kind.known[key]


def image(view: View, cut: Cut, channels: Range, per_group: int, rows: Range) -> View:
    """[n, groups*per_group, h, w]: samples and groups of the cut, `channels` of each group (or all)."""
    return inside(view, (cut.samples, channels_of(cut, channels, per_group), rows))


def channels_of(cut: Cut, channels: Range, per_group: int) -> Range:
    g0, g1 = cut.groups
    if channels == (0, per_group):
        return g0 * per_group, g1 * per_group
    return g0 * per_group + channels[0], g0 * per_group + channels[1]


def forward(kind: Convolution, cut: Cut, reads: tuple[View, ...], writes: tuple[View, ...]) -> Part:
    s = kind.shape
    x, w, *bias = reads
    read, pad = s.rows.read(cut.rows)
    outputs = channels_of(cut, cut.channels, s.co)
    tile = kind_of_tile(
        kind, span(cut.samples), span(cut.groups), s.ci, span(cut.channels), span(read), span(cut.rows), pad
    )
    windows = (image(x, cut, (0, s.ci), s.ci, read), w.sliced(0, *outputs), *(v.sliced(0, *outputs) for v in bias))
    out = image(writes[0], cut, cut.channels, s.co, cut.rows)
    return Part(tile, windows, (out,))


def input_gradient(kind: Convolution, cut: Cut, reads: tuple[View, ...], writes: tuple[View, ...]) -> Part:
    s = kind.shape
    y, w, *bias = reads
    reached, pad = s.rows.reached(cut.rows)
    outputs = channels_of(cut, (0, s.co), s.co)
    tile = kind_of_tile(
        kind, span(cut.samples), span(cut.groups), span(cut.channels), s.co, span(cut.rows), span(reached), pad
    )
    written = channels_of(cut, cut.channels, s.ci)
    windows = (
        image(y, cut, (0, s.co), s.co, reached),
        inside(w, (outputs, cut.channels)),
        *(v.sliced(0, *written) for v in bias),
    )
    out = image(writes[0], cut, cut.channels, s.ci, cut.rows)
    return Part(tile, windows, (out,))


def weight_gradient(kind: Convolution, cut: Cut, reads: tuple[View, ...], writes: tuple[View, ...]) -> Part:
    s = kind.shape
    x, y, *sums = reads
    read, pad = s.rows.read(cut.rows)
    inputs, outputs = span(cut.inputs), span(cut.channels)
    tile = kind_of_tile(
        kind, span(cut.samples), span(cut.groups), inputs, outputs, span(read), span(cut.rows), pad, not cut.first
    )
    box = channels_of(cut, cut.channels, s.co), cut.inputs
    windows = (image(x, cut, cut.inputs, s.ci, read), image(y, cut, cut.channels, s.co, cut.rows))
    return Part(tile, (*windows, *(inside(v, box) for v in sums)), (inside(writes[0], box),))
