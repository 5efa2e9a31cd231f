"""Runs kernels of the C library on the host, as a row of the table calls them."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.row import Row
from trainlib_deployer.kernels.table import rows_for
from trainlib_deployer.program.call import Call, Operand
from trainlib_deployer.program.ir import Kind, View

C_LIB = Path(__file__).parents[2] / "c_lib"
FLAGS = ["-std=gnu99", "-O2", "-ffp-contract=off", "-fno-math-errno", "-Wall", "-Wextra", "-Werror", "-DTL_PROMISES"]
CANARY = np.float32(12345.678)
NAMED = {"INT32_MIN": -(2**31)}  # numbers that C has names for
FLOATS = {DType.F32: np.float32, DType.F16: np.float16}
POINTER = ctypes.c_void_p
POINTED = re.compile(r"\*(\w+)")
ALL_CORES = range(1, 9)
Array = npt.NDArray[Any]  # of float32, int32 or float16


def build(folder: Path) -> ctypes.CDLL:
    """All kernels and the references, in one library; the objects stay beside it."""
    return built(folder, [p for part in ("kernels", "reference") for p in sorted((C_LIB / part).rglob("*.c"))])


def built(folder: Path, sources: Sequence[Path], flags: Sequence[str] = ()) -> ctypes.CDLL:
    folders = [f"-I{C_LIB / part}" for part in ("include", "ukernels", "reference")]
    machine = ["-mfma"] if " fma " in Path("/proc/cpuinfo").read_text() else []
    compiler = ["gcc", *FLAGS, *machine, "-fPIC", *folders, *flags]
    for source in (*sources, C_LIB / "hal/host.c"):  # one by one, as compiler caches want them
        subprocess.run([*compiler, "-c", str(source)], check=True, cwd=folder)
    target, objects = folder / "kernels.so", sorted(folder.glob("*.o"))
    subprocess.run([*compiler, "-shared", *objects, "-o", target, "-lpthread", "-lm"], check=True)
    return ctypes.CDLL(str(target))


@cache
def struct(header: str, name: str) -> type[ctypes.Structure]:
    """A struct of a header of the library, as ctypes see it."""
    text = re.sub(r"/\*.*?\*/", "", (C_LIB / "include" / header).read_text(), flags=re.DOTALL)
    bodies = {m[2]: m[1] for m in re.finditer(r"typedef struct \{(.*?)\} (\w+);", text, re.DOTALL)}
    body = re.sub(
        r"union \{(.*?)\};", lambda m: f"union {'|'.join(POINTED.findall(m[1]))};", bodies[name], flags=re.DOTALL
    )
    fields: list[tuple[str, Any]] = []
    unions = []
    for line in (part.strip() for part in body.split(";")):
        if not line:
            continue
        if line.startswith("union "):
            unions.append(line)
            members = [(member, POINTER) for member in line.removeprefix("union ").split("|")]
            fields.append((line, type(line, (ctypes.Union,), {"_fields_": members})))
            continue
        c_type, names = re.sub(r"^const ", "", line).split(" ", 1)
        for declared in names.split(","):
            plain = {"int": ctypes.c_int, "int32_t": ctypes.c_int32}.get(c_type) or (
                struct(header, c_type) if c_type in bodies else None
            )
            kind = POINTER if "*" in declared else plain
            assert kind is not None, line
            fields.append((declared.strip(" *"), kind))
    return type(name, (ctypes.Structure,), {"_anonymous_": unions, "_fields_": fields})


def as_bfloats(values: Array) -> Array:
    """Rounded, as their bits: NumPy has no such type."""
    return torch.from_numpy(np.ascontiguousarray(values)).bfloat16().view(torch.int16).numpy().view(np.uint16)


@dataclass
class Tensor:
    """An array that lies with given element strides in a larger buffer full of canaries."""

    values: Array
    strides: tuple[int, ...]
    margin: int = 9
    buffer: Array = field(init=False)

    def __post_init__(self) -> None:
        span = sum((n - 1) * s for n, s in zip(self.values.shape, self.strides, strict=True)) + 1
        self.buffer = np.full(span + 2 * self.margin, CANARY).astype(self.values.dtype)
        self.view[...] = self.values

    @property
    def view(self) -> Array:
        return np.lib.stride_tricks.as_strided(
            self.buffer[self.margin :], self.values.shape, self.steps, writeable=True
        )

    @property
    def steps(self) -> list[int]:
        """Strides in bytes."""
        return [self.values.itemsize * s for s in self.strides]

    @property
    def operand(self) -> Operand:
        address = str(int(self.buffer[self.margin :].ctypes.data))
        return Operand(address, View("", self.values.shape, self.strides))

    def stored_as(self, storage: DType) -> Tensor:
        """Rounded to the type, and laid out alike; it begins at a whole word."""
        values = as_bfloats(self.values) if storage is DType.BF16 else self.values.astype(FLOATS[storage])
        return Tensor(values, self.strides, self.margin + 1)

    def fresh(self) -> Tensor:
        return Tensor(self.values, self.strides, self.margin)

    def surroundings_intact(self) -> bool:
        rest = self.buffer.copy()
        np.lib.stride_tricks.as_strided(rest[self.margin :], self.values.shape, self.steps)[...] = CANARY
        return bool((rest == CANARY.astype(rest.dtype)).all())


def pitched(values: Array, *extra: int) -> Tensor:
    """Row-major, `extra` elements wider along each axis than dense."""
    strides, step = [], 1
    for size, more in zip(reversed(values.shape), reversed(extra), strict=True):
        strides.append(step)
        step = step * size + more
    return Tensor(values, tuple(reversed(strides)))


def transposed(values: Array, order: tuple[int, ...], extra: int = 0) -> Tensor:
    """Laid out with the axes in the given order, slowest first."""
    strides, step = {}, 1
    for axis in reversed(order):
        strides[axis] = step
        step = step * values.shape[axis] + extra
    return Tensor(values, tuple(strides[a] for a in range(values.ndim)))


def random(shape: tuple[int, ...], seed: int, exact: bool) -> Array:
    """Everything from {-1, 0, 1} where sums are to be exact."""
    generator = np.random.default_rng([seed, *shape])
    if exact:
        return generator.integers(-1, 2, shape).astype(np.float32)
    return generator.standard_normal(shape).astype(np.float32)


def fitting(kind: Kind, reads: Sequence[Tensor], write: Tensor, cores: int, *more: Tensor) -> list[Row]:
    """Every row that may carry out an operation, chosen or not."""
    given, made = ([t.operand.view for t in tensors] for tensors in (reads, (write, *more)))
    return [r for r in rows_for(kind, cores) if r.fits(kind, given, made)]


def run(
    lib: ctypes.CDLL, row: Row, kind: Kind, reads: Sequence[Tensor], write: Tensor, cores: int, reference: str = ""
) -> Array:
    """The result of one call."""
    return run_all(lib, row, kind, reads, [write], cores, reference)[0]


def run_all(
    lib: ctypes.CDLL,
    row: Row,
    kind: Kind,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    cores: int,
    reference: str = "",
) -> list[Array]:
    """The results of one call by `cores`, of the row or of its reference; everything around the scratch and the results
    keeps its canaries. What is among reads and writes is both."""
    size = row.scratch(kind, cores) // 4
    room, out = np.full(size + 32, CANARY, np.float32), [t.fresh() for t in writes]
    made = {id(t): new for t, new in zip(writes, out, strict=True)}
    given = [made.get(id(t), t).operand for t in reads]
    call = row.call(kind, given, [t.operand for t in out], str(int(room[16:].ctypes.data)))
    execute(lib, row, call, 1 if reference else cores, reference)
    assert all(t.surroundings_intact() for t in out), row.symbol
    assert (room[:16] == CANARY).all(), row.symbol
    assert (room[16 + size :] == CANARY).all(), row.symbol
    return [t.view.copy() for t in out]


def execute(lib: ctypes.CDLL, row: Row, call: Call, cores: int, reference: str = "") -> None:
    value: Any
    argument = struct(row.header, row.struct)()
    for name, value in call.fields:
        place: Any = argument
        *path, last = name.split(".")
        for part in path:
            place = getattr(place, part)
        if isinstance(value, str) and value.startswith("{"):  # a struct's members in their order
            value = type(getattr(place, last))(*map(int, value.strip("{}").split(",")))
        setattr(place, last, value if isinstance(value, ctypes.Structure) else int(NAMED.get(value, value)))
    function = ctypes.cast(getattr(lib, reference or call.function), POINTER)
    lib.tl_cluster_run(cores, function, ctypes.byref(argument), None, ctypes.c_size_t(0))
