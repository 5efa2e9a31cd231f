"""Matrix products: c[b, m, n] = init + sum_k a[b, m, k] * b[b, k, n].

A product is seen from the side that suits its operands: as itself, or as the transposed product of the exchanged
operands. What then decides is how the terms and the neighbours of each operand lie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Unpack

from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.panels import BLOCK, FLOAT, PANEL, panel_cycles
from trainlib_deployer.kernels.row import Fields, Grain, More, Row, pointer
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.call import Operand, strides
from trainlib_deployer.program.cuts import working
from trainlib_deployer.program.ir import View

if TYPE_CHECKING:
    from trainlib_deployer.ops.matmul import MatMul

MANY = 64  # columns
FEW = 16  # rows: packing columns for them takes longer than storing results that are not dense
MOST_PARTS = 128  # blocks of tiles whose sums are kept
MOST_VECTOR_PARTS = 512

ROWS, PANELS, PACKED = "rows", "panels", "packed"


@dataclass(frozen=True)
class Seen:
    """A product as its kernel sees it: extents, a [b, m, k], b [b, k, n], c [b, m, n] and perhaps init like c."""

    m: int
    n: int
    k: int
    turned: bool
    a: View
    b: View
    c: View
    init: View | None

    @property
    def left(self) -> str:
        return layout(self.a, 2, 1)

    @property
    def right(self) -> str:
        return PANELS if step(self.b, 2) == 1 else PACKED


def step(view: View, dim: int) -> int:
    """Elements from one to the next along a dimension; extents of one need none."""
    return view.strides[dim] if view.shape[dim] > 1 else 0


def layout(view: View, terms: int, neighbours: int) -> str:
    if step(view, terms) == 1:
        return ROWS
    return PANELS if step(view, neighbours) == 1 else PACKED


def transposed(view: View) -> View:
    return view.permuted((0, 2, 1))


def seen(kind: MatMul, reads: Sequence[View], writes: Sequence[View]) -> Seen:
    a, b, init = reads[0], reads[1], reads[2] if kind.init else None
    c = writes[0]
    if not exchanged(kind, a, b, c):
        return Seen(kind.m, kind.n, kind.k, False, a, b, c, init)
    turned = None if init is None else transposed(init)
    return Seen(kind.n, kind.m, kind.k, True, transposed(b), transposed(a), transposed(c), turned)


def exchanged(kind: MatMul, a: View, b: View, c: View) -> bool:
    """Vectors stand on the right. Results of a term or two are contiguous along a row, and those of halves, too, as
    their operands are packed either way, and weights that move. Of two matrices of floats that on the left is the one
    that can be read where it lies; few rows stand on the right, as columns are packed once a panel, and those of one
    tile where there are many columns: down one panel. Two rows do where there are four columns."""
    if kind.widens:
        return not kind.rounds[0]  # the vector is of halves
    if kind.k == 1 or two_terms(kind):
        return step(c, 2) != 1
    if vector(kind):
        return kind.n > 1
    if kind.storage.is_half or kind.update:
        return step(c, 2) != 1 == step(c, 1)
    if two_columns(kind):
        return kind.n != 2
    return exchanged_matrices(kind, layout(a, 2, 1), layout(b, 1, 2))


def exchanged_matrices(kind: MatMul, left: str, right: str) -> bool:
    if kind.m <= TILE.rows and kind.n >= MANY:
        return True
    if left == right == ROWS:
        return kind.n > kind.m and kind.m < FEW
    return (left == PANELS and right == ROWS) or (left == PACKED and right != PACKED)


def fields(kind: MatMul, reads: list[Operand], writes: list[Operand], scratch: str) -> Fields:
    p = seen(kind, [o.view for o in reads], [o.view for o in writes])
    pointers = [o.pointer for o in (*reads, *writes)]
    given = zip(pointers[:2], kind.rounds, strict=True)
    (a, a_rounds), (b, b_rounds) = [*given][::-1] if p.turned else given
    types = [DType.F32 if rounds else kind.storage for rounds in (a_rounds, b_rounds)]
    out: list[tuple[str, str | int]] = [(pointer("a", types[0]), a), (pointer("b", types[1]), b)]
    out += [(pointer("c", kind.result), pointers[-1]), ("batch", kind.batch), ("m", p.m), ("n", p.n), ("k", p.k)]
    out += [*strides("a", "bmk", p.a), *strides("b", "bkn", p.b), *strides("c", "bmn", p.c)]
    if p.init is not None:
        out += [("init", pointers[2]), *strides("i", "bmn", p.init)]
    out += [("floats", a_rounds + 2 * b_rounds)] if any(kind.rounds) else []
    out += [("halves", 1)] if kind.result.is_half else []
    return [*out, ("accumulate", int(kind.accumulate)), ("team", kind.team), ("scratch", scratch)]


# ---- layouts that tiles keep


def known_layouts(reads: Sequence[View]) -> tuple[str, str] | None:
    """Of both operands of an operation, if each is contiguous along one dimension, as it then is in every tile."""
    a, b = reads[:2]
    contiguous = [(step(v, 1) == 1) + (step(v, 2) == 1) for v in (a, b)]
    return (layout(a, 2, 1), layout(b, 1, 2)) if contiguous == [1, 1] else None


def reached(kind: MatMul, left: str, right: str) -> bool:
    """May the kernel of such layouts carry out a product of matrices? One does, where layouts are known."""
    if kind.layouts is None or two_terms(kind):
        return True
    a, b = kind.layouts
    if exchanged_matrices(kind, a, b):
        a, b = b, a
    return (left, right) == (a, PANELS if b == PANELS else PACKED)


# ---- shapes


def tiles(kind: MatMul) -> int:
    """Of 4 x 4 results, or of 4 where one side is a vector."""
    if vector(kind):
        return kind.batch * -(-kind.m * kind.n // 4)
    return kind.batch * -(-kind.m // 4) * -(-kind.n // 4)


def blocks(kind: MatMul) -> int:
    return tiles(kind) * -(-kind.k // BLOCK)


def outer(kind: MatMul, _cores: int = 0) -> bool:
    return kind.k == 1


def two_terms(kind: MatMul, _cores: int = 0) -> bool:
    return kind.k == 2 and 1 not in (kind.m, kind.n)


def two_columns(kind: MatMul) -> bool:
    """Four rows at a time times two columns, or the other way round."""
    fours = min(kind.m, kind.n) == 2 and max(kind.m, kind.n) >= TILE.rows
    return fours and kind.k > 2 and not kind.storage.is_half and not kind.update


def vector(kind: MatMul, _cores: int = 0) -> bool:
    return kind.k != 1 and 1 in (kind.m, kind.n) and not kind.update


def scarce(kind: MatMul, cores: int) -> bool:
    """Too few tiles for the team: the terms are shared out as well."""
    team = working(kind.team, cores)
    if team == 1 or kind.k <= BLOCK or blocks(kind) > (MOST_VECTOR_PARTS if vector(kind) else MOST_PARTS):
        return False
    return kind.batch * kind.m * kind.n < 4 * team if vector(kind) else tiles(kind) < 2 * team


def whole_vector(kind: MatMul, cores: int) -> bool:
    return vector(kind) and not scarce(kind, cores)


def split_vector(kind: MatMul, cores: int) -> bool:
    return vector(kind) and scarce(kind, cores)


def whole_two(kind: MatMul, cores: int) -> bool:
    return two_columns(kind) and not scarce(kind, cores)


def split_two(kind: MatMul, cores: int) -> bool:
    return two_columns(kind) and scarce(kind, cores)


def matrix(kind: MatMul) -> bool:
    return not outer(kind) and not vector(kind) and not two_columns(kind) and not kind.update


def whole_matrix(kind: MatMul, cores: int) -> bool:
    return matrix(kind) and not scarce(kind, cores)


def split_matrix(kind: MatMul, cores: int) -> bool:
    return matrix(kind) and scarce(kind, cores)


# ---- layouts

Fits = Callable[["MatMul", Sequence[View], Sequence[View]], bool]


def dense_outer(kind: MatMul, reads: Sequence[View], writes: Sequence[View]) -> bool:
    p = seen(kind, reads, writes)
    begins = kind.accumulate or p.init is None or step(p.init, 2) == 1
    return step(p.c, 2) == 1 and step(p.b, 2) == 1 and begins


def wide_outer(kind: MatMul, reads: Sequence[View], writes: Sequence[View]) -> bool:
    return seen(kind, reads, writes).n >= TILE.columns and dense_outer(kind, reads, writes)


def dense_vector(kind: MatMul, reads: Sequence[View], writes: Sequence[View]) -> bool:
    p = seen(kind, reads, writes)
    return step(p.a, 2) == 1 and step(p.b, 1) == 1


def one_dense_vector(kind: MatMul, reads: Sequence[View], writes: Sequence[View]) -> bool:
    return kind.batch == 1 and dense_vector(kind, reads, writes)


def side_by_side(kind: MatMul, reads: Sequence[View], writes: Sequence[View]) -> bool:
    p = seen(kind, reads, writes)
    return step(p.a, 1) == 1 and step(p.b, 1) == 1


def lying(left: str, right: str) -> Fits:
    """Operands that lie as a kernel reads them; packing takes whatever there is."""

    def fits(kind: MatMul, reads: Sequence[View], writes: Sequence[View]) -> bool:
        p = seen(kind, reads, writes)
        return left in (p.left, PACKED) and right in (p.right, PACKED)

    return fits


# ---- scratch


def panels(left: str, right: str, kind: MatMul, cores: int) -> int:
    """Of each core, for what does not lie as it is read, and for the last rows and columns, fewer than four."""
    rows, columns = kind.m % 4 > 0, kind.n % 4 > 0
    if kind.layouts is None or two_terms(kind):
        rows = columns = rows or columns
    elif exchanged_matrices(kind, *kind.layouts):
        rows, columns = columns, rows
    many = (left == PACKED or (left == PANELS and rows)) + (right == PACKED or columns)
    return working(kind.team, cores) * many * panel(kind)


def panel(kind: MatMul) -> int:
    return PANEL // BLOCK * min(kind.k, BLOCK)


def panels_and_parts(left: str, right: str, kind: MatMul, cores: int) -> int:
    return panels(left, right, kind, cores) + FLOAT * 4 * 4 * blocks(kind)


def parts(kind: MatMul, _cores: int) -> int:
    return 4 * FLOAT * blocks(kind)


def two_parts(kind: MatMul, _cores: int) -> int:
    return 8 * FLOAT * blocks(kind)


# ---- cycles of the slowest core


def outer_cycles(kind: MatMul, cores: int, costs: Costs) -> float:
    return costs.product.outer_mac * kind.macs() / cores + costs.product.outer


def two_terms_cycles(kind: MatMul, cores: int, costs: Costs) -> float:
    """Down the rows of four columns at a time."""
    c = costs.product
    share = -(-kind.batch * -(-kind.n // TILE.columns) * kind.m // cores)
    return c.two_terms_row * share + c.two_terms_panel * (-(-share // kind.m) + 1) + c.outer


def vector_cycles(kind: MatMul, cores: int, costs: Costs) -> float:
    """Four rows at a time."""
    return quad_cycles(kind, costs) * -(-kind.batch * kind.m * kind.n // (4 * cores)) + costs.product.rows


def one_vector_cycles(kind: MatMul, cores: int, costs: Costs) -> float:
    """Eight rows at a time, then four."""
    c, (eights, rest) = costs.product, divmod(-(-kind.m * kind.n // cores), 8)
    eight = 8 * c.eight_mac * kind.k + c.eight_block * -(-kind.k // BLOCK) + c.eight
    return eight * eights + quad_cycles(kind, costs) * -(-rest // 4) + c.rows


def quad_cycles(kind: MatMul, costs: Costs) -> float:
    """Of four rows."""
    c = costs.product
    return 4 * c.rows_mac * kind.k + c.rows_block * -(-kind.k // BLOCK) + c.rows_quad


def split_vector_cycles(kind: MatMul, cores: int, costs: Costs) -> float:
    return costs.product.split_mac * BLOCK * 4 * -(-blocks(kind) // cores) + costs.product.split_vector


def matrix_cycles(kind: MatMul, cores: int, costs: Costs) -> float:
    return panel_cycles(kind.batch, kind.m, kind.n, kind.k, working(kind.team, cores), costs.panel)


def settled_matrix(
    left: str, right: str, kind: MatMul, reads: Sequence[View], writes: Sequence[View], cores: int, costs: Costs
) -> float:
    """A core packs columns for each visit, and rows of each tile, or those of a panel's last one that are not four."""
    p, team, blocks, c = seen(kind, reads, writes), working(kind.team, cores), -(-kind.k // BLOCK), costs.apart
    tiles, ragged, apart = -(-p.m // TILE.rows), p.m % TILE.rows > 0, step(p.c, 2) != 1
    share = -(-kind.batch * -(-p.n // TILE.columns) * tiles // team)
    visits = -(-share // tiles) + 1
    packing = {ROWS: 0, PANELS: visits * ragged, PACKED: share}[left] * c.rows_block * blocks
    packing += visits * c.columns_term * kind.k * (right == PACKED)
    results = (visits * c.last_block * ragged + share * c.results_block * apart) * blocks
    return panel_cycles(kind.batch, p.m, p.n, kind.k, team, costs.settled) + packing + results


def split_matrix_cycles(kind: MatMul, cores: int, costs: Costs) -> float:
    """Parts of one tile and one block each, which are then added up."""
    team, terms = working(kind.team, cores), min(kind.k, BLOCK)
    part = panel_cycles(1, TILE.rows, TILE.columns, terms, 1, costs.panel)
    return part * -(-blocks(kind) // team) + costs.product.split


def two_cycles(kind: MatMul, cores: int, costs: Costs) -> float:
    """Four rows at a time."""
    c, fours = costs.product, kind.batch * -(-max(kind.m, kind.n) // 4)
    four = c.two_term * kind.k + c.two_block * -(-kind.k // BLOCK)
    return four * -(-fours // working(kind.team, cores)) + c.two


def split_two_cycles(kind: MatMul, cores: int, costs: Costs) -> float:
    c = costs.product
    return (c.two_term * min(kind.k, BLOCK) + c.two_block) * -(-blocks(kind) // working(kind.team, cores)) + c.split


def row(name: str, **more: Unpack[More[MatMul]]) -> Row[MatMul]:
    source, symbol = f"matmul/matmul_{name}.c", f"tl_matmul_{name}_f32"
    return Row("matmul", symbol, source, "tl_matmul", "tl_matmul.h", fields, **more)


FOUR, EIGHT, TILE = Grain(4, 1, BLOCK), Grain(8, 1, BLOCK), Grain(4, 4, BLOCK)
LAYOUTS = ((ROWS, PANELS), (PANELS, PANELS), (ROWS, PACKED), (PANELS, PACKED), (PACKED, PACKED))

outer_row = partial(row, takes=outer, cycles=outer_cycles, split="elements")
vector_row = partial(row, takes=whole_vector, cycles=vector_cycles, split="rows", grain=FOUR)
split_vector_row = partial(
    row, takes=split_vector, cycles=split_vector_cycles, scratch=parts, split="blocks of rows", grain=FOUR
)
two_row = partial(row, takes=whole_two, cycles=two_cycles, split="fours of rows", grain=FOUR)
split_two_row = partial(
    row, takes=split_two, cycles=split_two_cycles, scratch=two_parts, split="blocks of fours of rows", grain=FOUR
)
matrix_row = partial(row, cycles=matrix_cycles, split="tiles", grain=TILE)
split_matrix_row = partial(row, cycles=split_matrix_cycles, split="blocks of tiles", grain=TILE)


def matrix_rows(left: str, right: str) -> tuple[Row[MatMul], Row[MatMul]]:
    """Of operands that lie like this."""

    def takes(kind: MatMul, cores: int) -> bool:
        return whole_matrix(kind, cores) and reached(kind, left, right)

    def takes_split(kind: MatMul, cores: int) -> bool:
        return split_matrix(kind, cores) and reached(kind, left, right)

    name, fits = f"{left}_x_{right}", lying(left, right)
    own, own_and_parts = partial(panels, left, right), partial(panels_and_parts, left, right)
    whole = matrix_row(name, fits=fits, takes=takes, scratch=own, settled=partial(settled_matrix, left, right))
    return whole, split_matrix_row(f"split_{name}", fits=fits, takes=takes_split, scratch=own_and_parts)


MATMUL = (
    outer_row("outer", fits=dense_outer),
    outer_row("outer_any"),
    outer_row("outer_two", takes=two_terms, fits=wide_outer, cycles=two_terms_cycles, split="fours of columns"),
    vector_row("vector", fits=one_dense_vector, cycles=one_vector_cycles),
    vector_row("vectors", fits=dense_vector),
    vector_row("vectors_columns", fits=side_by_side, grain=EIGHT),
    vector_row("vectors_any"),
    split_vector_row("split_vector", fits=dense_vector),
    split_vector_row("split_vector_any"),
    two_row("two"),
    split_two_row("split_two"),
    *(row for layouts in LAYOUTS for row in matrix_rows(*layouts)),
)
