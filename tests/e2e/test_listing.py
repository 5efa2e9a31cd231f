"""The C does what the listing says: kernels and loops only tell what they are given, and transfers what they move."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.emit.addresses import Addresses
from trainlib_deployer.emit.listed import listed
from trainlib_deployer.emit.listing import Argument, Call, Home, Listing, Operation, Pointer, Recorded, Stream, Tile
from trainlib_deployer.emit.loop_library import LoopLibrary
from trainlib_deployer.emit.orders import FIRSTS, ORDER, RUNS
from trainlib_deployer.folder import stored_plan
from trainlib_deployer.ops.carry import ORDERS
from trainlib_deployer.program.loop import Loop

TELLER = Path(__file__).with_name("listing_teller.c")
CONSTANTS = {"INT32_MIN": -(2**31)}
JOBS, UNDER_WAY = "JOBS", "copies_under_way"
FAR_FILE = "far.bin"
Told = list[str]


class Layers(nn.Module):
    """Kernels, generated loops and chains."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 7, 3, padding=1), nn.BatchNorm2d(7), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(7, 5, 1, 2), nn.Sigmoid(), nn.MaxPool2d(2))
        self.last = nn.Sequential(nn.Flatten(), nn.Linear(5 * 5 * 4, 61), nn.Tanh(), nn.Linear(61, 11))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.last(self.second(self.first(x)))
        return out


