"""Rows of bfloat16: the sources of halves, built for the other type, give the bits of the reference built for it."""

from __future__ import annotations

import ctypes
import itertools
import subprocess
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.unit import test_conv_rows as conv
from tests.unit import test_depthwise_halves as depthwise
from tests.unit import test_matmul_rows as matmul
from tests.unit.kernel_harness import C_LIB, Array, Tensor, as_bfloats, built, fitting, run, run_all
from tests.unit.pool_cases import MAX, TESTED, Memory, aten, carry_out, drawn, lowered, sample, three_columns
from tests.unit.test_recurrent_rows import CELLS, both_in_halves, held_in_halves
from trainlib_deployer.emit.library import Library
from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.bf16 import BF16, HALVES
from trainlib_deployer.kernels.depthwise_f16 import DEPTHWISE_F16
from trainlib_deployer.kernels.pool import POOL
from trainlib_deployer.kernels.recurrent import RECURRENT
from trainlib_deployer.kernels.table import rows_for
from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.ops.matmul import MatMul

EPS = 2.0**-23
TEAMS = ((1, 0), (3, 0), (8, 0), (8, 3))


@pytest.fixture(scope="module")
def bf16_lib(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """These rows, pools and scans of floats, and references."""
    folder = tmp_path_factory.mktemp("bf16")
    rows = [C_LIB / "kernels" / r.source for r in (*HALVES, *POOL, *RECURRENT)]
    names = ("halves_conv", "halves_depthwise", "halves_matmul", "pool")
    sources = [*Library.at(C_LIB).needed(rows, []), *(C_LIB / "reference" / f"{n}.c" for n in names)]
    return built(folder, sources, ["-include", str(C_LIB / "bf16/tl_half.h")])


@pytest.mark.compiler
def test_kernels_have_the_name_of_the_type(bf16_lib: ctypes.CDLL) -> None:
    out = subprocess.run(["nm", "-g", bf16_lib._name], check=True, capture_output=True, text=True).stdout
    symbols = {line.split()[-1] for line in out.splitlines()}
    assert {r.symbol for r in BF16} <= symbols
    assert not {r.symbol for r in HALVES} & symbols


def test_rows_are_those_of_halves() -> None:
    for row, half in zip(BF16, HALVES, strict=True):
        assert (row.source, row.operation, row.arithmetic) == (half.source, half.operation, half.arithmetic)
    assert {r.storage for r in BF16} == {DType.BF16} and all(r.symbol.endswith("_bf16") for r in BF16)


def widened(t: Tensor) -> Array:
    """What lies there, in double precision."""
    return np.asarray(torch.from_numpy(t.view.view(np.int16).copy()).view(torch.bfloat16).double().numpy())


def held(
    lib: ctypes.CDLL, kind: MatMul | Conv, reads: list[Tensor], write: Tensor, reference: str, rounded: bool
) -> Array:
    """Every row for every team gives the bits of the reference, as floats and, if they may be, rounded."""
    first = fitting(kind, reads, write, 1)[0]
    wanted = run(lib, first, kind, reads, write, 1, reference)
    half = write.stored_as(DType.BF16)
    for cores, team in TEAMS:
        lean = replace(kind, team=team)
        for row in fitting(lean, reads, write, cores):
            found = run(lib, row, lean, reads, write, cores)
            np.testing.assert_array_equal(found.view(np.int32), wanted.view(np.int32), err_msg=row.symbol)
        storing = replace(lean, result=DType.BF16)
        for row in fitting(storing, reads, half, cores) if rounded else ():
            found = run(lib, row, storing, reads, half, cores)
            np.testing.assert_array_equal(found, as_bfloats(wanted), err_msg=row.symbol)
    return wanted


@pytest.mark.compiler
@pytest.mark.parametrize("p", matmul.PRODUCTS, ids=str)
def test_product(bf16_lib: ctypes.CDLL, p: matmul.Product) -> None:
    for exact, mode in ((True, "init"), (False, "plain"), (False, "broadcast")):
        kind, reads, write = matmul.operands(p, exact, mode, DType.BF16)
        a, b = (widened(t) for t in reads[:2])
        start = reads[2].view if kind.init else np.zeros(1)
        bound = 0 if exact else EPS * (p.k + 2) * (np.abs(a) @ np.abs(b) + np.abs(start))
        plain = mode != "init"
        wanted = held(bf16_lib, kind, reads, write, "reference_matmul_f16", plain)
        np.testing.assert_array_less(np.abs(wanted - (a @ b + start)), bound + 1e-300)
        floats = matmul.operands(p, exact, mode)[1]
        for rounds in ((True, False), (False, True), (True, True)):
            packing = replace(kind, rounds=rounds)
            given = [f if r else h for f, h, r in itertools.zip_longest(floats, reads, rounds)]
            for row in fitting(packing, given, write, 3):
                found = run(bf16_lib, row, packing, given, write, 3)
                np.testing.assert_array_equal(found.view(np.int32), wanted.view(np.int32), err_msg=row.symbol)


@pytest.mark.compiler
@pytest.mark.parametrize(("p", "at"), matmul.VECTORS[::2], ids=str)
def test_vectors_are_widened(lib: ctypes.CDLL, bf16_lib: ctypes.CDLL, p: matmul.Product, at: int) -> None:
    widening, given, write = matmul.with_half_vector(p, at, "plain", DType.BF16)
    kind, reads, _ = matmul.operands(p, False, "plain")
    reads[at] = Tensor(widened(given[at]).astype(np.float32), given[at].strides)
    wanted = run(lib, fitting(kind, reads, write, 1)[0], kind, reads, write, 1)
    storing, half = replace(widening, result=DType.BF16), write.stored_as(DType.BF16)
    for cores in (1, 3, 8):
        for row in fitting(widening, given, write, cores):
            found = run(bf16_lib, row, widening, given, write, cores)
            np.testing.assert_array_equal(found.view(np.int32), wanted.view(np.int32), err_msg=row.symbol)
        for row in fitting(storing, given, half, cores):
            found = run(bf16_lib, row, storing, given, half, cores)
            np.testing.assert_array_equal(found, as_bfloats(wanted), err_msg=row.symbol)


@pytest.mark.compiler
@pytest.mark.parametrize("p", matmul.UPDATES[::3], ids=str)
def test_update(bf16_lib: ctypes.CDLL, p: matmul.Product) -> None:
    kind, reads, writes = matmul.update_of(p, False, DType.BF16)
    (row,) = rows_for(kind, 8)
    wanted = run_all(bf16_lib, row, kind, reads, writes, 1, "reference_matmul_update_f16")
    for cores in (1, 3, 8):
        for made, right in zip(run_all(bf16_lib, row, kind, reads, writes, cores), wanted, strict=True):
            np.testing.assert_array_equal(made.view(np.int32), right.view(np.int32))


@pytest.mark.compiler
@pytest.mark.parametrize("direction", conv.DIRECTIONS)
@pytest.mark.parametrize("case", [*conv.CASES[::3], *conv.DEEP], ids=str)
def test_convolution(bf16_lib: ctypes.CDLL, case: conv.Case, direction: str) -> None:
    for exact, mode in ((True, "accumulate"), (False, "plain" if direction == "bw_w" else "bias")):
        kind, reads, write = conv.operands(case, direction, exact, mode, DType.BF16)
        rounded = mode == "bias"
        name = f"reference_conv2d_{direction}_f16"
        wanted = held(bf16_lib, kind, reads, write, name, rounded)
        near_what_is_exact(kind, case, exact, wanted)
        if rounded:
            floats, packing = conv.operands(case, direction, exact, mode)[1], replace(kind, rounds=True)
            given = [reads[0], floats[1], *reads[2:]]
            for row in fitting(packing, given, write, 3):
                found = run(bf16_lib, row, packing, given, write, 3)
                np.testing.assert_array_equal(found.view(np.int32), wanted.view(np.int32), err_msg=row.symbol)


@pytest.mark.compiler
@pytest.mark.parametrize("case", conv.DEEP, ids=str)
def test_input_gradients_are_rounded_as_they_are_stored(bf16_lib: ctypes.CDLL, case: conv.Case) -> None:
    kind, reads, write = conv.operands(case, "bw_x", False, "plain", DType.BF16)
    wanted = as_bfloats(run(bf16_lib, fitting(kind, reads, write, 1)[0], kind, reads, write, 1))
    storing, half = replace(kind, result=DType.BF16), write.stored_as(DType.BF16)
    for cores, row in itertools.product((1, 3), fitting(storing, reads, half, 3)):
        found = run(bf16_lib, row, storing, reads, half, cores)
        np.testing.assert_array_equal(found.view(np.uint16), wanted.view(np.uint16), err_msg=row.symbol)


def near_what_is_exact(kind: Conv, case: conv.Case, exact: bool, found: Array) -> None:
    expected, size = conv.expectation(kind, case, exact)
    terms = kind.shape.macs() / max(found.size, 1)
    bound = np.zeros(expected.shape) if exact else (EPS * (terms * case.n + 2) * size).numpy()
    np.testing.assert_array_less(np.abs(found - expected.numpy()), bound + 1e-300)


@pytest.mark.compiler
@pytest.mark.parametrize(("case", "direction"), depthwise.TWOS, ids=str)
def test_depthwise(bf16_lib: ctypes.CDLL, case: conv.Case, direction: str) -> None:
    kind, reads, write = conv.operands(case, direction, False, "plain", DType.BF16)
    twos = replace(kind, twos=True)
    name = f"reference_conv2d_{direction}_twos"
    wanted = held(bf16_lib, twos, reads, write, name, direction != "bw_w")
    near_what_is_exact(kind, case, False, wanted)


@pytest.mark.compiler
@pytest.mark.parametrize(("case", "direction"), depthwise.WIDENED, ids=str)
def test_depthwise_made_of_floats(bf16_lib: ctypes.CDLL, lib: ctypes.CDLL, case: conv.Case, direction: str) -> None:
    rounded = direction != "bw_w"
    kind, given, write = conv.operands(case, direction, False, "bias")
    halves = [t.stored_as(DType.BF16) for t in given[:2]]
    reads = [replace(t, values=widened(h).astype(np.float32)) for t, h in zip(given, halves, strict=False)]
    (row, *_) = fitting(kind, reads, write, 1)
    wanted = run(lib, row, kind, [*reads, *given[2:]], write, 1)
    wanted, made = (as_bfloats(wanted), write.stored_as(DType.BF16)) if rounded else (wanted, write)
    storing = replace(kind, storage=DType.BF16, result=DType.BF16 if rounded else DType.F32, widens=True)
    for cores, team in TEAMS:
        for rounds, other in ((False, halves[1]), *([(True, given[1])] if rounded else [])):
            lean = replace(storing, team=team, rounds=rounds)
            for row in fitting(lean, [halves[0], other, *given[2:]], made, cores):
                found = run(bf16_lib, row, lean, [halves[0], other, *given[2:]], made, cores)
                np.testing.assert_array_equal(found, wanted, err_msg=row.symbol)


@pytest.mark.compiler
@pytest.mark.parametrize("windows", ["regular", "three columns", "adaptive"])
@pytest.mark.parametrize("seed", range(24))
def test_maxima(bf16_lib: ctypes.CDLL, seed: int, windows: str) -> None:
    """What floats of these values have, rounded once."""
    x, arguments = three_columns(seed) if windows == "three columns" else drawn(seed)
    (target, back), adaptive = MAX, windows == "adaptive"
    if adaptive:
        x = sample(2, 3, 5 + seed % 7, 4 + seed % 11, window=seed)
        target, back, arguments = aten.adaptive_max_pool2d.default, aten.adaptive_max_pool2d_backward.default, [[3, 4]]
    x.view(-1)[seed % x.numel()] = float("inf")
    b, vx, vy, vg, vgx = lowered(target, back, x, arguments, [] if adaptive else arguments, seed % 5 == 0)
    floats, given = Memory(b.program), {vx: x.bfloat16(), vg: torch.randn(vy.shape).bfloat16()}
    for view, values in given.items():
        floats.write(view, values.float().numpy())
    for op in b.program.ops:
        carry_out(bf16_lib, op, floats, 1)
    wanted = Memory(b.program)
    for name, array in floats.arrays.items():
        wanted.arrays[name] = as_bfloats(array) if array.dtype == np.float32 else array
    smaller = {n: replace(t, dtype=DType.BF16) if t.dtype is DType.F32 else t for n, t in b.program.tensors.items()}
    for cores in (1, 3, 8):
        halves = Memory(replace(b.program, tensors=smaller))
        for view, values in given.items():
            halves.write(view, values.view(torch.int16).numpy().view(np.uint16))
        for op in b.program.ops:
            changed = replace(op, kind=replace(op.kind, storage=DType.BF16))  # type: ignore[type-var]
            carry_out(bf16_lib, changed, halves, cores, wanted)
        assert np.array_equal(halves.read(vgx), wanted.read(vgx))


@pytest.mark.compiler
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("direction", ["fw", "bw"])
def test_scan(bf16_lib: ctypes.CDLL, direction: str, cell: str) -> None:
    own = {r.symbol for r in BF16}
    assert held_in_halves(bf16_lib, DType.BF16, direction, cell) <= own
    assert both_in_halves(bf16_lib, DType.BF16, direction, cell) <= own


@pytest.mark.compiler
def test_every_row_is_tested(bf16_lib: ctypes.CDLL) -> None:
    """By cases, of those that this process has not had."""
    kinds = [
        *(conv.operands(c, d, True, "plain", DType.BF16) for c in conv.CASES[::3] for d in conv.DIRECTIONS),
        *(conv.operands(c, d, True, "plain", DType.BF16) for c in conv.DEEP for d in conv.DIRECTIONS),
        *(matmul.with_half_vector(p, at, "plain", DType.BF16) for p, at in matmul.VECTORS[::2]),
    ]
    seen = {r.symbol for k, reads, write in kinds for n in (1, 8) for r in fitting(k, reads, write, n)}
    for case in conv.DEEP:
        k, reads, write = conv.operands(case, "bw_x", True, "plain", DType.BF16)
        stored = write.stored_as(DType.BF16)
        seen |= {r.symbol for r in fitting(replace(k, result=DType.BF16), reads, stored, 8)}
    for p in matmul.PRODUCTS:
        k, reads, write = matmul.operands(p, True, "plain", DType.BF16)
        seen |= {r.symbol for r in fitting(k, reads, write, 8)}
    seen |= {r.symbol for r in rows_for(matmul.update_of(matmul.UPDATES[0], True, DType.BF16)[0], 8)}
    pools = {r.symbol for r in BF16 if "pool" in r.operation}
    twos = {r.symbol.replace("_f16", "_bf16") for r in DEPTHWISE_F16}
    for seed, windows in itertools.product(range(24), ("regular", "three columns", "adaptive")):
        if not pools <= TESTED:
            test_maxima(bf16_lib, seed, windows)
    assert pools <= TESTED
    ways = itertools.product((held_in_halves, both_in_halves), ("fw", "bw"), CELLS)
    scans = set[str]().union(*(held(bf16_lib, DType.BF16, d, c) for held, d, c in ways))
    assert seen | pools | twos | scans == {r.symbol for r in BF16}
