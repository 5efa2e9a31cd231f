"""Operations of a program, untiled and tiled in several ways, in one C program that compares the bits."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.e2e.tile_layers import FAMILIES, Families, Layers, all_sums, optimizer
from trainlib_deployer import passes
from trainlib_deployer.capture.step import capture
from trainlib_deployer.emit.addresses import Addresses
from trainlib_deployer.emit.listed import Lister
from trainlib_deployer.emit.listing import Home
from trainlib_deployer.emit.loop_library import LoopLibrary
from trainlib_deployer.emit.names import comment
from trainlib_deployer.emit.operation_text import body_text, table_text
from trainlib_deployer.emit.tables import Tables
from trainlib_deployer.kernels.table import ROWS
from trainlib_deployer.machine.machine import Memory
from trainlib_deployer.machine.pulp_open import PULP_OPEN
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.ops.lower import lower
from trainlib_deployer.passes.coalesce import coalesced
from trainlib_deployer.plan.best_tiling import Job, Prospects, best_tiling, names_in, prospects
from trainlib_deployer.plan.chains import chained
from trainlib_deployer.plan.found import root
from trainlib_deployer.plan.links import links as calls_of
from trainlib_deployer.plan.tiles import Room, Tiling
from trainlib_deployer.plan.ways import Way
from trainlib_deployer.program.chain import Chain
from trainlib_deployer.program.ir import LEARNING_RATE, Leading, Op, Part, Program, Role, Splittable
from trainlib_deployer.program.linked import Linked
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.series import Series
from trainlib_deployer.user.assemble import Parts, assemble

C_LIB = Path(__file__).parents[2] / "c_lib"
DRIVER = Path(__file__).with_name("tile_driver.c")
FLAGS = "-std=gnu99 -DNET_TRACE -ffp-contract=off -fno-math-errno -Wall -Wextra -Werror".split()
GUARD = 256
TEAM = 3  # cores of the untiled run
OF_A_LOOP, OF_A_KERNEL = 3, 8  # tilings
CORES = (1, 1, 2, 3, 3, 4, 8)
Image = np.ndarray[Any, Any]


def program_of(seed: int, count: int, families: Families = FAMILIES) -> tuple[Program, float]:
    """The training step of random layers, and its loss in PyTorch."""
    layers = Layers(seed, count, families)
    sample = (torch.ones(1), torch.zeros(1))
    parts = Parts(
        name="layers",
        module=layers,
        example_input=sample[0],
        example_target=sample[1],
        loss=all_sums,
        optimizer=optimizer(layers.parameters(), seed),
        data=[sample],
        input_shape=None,
        count=1,
        where="the test",
    )
    user = assemble(parts)
    program = passes.run(lower(user, capture(user), 1))
    with torch.no_grad():
        return program, float(all_sums(layers(*sample[:1]), sample[1]))


@dataclass(frozen=True)
class Case:
    """An operation tiled for an L1 of so many bytes."""

    op: Op
    capacity: int
    cores: int
    tiling: Tiling

    @property
    def sums(self) -> bool:
        """Do tiles add to the results of others?"""
        return any(accumulates(p) for p in self.tiling.parts)

    def __str__(self) -> str:
        shapes = " ".join("x".join(map(str, v.shape)) for v in (*self.op.reads, *self.op.writes))
        ahead = f"{self.tiling.ahead} ahead"
        tiles = f"{len(self.tiling.parts)} tiles in {self.capacity} bytes, {ahead}, {self.cores} cores"
        return f"{self.op.name} ({self.op.kind.name}) {shapes}: {tiles}"


def drawn(program: Program, op: Op, rng: random.Random) -> Iterator[Case]:
    """Tilings of one operation for L1 sizes drawn at random: the one the planner takes, or any other that fits."""
    if not isinstance(op.kind, Splittable):
        return
    count = OF_A_LOOP if isinstance(op.kind, Loop) else OF_A_KERNEL
    names = dict.fromkeys(v.tensor for v in (*op.reads, *op.writes))
    seen: set[object] = set()
    for attempt in range(3 * count):
        near = frozenset(n for n in names if rng.random() < 0.1)
        room = Room(near if len(near) < len(names) else frozenset(), 0, resolve(cores=rng.choice(CORES)))
        known = prospects(Job.of(program, op, room))
        least = min((way.least for way in known.ways), default=0)
        if not least:
            return
        capacity = int(least * (2.2 * max(known.least, least) / least) ** rng.random())
        room = Room(room.resident, capacity, room.machine)
        tiling = best_tiling(program, op, room) if attempt % 6 == 0 else any_tiling(known, op, capacity, rng)
        key = tiling and (tiling.parts, tiling.of_operand, tiling.ahead)
        if tiling is None or len(tiling.parts) < 2 or key in seen:
            continue
        seen.add(key)
        yield Case(op, capacity, room.cores, tiling)
        if len(seen) == count:
            return


def any_tiling(known: Prospects, op: Op, capacity: int, rng: random.Random) -> Tiling | None:
    fitting = [i for i, way in enumerate(known.ways) if way.least <= capacity]
    if rng.random() < 0.6:
        fitting = [i for i in fitting if adds_up(known, i)] or fitting
    if not fitting:
        return None
    found = known.tiling(rng.choice(fitting), capacity, rng.choice((0, 1, 2)), rng.random() < 0.7)
    return None if found is None else found.named(names_in(op))


def adds_up(known: Prospects, index: int) -> bool:
    """Does the second tile add to the results of the first?"""
    return accumulates(known.cuttings.ways[index].parts[1])


def accumulates(part: Part) -> bool:
    kind = part.kind.head if isinstance(part.kind, Chain) else part.kind
    return isinstance(kind, Leading) and kind.accumulate


def every_chain(program: Program) -> Program:
    """With every loop that can follow another operation's tiles, whether or not it pays."""
    room = [1 << 30] * len(program.ops)
    return chained(program, frozenset(), room, resolve(cores=1), [Way(op, None, float("inf")) for op in program.ops])


