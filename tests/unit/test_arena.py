"""Placements against the bound, the checker, brute force and problems of known answer."""

from __future__ import annotations

import dataclasses
import itertools
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.bench_arena import SUITE, minimalloc
from trainlib_deployer.arena import arena
from trainlib_deployer.arena.arena import NEAR, ORDERS, SEARCHED, Interval, Placement, Problem, place
from trainlib_deployer.arena.greedy import FEW, Ints, skyline
from trainlib_deployer.arena.search import STRATEGIES, Outcome, Search, Strategy, sections
from trainlib_deployer.check.placement import check_placement

Rows = list[tuple[int, int, int]]  # size, birth, death


def problem(*rows: tuple[int, int, int], capacity: int | None = None, alignment: int = 1) -> Problem:
    return Problem(tuple(Interval(f"t{i}", *row) for i, row in enumerate(rows)), capacity, alignment)


def random_rows(draw: random.Random, count: int, positions: int, largest: int) -> Rows:
    rows = []
    for _ in range(count):
        birth = draw.randrange(positions)
        rows.append((draw.randint(1, largest), birth, draw.randint(birth + 1, positions)))
    return rows


def perfect_packing(draw: random.Random, pieces: int, positions: int, height: int) -> Problem:
    """A full rectangle of time and bytes cut in two again and again: its height is the answer."""
    boxes = [(0, positions, 0, height)]
    while len(boxes) < pieces:
        left, right, low, high = boxes.pop(draw.randrange(len(boxes)))
        if right - left > 1 and draw.random() < 0.5:
            cut = draw.randrange(left + 1, right)
            boxes += [(left, cut, low, high), (cut, right, low, high)]
        elif high - low > 1:
            cut = draw.randrange(low + 1, high)
            boxes += [(left, right, low, cut), (left, right, cut, high)]
        else:
            boxes.append((left, right, low, high))
    draw.shuffle(boxes)
    return problem(*((high - low, left, right) for left, right, low, high in boxes))


def training_graph(seed: int, layers: int) -> Problem:
    """Activations until their backward, gradients from there to the next layer's, scratch."""
    draw = random.Random(seed)
    size = [16 * draw.randint(1, 4000) for _ in range(layers + 1)]
    rows = []
    for layer in range(layers):
        backward = 2 * layers - 1 - layer
        rows.append((size[layer], layer, backward + 1))
        rows.append((size[layer], backward, min(backward + 2, 2 * layers)))
        rows.append((16 * draw.randint(1, 2000), backward, backward + 1))
    return problem(*rows, alignment=16)


def fits(rows: Rows, capacity: int) -> bool:
    """Every order by offset, each as low as it goes on those before it: all of them, nothing pruned."""
    meets = [[j for j, b in enumerate(rows) if j != i and b[1] < a[2] and a[1] < b[2]] for i, a in enumerate(rows)]
    seen = set()

    def rest_fits(waiting: frozenset[int], floor: tuple[int, ...]) -> bool:
        if (waiting, floor) in seen:
            return False
        seen.add((waiting, floor))
        for i in waiting:
            top = floor[i] + rows[i][0]
            lifted = tuple(0 if j == i else max(f, top) if j in meets[i] else f for j, f in enumerate(floor))
            if top <= capacity and rest_fits(waiting - {i}, lifted):
                return True
        return not waiting

    return rest_fits(frozenset(range(len(rows))), (0,) * len(rows))


def optimum(rows: Rows, bound: int) -> int:
    return next(peak for peak in itertools.count(bound) if fits(rows, peak))


ABOVE_THE_BOUND: list[Rows] = [
    [(1, 3, 4), (3, 4, 6), (3, 2, 5), (1, 1, 4), (1, 3, 7), (1, 5, 6), (6, 1, 2), (3, 2, 3), (1, 3, 4), (6, 6, 7)],
    [(4, 1, 4), (4, 2, 5), (4, 3, 4), (4, 1, 4), (2, 3, 7), (1, 1, 5), (10, 1, 2), (6, 2, 3), (12, 4, 5), (17, 5, 6)],
]
rows_of = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 12), st.integers(0, 6)).map(lambda r: (r[0], r[1], r[1] + r[2])),
    max_size=14,
)


@settings(max_examples=200, deadline=None)
@given(rows=rows_of, alignment=st.sampled_from([1, 4, 16]), capacity=st.sampled_from([None, 1, 64, 1000]))
def test_any_placement_holds(rows: Rows, alignment: int, capacity: int | None) -> None:
    asked = problem(*rows, alignment=alignment, capacity=capacity)
    found = place(asked, seconds=0.05)
    assert check_placement(asked, found) == []
    assert found.peak >= found.lower_bound


