"""An operation of the listing as C: the table of its streams, and its function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trainlib_deployer.emit.listing import Argument, Call, Home, Left, Operation, Pointer, Recorded, Stream, Tile, Tiles
from trainlib_deployer.emit.tables import Tables

Calls = tuple[Call, ...]
MOST_RUNS = 3  # of a number that stands in the code


@dataclass
class Columns:
    """Numbers that differ from tile to tile; the others stand where they are used."""

    found: list[list[int]] = field(default_factory=list)

    def expression(self, numbers: Sequence[int]) -> int | str:
        """Of one number, given for each tile; a table, which all cores read in L2, only where it changes often."""
        ends = [k for k in range(1, len(numbers)) if numbers[k] != numbers[k - 1]]
        if not ends:
            return numbers[0]
        if len(ends) < MOST_RUNS:
            return f"({''.join(f't.tile < {k} ? {numbers[k - 1]} : ' for k in ends)}{numbers[-1]})"
        column = list(numbers)
        if column not in self.found:
            self.found.append(column)
        return f"v[{self.found.index(column)}]"

    def declaration(self, tables: Tables) -> list[str]:
        if not self.found:
            return []
        c_type, name = tables.numbers(list(zip(*self.found, strict=True)))
        return [f"    const {c_type} *v = {name}[t.tile];"]


@dataclass(frozen=True)
class Between:
    """What stands between two calls, and before the one that may not begin earlier."""

    lines: Sequence[str]
    left: Left | None = None
    apart: frozenset[int] = frozenset()

    def calls(self, number: int) -> list[str]:
        awaited = [left_text(self.left)] if self.left is not None and self.left.before == number else []
        smaller = ["if (PLAN_CORES < PLAN_TEAM)"] if number in self.apart and not awaited else []
        return [*awaited, *smaller, *(f"{'    ' * len(smaller)}{line}" for line in self.lines)] if number else []


def table_text(operation: Operation, tables: Tables) -> list[str]:
    """Its streams."""
    if operation.tiles is None:
        return []
    rows = [f"    {stream_text(s, tables)}," for s in operation.tiles.streams]
    return [f"TL_CONST static const tl_stream streams_{operation.name}[] = {{", *rows, "};"]


def shape_text(operation: Operation, tiles: Tiles) -> str:
    """What all tiles have in common."""
    reads = sum(not s.leaves for s in tiles.streams)
    text = f".tiles = {len(operation.calls)}, .reads = {reads}, .count = {len(tiles.streams)}"
    early = f", .early = {mask(tiles):#x}" if mask(tiles) else ""
    early += "" if tiles.lingers is None else f", .lingers = {tiles.lingers + 1}"
    return f"{text}, .ahead = {min(tiles.ahead, 1)}, .cores = PLAN_CORES{early}"


def mask(tiles: Tiles) -> int:
    """A bit for each stream that comes early."""
    return sum(s.early << k for k, s in enumerate(tiles.streams))


def stream_text(s: Stream, tables: Tables) -> str:
    home = f"(char *){s.home.text}" if s.home else "0"
    second = s.second.text if isinstance(s.second, Home) else s.second
    return f"{{{home}, {s.buffer.text}, {second}, &{tables.way(s.way)}}}"


def body_text(
    operation: Operation, guests: Sequence[Operation], streams: Mapping[str, str], tables: Tables
) -> list[str]:
    """The statements of its function; it starts the first tiles of its guests."""
    starts = [early_text(g.tiles, f"streams_{streams[g.name]}") for g in guests if g.tiles is not None]
    return statements_text(operation, starts, f"streams_{streams.get(operation.name)}", tables)


def statements_text(operation: Operation, starts: Sequence[str], streams: str, tables: Tables) -> list[str]:
    """With the first tiles of others, and where it finds its own streams."""
    columns, left = Columns(), operation.left
    between = Between(["tl_barrier();"] if operation.meets else [], left, operation.apart)
    kinds = list(dict.fromkeys(shape(calls) for calls in operation.calls))
    if len(kinds) == 1:
        work = statements(operation.calls, columns, between)
    else:
        which = [kinds.index(shape(calls)) for calls in operation.calls]
        work = list(choice(operation.calls, which, columns, between))
    if operation.tiles is None:
        return [*starts, *work]
    lines = [f"const tl_shape shape = {{{shape_text(operation, operation.tiles)}}};", "tl_tiles t;"]
    two = "_TWO" if operation.tiles.ahead > 1 else ""
    lines += [f"OPEN{two}(&t, {streams}, {operation.tiles.lanes.text}, shape);", *starts, f"while (NEXT{two}(&t)) {{"]
    behind = [left_text(left)] if left is not None and left.before is None else []
    return [*lines, *columns.declaration(tables), *(f"    {line}" for line in work), "}", *behind]


def left_text(left: Left) -> str:
    return f"LEFT({left.lanes.text}, {left.stream}, PLAN_CORES);"


def early_text(guest: Tiles, streams: str) -> str:
    return f"EARLY({streams}, {guest.lanes.text}, {mask(guest):#x}, PLAN_CORES);"


def choice(tiles: Sequence[Calls], which: list[int], columns: Columns, between: Between) -> Iterator[str]:
    """Where tiles call different things, a test between them."""
    yield f"const int kind = {columns.expression(which)};"
    last = max(which)
    for kind in range(last + 1):
        yield "} else {" if kind == last else f"{'} else ' if kind else ''}if (kind == {kind}) {{"
        yield from (f"    {line}" for line in statements(only(tiles, which, kind), columns, between))
    yield "}"


def only(tiles: Sequence[Calls], which: list[int], kind: int) -> list[Calls]:
    """The tiles of one kind; in place of others the one before, so that few numbers change."""
    known, out = tiles[which.index(kind)], []
    for calls, its in zip(tiles, which, strict=True):
        known = calls if its == kind else known
        out.append(known)
    return out


def shape(calls: Calls) -> object:
    """Everything but the numbers."""
    return tuple((c.function, tuple((name, blank(a)) for name, a in c.arguments)) for c in calls)


def blank(a: Argument) -> object:
    if isinstance(a, Pointer):
        return a.home
    if isinstance(a, Tile):
        return Tile(a.stream)
    return type(a) if isinstance(a, int | Recorded) else a


def statements(tiles: Sequence[Calls], columns: Columns, between: Between) -> list[str]:
    """The calls of every tile, which differ in numbers alone, in one text, and what is done between two of them."""
    lines: list[str] = []
    for i, call in enumerate(tiles[0]):
        count = len(call.arguments)
        values = [value([calls[i].arguments[k][1] for calls in tiles], columns) for k in range(count)]
        lines += between.calls(i)
        if call.struct:
            lines += [f"const {call.struct} a = {{{fields_text(call, values)}}};", f"{call.function}(&a);"]
        else:
            lines.append(f"{call.function}({', '.join(map(str, values))});")
    return lines


def fields_text(call: Call, values: Sequence[int | str] | None = None) -> str:
    """Of a struct: its own arguments, or the `values` that these have in a tile."""
    if values is None:
        values = [value([argument], Columns()) for _, argument in call.arguments]
    return ", ".join(f".{n} = {v}" for (n, _), v in zip(call.arguments, values, strict=True) if v != 0)


def value(of_tiles: Sequence[Argument], columns: Columns) -> int | str:
    """One argument, given for each tile: a number, or an expression."""
    first = of_tiles[0]
    if isinstance(first, Pointer):
        offset = columns.expression([a.offset for a in of_tiles if isinstance(a, Pointer)])
        return pointer_text(first.home, offset)
    if isinstance(first, Recorded):
        return f"RECORDED({columns.expression([a.offset for a in of_tiles if isinstance(a, Recorded)])})"
    if isinstance(first, Tile):
        past = columns.expression([a.past for a in of_tiles if isinstance(a, Tile)])
        return f"PAST({first.stream}, {past})" if past else f"AT({first.stream})"
    return columns.expression([a for a in of_tiles if isinstance(a, int)]) if isinstance(first, int) else first


def pointer_text(home: Home, offset: int | str) -> str:
    """So many elements behind the first one."""
    return f"{home.text} + {offset}" if offset else home.text