class Places(Addresses):
    """All tensors side by side in L2, each with a place of its own; operations are called by numbers."""

    program: Program
    offsets: dict[str, int]
    end: int
    compared: int  # bytes; behind them lies what nobody reads, such as what passes from tile to tile, or inside of one

    @staticmethod
    def among(program: Program) -> Places:
        at = Places.__new__(Places)
        offsets, end, compared = {}, 0, 0
        inside = {op.writes[w].tensor for op in program.ops if isinstance(op.kind, Series) for w in op.kind.passing}
        read = {v.tensor for op in program.ops for v in op.reads} - inside
        results = {program.loss, *(t for _, t in (*program.outputs, *program.gradients))}
        dead = [t for t in program.tensors.values() if not (t.role.persistent or t.name in read | results)]
        for t in (*(t for t in program.tensors.values() if t not in dead), *dead):
            if t in dead[:1]:
                compared = end
            offsets[t.name] = end
            end += PULP_OPEN.aligned(t.nbytes) + 16
        known = {
            "program": program,
            "offsets": offsets,
            "end": end,
            "compared": compared or end,
            "plan": Alone({}, program.ops),
        }
        for name, value in known.items():
            object.__setattr__(at, name, value)
        return at

    @property
    def operations(self) -> Names:
        return Names()

    @property
    def near(self) -> str:
        return "L1"

    def recorded(self, tensor: str) -> bool:
        return False  # what a build records is compared like everything else

    def home(self, tensor: str) -> Home:
        text = f"(({self.program.tensors[tensor].dtype.c_name} *)(l2 + {self.offsets[tensor]}))"
        return Home(tensor, "L2", text)

    def scratch(self, at: int) -> Home:
        return Home(f"scratch_{at}", "L1", f"SCRATCH_{at}")


@dataclass(frozen=True)
class Alone:
    """The tiles of one operation, before which there is none; operations by their numbers."""

    tilings: dict[int, Tiling]
    ops: Mapping[int, Op] | Sequence[Op]

    @property
    def program(self) -> Alone:
        return self

    @property
    def outer(self) -> Memory:
        """None that a tensor is in: copies are loops."""
        return Memory("", 0)

    def buffer_of(self, at: int, stream: int) -> tuple[int, int]:
        return root(self.tilings, (at, stream))


class Names:
    """Of operations."""

    def __getitem__(self, number: int) -> str:
        return str(number)


