"""Winograd's convolutions: exact, bounded, and bit by bit their reference, whatever the cores and the scratch."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from golden.halves import Halves
from golden.tiles import Tiles
from tests.unit.kernel_harness import Array, Tensor, execute, fitting, run
from tests.unit.test_conv_rows import DIRECTIONS, EPS, MODES, STORAGES, Case, expectation, operands
from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.table import rows_for
from trainlib_deployer.kernels.winograd import WINOGRAD, Winograd, extents
from trainlib_deployer.kernels.winograd_f16 import WHOLE, WINOGRAD_F16
from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.passes.choose_winograd import told
from trainlib_deployer.program.ir import View

CASES = [
    Case(ci=3, co=5),
    Case(n=2, ci=9, co=13, size=(5, 9), pad=(1, 1), wide=3),
    Case(ci=8, co=7, size=(8, 8), pad=(1, 1)),
    Case(n=3, ci=16, co=4, size=(7, 17), pad=(1, 2), sparse_w=2),
    Case(ci=70, co=6, size=(4, 11), pad=(0, 1)),
    Case(n=2, ci=4, co=133, size=(3, 4), pad=(2, 2)),
    Case(groups=3, ci=5, co=6, size=(10, 8), pad=(1, 1), wide=1),
    Case(ci=6, co=5, size=(13, 12), pad=(-1, -2), wide=2),
    Case(ci=4, co=5, size=(9, 10), pad=(-2, 1), more=(1, 3)),
    Case(n=2, ci=2, co=3, size=(1, 1), pad=(1, 1)),
    Case(ci=1, co=1, size=(3, 19), pad=(1, 0)),
    Case(n=2, ci=6, co=9, size=(7, 12), pad=(1, 1)),
    Case(n=3, ci=5, co=10, size=(6, 6), pad=(1, 1)),
    Case(n=2, groups=2, ci=3, co=4, size=(4, 22), pad=(0, 1)),
    Case(n=2, ci=64, co=3, size=(6, 10), pad=(2, 0)),
    Case(ci=8, co=20, size=(2, 2), pad=(1, 1)),
]
MOST = Winograd()
BOTH = [(storage, d) for storage in (DType.F32, DType.F16) for d in DIRECTIONS]
HALF_STEP = 2.0**-9
RUNS = (  # cores; one core first, because threads that wait for each other are slow
    (1, MOST),
    (2, MOST),
    (3, Winograd(12, 16)),
    (8, MOST),
    (1, Winograd(8, 4)),
    (1, Winograd(4, 12, 64)),
    (1, Winograd(4, 8, 8)),
    (2, Winograd(16, 16, 32)),
)
TWOS = (  # two rows of the transformed 4 x 4 at a time
    (1, Winograd(whole=True)),
    (8, Winograd(whole=True)),
    (3, Winograd(12, 16, whole=True)),
    (2, Winograd(4, 8, whole=True)),
    (1, Winograd(8, 4, whole=True)),
)
TOGETHER = (  # all rows of the transformed 4 x 4
    (1, WHOLE),
    (8, WHOLE),
    (3, Winograd(12, 16, whole=True)),
    (2, Winograd(4, 4, whole=True)),
    (1, Winograd(8, 12, 4, whole=True)),
    (3, Winograd(4, 8, 2, whole=True)),
)


@pytest.mark.parametrize(("storage", "direction"), BOTH)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_winograd(lib: ctypes.CDLL, case: Case, direction: str, storage: DType) -> None:
    for exact, mode in MODES:
        direct, reads, write = operands(case, direction, exact, mode, storage)
        kind = replace(direct, winograd=MOST)
        expected, size = expectation(kind, case, exact)
        *_, row = fitting(kind, reads, write, 1)
        wanted = run(lib, row, kind, reads, write, 1, f"reference_winograd_{direction}{STORAGES[storage]}")
        near = 4 * EPS * terms_of(kind) if storage is DType.F32 else HALF_STEP
        bound = 0 * size if exact else near * size.amax()
        np.testing.assert_array_less(np.abs(wanted - expected.numpy()), bound.numpy() + 1e-300)
        runs = RUNS if mode == "plain" else RUNS[:2]
        for cores, chunk in (*runs, *together(kind)):
            lean = replace(kind, winograd=chunk)
            for row in fitting(lean, reads, write, cores):
                found, what = run(lib, row, lean, reads, write, cores), f"{row.symbol} {cores} {chunk}"
                np.testing.assert_array_equal(found.view(np.int32), wanted.view(np.int32), err_msg=what)


def together(kind: Conv) -> tuple[tuple[int, Winograd], ...]:
    return () if kind.direction == "bw_w" else TWOS if kind.storage is DType.F32 else TOGETHER


def test_panels_are_shared_out_where_cores_would_wait() -> None:
    """Each core has some of its own where there is scratch for all of them, and few have one more than others."""
    kinds = {
        size: replace(operands(Case(ci=8, co=8, size=size, pad=(1, 1)), "fw", True, "plain")[0], winograd=MOST)
        for size in ((16, 16), (24, 16), (8, 8), (24, 12))
    }
    rows = {size: [r.symbol.removeprefix("tl_conv2d_fw_") for r in rows_for(k, 8)] for size, k in kinds.items()}
    both, shared = ["winograd_panels_f32", "winograd_f32"], ["winograd_f32"]
    assert rows == {(16, 16): both, (24, 16): both, (8, 8): shared, (24, 12): shared}
    lean = [replace(kinds[16, 16], winograd=chunk) for chunk in (Winograd(4), Winograd(64, 28), Winograd(64, 32, 4))]
    assert [len(rows_for(k, 8)) for k in lean] == [2, 1, 1]


@pytest.mark.parametrize("direction", ["fw", "bw_x"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_halves_are_rounded_once(lib: ctypes.CDLL, case: Case, direction: str) -> None:
    """Results as they are stored, weights as they are transformed."""
    for mode in ("bias", "plain"):
        direct, reads, write = operands(case, direction, False, mode, DType.F16)
        floats = operands(case, direction, False, mode)[1]
        kind, given = replace(direct, winograd=MOST, rounds=True), [reads[0], floats[1], *reads[2:]]
        (row,) = fitting(kind, given, write, 1)
        wanted = run(lib, row, kind, given, write, 1, f"reference_winograd_{direction}_f16")
        for cores, chunk in (*RUNS[2:5], *TOGETHER[1:]):
            lean, half = replace(kind, winograd=chunk), write.stored_as(DType.F16)
            (row,) = fitting(lean, given, write, cores)
            found = run(lib, row, lean, given, write, cores)
            np.testing.assert_array_equal(found.view(np.int32), wanted.view(np.int32), err_msg=f"{cores} {chunk}")
            found = run(lib, row, replace(lean, result=DType.F16), given, half, cores)
            np.testing.assert_array_equal(found.view(np.int16), wanted.astype(np.float16).view(np.int16))


@pytest.mark.parametrize("direction", ["fw", "bw_x"])
@pytest.mark.parametrize("case", CASES[:8], ids=str)
def test_the_reference_of_mixed_precision_rounds_alike(lib: ctypes.CDLL, case: Case, direction: str) -> None:
    """Transformed operands are the same halves: what is left is rounding of float sums."""
    direct, reads, write = operands(case, direction, False, "plain", DType.F16)
    floats = operands(case, direction, False, "plain")[1][1]
    kind = replace(direct, winograd=MOST, rounds=True)
    found = run(lib, fitting(kind, reads, write, 1)[0], kind, [reads[0], floats], write, 1)
    image = torch.from_numpy(np.ascontiguousarray(reads[0].view).astype(np.float32))
    weight = torch.from_numpy(np.ascontiguousarray(floats.view))
    out = torch.empty(found.shape)
    tiles, turned = Tiles([told(kind)]), direction == "bw_x"
    wanted = tiles.convolved(image, weight, kind.shape.pad, kind.shape.groups, turned, out)
    assert wanted is not None
    assert (wanted - torch.from_numpy(found)).norm() <= 2.0**-20 * wanted.norm()
    assert Tiles().convolved(image, weight, kind.shape.pad, kind.shape.groups, turned, out) is None


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_reference_rounds_what_a_weight_gradient_is_made_of(lib: ctypes.CDLL, case: Case) -> None:
    """As a part of PyTorch's backward pass, with what the other gradients are left alone."""
    direct, reads, write = operands(case, "bw_w", False, "plain", DType.F16)
    kind = replace(direct, winograd=MOST)
    found = run(lib, fitting(kind, reads, write, 1)[0], kind, reads, write, 1)
    image, made = (torch.from_numpy(np.ascontiguousarray(t.view).astype(np.float32)) for t in reads)
    s, weight = kind.shape, torch.zeros(found.shape)
    geometry = (list(s.stride), list(s.pad), list(s.dilation), False, [0, 0], s.groups, [True, True, False])
    out = (torch.zeros(image.shape), torch.zeros(weight.shape), None)
    left, wanted, _ = Tiles([told(kind)]).instead("convolution_backward", (made, image, weight, None, *geometry), out)
    assert left is out[0]
    assert (wanted - torch.from_numpy(found)).norm() <= 2.0**-18 * wanted.norm()
    swapped = (image, made, weight, None, *geometry[:3], True, *geometry[4:])  # of a transposed convolution
    _, turned, _ = Tiles([told(kind)]).instead("convolution_backward", swapped, (None, out[1], None))
    assert torch.equal(turned, wanted)


