"""Operations with less scratch: how much less, in how many more cycles, and when the planner asks for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.ops.conv_shape import ConvShape
from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.plan.best_tiling import Job, best_tiling, prospects
from trainlib_deployer.plan.cycles import work_cycles
from trainlib_deployer.plan.strategies import in_half
from trainlib_deployer.plan.tiles import Room
from trainlib_deployer.plan.ways import fastest, leanest_way, may_fit
from trainlib_deployer.program.ir import DType, Kind, Op, Program, Role, Tensor, View

SHAPE = ConvShape(1, 1, 10, 13, 47, 15, 24, 8, 3, 3, (2, 2), (1, 1), (1, 1))
KINDS = [*(Conv(d, SHAPE) for d in ("fw", "bw_x", "bw_w")), MatMul(1, 37, 29, 150), MatMul(2, 61, 46, 70)]
CORES = 7
MACHINE = resolve(cores=CORES)


def dense(name: str, *shape: int) -> View:
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    return View(name, shape, tuple(strides))


def operation(kind: Conv | MatMul) -> tuple[Program, Op]:
    if isinstance(kind, MatMul):
        views = [dense("a", 1, kind.m, kind.k), dense("b", 1, kind.k, kind.n), dense("c", 1, kind.m, kind.n)]
    else:
        s = kind.shape
        x, y = dense("x", s.n, s.ci, s.h, s.w), dense("y", s.n, s.co, s.ho, s.wo)
        w = dense("w", s.co, s.ci, s.kh, s.kw)
        views = {"fw": [x, w, y], "bw_x": [y, w, x], "bw_w": [x, y, w]}[kind.direction]
    tensors = {v.tensor: Tensor(v.tensor, v.shape, DType.F32, Role.ACTIVATION) for v in views}
    return Program("net", tensors), Op("op", kind, tuple(views[:2]), tuple(views[2:]), "forward", "op")


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: f"{k.name} {k.macs()}")
def test_leaner_is_smaller_and_no_faster(kind: Conv | MatMul) -> None:
    steps = [kind, *kind.leaner(CORES)]
    scratch = [k.scratch(CORES) for k in steps]
    cycles = [k.cycles(CORES, MACHINE.costs) for k in steps]
    assert len(steps) >= CORES and scratch == sorted(scratch, reverse=True) and cycles == sorted(cycles)
    assert scratch[-1] == leanest_way(operation(kind)[1], CORES).kind.scratch(CORES) < scratch[0] / 3
    assert cycles[-1] > 3 * cycles[0]
    assert steps[-1].scratch(1) == scratch[-1], "whatever the cores, it is that of one"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda k: f"{k.name} {k.macs()}")
def test_the_planner_takes_the_fastest_way_that_fits(kind: Conv | MatMul) -> None:
    program, op = operation(kind)
    resident = frozenset(program.tensors)
    slowest = 0.0
    for used in sorted({k.scratch(CORES) for k in (kind, *kind.leaner(CORES))}, reverse=True):
        way = fastest(program, op, Room(resident, used, MACHINE))
        assert way is not None and way.tiling is None and way.op.kind.scratch(CORES) <= used
        assert way.cycles >= slowest
        slowest = way.cycles
    assert fastest(program, op, Room(resident, used - 16, MACHINE)) is None
    roomy = fastest(program, op, Room(frozenset(), 1 << 20, MACHINE))
    assert roomy is not None and roomy.op is op


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: f"{k.name} {k.macs()}")
def test_tiles_of_a_smaller_team(kind: Conv | MatMul) -> None:
    """Every tile keeps the team of its operation, and the tiling counts scratch for no more."""
    program, op = operation(kind)
    found = 0
    for slim in kind.leaner(CORES):
        room = Room(frozenset(), slim.scratch(CORES) + 16000, MACHINE)
        tiling = best_tiling(program, replace(op, kind=slim), room)
        if tiling is None:
            continue
        kinds = [part.kind for part in tiling.parts]
        assert {lean(k) for k in kinds} == {lean(slim)} != {lean(kind)}
        assert tiling.scratch == max(k.scratch(CORES) for k in kinds)
        assert tiling.cycles >= sum(work_cycles(part, MACHINE) for part in tiling.parts)
        found += len(kinds) > 1
    assert found >= CORES - 1


def test_small_products_go_through_l1_several_at_a_time() -> None:
    """Fault: tiles of a batch were pieces of one product each, whatever the room."""
    kind = MatMul(7, 37, 29, 12)
    views = dense("a", 7, 37, 12), dense("b", 7, 12, 29), dense("c", 7, 37, 29)
    program = Program("net", {v.tensor: Tensor(v.tensor, v.shape, DType.F32, Role.ACTIVATION) for v in views})
    op = Op("op", kind, views[:2], views[2:], "forward", "op")
    tiling = best_tiling(program, op, Room(frozenset(), 48000, MACHINE))
    assert tiling is not None
    shapes = [part.writes[0].shape for part in tiling.parts]
    assert len(shapes) > 1 and sum(s[0] for s in shapes) == 7
    assert shapes[0][0] > 1 and {s[1:] for s in shapes} == {(37, 29)}


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: f"{k.name} {k.macs()}")
def test_what_cannot_fit_is_refused_before_it_is_cut(kind: Conv | MatMul) -> None:
    """Fault: an operation that no tiles make small enough was met behind all that had been worked out before it."""
    program, op = operation(kind)
    least = leanest_way(op, CORES).kind.scratch(CORES)
    verdicts = []
    for capacity in (16, least // 2, least - 1, least, 2 * least, 1 << 20):
        room = Room(frozenset(), capacity, MACHINE)
        prospects.cache_clear()
        verdicts.append(may_fit(program, op, room))
        assert not any(prospects(Job.of(program, replace(op, kind=k), room)).known for k in (kind, *kind.leaner(CORES)))
        assert verdicts[-1] or fastest(program, op, room) is None
    assert verdicts[0] is False and verdicts[3:] == [True] * 3


def lean(kind: Kind) -> tuple[int, int]:
    return getattr(kind, "team", 0), getattr(kind, "most_rows", 0)


def test_cores_that_take_part() -> None:
    for cores, kilobytes, wanted in ((8, 8, 3), (8, 12, 4), (8, 16, 6), (8, 20, 8), (8, 64, 8), (3, 16, 3), (1, 1, 1)):
        assert in_half(resolve(None, cores, f"{kilobytes}k")) == wanted