@dataclass
class Comparison:
    """The C program for one Program and its cases."""

    program: Program
    seed: int
    cases: list[Case] = field(default_factory=list)
    library: LoopLibrary = field(default_factory=LoopLibrary)

    @cached_property
    def at(self) -> Places:
        return Places.among(self.program)

    def of(self, op: Op) -> list[int]:
        return [i for i, c in enumerate(self.cases) if c.op is op]

    def header(self) -> str:
        scratch = max(op.kind.scratch(TEAM) for op in self.program.ops)
        sizes = [used(c.tiling) for c in self.cases]
        defines = {
            "L1_BYTES": max(sizes),
            "L2_BYTES": self.at.end,
            "COMPARED_BYTES": self.at.compared,
            "SCRATCH_BYTES": scratch + 16,
            "GUARD": GUARD,
            "MOST_STREAMS": PULP_OPEN.link.channels,
            "TEAM": TEAM,
            "SEED": f"{self.seed}u",
            "OPERATIONS": len(self.program.ops),
        }
        lines = ["#include <stdint.h>", '#include "tl_hal.h"', *(f"#define {k} {v}" for k, v in defines.items())]
        lines += ["typedef struct { tl_fn run; int l1_bytes, cores; } one_case;"]
        lines += ["typedef struct { tl_fn run; int first, cases; } one_operation;"]
        lines += ["extern const one_case cases[];", "extern const one_operation operations[];"]
        lines += ["extern uint8_t l1[], l2[], scratch[];"]
        return "\n".join(lines) + "\n"

    def source(self) -> str:
        tables = Tables()
        blocks = [self.untiled(k, op, tables) for k, op in enumerate(self.program.ops)]
        blocks += [self.tiled(i, c, tables) for i, c in enumerate(self.cases)]
        headers = sorted({r.header for r in ROWS})
        lines = ["cases.h", "loops.h", "tl_stream.h", *headers]
        lines = [f'#include "{h}"' for h in lines]
        lines += [
            *(r.prototype for r in ROWS),
            "extern tl_lane lanes[];",
            "#define LANES(operation) lanes",
            "#define PLAN_CORES 0",  # known when a case begins
            "#define OPEN(t, streams, lanes, shape) tl_tiles_open(t, streams, lanes, of_all(shape))",
            "#define NEXT tl_tiles_next",
            "#define OPEN_TWO(t, streams, lanes, shape) tl_tiles_open_two(t, streams, lanes, of_all(shape))",
            "#define NEXT_TWO tl_tiles_next_two",
            "#define AT(stream) tl_tiles_at(&t, stream)",
            "#define PAST(stream, bytes) ((void *)((char *)AT(stream) + (bytes)))",
            "static inline tl_shape of_all(tl_shape shape)",
            "{ shape.cores = (unsigned char)tl_num_cores(); return shape; }",
        ]
        lines += ["#define TILE(operation, stream) ((char *)l1 + TILE_##operation##_##stream)"]
        lines += [*tables.text(), *blocks]
        rows = [f"{{case{i}, {used(c.tiling)}, {c.cores}}}" for i, c in enumerate(self.cases)]
        lines.append(f"const one_case cases[] = {{{', '.join(rows)}}};")
        mine = [self.of(op) for op in self.program.ops]
        rows = [f"{{whole{k}, {m[0] if m else 0}, {len(m)}}}" for k, m in enumerate(mine)]
        lines.append(f"const one_operation operations[] = {{{', '.join(rows)}}};")
        return "\n".join(lines) + "\n"

    def untiled(self, position: int, op: Op, tables: Tables) -> str:
        lister = Lister(self.at, self.library)
        listed = [lister.operation(position, calls_of(link, None, TEAM), None) for link in links(op)]
        text = "\ntl_barrier();\n".join("{\n" + "\n".join(body_text(o, (), {}, tables)) + "\n}" for o in listed)
        define = f"#define SCRATCH_{position} ((void *)scratch)"
        undefine = f"#undef SCRATCH_{position}"
        return f"{define}\nstatic void whole{position}(void *unused)\n{{\n(void)unused;\n{text}\n}}\n{undefine}"

    def tiled(self, number: int, case: Case, tables: Tables) -> str:
        """Buffers lie without gaps in an order of chance."""
        sizes = [s.nbytes for s in case.tiling.streams]
        offset, places = PULP_OPEN.aligned(case.tiling.scratch), {}
        for k in random.Random(number).sample(range(len(sizes)), len(sizes)):
            places[k] = offset
            offset += sizes[k]
        lines = ["enum { " + ", ".join(f"TILE_{number}_{k} = {v}" for k, v in places.items()) + " };"] if places else []
        lines += [f"#define SCRATCH_{number} ((void *)l1)", f"/* {comment(str(case))} */"]
        calls = calls_of(case.op, case.tiling, case.cores)
        object.__setattr__(self.at, "plan", Alone({number: case.tiling}, {number: case.op}))
        operation = Lister(self.at, self.library).operation(number, calls, case.tiling)
        lines += [
            *table_text(operation, tables),
            f"static void case{number}(void *unused)",
            "{",
            "(void)unused;",
            *body_text(operation, (), {operation.name: operation.name}, tables),
            "}",
            f"#undef SCRATCH_{number}",
        ]
        return "\n".join(lines)

    def loops(self) -> tuple[str, str]:
        found = self.library.source()
        head = "#include <stdint.h>\n" + "".join(text.split("\n{", 1)[0] + ";\n" for _, text in found)
        includes = "".join(f'#include "{h}"\n' for h in ("loops.h", "tl_hal.h", "tl_loop.h"))
        return head, includes + "\n".join(text for _, text in found) + "\n"

    def image(self) -> Image:
        """L2 before the step."""
        out = np.full(self.at.end, 0xA5, np.uint8)
        for t in self.program.tensors.values():
            if not t.role.persistent:
                continue
            value = self.program.values.get(t.name)
            value = {Role.INPUT: 1.0, Role.TARGET: 0.0}.get(t.role, value)
            value = 0.01 if t.name == LEARNING_RATE else value
            array = np.broadcast_to(np.asarray(value), t.shape) if np.ndim(value) == 0 else np.asarray(value)
            content = np.frombuffer(array.astype(t.dtype.numpy_name).tobytes(), np.uint8)
            assert content.size == t.nbytes
            out[self.at.offsets[t.name] :][: t.nbytes] = content
        return out

    def write(self, folder: Path) -> None:
        (folder / "cases.c").write_text(self.source())
        (folder / "cases.h").write_text(self.header())
        head, body = self.loops()
        (folder / "loops.h").write_text(head)
        (folder / "loops.c").write_text(body)
        (folder / "before.bin").write_bytes(self.image().tobytes())


