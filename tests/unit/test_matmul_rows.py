"""Every row of the matrix product: exact, bounded, and bit by bit the reference, for every number of cores."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.unit.kernel_harness import (
    ALL_CORES,
    Array,
    Tensor,
    execute,
    fitting,
    random,
    run,
    run_all,
    transposed,
)
from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.matmul import MATMUL, known_layouts, seen
from trainlib_deployer.kernels.matmul_f16 import MATMUL_F16
from trainlib_deployer.kernels.matmul_update import MATMUL_UPDATE, MATMUL_UPDATE_F16
from trainlib_deployer.kernels.panels import BLOCK
from trainlib_deployer.kernels.row import Row
from trainlib_deployer.kernels.table import chosen, rows_for
from trainlib_deployer.kernels.widened import WIDENED
from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.plan.window import window
from trainlib_deployer.program.call import Operand
from trainlib_deployer.program.ir import View

EPS = 2.0**-23
TEAMS = ((8, 3), (5, 1), (3, 2), (4, 7))  # cores, of whom so many have scratch


@dataclass(frozen=True)
class Product:
    batch: int
    m: int
    n: int
    k: int
    a: tuple[int, int, int] = (0, 1, 2)  # order of the axes in memory
    b: tuple[int, int, int] = (0, 1, 2)
    c: tuple[int, int, int] = (0, 1, 2)
    extra: int = 0


PRODUCTS = [
    Product(1, 8, 8, 64),
    Product(1, 5, 7, 3),
    Product(2, 9, 13, 65, extra=2),
    Product(1, 33, 6, 130, b=(0, 2, 1)),  # x W^T
    Product(1, 6, 33, 130, b=(0, 2, 1)),
    Product(3, 12, 10, 20, a=(0, 2, 1)),  # dy^T x
    Product(2, 7, 10, 70, a=(0, 2, 1), b=(0, 2, 1)),
    Product(1, 3, 16, 31, a=(0, 2, 1), c=(0, 2, 1)),
    Product(2, 6, 5, 9, a=(2, 1, 0), b=(2, 1, 0), c=(2, 1, 0)),  # no operand with contiguous neighbours
    Product(2, 6, 5, 9, a=(1, 2, 0), extra=1),
    Product(2, 5, 6, 80, b=(1, 2, 0), extra=1),
    Product(2, 5, 6, 80, a=(0, 2, 1), b=(1, 2, 0), extra=1),
    Product(1, 2, 50, 12, b=(0, 2, 1)),  # two samples
    Product(1, 2, 13, 200, b=(0, 2, 1)),
    Product(1, 7, 2, 130, a=(0, 2, 1), c=(0, 2, 1)),
    Product(3, 2, 6, 65, extra=2),
    Product(2, 11, 2, 3, a=(2, 1, 0), b=(2, 1, 0), c=(2, 1, 0)),
    Product(1, 1, 50, 100, b=(0, 2, 1)),  # batch 1 linear
    Product(1, 1, 50, 100),
    Product(1, 1, 10, 700, b=(0, 2, 1)),
    Product(1, 10, 1, 700),
    Product(1, 10, 1, 700, a=(0, 2, 1)),
    Product(4, 19, 1, 37, a=(0, 2, 1), extra=3),
    Product(5, 1, 3, 129, a=(2, 1, 0), b=(2, 0, 1), c=(2, 1, 0)),
    Product(7, 11, 1, 69),
    Product(1, 1, 1, 1000),
    Product(3, 1, 1, 64),
    Product(1, 4, 10, 200, b=(0, 2, 1)),
    Product(2, 6, 9, 129, a=(0, 2, 1), c=(0, 2, 1), extra=1),
    Product(1, 6, 5, 200, a=(0, 2, 1)),
    Product(1, 50, 41, 1),
    Product(2, 41, 20, 1, c=(0, 2, 1)),
    Product(2, 3, 4, 1, a=(2, 1, 0), b=(1, 2, 0), extra=1),
    Product(1, 1, 30, 1),
    Product(1, 50, 41, 2),
    Product(3, 11, 33, 2, b=(1, 0, 2), extra=1),
    Product(2, 41, 19, 2, a=(0, 2, 1), c=(0, 2, 1)),
    Product(2, 3, 7, 2, a=(2, 1, 0), b=(1, 2, 0), extra=1),
    Product(1, 61, 12, 2, a=(0, 2, 1)),
    Product(2, 5, 4, 2),
    Product(1, 2, 6, 2, extra=1),
    Product(1, 3, 70, 21),
]
UPDATING = (DType.F32, DType.F16)
REFERENCES = {DType.F32: "reference_matmul", DType.F16: "reference_matmul_f16"}
MODES = ((True, "init"), (True, "plain"), (False, "broadcast"), (False, "accumulate"))


def operands(p: Product, exact: bool, mode: str, storage: DType = DType.F32) -> tuple[MatMul, list[Tensor], Tensor]:
    shapes = ((p.batch, p.m, p.k), (p.batch, p.k, p.n), (p.batch, p.m, p.n), (p.batch, p.m, p.n))
    a, b, init, c = (random(s, i, exact) for i, s in enumerate(shapes))
    reads = [t.stored_as(storage) for t in (transposed(a, p.a, p.extra), transposed(b, p.b, p.extra))]
    if mode == "broadcast":
        row = transposed(init[:1, :1], (1, 0, 2))
        reads.append(Tensor(np.broadcast_to(row.view, c.shape), (0, 0, row.strides[2])))
    elif mode == "init":
        reads.append(transposed(init, (1, 0, 2)))
    kind = MatMul(p.batch, p.m, p.n, p.k, len(reads) > 2, mode == "accumulate", storage=storage)
    return kind, reads, transposed(c, p.c, p.extra)


@pytest.mark.parametrize(("storage", "reference"), REFERENCES.items())
@pytest.mark.parametrize("p", PRODUCTS, ids=str)
def test_product(lib: ctypes.CDLL, p: Product, storage: DType, reference: str) -> None:
    for exact, mode in MODES:
        kind, reads, write = operands(p, exact, mode, storage)
        a, b = (t.view.astype(np.float64) for t in reads[:2])
        start = reads[2].view if kind.init else write.view if kind.accumulate else np.zeros(1)
        expected = a @ b + start
        bound = np.zeros(expected.shape) if exact else EPS * (p.k + 2) * (np.abs(a) @ np.abs(b) + np.abs(start))
        first = fitting(kind, reads, write, 1)[0]
        wanted = run(lib, first, kind, reads, write, 1, reference)
        np.testing.assert_array_less(np.abs(wanted - expected), bound + 1e-300)
        for cores, team in (*((n, 0) for n in ALL_CORES), *TEAMS):
            lean = replace(kind, team=team)
            for row in fitting(lean, reads, write, cores):
                found = run(lib, row, lean, reads, write, cores)
                np.testing.assert_array_equal(found.view(np.int32), wanted.view(np.int32), err_msg=row.symbol)
            told = replace(lean, layouts=known_layouts([t.operand.view for t in reads]))
            row, views = fitting(told, reads, write, cores)[0], [t.operand.view for t in (*reads, write)]
            assert row is chosen(lean, views[:-1], views[-1:], cores), "what is known of a product changes no choice"
            found = run(lib, row, told, reads, write, cores)
            np.testing.assert_array_equal(found.view(np.int32), wanted.view(np.int32), err_msg=row.symbol)


@pytest.mark.parametrize("storage", REFERENCES)
@pytest.mark.parametrize("p", PRODUCTS, ids=str)
def test_a_product_may_begin_with_what_lies_in_the_place_of_its_result(
    lib: ctypes.CDLL, p: Product, storage: DType
) -> None:
    """As if it added to what is there."""
    adding, reads, write = operands(p, False, "accumulate", storage)
    kind = replace(adding, init=True, accumulate=False)
    first = write.operand.view._replace(tensor="first")
    assert kind.replaceable((*(t.operand.view for t in reads), first)) == (first,)
    for cores in (1, 3, 8):
        for row in fitting(kind, [*reads, write], write, cores):
            wanted, found = (
                run(lib, row, adding, reads, write, cores),
                run(lib, row, kind, [*reads, write], write, cores),
            )
            np.testing.assert_array_equal(found.view(np.int32), wanted.view(np.int32), err_msg=row.symbol)


@pytest.mark.parametrize("p", [p for p in PRODUCTS if min(p.m, p.n, p.k) > 1], ids=str)
def test_tiles_keep_what_is_known_of_layouts(p: Product) -> None:
    """In whatever pieces, and however those lie in L1, a kernel takes them, of which there is no other."""
    kind, reads, write = operands(p, True, "plain")
    views, made = tuple(t.operand.view for t in reads), (write.operand.view,)
    told = replace(kind, layouts=known_layouts(views))
    for parts in itertools.islice(told.ways(views, made), 200):
        for part in {part.kind: part for part in parts}.values():
            moved = [window(v, 4) for v in (*part.reads, *part.writes)]
            if None in moved:
                continue
            dense = [
                View(v.tensor, v.shape, w.dense) for v, w in zip((*part.reads, *part.writes), moved, strict=True) if w
            ]
            row = chosen(part.kind, dense[:-1], dense[-1:], 8)
            assert row is not None and row.scratch(part.kind, 8) <= part.kind.scratch(8)
            several = told.layouts is not None and min(part.kind.m, part.kind.n) > 1 and part.kind.k > 2
            assert not several or rows_for(part.kind, 8) == [row]


@pytest.mark.parametrize(("m", "n"), [(8, 64), (3, 70), (70, 5), (37, 37)])
def test_products_of_halves_are_seen_along_the_rows_of_their_results(m: int, n: int) -> None:
    """Tiles whose columns lie apart are stored element by element."""
    straight, turned = (0, 1, 2), (0, 2, 1)
    for a, b, c in itertools.product((straight, turned), repeat=3):
        kind, reads, write = operands(Product(1, m, n, 20, a, b, c), True, "plain")
        halves = replace(kind, storage=DType.F16)
        p = seen(halves, [t.operand.view for t in reads], [write.operand.view])
        assert p.c.strides[2] == 1 and p.turned == (c == turned), (a, b, c)


def test_known_layouts_leave_out_what_is_not_packed() -> None:
    panel = 64 * 4 * 4
    straight, turned = (0, 1, 2), (0, 2, 1)
    wanted = {(8, 8, straight, straight): 0, (8, 7, straight, straight): 1, (8, 8, straight, turned): 1}
    wanted |= {(8, 8, turned, straight): 0, (7, 8, turned, straight): 1, (7, 9, turned, straight): 2}
    for (m, n, a, b), panels in wanted.items():
        kind, reads, _ = operands(Product(1, 4 * m, 4 * n, 64, a, b), True, "plain")
        kind = replace(kind, m=kind.m - 3 * (m % 2), n=kind.n - 3 * (n % 2))
        told = replace(kind, layouts=known_layouts([t.operand.view for t in reads]))
        assert told.scratch(8) == 8 * panels * panel, (m, n, a, b)
        assert kind.scratch(8) == 8 * 2 * panel
        assert replace(told, k=21).scratch(8) == 8 * panels * 21 * 16
    none = operands(Product(2, 6, 5, 9, a=(2, 1, 0)), True, "plain")[1]
    assert known_layouts([t.operand.view for t in none]) is None, "no dimension is contiguous in every tile"


@pytest.mark.parametrize("p", PRODUCTS, ids=str)
def test_results_are_rounded_as_they_are_stored(lib: ctypes.CDLL, p: Product) -> None:
    for mode in ("plain", "broadcast"):
        kind, reads, write = operands(p, False, mode, DType.F16)
        storing, half = replace(kind, result=DType.F16), write.stored_as(DType.F16)
        wanted = run(lib, fitting(kind, reads, write, 1)[0], kind, reads, write, 1).astype(np.float16)
        for cores, team in ((1, 0), (3, 0), (8, 2)):
            lean = replace(storing, team=team)
            for row in fitting(lean, reads, half, cores):
                found = run(lib, row, lean, reads, half, cores)
                np.testing.assert_array_equal(found.view(np.int16), wanted.view(np.int16), err_msg=row.symbol)


@pytest.mark.parametrize("rounds", [(True, False), (False, True), (True, True)], ids=str)
@pytest.mark.parametrize("p", PRODUCTS[::2], ids=str)
def test_floats_are_rounded_as_they_are_packed(lib: ctypes.CDLL, p: Product, rounds: tuple[bool, bool]) -> None:
    kind, reads, write = operands(p, False, "plain", DType.F16)
    floats = operands(p, False, "plain")[1]
    packing = replace(kind, rounds=rounds)
    given = [f if r else half for f, half, r in zip(floats, reads, rounds, strict=True)]
    for cores, row in itertools.product((1, 3), fitting(packing, given, write, 3)):
        wanted, found = run(lib, row, kind, reads, write, cores), run(lib, row, packing, given, write, cores)
        np.testing.assert_array_equal(found.view(np.int32), wanted.view(np.int32), err_msg=row.symbol)


VECTORS = [(p, at) for p in (*PRODUCTS, Product(1, 1, 131, 100)) for at in (0, 1) if (p.m, p.n)[at] == 1]


def with_half_vector(p: Product, at: int, mode: str, storage: DType) -> tuple[MatMul, list[Tensor], Tensor]:
    kind, reads, write = operands(p, False, mode)
    reads[at] = reads[at].stored_as(storage)
    return replace(kind, storage=storage, rounds=(at != 0, at != 1), widens=True), reads, write


@pytest.mark.parametrize(("p", "at"), VECTORS, ids=str)
def test_vectors_of_halves_are_widened(lib: ctypes.CDLL, p: Product, at: int) -> None:
    """The bits are those of floats, rounded as they are stored where results are halves."""
    for mode in ("init", "plain", "broadcast", "accumulate"):
        widening, given, write = with_half_vector(p, at, mode, DType.F16)
        kind, reads, _ = operands(p, False, mode)
        reads[at] = Tensor(given[at].view.astype(np.float32), given[at].strides)
        wanted = run(lib, fitting(kind, reads, write, 1)[0], kind, reads, write, 1, "reference_matmul")
        storing, half = replace(widening, result=DType.F16), write.stored_as(DType.F16)
        rounded = wanted.astype(np.float16)
        for cores, team in (*((n, 0) for n in ALL_CORES), *TEAMS):
            for row in fitting(lean := replace(widening, team=team), given, write, cores):
                found = run(lib, row, lean, given, write, cores)
                np.testing.assert_array_equal(found.view(np.int32), wanted.view(np.int32), err_msg=row.symbol)
            for row in fitting(lean := replace(storing, team=team), given, half, cores) if mode != "accumulate" else ():
                found = run(lib, row, lean, given, half, cores)
                np.testing.assert_array_equal(found.view(np.int16), rounded.view(np.int16), err_msg=row.symbol)


UPDATES = [
    *(replace(p, batch=1) for p in PRODUCTS if 2 < p.k <= BLOCK),
    Product(1, 12, 20, 7, a=(0, 2, 1)),  # whole tiles that need no packing
    Product(1, 4, 72, 3, a=(0, 2, 1), extra=1),
    Product(1, 12, 20, 9, b=(0, 2, 1)),  # ... but of columns
    Product(1, 52, 4, 31, b=(0, 2, 1), extra=3),
    Product(1, 4, 28, 2, a=(0, 1, 2), b=(0, 2, 1), c=(0, 2, 1)),
]


def update_of(p: Product, exact: bool, storage: DType) -> tuple[MatMul, list[Tensor], list[Tensor]]:
    """Weights in an order of their own, and sums in another one."""
    kind, (a, b, init), c = operands(p, exact, "init", storage)
    rate, sums = Tensor(np.array(0.5 if exact else 0.0137, np.float32), ()), np.zeros_like(init.values)
    weights = Tensor(init.values, c.strides)
    return replace(kind, update=True), [a, b, weights, rate], [weights.fresh(), transposed(sums, (0, 2, 1), extra=2)]


def updated(lib: ctypes.CDLL, row: Row, kind: MatMul, reads: list[Tensor], cores: int) -> Array:
    """In place, by a build that does not record."""
    weights, scratch = reads[2].fresh(), np.zeros(row.scratch(kind, cores) // 4 + 1, np.float32)
    nowhere = Operand("0", weights.operand.view)
    given = [t.operand for t in (*reads[:2], weights, reads[3])]
    execute(lib, row, row.call(kind, given, [weights.operand, nowhere], str(scratch.ctypes.data)), cores)
    assert weights.surroundings_intact()
    return weights.view


@pytest.mark.parametrize("storage", UPDATING, ids=str)
@pytest.mark.parametrize("p", UPDATES, ids=str)
def test_update(lib: ctypes.CDLL, p: Product, storage: DType) -> None:
    """The sums are those of the product, and what is moved by them is rounded once."""
    reference = REFERENCES[storage]
    for exact in (True, False):
        kind, reads, writes = update_of(p, exact, storage)
        rows = fitting(kind, reads, writes[0], 8, writes[1])
        wanted = run_all(lib, rows[0], kind, reads, writes, 1, reference.replace("matmul", "matmul_update"))
        product = replace(kind, init=False, update=False)
        plain = fitting(product, reads[:2], writes[1], 1)[0]
        sums = run(lib, plain, product, reads[:2], writes[1], 1, reference)
        np.testing.assert_array_equal(wanted[1].view(np.int32), sums.view(np.int32))
        moved = reads[2].view - reads[3].view.astype(np.float64) * sums
        np.testing.assert_allclose(wanted[0], moved, rtol=0 if exact else EPS / 2 * 1.001)
        for row, cores in itertools.product(rows, ALL_CORES):
            for recorded in (writes[1], Tensor(writes[1].values, writes[0].strides)):
                found = run_all(lib, row, kind, reads, [writes[0], recorded], cores)
                for made, right in zip(found, wanted, strict=True):
                    np.testing.assert_array_equal(made.view(np.int32), right.view(np.int32))
            alone = updated(lib, row, kind, reads, cores)
            np.testing.assert_array_equal(alone.view(np.int32), wanted[0].view(np.int32))


@pytest.mark.parametrize("rounds", [(True, False), (False, True), (True, True)], ids=str)
def test_an_update_rounds_floats_as_they_are_packed(lib: ctypes.CDLL, rounds: tuple[bool, bool]) -> None:
    for p in UPDATES[::2]:
        kind, reads, _ = update_of(p, False, DType.F16)
        floats = update_of(p, False, DType.F32)[1]
        given = [f if r else half for f, half, r in zip(floats, reads, (*rounds, False, False), strict=True)]
        (row,) = rows_for(kind, 3)
        wanted = updated(lib, row, kind, reads, 3)
        found = updated(lib, row, replace(kind, rounds=rounds), given, 3)
        np.testing.assert_array_equal(found.view(np.int32), wanted.view(np.int32))


def test_every_row_is_tested() -> None:
    seen = set()
    for p, storage in itertools.product(UPDATES, UPDATING):
        kind, reads, writes = update_of(p, True, storage)
        seen |= {r.symbol for r in fitting(kind, reads, writes[0], 8, writes[1])}
    for p in PRODUCTS:
        for (exact, mode), storage in itertools.product(MODES, REFERENCES):
            kind, reads, write = operands(p, exact, mode, storage)
            seen |= {r.symbol for cores in ALL_CORES for r in fitting(kind, reads, write, cores)}
    for p, at in VECTORS:
        kind, reads, write = with_half_vector(p, at, "plain", DType.F16)
        seen |= {r.symbol for cores in ALL_CORES for r in fitting(kind, reads, write, cores)}
    assert seen == {r.symbol for r in (*MATMUL, *MATMUL_F16, *MATMUL_UPDATE, *MATMUL_UPDATE_F16, *WIDENED)}
