"""Winograd's convolutions: exact, bounded, and bit by bit their reference, whatever the cores and the scratch."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.kernel_harness import Array, Tensor, execute, fitting, run
from tests.unit.test_conv_rows import DIRECTIONS, EPS, MODES, Case, expectation, operands
from trainlib_deployer.kernels.winograd import WINOGRAD, Winograd, extents
from trainlib_deployer.ops.conv import Conv
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
]
MOST = Winograd()
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


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_winograd(lib: ctypes.CDLL, case: Case, direction: str) -> None:
    for exact, mode in MODES:
        direct, reads, write = operands(case, direction, exact, mode)
        kind = replace(direct, winograd=MOST)
        expected, size = expectation(kind, case, exact)
        (row,) = fitting(kind, reads, write, 1)
        wanted = run(lib, row, kind, reads, write, 1, f"reference_winograd_{direction}")
        bound = 0 * size if exact else 4 * EPS * terms_of(kind) * size.amax()
        np.testing.assert_array_less(np.abs(wanted - expected.numpy()), bound.numpy() + 1e-300)
        for cores, chunk in RUNS if mode == "plain" else RUNS[:2]:
            lean = replace(kind, winograd=chunk)
            found = run(lib, row, lean, reads, write, cores)
            np.testing.assert_array_equal(found.view(np.int32), wanted.view(np.int32), err_msg=f"{cores} {chunk}")


def terms_of(kind: Conv) -> int:
    """Of a result, with what the transforms add."""
    _, tiles, chans = extents(kind)
    return 4 * tiles + 16 if kind.direction == "bw_w" else 9 * chans + 16


def within(t: Tensor, view: View) -> Tensor:
    """A window of a tensor, as one of its own that shares its memory."""
    window = Tensor(np.zeros(view.shape, np.float32), view.strides, margin=0)
    window.buffer = t.buffer[t.margin + view.offset :]
    return window


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_tiles_change_no_bit(lib: ctypes.CDLL, direction: str) -> None:
    """Whatever the cut: tiles of 2 x 2 outputs stay where they are in the image."""
    case = Case(n=2, ci=5, co=6, size=(37, 16), pad=(2, 1))
    direct, reads, write = operands(case, direction, False, "bias")
    kind = replace(direct, winograd=MOST)
    (row,) = fitting(kind, reads, write, 1)
    wanted, seen = run(lib, row, kind, reads, write, 1), set()
    tensors = {str(i): t for i, t in enumerate([*reads, write])}
    views = [View(name, t.values.shape, t.strides) for name, t in tensors.items()]
    for way in kind.ways(tuple(views[:-1]), (views[-1],)):
        write.view[...] = np.nan
        for part in way:
            windows = [within(tensors[v.tensor], v) for v in (*part.reads, *part.writes)]
            room = np.zeros(part.kind.scratch(1) // 4, np.float32)
            call = row.call(part.kind, [t.operand for t in windows[:-1]], [windows[-1].operand], address(room))
            execute(lib, row, call, 1)
        np.testing.assert_array_equal(write.view.view(np.int32), wanted.view(np.int32))
        seen.add(len(way))
    assert len(seen) > 8


def address(room: Array) -> str:
    return str(int(room.ctypes.data))


def test_leaner_needs_less_and_less() -> None:
    """Down to 1.3 kB, whatever the shape."""
    for case in CASES:
        for direction in DIRECTIONS:
            kind = replace(operands(case, direction, True, "plain")[0], winograd=MOST)
            sizes = [kind.scratch(8), *(k.scratch(8) for k in kind.leaner(8))]
            assert sizes == sorted(set(sizes), reverse=True)
            assert sizes[-1] <= 1792


def test_every_row_is_tested() -> None:
    assert {r.operation for r in WINOGRAD} == {f"conv2d_{d}" for d in DIRECTIONS}