def links(op: Op) -> list[Op]:
    """The operations of a chain or of a series, one after the other."""
    if not isinstance(op.kind, Linked):
        return [op]
    found = [replace(op, kind=k, reads=r, writes=w) for k, r, w in op.kind.links(op.reads, op.writes)]
    return [coalesced(o) for o in found]


def used(tiling: Tiling) -> int:
    return tiling.nbytes - tiling.lanes


def machine() -> list[str]:
    return ["-mfma"] if " fma " in Path("/proc/cpuinfo").read_text() else []


def kernel_objects(folder: Path) -> list[Path]:
    """The C library, with the host's cores but without its transfers."""
    hidden = [f"-Dtl_dma_{n}=host_dma_{n}" for n in ("in", "out", "wait")]
    for source in sorted((C_LIB / "kernels").rglob("*.c")):
        compiled(source, folder, "-O2")
    compiled(C_LIB / "hal" / "host.c", folder, "-O2", *hidden)
    return sorted(folder.glob("*.o"))


def compiled(source: Path, folder: Path, *flags: str) -> Path:
    target = folder / f"{source.stem}.o"
    folders = [f"-I{p}" for p in (C_LIB / "include", C_LIB / "ukernels", folder)]
    command = ["gcc", *FLAGS, *machine(), *flags, *folders, "-c", source, "-o", target]
    subprocess.run(command, check=True)
    return target


def built(comparison: Comparison, folder: Path, kernels: list[Path]) -> Path:
    comparison.write(folder)
    objects = [compiled(folder / "cases.c", folder, "-O0"), compiled(folder / "loops.c", folder, "-O1")]
    driver = folder / "driver.c"
    driver.write_text(DRIVER.read_text())
    objects.append(compiled(driver, folder, "-O2"))
    program = folder / "compare"
    subprocess.run(["gcc", *objects, *kernels, "-o", program, "-lpthread", "-lm"], check=True)
    return program