@pytest.mark.parametrize("other", [{"stride": 2}, {"stride": (1, 2)}, {"dilation": 2}], ids=str)
def test_the_reference_takes_no_other_convolution_of_the_same_shapes_for_one_in_tiles(other: dict[str, Any]) -> None:
    """Fault: beside a convolution in tiles one of stride 2 on the same image was calculated like it."""
    image, weight = torch.randn(1, 8, 9, 8, requires_grad=True), torch.randn(8, 8, 3, 3)
    known = [(d, tuple(image.shape), tuple(weight.shape), (1, 1), 1) for d in ("fw", "bw_x")]
    found = []
    for tiles in ([], known):
        with Halves(torch.float32, [], chains=False, tiles=tiles):
            out = nn.functional.conv2d(image, weight, padding=1, **other)
            found.append((out, *torch.autograd.grad(out, image, torch.ones_like(out))))
    assert all(map(torch.equal, *found))


def terms_of(kind: Conv) -> int:
    """Of a result, with what the transforms add."""
    _, tiles, chans = extents(kind)
    return 4 * tiles + 16 if kind.direction == "bw_w" else 9 * chans + 16


def within(t: Tensor, view: View) -> Tensor:
    """A window of a tensor, as one of its own that shares its memory."""
    window = Tensor(np.zeros(view.shape, t.values.dtype), view.strides, margin=0)
    window.buffer = t.buffer[t.margin + view.offset :]
    return window