@pytest.mark.parametrize("seed", range(40))
def test_small_problems_are_solved_to_the_optimum(seed: int) -> None:
    rows = random_rows(random.Random(seed), count=8, positions=7, largest=9)
    found = place(problem(*rows))
    assert found.proved
    assert found.peak == optimum(rows, found.lower_bound)


@pytest.mark.parametrize("rows", ABOVE_THE_BOUND, ids=len)
def test_an_optimum_above_the_bound_is_found_and_proved(rows: Rows) -> None:
    found = place(problem(*rows))
    assert check_placement(problem(*rows), found) == []
    assert found.lower_bound < found.peak == optimum(rows, found.lower_bound)
    assert found.proved and found.method.endswith("search exhausted below")
    boast = dataclasses.replace(found, method="first fit by size")
    assert any("exhausted" in w for w in check_placement(problem(*rows), boast))


@pytest.mark.slow
def test_every_strategy_agrees_with_exhaustion_on_tight_problems() -> None:
    draw = random.Random(20)
    for _ in range(25):
        rows = random_rows(draw, count=7, positions=5, largest=3)
        live = [sum(size for size, birth, death in rows if birth <= t < death) for t in range(5)]
        rows += [(max(live) - now, t, t + 1) for t, now in enumerate(live) if now < max(live)]
        net = sections(*(np.array(column) for column in zip(*rows, strict=True)))
        wanted = Outcome.FOUND if fits(rows, max(live)) else Outcome.INFEASIBLE
        assert {Search(net, max(live), s).run(10**6) for s in STRATEGIES} == {wanted}


@pytest.mark.parametrize(("seed", "pieces"), [(s, n) for s in range(4) for n in (12, 25, 40)])
def test_perfect_packings_are_found(seed: int, pieces: int) -> None:
    asked = perfect_packing(random.Random(seed), pieces, positions=23, height=97)
    found = place(asked, seconds=2.0)
    assert check_placement(asked, found) == []
    assert (found.peak, found.proved) == (97, True)


@pytest.mark.parametrize("strategy", STRATEGIES[1:4], ids=lambda s: f"{s.keys}{s.renew}")
def test_no_strategy_prunes_the_few_solutions_of_a_full_arena(strategy: Strategy) -> None:
    for seed in range(30):
        asked = perfect_packing(random.Random(seed), pieces=28, positions=12, height=60)
        net = sections(*(np.array([getattr(i, k) for i in asked.intervals]) for k in ("size", "birth", "death")))
        assert Search(net, 60, strategy).run(2000) is Outcome.FOUND
        assert Search(net, 59, strategy).run(2000) is Outcome.INFEASIBLE


@pytest.mark.parametrize(("seed", "layers"), [(0, 3), (1, 17), (2, 60), (3, 250)])
def test_training_graphs_reach_the_bound(seed: int, layers: int) -> None:
    asked = training_graph(seed, layers)
    found = place(asked)
    assert check_placement(asked, found) == []
    assert found.proved and found.peak == found.lower_bound


def test_the_order_of_the_intervals_and_the_time_allowed_change_nothing_once_proved() -> None:
    asked = training_graph(7, 40)
    assert place(asked) == place(asked) == place(asked, seconds=9.0)


def lowest_first(order: Ints, size: Ints, birth: Ints, death: Ints) -> list[int]:
    """What skyline() does, in so many words."""
    floor, waiting = [0] * len(size), order.tolist()
    while waiting:
        i = min(waiting, key=lambda j: floor[j])  # the first of those
        waiting.remove(i)
        for j in waiting:
            if birth[j] < death[i] and death[j] > birth[i]:
                floor[j] = max(floor[j], floor[i] + int(size[i]))
    return floor


