"""Results that are written where a copy would take them, and products that begin with a bias: the same values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.test_passes import Array, computed, finished, places, started
from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.matmul import MatMul, product
from trainlib_deployer.passes.begin_biased import begin_biased
from trainlib_deployer.passes.fuse_loops import fuse_loops
from trainlib_deployer.passes.place_sums import copies
from trainlib_deployer.passes.write_through import write_through
from trainlib_deployer.program.ir import DType, Op, Program, Role, View


def evaluated(program: Program, given: dict[str, Array]) -> dict[str, Array]:
    memory = {n: np.full(t.numel, np.nan) for n, t in program.tensors.items()}
    memory |= {n: v.ravel() for n, v in given.items()}
    for op in program.ops:
        for view, value in zip(op.writes, results(op, memory), strict=True):
            memory[view.tensor][places(view)] = value
    return memory


def results(op: Op, memory: dict[str, Array]) -> list[Array]:
    if not isinstance(op.kind, MatMul):
        return computed(op, memory)
    k = op.kind
    a, b, *init = (memory[v.tensor][places(v)] for v in op.reads)
    shapes = (k.batch, k.m, k.k), (k.batch, k.k, k.n), *[(k.batch, k.m, k.n)] * len(init)
    assert tuple(x.shape for x in (a, b, *init)) == shapes and op.writes[0].shape == (k.batch, k.m, k.n)
    return [a @ b + sum(init)]


def changed(program: Program, given: dict[str, Array]) -> Program:
    """With the passes, behind which each output has the values that it had."""
    after = write_through(fuse_loops(begin_biased(program)))
    expected, found = evaluated(program, given), evaluated(after, given)
    for _, name in program.outputs:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-12)
    return after


def kinds(program: Program) -> list[str]:
    return ["copy" if copies(op) else op.kind.name for op in program.ops]


def test_heads_go_side_by_side() -> None:
    """[batch x heads, tokens, 7] as [tokens, batch, heads, 7], in which batch and heads step as one."""
    b, v, given = started(x=(6, 5, 3), y=(6, 3, 7))
    made = b.reshape(product(b, v["x"], v["y"]), (2, 3, 5, 7))
    out = b.contiguous(made.permuted((2, 0, 1, 3)))
    program = changed(finished(b, out), given)
    assert kinds(program) == ["matmul"] and program.ops[0].writes[0].strides == (7, 42, 1)


def test_a_wide_product_becomes_several() -> None:
    """Queries, keys and values of one weight, each in one piece; the product begins with their bias."""
    b, v, given = started(x=(10, 5), w=(60, 5), bias=(60,))
    b.program.tensors["bias"] = replace(b.program.tensors["bias"], role=Role.PARAMETER)
    rows = b.reshape(product(b, v["x"], v["w"].permuted((1, 0))), (5, 2, 60))
    rows = b.map(lambda r, bias: r + bias, rows, v["bias"])
    out = b.contiguous(b.reshape(rows, (5, 2, 3, 20)).permuted((2, 0, 1, 3)))
    program = changed(finished(b, out), given)
    assert kinds(program) == ["matmul"]
    kind = program.ops[0].kind
    assert isinstance(kind, MatMul) and (kind.batch, kind.m, kind.n, kind.init) == (3, 10, 20, True)


@pytest.mark.parametrize("columns", [36, 54])
def test_few_columns_and_those_of_no_whole_panels_stay_one_product(columns: int) -> None:
    b, v, given = started(x=(10, 5), w=(5, columns))
    made = b.reshape(product(b, v["x"], v["w"]), (10, 3, columns // 3))
    program = changed(finished(b, b.contiguous(made.permuted((1, 0, 2)))), given)
    assert kinds(program) == ["matmul", "copy"]


def test_rows_of_results_stay_dense() -> None:
    b, v, given = started(x=(4, 5), w=(5, 8))
    made = product(b, v["x"], v["w"])
    out = b.tensor((4, 8, 2))
    b.map(lambda t: t * 0.0, out.sliced(2, 1, 2), into=out.sliced(2, 1, 2))
    b.copy_into(b.reshape(made, (4, 8, 1)), out.sliced(2, 0, 1))
    assert "copy" in kinds(changed(finished(b, made), given))


def parts() -> tuple[Builder, dict[str, Array], View]:
    """Two loops write the halves of a tensor."""
    b, v, given = started(x=(4, 5), y=(4, 5))
    whole = b.tensor((2, 4, 5))
    b.map(lambda x: x * 2.0, v["x"], into=b.reshape(whole.sliced(0, 0, 1), (4, 5)))
    b.map(lambda y: y + 1.0, v["y"], into=b.reshape(whole.sliced(0, 1, 2), (4, 5)))
    return b, given, whole


def test_all_parts_of_a_tensor_are_written_elsewhere() -> None:
    b, given, whole = parts()
    program = changed(finished(b, b.contiguous(whole.permuted((1, 0, 2)))), given)
    assert kinds(program) == ["map", "map"] and [op.writes[0].offset for op in program.ops] == [0, 5]


def test_a_loop_that_reads_in_another_order_does_both() -> None:
    b, v, given = started(x=(2, 3, 4, 5))
    scaled = b.map(lambda x: x * 3.0, v["x"])
    out = b.map(lambda s: s + 1.0, b.reshape(scaled, (6, 4, 5)).permuted((2, 0, 1)))
    program = changed(finished(b, out), given)
    assert kinds(program) == ["map"] and not program.ops[0].reads[0].contiguous


def read_twice() -> tuple[Builder, dict[str, Array], list[View]]:
    b, v, given = started(x=(4, 5))
    made = b.map(lambda x: x * 2.0, v["x"])
    return b, given, [b.contiguous(made.permuted((1, 0))), b.map(lambda m: m - 1.0, made.permuted((1, 0)))]


def shown() -> tuple[Builder, dict[str, Array], list[View]]:
    b, v, given = started(x=(4, 5))
    made = b.map(lambda x: x * 2.0, v["x"])
    return b, given, [made, b.contiguous(made.permuted((1, 0)))]


def copied_in_part() -> tuple[Builder, dict[str, Array], list[View]]:
    b, v, given = started(x=(4, 5), y=(5, 6))
    return b, given, [b.contiguous(product(b, v["x"], v["y"]).sliced(1, 0, 3))]


def copied_to_several_places() -> tuple[Builder, dict[str, Array], list[View]]:
    b, v, given = started(x=(4, 1))
    made = b.map(lambda x: x * 2.0, v["x"])
    return b, given, [b.contiguous(made.expanded((4, 3)))]


def of_several_operands() -> tuple[Builder, dict[str, Array], list[View]]:
    b, v, given = started(x=(4, 5), y=(4, 5))
    made = b.map(lambda x, y: x * y, v["x"], v["y"])
    return b, given, [b.contiguous(made.permuted((1, 0)))]


def zeros_in_between() -> tuple[Builder, dict[str, Array], list[View]]:
    """The result must not come before what fills the rest."""
    b, v, given = started(x=(5, 3), y=(3, 4))
    made = product(b, v["x"], v["y"])
    out = b.tensor((5, 8))
    b.map(lambda z: z + 0.0, b.fill((5, 8), 7.0, DType.F32), into=out)
    b.copy_into(made, out.sliced(1, 2, 6))
    return b, given, [out]


def changed_in_between() -> tuple[Builder, dict[str, Array], list[View]]:
    """What the first loop reads is written before the second one reads its result."""
    b, v, given = started(x=(4, 5))
    base = b.map(lambda x: x + 0.5, v["x"])
    made = b.map(lambda t: t * 2.0, base)
    b.map(lambda t: t * 10.0, base.sliced(0, 1, 3), into=base.sliced(0, 1, 3))
    return b, given, [b.map(lambda m: m + 1.0, made.permuted((1, 0))), base]


LEFT = (
    read_twice,
    shown,
    copied_in_part,
    copied_to_several_places,
    of_several_operands,
    zeros_in_between,
    changed_in_between,
)


@pytest.mark.parametrize("case", LEFT)
def test_what_others_see_stays(case: Callable[[], tuple[Builder, dict[str, Array], list[View]]]) -> None:
    b, given, wanted = case()
    program = finished(b, *wanted)
    before = len(fuse_loops(program).ops)
    assert len(changed(program, given).ops) == before


def test_phases_stay_apart() -> None:
    """What the forward pass has made, and the backward pass copies."""
    b, v, given = started(x=(4, 5))
    made = b.map(lambda x: x * 2.0, v["x"])
    b.where = replace(b.where, phase="backward")
    out = b.contiguous(made.permuted((1, 0)))
    assert kinds(changed(finished(b, out), given)) == ["map", "copy"]


@pytest.mark.parametrize("seed", range(40))
def test_random_orders(seed: int) -> None:
    """A product of several heads, or of one, in any order of its dimensions."""
    rng = np.random.default_rng(seed)
    batch, m, n = (tuple(rng.integers(1, 5, 2)) for _ in range(3))
    if seed % 2:
        batch, n = (1, 1), (int(rng.integers(1, 4)), int(rng.integers(3, 6)) * 4)
    sizes: list[Any] = [int(np.prod(e)) for e in (batch, m, n)]
    b, v, given = started(x=(sizes[0], sizes[1], 3), y=(sizes[0], 3, sizes[2]))
    made = b.reshape(product(b, v["x"], v["y"]), tuple(int(e) for e in (*batch, *m, *n)))
    out = b.contiguous(made.permuted((*rng.permutation(5).tolist(), 5)))
    changed(finished(b, out), given)