@pytest.mark.parametrize(("storage", "direction"), BOTH)
def test_tiles_change_no_bit(lib: ctypes.CDLL, direction: str, storage: DType) -> None:
    """Whatever the cut: tiles of 2 x 2 outputs stay where they are in the image. Sums of halves go on for 64 of them,
    so that there are fewer places to cut."""
    long = (storage, direction) == (DType.F16, "bw_w")
    case = Case(n=2, ci=5, co=6, size=(61 if long else 37, 16), pad=(2, 1))
    direct, reads, write = operands(case, direction, False, "bias", storage)
    kind = replace(direct, winograd=MOST)
    rows = fitting(kind, reads, write, 1)
    wanted, seen = run(lib, rows[0], kind, reads, write, 1), set()
    tensors = {str(i): t for i, t in enumerate([*reads, write])}
    views = [View(name, t.values.shape, t.strides) for name, t in tensors.items()]
    for way in kind.ways(tuple(views[:-1]), (views[-1],)):
        write.view[...] = np.nan
        for part in way:
            windows = [within(tensors[v.tensor], v) for v in (*part.reads, *part.writes)]
            room = np.zeros(part.kind.scratch(1) // 4, np.float32)
            row = rows[len(seen) % len(rows)]
            call = row.call(part.kind, [t.operand for t in windows[:-1]], [windows[-1].operand], address(room))
            execute(lib, row, call, 1)
        np.testing.assert_array_equal(write.view.view(np.int32), wanted.view(np.int32))
        seen.add(len(way))
    assert len(seen) > (5 if long else 8)


def address(room: Array) -> str:
    return str(int(room.ctypes.data))


def test_leaner_needs_less_and_less() -> None:
    """Down to 1.3 kB, whatever the shape; of halves, each core has products of its own."""
    for case in CASES:
        for storage, direction in BOTH:
            direct = operands(case, direction, True, "plain", storage)[0]
            kind = replace(direct, winograd=WHOLE if together(direct) else MOST)
            sizes = [kind.scratch(8), *(k.scratch(8) for k in kind.leaner(8))]
            assert sizes == sorted(set(sizes), reverse=True)
            assert sizes[-1] <= (1792 if storage is DType.F32 else 3200)


def test_every_row_is_tested() -> None:
    assert {r.operation for r in WINOGRAD} == {f"conv2d_{d}" for d in DIRECTIONS}
    assert [(r.storage, r.operation[7:]) for r in WINOGRAD_F16] == [*BOTH[3:5], *BOTH[3:]]