@pytest.mark.parametrize("count, longest", [(1, 1), (23, 9), (FEW, 3), (FEW + 1, 40), (FEW + 88, 2 * FEW)])
def test_skyline_looks_only_where_buffers_are_but_misses_none(count: int, longest: int) -> None:
    draw = np.random.default_rng(count)
    birth, size, order = draw.integers(0, count, count), draw.integers(1, 99, count), draw.permutation(count)
    length = np.maximum(longest // draw.integers(1, longest, count, endpoint=True), 1)  # many short ones, few long ones
    death = birth + length
    assert skyline(order, size, birth, death).tolist() == lowest_first(order, size, birth, death)


def test_capacity_stops_at_the_first_fit() -> None:
    rows = random_rows(random.Random(3), count=60, positions=30, largest=1000)
    roomy = sum(size for size, _, _ in rows)
    found = place(problem(*rows, capacity=roomy))
    assert found.peak <= roomy and found.method == "skyline by fullest, length"


@pytest.mark.parametrize("count, together", [(SEARCHED + 1, 40), (2 * SEARCHED, 100)])
def test_many_buffers_are_placed_until_they_fit(count: int, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: passes went on for a few bytes: a step of 5,700 operations was planned for a minute."""
    taken = []

    def counted(*columns: Ints) -> Ints:
        taken.append(len(columns[0]))
        return skyline(*columns)

    def passes(room: int) -> tuple[int, Placement]:
        taken.clear()
        asked = dataclasses.replace(problem(*rows), room=room)
        found = place(asked)
        check_placement(asked, found)
        assert set(taken) == {count}
        return len(taken), found

    monkeypatch.setattr(arena, "skyline", counted)
    draw = random.Random(7)
    births = [draw.randrange(count // together) for _ in range(count)]
    rows = [(draw.randint(1, 99), b, b + draw.choice((1, 1, 2, 3, 9))) for b in births]
    least = place(problem(*rows))
    bound = least.lower_bound
    assert bound < least.peak and len(taken) == ORDERS, "passes miss the bound by little"
    needed, roomy = passes(2 * bound)
    assert needed < ORDERS and roomy.peak <= bound + bound // NEAR
    assert passes(bound)[0] == ORDERS, "none fits, but one might"
    assert passes(bound - 1)[0] == needed, "none can"


def test_empty_and_degenerate_problems() -> None:
    assert place(problem()).peak == 0
    found = place(problem((0, 0, 3), (5, 2, 2)))
    assert (found.peak, found.offsets, found.proved) == (0, {"t0": 0, "t1": 0}, True)
    found = place(problem((5, 3, 4), alignment=16))
    assert (found.peak, found.live_at_peak, found.peak_position) == (16, ("t0",), 3)


def test_two_of_one_name_are_refused() -> None:
    twice = Problem((Interval("a", 4, 0, 1), Interval("a", 4, 0, 1)))
    with pytest.raises(ValueError, match="one name"):
        place(twice)


def solved() -> tuple[Problem, Placement]:
    asked = training_graph(11, 9)
    return asked, place(asked)


def test_checker_sees_an_overlap_of_one_byte() -> None:
    asked = problem((10, 0, 4), (20, 2, 6), (5, 5, 9))
    right = Placement({"t0": 20, "t1": 0, "t2": 20}, 30, 30, True, ("t0", "t1"), 2, "by hand")
    assert check_placement(asked, right) == []
    wrong = dataclasses.replace(right, offsets={"t0": 19, "t1": 0, "t2": 20})
    assert any("t0 and t1" in w or "t1 and t0" in w for w in check_placement(asked, wrong))
    assert not any("t2" in w for w in check_placement(asked, wrong))


@pytest.mark.parametrize("seed", range(20))
def test_checker_finds_just_the_overlaps_there_are(seed: int) -> None:
    draw = random.Random(seed)
    asked = problem(*random_rows(draw, count=12, positions=9, largest=20))
    offsets = {i.name: draw.randrange(60) for i in asked.intervals}
    pairs = {
        frozenset((a.name, b.name))
        for a, b in itertools.combinations(asked.intervals, 2)
        if a.birth < b.death
        and b.birth < a.death
        and offsets[a.name] < offsets[b.name] + b.size
        and offsets[b.name] < offsets[a.name] + a.size
    }
    said = check_placement(asked, dataclasses.replace(place(asked), offsets=offsets))
    assert {frozenset(w.split(": ")[0].split(" and ")) for w in said if "both use" in w} == pairs


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"peak": 16}, "highest byte"),
        ({"lower_bound": 16}, "alive at once"),
        ({"proved": False}, "not proved"),
        ({"live_at_peak": ("t0",)}, "alive at position"),
        ({"peak_position": 17}, "not where most"),
    ],
)
def test_checker_sees_wrong_figures(change: dict[str, Any], message: str) -> None:
    asked, found = solved()
    assert check_placement(asked, found) == []
    assert any(message in w for w in check_placement(asked, dataclasses.replace(found, **change)))


def test_checker_sees_misalignment_and_missing_or_foreign_names() -> None:
    asked, found = solved()
    shifted = {**found.offsets, "t0": found.offsets["t0"] + 8}
    assert any("multiple of 16" in w for w in check_placement(asked, dataclasses.replace(found, offsets=shifted)))
    missing = {k: v for k, v in found.offsets.items() if k != "t3"}
    assert check_placement(asked, dataclasses.replace(found, offsets=missing)) == ["t3: no offset"]
    foreign = {**found.offsets, "ghost": 0}
    assert any("ghost" in w for w in check_placement(asked, dataclasses.replace(found, offsets=foreign)))


@pytest.mark.slow
@pytest.mark.parametrize("letter", list("BH"))
def test_minimalloc_instances_fit(letter: str) -> None:
    asked = minimalloc(next(SUITE.glob(f"{letter}.*.csv")))
    found = place(asked, seconds=10.0)
    assert check_placement(asked, found) == []
    assert found.peak <= 1 << 20
