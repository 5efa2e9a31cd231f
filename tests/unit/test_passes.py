"""Passes change how a program computes, never what: random programs give the same values before and after each."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import fx

from trainlib_deployer import passes
from trainlib_deployer.capture.fold_constants import fold_constants
from trainlib_deployer.capture.tidy import tidy
from trainlib_deployer.emit.loops import body_text
from trainlib_deployer.emit.names import literal
from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.lower import relaid
from trainlib_deployer.ops.matmul import product
from trainlib_deployer.passes.split_reductions import MANY, blocks_of
from trainlib_deployer.program.expr import Const, Instr
from trainlib_deployer.program.ir import DType, Op, Program, Role, Tensor, View
from trainlib_deployer.program.loop import Loop

Array = np.ndarray[Any, Any]
STEP: dict[str, Callable[..., Any]] = {
    "copy": lambda x: x,
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "max": np.maximum,
    "le": lambda x, y: x <= y,
    "select": np.where,
}
FOLD: dict[str, Callable[..., Any]] = {"sum": np.sum, "max": np.max, "prod": np.prod}


def places(view: View) -> Array:
    """The element numbers that a view shows."""
    at = np.full(view.shape, view.offset)
    for d, (extent, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
        at = at + (np.arange(extent) * stride).reshape([-1 if k == d else 1 for k in range(len(view.shape))])
    return at


def evaluate(program: Program, given: dict[str, Array]) -> dict[str, Array]:
    """All tensors after one step of a program of loops, in float64."""
    memory = {n: np.full(t.numel, np.nan) for n, t in program.tensors.items()}
    memory |= {n: v.astype(float).ravel() for n, v in given.items()}
    for op in program.ops:
        for view, value in zip(op.writes, computed(op, memory), strict=True):
            memory[view.tensor][places(view)] = value
    return memory


def computed(op: Op, memory: dict[str, Array]) -> list[Array]:
    kind = op.kind
    assert isinstance(kind, Loop)
    assert all(v.shape == kind.extents for v in op.reads) and all(v.shape == kind.parallel for v in op.writes)
    values: list[Any] = [memory[v.tensor][places(v)] for v in op.reads]

    def run(instrs: tuple[Instr, ...]) -> None:
        for s in instrs:
            values.append(STEP[s.op](*(a.value if isinstance(a, Const) else values[a] for a in s.args)))

    run(kind.body)
    folded = tuple(range(len(kind.parallel), len(kind.extents)))
    if kind.reductions:
        wide = [np.broadcast_to(v, kind.extents) for v in values]
        reduced = [FOLD[r.op](wide[r.value], axis=folded) for r in kind.reductions]
        first = (slice(None),) * len(kind.parallel) + (0,) * len(folded)
        values = [w[first] for w in wide] + reduced  # only what is constant along the folded dimensions may be read
    run(kind.post)
    return [np.broadcast_to(values[r], kind.parallel) for r in kind.results]


def started(**shapes: tuple[int, ...]) -> tuple[Builder, dict[str, View], dict[str, Array]]:
    """A builder with inputs of these shapes, and their random values."""
    b = Builder(Program("p"))
    views, given = {}, {}
    rng = np.random.default_rng(7)
    for name, shape in shapes.items():
        tensor = Tensor(b.fresh(name), shape, DType.F32, Role.INPUT)
        b.program.tensors[name] = tensor
        views[name] = View.whole(tensor)
        given[name] = rng.standard_normal(shape)
    return b, views, given


def finished(b: Builder, *results: View) -> Program:
    b.program.outputs = tuple((v.tensor, v.tensor) for v in results)
    return b.program


def same(program: Program, given: dict[str, Array], which: tuple[passes.Pass, ...] = passes.DEFAULT) -> Program:
    """Run the passes one by one; every output keeps its values."""
    expected = evaluate(program, given)
    for step in which:
        program = step(program)
        found = evaluate(program, given)
        for _, name in program.outputs:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-12, err_msg=str(step))
    return program


def random_program(seed: int) -> tuple[Program, dict[str, Array]]:
    """Maps with broadcasting, windows, transposes, reductions over any dimensions, results that many read."""
    rng = np.random.default_rng(seed)
    b, views, given = started(a=(3, 4, 5), c=(5,), d=(3, 1, 1))
    full = [views["a"]]
    small = [views["c"], views["d"]]
    for _ in range(8):
        x = full[rng.integers(len(full))]
        y = (full + small)[rng.integers(len(full) + len(small))]
        choice = rng.integers(7)
        if choice == 0:
            full.append(b.map(lambda x, y: x * y + 0.5, x, y))
        elif choice == 1:
            dims = [int(d) for d in rng.permutation(3)[: rng.integers(1, 4)]]
            op = ("sum", "max")[rng.integers(2)]
            small.append(b.reduce(op, dims, x, y, body=lambda x, y: x - y, post=lambda s: s * 0.25, keepdim=True))
        elif choice == 2:
            whole = b.map(lambda x: x + 1.0, x.permuted((2, 0, 1)))
            full.append(whole.permuted((1, 2, 0)))
        elif choice == 3:
            out = b.tensor((3, 4, 5))
            b.copy_into(x.sliced(1, 0, 3), out.sliced(1, 1, 4))
            b.copy_into(x.sliced(1, 3, 4), out.sliced(1, 0, 1))
            full.append(out)
        elif choice == 4:
            full.append(b.map(lambda x, y: x + y, x, b.fill((1, 4, 1), 1.5, DType.F32)))
        elif choice == 5:
            d = views["d"]
            (r,) = b.reduces("sum", [1, 2], x, d, body=lambda x, d: (x,), post=lambda s, x, d: (s * d,))
            small.append(b.reshape(r, (3, 1, 1)))
        else:
            full += b.maps(lambda x, y: (x - y, x * 2.0), x, y, dtypes=(None, None))
    made = [v for v in (*full, *small) if v.tensor not in given]
    chosen = [made[i] for i in rng.permutation(len(made))[:3]]
    return finished(b, *chosen, made[-1]), given


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_keep_their_values(seed: int) -> None:
    program, given = random_program(seed)
    same(program, given)


@pytest.mark.parametrize("seed", range(100, 120))
def test_random_programs_with_every_sum_in_blocks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["trainlib_deployer.passes.split_reductions"]
    for name, value in {"FEW": 100, "MANY": 4, "BLOCK": 4, "SHARE": 2}.items():
        monkeypatch.setattr(module, name, value)
    program, given = random_program(seed)
    same(program, given)


def test_a_chain_becomes_one_loop() -> None:
    b, v, given = started(x=(3, 4), y=(4,))
    h = b.map(lambda x, y: x + y, v["x"], v["y"])
    h = b.map(lambda h: h * h, h)
    out = b.reduce("sum", [1], h, post=lambda s: s * 0.5)
    program = same(finished(b, out), given)
    assert len(program.ops) == 1


def test_a_producer_stays_behind_what_it_reads() -> None:
    """The second write to the window must not be overtaken."""
    b, v, given = started(x=(4,))
    base = b.map(lambda x: x * 2.0, v["x"])
    seen = b.map(lambda x: x + 1.0, base)
    b.map(lambda t: t * 10.0, base.sliced(0, 1, 3), into=base.sliced(0, 1, 3))
    out = b.map(lambda a, c: a + c, seen, base)
    same(finished(b, out), given)


def test_a_long_sum_is_split() -> None:
    b, v, given = started(x=(2, 1500))
    program = same(finished(b, b.reduce("sum", [1], v["x"], post=lambda s: s * 2.0)), given)
    assert len(program.ops) == 2


def test_sums_in_parts_of_one_result_have_partial_results_of_their_own() -> None:
    """A stack of sums over ever fewer elements: with one tensor for all, the size was what the last one needs."""
    b, v, given = started(x=(2100,), y=(1048,), z=(900,))
    out = b.tensor((3,))
    for at, name in enumerate("xyz"):
        total = b.reduce("sum", [0], v[name], body=lambda x: x * 2.0)
        b.map(lambda t: t, b.reshape(total, (1,)), into=out.sliced(0, at, at + 1))
    program = same(finished(b, out), given)
    tensors = program.tensors
    assert all(v.offset + v.numel <= tensors[v.tensor].numel for op in program.ops for v in (*op.reads, *op.writes))


PRIME = [
    ((3,), (701,)),
    ((5, 2), (2, 14, 701)),
    ((1,), (1009, 3)),
    ((2,), (29, 29)),
    ((7,), (131, 11)),
    ((2,), (5, 133)),
]


@pytest.mark.parametrize(("kept", "folded"), PRIME)
@pytest.mark.parametrize("sums", [1, 2])
def test_partial_results_of_any_extent_are_small(kept: tuple[int, ...], folded: tuple[int, ...], sums: int) -> None:
    b, v, given = started(x=(*kept, *folded))
    dims = list(range(len(kept), len(kept) + len(folded)))
    found = b.reduces("sum", dims, v["x"], body=lambda x: (x, x * x)[:sums], post=lambda *s: s[:sums])
    program = same(finished(b, *found), given)
    blocks, rest, _ = program.ops
    assert blocks.name.endswith(".blocks") and rest.name.endswith(".rest")
    parts = sum(program.tensors[w.tensor].nbytes for w in blocks.writes)
    assert 0 < parts <= program.tensors[v["x"].tensor].nbytes / 32


PRIMES = [p for p in range(2, 1200) if all(p % d for d in range(2, p))]


@pytest.mark.parametrize("seed", range(5))
def test_partial_results_are_a_32nd_at_most(seed: int) -> None:
    """Of whatever is reduced: `weight` bytes of results for each byte of an element."""
    rng, split = random.Random(seed), 0
    for _ in range(800):
        extents = (
            rng.choice((rng.randint(1, 40), rng.randint(1, 1200), rng.choice(PRIMES))) for _ in range(rng.randint(1, 3))
        )
        folded, weight = tuple(extents), rng.choice((1, 1, 2, 3))
        results = math.prod(b.count for b in blocks_of(folded, weight))
        if math.prod(folded) >= MANY and results > 1:
            split += 1
            assert results * weight * 32 <= math.prod(folded), (folded, weight)
    assert split > 300


@pytest.mark.parametrize(
    ("folded", "sizes"),
    [
        ((16, 16, 16), (1, 8, 16)),
        ((4, 8, 8), (2, 8, 8)),
        ((14, 700), (1, 100)),
        ((30, 30), (3, 30)),
        ((703,), (37,)),
        ((14, 701), (1, 117)),
        ((29, 29), (4, 29)),
    ],
)
def test_blocks_divide_the_extent_where_they_can(folded: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    assert tuple(block.size for block in blocks_of(folded, 1)) == sizes


def test_a_value_made_before_a_split_reduction_may_be_used_behind_it() -> None:
    """As in a softmax of scores that are scaled by exp(clamp(s)): the factor does not change along the row."""
    b, v, given = started(x=(3, 701), s=(3, 1))
    (out,) = b.reduces(
        "sum",
        [1],
        v["x"],
        v["s"],
        body=lambda x, s: (x * (s * s + 1.0),),
        post=lambda total, x, s: (total * (s * s + 1.0),),
    )
    program = same(finished(b, out), given)
    assert len(program.ops) == 3


def constant_behind_reduction() -> tuple[Program, dict[str, Array]]:
    b, v, given = started(x=(3, 4))
    two = b.fill((3, 1), 2.0, DType.F32)
    (out,) = b.reduces("sum", [1], v["x"], two, body=lambda x, t: (x,), post=lambda s, x, t: (s * t,))
    return finished(b, out), given


def test_a_constant_may_be_read_behind_the_reduction() -> None:
    program, given = constant_behind_reduction()
    program = same(program, given)
    assert len(program.ops) == 1
    kind = program.ops[0].kind
    assert isinstance(kind, Loop)
    lines = body_text(kind, program.ops[0].reads, program.ops[0].writes).splitlines()
    use = next(i for i, line in enumerate(lines) if " * v" in line)
    name = lines[use].rpartition("* ")[2].rstrip(";")
    declared = [line for line in lines[:use] if f"const float {name} =" in line]
    depth = len(lines[use]) - len(lines[use].lstrip())
    assert [len(line) - len(line.lstrip()) for line in declared] == [depth]


def test_one_long_row_needs_no_row_number() -> None:
    b, v, _ = started(x=(128,))
    out = b.tensor((64,))
    b.copy_into(v["x"].sliced(0, 0, 128, 2), out)
    op = b.program.ops[0]
    assert isinstance(op.kind, Loop)
    text = body_text(op.kind, op.reads, op.writes)
    assert "tl_split(64, 4, &lo, &hi);" in text and "row" not in text


# ---- results


def test_a_transposed_result_is_stored_in_its_order() -> None:
    b, v, _ = started(x=(3, 4), y=(4, 5))
    made = product(b, v["x"], v["y"])
    assert relaid(b, made.permuted((1, 0)))
    assert b.program.ops[-1].writes[0].strides[-2:] == (1, 3)


def test_merged_dimensions_cannot_be_pulled_apart() -> None:
    """The product steps through [2, 3] as one dimension of 6: in the order [2, 5, 3] no stride does that."""
    b, v, _ = started(x=(6, 4), y=(4, 5))
    made = product(b, v["x"], v["y"])
    before = list(b.program.ops)
    assert not relaid(b, b.reshape(made, (2, 3, 5)).permuted((0, 2, 1)))
    assert b.program.ops == before


# ---- constants


def test_numbers_that_c_cannot_spell_as_digits() -> None:
    given = (0.5, -math.inf, -0.0, math.nan)
    assert [literal(v, DType.F32) for v in given] == ["0.5f", "-__builtin_inff()", "-0.0f", '__builtin_nanf("")']


def test_constants_of_the_same_contents_are_one() -> None:
    b, v, given = started(x=(5, 7))
    table = np.random.default_rng(3).standard_normal((5, 7)).astype(np.float32)
    table[2, 3] = 0.0
    other = table.copy()
    other[2, 3] = -0.0
    made = [b.constant(a) for a in (table, table.reshape(35), other, table.view(np.int32), table)]
    shown = b.reshape(made[1], (5, 7)), made[4].permuted((1, 0)).permuted((1, 0))
    results = [b.map(lambda x, t: x * t, v["x"], t) for t in (made[0], made[2], *shown)]
    results.append(b.map(lambda t: t, made[3], dtype=DType.I32))
    given |= {t.name: np.asarray(b.program.values[t.name]) for t in b.program.of_role(Role.CONSTANT)}
    program = same(finished(b, *results), given)
    assert [t.name for t in program.of_role(Role.CONSTANT)] == [made[i].tensor for i in (0, 2, 3)]


def test_what_depends_on_nothing_is_computed_once() -> None:
    aten = torch.ops.aten
    graph = fx.Graph()
    x = graph.placeholder("x")
    count = graph.call_function(aten.arange.default, (4,))
    doubled = graph.call_function(aten.mul.Tensor, (count, 2))
    ones = graph.call_function(aten.ones.default, ([4],))
    total = graph.call_function(aten.add.Tensor, (x, doubled))
    graph.output(graph.call_function(aten.mul.Tensor, (total, ones)))
    module = fx.GraphModule(torch.nn.Module(), graph)
    fold_constants(module)
    module.recompile()
    targets = [n.target for n in module.graph.nodes if n.op == "call_function"]
    assert targets == [aten.ones.default, aten.add.Tensor, aten.mul.Tensor]  # ones: a loop fills them in
    assert module(torch.ones(4)).tolist() == [1, 3, 5, 7]


@pytest.mark.parametrize(
    ("name", "limits", "settings", "kept"),
    [
        ("hardtanh", (0, 6), (0, 6), 1),
        ("hardtanh", (), (-1.0, 1.0), 1),
        ("hardtanh", (-1.0, 2.0), (-1.0, 1.0), 2),
        ("hardtanh", (-0.1, 0.1), (-0.1, 0.1), 2),  # as a half the result is within both
        ("leaky_relu", (), (0.01, False), 1),
        ("leaky_relu", (-0.5,), (-0.5, False), 2),
    ],
)
def test_the_operand_of_an_activation_need_not_be_kept(
    name: str, limits: tuple[float, ...], settings: tuple[float, ...], kept: int
) -> None:
    aten = torch.ops.aten
    graph = fx.Graph()
    x, g = graph.placeholder("x"), graph.placeholder("g")
    y = graph.call_function(getattr(aten, name).default, (x, *limits))
    gradient = graph.call_function(getattr(aten, f"{name}_backward").default, (g, x, *settings))
    graph.output((y, gradient))
    module = fx.GraphModule(torch.nn.Module(), graph)
    values = torch.tensor([-math.inf, -1.0, -1e-45, -0.0, 0.0, 1e-45, 0.5, 1.0, 5.9999995, 6.0, math.nan])
    before = module(values, torch.arange(1.0, 12.0))
    tidy(module)
    assert len([n for n in module.graph.nodes if n.op == "placeholder" and n is not g for _ in n.users]) == kept
    for a, b in zip(before, module(values, torch.arange(1.0, 12.0)), strict=True):
        assert torch.equal(a.view(torch.int32), b.view(torch.int32))
