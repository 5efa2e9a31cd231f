"""Operations cut into tiles, and extents into ranges, for families that say how they may be tiled."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise, product
from math import prod
from typing import Generic, TypeVar, overload

from trainlib_deployer.program.ir import Part, Splittable, View

Range = tuple[int, int]
Views = tuple[View, ...]
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")  # what a family says of one tile
D = TypeVar("D")
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)  # of tiles along a dimension
MORE_COUNTS = (5, 10, 14, 20, 28, 40, 56, 80)  # where one dimension is cut alone, there is time to try these as well
MOST_TILES = 96  # of one operation; finer cuts cost more than they bring


class Made(Sequence[C]):
    """So many values, each made when first asked for: of most ways to cut an operation two tiles are looked at."""

    def __init__(self, count: int, make: Callable[[int], C]) -> None:
        self.size, self.make = count, make
        self.made: dict[int, C] = {}

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[C]:
        return map(self.member, range(self.size))

    @overload
    def __getitem__(self, at: int) -> C: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[C]: ...

    def __getitem__(self, at: int | slice) -> C | Sequence[C]:
        places = range(self.size)[at]
        return self.member(places) if isinstance(places, int) else [self.member(k) for k in places]

    def member(self, at: int) -> C:
        if at not in self.made:
            self.made[at] = self.make(at)
        return self.made[at]

    def through(self, function: Callable[[C], D]) -> Made[D]:
        return Made(self.size, lambda at: function(self.member(at)))


class Parts(Made[Part]):
    """The tiles of an operation."""

    def __init__(
        self, count: int, make: Callable[[int], Part], taper: Callable[[], Parts | None] | None = None
    ) -> None:
        super().__init__(count, make)
        self.taper = taper

    def tapered(self) -> Parts | None:
        """The same with less in the first and in the last tile, where that is possible."""
        return self.taper() if self.taper is not None else None


class Cuttable(Splittable, Generic[C]):
    """An operation whose family says what each tile is, and which operation does it."""

    @abstractmethod
    def cuts(self) -> Iterator[Sequence[C]]:
        """Ways to do it in tiles, one after the other; together they give the very same bits. Each tile is a cut."""

    @abstractmethod
    def part(self, cut: C, reads: Views, writes: Views) -> Part:
        """The operation of one tile."""

    def ways(self, reads: Views, writes: Views) -> Iterator[Sequence[Part]]:
        """Tiles that several of them have are one object."""
        of_cut: dict[C, Part] = {}

        def part(cuts: Sequence[C], at: int) -> Part:
            cut = cuts[at]
            if cut not in of_cut:
                of_cut[cut] = self.part(cut, reads, writes)
            return of_cut[cut]

        def thinner(cuts: Sequence[C]) -> Parts | None:
            found = self.tapered(cuts)
            return None if found is None else Parts(len(found), partial(part, found))

        for cuts in self.cuts():
            yield Parts(len(cuts), partial(part, cuts), partial(thinner, cuts))

    def tapered(self, cuts: Sequence[C]) -> Sequence[C] | None:
        """With less in the first and the last one; None where the family has no such cut."""
        return None


def working(team: int, cores: int) -> int:
    """Cores that share an operation for which there is scratch for `team` of them; 0: for all."""
    return min(team or cores, cores)


def span(r: Range) -> int:
    return r[1] - r[0]


def ranges(extent: int, size: int) -> list[Range]:
    """[0, size), [size, 2 size), ...; the last one takes the rest."""
    return [(lo, min(lo + size, extent)) for lo in range(0, extent, size)]


def there_and_back(outer: Sequence[A], inner: Sequence[B]) -> Made[tuple[A, B]]:
    """All pairs, the inner ones forwards and backwards in turns: what the last tile of one outer piece reads of the
    inner ones, the first of the next reads again."""

    def pair(at: int) -> tuple[A, B]:
        i, j = divmod(at, len(inner))
        return outer[i], inner[-1 - j if i % 2 else j]

    return Made(len(outer) * len(inner), pair)


def tapered(pieces: Sequence[Range], grain: int = 1) -> list[Range] | None:
    """The first and the last one half as long: nothing hides what comes for the one and leaves from the other."""
    size, extent = span(pieces[0]), pieces[-1][1]
    half = -(-size // (2 * grain)) * grain
    return None if half >= size else [*pairwise((0, *range(half, extent, size), extent))]


def even_ranges(extent: int, size: int, grain: int) -> list[Range]:
    """As few ranges of at most `size` as ranges() has, as even as whole grains allow: a transfer hides behind work that
    takes as long, not behind that on a rest."""
    per, more = divmod(-(-extent // grain), -(-extent // size))
    lengths = [(per + (i < more)) * grain for i in range(-(-extent // size))]
    return [(hi - length, min(hi, extent)) for hi, length in zip(accumulate(lengths), lengths, strict=True)]


def sizes(extent: int, grain: int = 1, counts: tuple[int, ...] = COUNTS) -> list[int]:
    """Tile sizes worth trying, from whole to one grain: even shares, rounded up to the grain."""
    shares = (-(-extent // (count * grain)) * grain for count in counts if count <= extent)
    return sorted({min(s, extent) for s in (extent, *shares)}, reverse=True)


def grids(first: int, *others: int) -> Iterator[list[tuple[Range, ...]]]:
    """Boxes over extents, the last one running fastest. While the first is cut into several at a time the others stay
    whole."""
    for size in sizes(first):
        for steps in product(*(sizes(e) if size == 1 else [e] for e in others)):
            pieces = [ranges(e, s) for e, s in zip((first, *others), (size, *steps), strict=True)]
            if prod(map(len, pieces)) <= MOST_TILES:
                yield list(product(*pieces))


def tapered_boxes(boxes: Sequence[tuple[Range, ...]], grain: int) -> list[tuple[Range, ...]] | None:
    """Boxes of outer_cuts() that cut one dimension alone; a grain of the last one."""
    whole = [max(b[d][1] for b in boxes) for d in range(len(boxes[0]))]
    cut = [d for d, extent in enumerate(whole) if span(boxes[0][d]) < extent]
    if len(cut) != 1:
        return None
    (d,) = cut
    found = tapered([b[d] for b in boxes], grain if d + 1 == len(whole) else 1)
    return None if found is None else [(*boxes[0][:d], r, *boxes[0][d + 1 :]) for r in found]


def outer_cuts(extents: tuple[int, ...]) -> Iterator[list[tuple[Range, ...]]]:
    """Boxes that cover `extents` in order, finer and finer: the outermost dimensions are cut first."""
    for level in range(len(extents)):
        outer = [ranges(e, 1) for e in extents[:level]]
        inner = [(0, e) for e in extents[level + 1 :]]
        for size in sizes(extents[level], counts=COUNTS + MORE_COUNTS)[1:]:
            if prod(extents[:level]) * -(-extents[level] // size) > MOST_TILES:
                return
            boxes: list[tuple[Range, ...]] = [()]
            for options in (*outer, ranges(extents[level], size)):
                boxes = [(*b, o) for b in boxes for o in options]
            yield [(*b, *inner) for b in boxes]