def deployed(folder: Path, l1: str, l2: str, l3: str | None = None) -> Deployment:
    torch.manual_seed(2)
    data = [(torch.randn(2, 3, 21, 17), torch.tensor([3, 8]))]
    net, loss = Layers(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    options = {"l1": l1, "l2": l2, "l3": l3, "cores": 3, "steps": 1, "out": folder}
    return deploy(net, *data[0], data=data, loss=loss, optimizer=optimizer, **options)


# ---- what the C tells


def told(made: Deployment, listing: Listing) -> Told:
    """One core carries out a step; of each operation the calls in order, and the transfers."""
    folder, calls = made.folder, list(calls_of(listing))
    fields: dict[str, dict[str, Argument]] = {}
    for call in calls:
        known = fields.setdefault(call.function, {})
        known |= {name: a for name, a in call.arguments if known.get(name, 0) == 0}
    stubs = [stub(call, fields[name]) for name, call in {call.function: call for call in calls}.items()]
    shown = [f'printf("place {name} %d\\n", OFFSET_{name});' for name in listing.places]
    shown = ["void net_far_begin(void) {}", "static void tell_places(void)", "{", *shown, "}", *regions(made)]
    (folder / "teller.c").write_text("\n".join(('#include "net.c"', TELLER.read_text(), *stubs, *shown)))
    gcc = ["gcc", "-std=gnu99", "-O0", f"-I{folder}", f"-I{folder / 'kernels'}"]
    hidden = [f"-Dtl_{name}=host_{name}" for name in ("dma_in", "dma_out", "dma_wait", "far_read")]
    subprocess.run([*gcc, *hidden, "-c", folder / "kernels" / "host.c", "-o", folder / "host.o"], check=True)
    mine = ["-DPLAN_CORES=1", "-DTL_OP(position)=void tell_operation(int); tell_operation(position)"]
    mine += ["-DTL_NEXT_OP=void tell_next(void); tell_next()"]
    if made.plan.far:
        mine += [f"-DORDERS_STORED={orders_at(folder)}", f'-DFAR_FILE="{folder / FAR_FILE}"']
    sources = [folder / "teller.c", folder / "weights.c", *folder.glob("kernels/stream*.c"), folder / "host.o"]
    subprocess.run([*gcc, *mine, *sources, "-o", folder / "teller", "-pthread", "-lm"], check=True)
    done = subprocess.run([folder / "teller"], check=False, capture_output=True, text=True)  # a mistake may end it
    return in_order(done.stdout.splitlines())


def orders_at(folder: Path) -> int:
    """Where they begin in the file of what lies behind L2."""
    return int(stored_plan(folder)["stored"][FAR_FILE][ORDERS])


def stub(call: Call, fields: dict[str, Argument]) -> str:
    """A function that tells its arguments; of a struct those that any call gives."""
    if call.struct:
        kinds = {name: "pointer" if name == "scratch" or points(a) else "number" for name, a in sorted(fields.items())}
        parameters, body = f"const {call.struct} *a", [f"tell_{kind}(a->{name});" for name, kind in kinds.items()]
    else:
        assert call.loop is not None and isinstance(call.loop.kind, Loop)
        types = [f"{d.c_name} *" for d in call.loop.kind.outputs]
        types += [f"const {d.c_name} *" for d in call.loop.kind.inputs]
        types += ["int "] * (len(call.arguments) - len(types))
        parameters = ", ".join(f"{t}a{i}" for i, t in enumerate(types))
        body = [f"tell_{'number' if t == 'int ' else 'pointer'}(a{i});" for i, t in enumerate(types)]
    return f'void {call.function}({parameters})\n{{ printf("{call.function}"); {" ".join(body)} puts(""); }}'


def points(a: Argument) -> bool:
    """What lies behind L2 has no address."""
    return a == JOBS or not (isinstance(a, int | str) or (isinstance(a, Pointer) and a.home.level == "L3"))


def regions(made: Deployment) -> list[str]:
    rows = []
    for name, level in ((level.name, level) for level in made.plan.near_levels):
        rows += [f'{{"{name}", &net_{name.lower()}, sizeof net_{name.lower()}, 0}},'] if level.persistent else []
        arena = f"arena_{name.lower()}"
        rows += [f'{{"{name}", {arena}, sizeof {arena}, PLAN_{name}_PERSISTENT}},'] if level.arena else []
    return ["const region regions[] = {", *rows, "};", f"const int region_count = {len(rows)};"]


def in_order(lines: Told) -> Told:
    """Transfers of an operation in front of its calls, whenever they were started."""
    out: Told = []
    block: Told = []
    for line in [*lines, "operation end"]:
        if line.startswith("operation"):
            moves = [move for move in block if move.startswith(("in ", "out "))]
            out += [*sorted(moves), *(call for call in block if call not in moves), line]
            block = []
        else:
            block.append(line)
    return out


# ---- what the listing says


@dataclass(frozen=True)
class Reader:
    """`sizes` of elements, by the C names of tensors."""

    listing: Listing
    sizes: dict[str, int]

    @staticmethod
    def of(made: Deployment) -> Reader:
        at = Addresses.of(made.plan)
        sizes = {at.names[t.name]: t.dtype.size for t in made.plan.program.tensors.values()}
        return Reader(listed(made.plan, at, LoopLibrary()), sizes)

    def said(self) -> Told:
        lines = [f"place {name} {place.offset}" for name, place in self.listing.places.items()]
        fields: dict[str, set[str]] = {}
        pointers: dict[str, set[str]] = {}
        for call in calls_of(self.listing):
            fields.setdefault(call.function, set()).update(name for name, _ in call.arguments)
            pointers.setdefault(call.function, {"scratch"}).update(name for name, a in call.arguments if points(a))
        for at, operation in enumerate(self.listing.operations):
            lines += [f"operation {at}", *self.transfers(operation)]
            for tile, calls in enumerate(operation.calls):
                for call in calls:
                    given = self.where_it_is(dict(call.arguments))
                    names = sorted(fields[call.function]) if call.struct else []
                    given |= {name: given.get(name) or Recorded(0) for name in pointers[call.function]}  # none: nowhere
                    arguments = [given.get(name) for name in names] or [a for _, a in call.arguments]
                    lines.append(" ".join((call.function, *(self.shown(a, operation, tile) for a in arguments))))
        return in_order(lines)

    def where_it_is(self, given: dict[str, Argument]) -> dict[str, Argument]:
        """Behind L2: one number says where a copy begins."""
        far, offset = given.get("far"), given.get("offset")
        if not isinstance(far, Pointer) or not isinstance(offset, int):
            return given
        return given | {"far": self.listing.places[far.home.name].offset + offset, "offset": 0}

    def transfers(self, operation: Operation) -> Iterator[str]:
        """Those that an operation starts: early tiles of others are its, its own are not."""
        for s in operation.tiles.streams if operation.tiles else ():
            for tile in range(int(s.early), len(s.way.moves)):
                yield from self.transfer(s, tile)
        for name in operation.starts:
            for s in self.listing.tiles_of(name).streams:
                yield from self.transfer(s, 0) if s.early else ()

    def transfer(self, s: Stream, tile: int) -> Iterator[str]:
        m = s.way.moves[tile]
        for plane in range(m.planes if m.moves and s.home is not None else 0):
            assert s.home is not None
            far = self.place(s.home, m.offset + plane * s.way.plane_pitch)
            near = self.place(*self.buffer(s, tile, plane * m.row_bytes * m.rows))
            pitch = s.way.pitch if m.rows > 1 else 0
            yield f"{'out' if s.leaves else 'in'} {far} {near} {m.row_bytes} {m.rows} {pitch}"

    def buffer(self, s: Stream, tile: int, further: int = 0) -> tuple[Home, int]:
        """Where a tile lies."""
        number = s.way.moves[tile].buffer
        if isinstance(s.second, Home):
            return s.second if number else s.buffer, further
        return s.buffer, number * s.second + further

    def place(self, home: Home, further: int) -> str:
        place = self.listing.places[home.name]
        return f"{place.level}+{place.offset + further}"

    def shown(self, a: Argument | None, operation: Operation, tile: int) -> str:
        if isinstance(a, Tile):
            assert operation.tiles is not None
            return self.place(*self.buffer(operation.tiles.streams[a.stream], tile))
        if a == JOBS:
            return self.place(Home(UNDER_WAY, "L2", JOBS), 0)
        if isinstance(a, Pointer):
            return self.place(a.home, a.offset * self.sizes.get(a.home.name, 1))
        return "nowhere" if isinstance(a, Recorded) else str(CONSTANTS.get(str(a), a or 0))


def calls_of(listing: Listing) -> Iterator[Call]:
    return (call for o in listing.operations for tile in o.calls for call in tile)


def another_move(source: str) -> str:
    """Four bytes less of one row."""
    return re.sub(r"(, \{\n    \{0, )(\d+)", lambda m: f"{m[1]}{int(m[2]) - 4}", source, count=1)


def another_tile(source: str) -> str:
    return re.sub(r"AT\(0\), AT\(1\)", "AT(1), AT(0)", source, count=1)


def never_started(source: str) -> str:
    return re.sub(r"    EARLY\(.*\);\n", "", source, count=1)


def other_order(source: str) -> str:
    return re.sub(r"(    RUN\(\w+\);\n)(    RUN\(\w+\);\n)", r"\2\1", source, count=1)


def another_place(source: str) -> str:
    """An argument that lies where it is used."""
    return re.sub(r"(    loop_\w+\()(F32\(L\d, \w+\))", r"\1\2 + 1", source, count=1)


def exchanged(source: str, table: str, row: str) -> str:
    """Of a table, the first two rows that differ."""
    begin = source.index(f"{table}[] = {{")
    return source[:begin] + re.sub(
        rf"    ({row}),\n    (?!\1,)({row}),\n", r"    \2,\n    \1,\n", source[begin:], count=1
    )


def other_places(source: str) -> str:
    """The places of the first two functions exchanged that differ."""
    begin, row = source.index("run_t runs[] = {"), r"\{like_\w+, places_\w+\}"
    pattern = rf"    ({row}),\n    (?!\1,)({row}),\n"
    return source[:begin] + re.sub(pattern, r"    \2,\n    \1,\n", source[begin:], count=1)


def no_first_tiles(source: str) -> str:
    return source.replace("EARLY(firsts[o->row]", "(void)(firsts[o->row]")


MISTAKES: dict[tuple[str, ...], list[Callable[[str], str]]] = {
    ("24k", "1M"): [another_move, another_tile, never_started, other_order],
    ("128M", "1M"): [other_order, another_place],
    ("24k", "64k", "1M"): [other_places, no_first_tiles],
}


@pytest.mark.parametrize("memories", MISTAKES, ids="-".join)
def test_the_c_does_what_the_listing_says(memories: tuple[str, ...], tmp_path: Path) -> None:
    made = deployed(tmp_path / "net", *memories)
    reader = Reader.of(made)
    assert bool(made.plan.tilings) is (memories[0] == "24k") and bool(made.plan.far) is (len(memories) == 3)
    expected = reader.said()
    assert len(expected) > 100
    assert told(made, reader.listing) == expected
    source = (made.folder / "net.c").read_text()
    for mistake in MISTAKES[memories]:
        planted = mistake(source)
        assert planted != source
        (made.folder / "net.c").write_text(planted)
        assert told(made, reader.listing) != expected, mistake.__name__


def test_orders_are_what_the_listing_says(tmp_path: Path) -> None:
    made = deployed(tmp_path / "net", "24k", "64k", "1M")
    reader, path, begin = Reader.of(made), made.folder / FAR_FILE, orders_at(made.folder)
    expected, data = reader.said(), path.read_bytes()
    orders = np.frombuffer(data[begin:], ORDER)
    copies = np.flatnonzero(orders["rows"])
    assert len(copies) and {RUNS, FIRSTS} <= {*orders["what"]}
    for field, at in (("far", copies[0]), ("near", copies[-1]), ("row_bytes", copies[1]), ("what", copies[1])):
        planted = orders.copy()
        planted[field][at] ^= 16 if field != "what" else 1
        path.write_bytes(data[:begin] + planted.tobytes())
        assert told(made, reader.listing) != expected, field
    path.write_bytes(data[:begin] + orders[::-1].tobytes())
    assert told(made, reader.listing) != expected
