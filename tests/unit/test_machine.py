"""Machines as values: nothing outside of machine/ knows a figure or the memories of a chip."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import astuple, fields, is_dataclass, replace
from functools import cache

import pytest

from tests.unit.source_trees import PACKAGE, nodes, parsed
from trainlib_deployer.machine.machine import Link, Machine, Memory
from trainlib_deployer.machine.pulp_open import PULP_OPEN
from trainlib_deployer.machine.targets import TARGETS

ROOMS = ("plan", "ops", "kernels", "program", "passes", "emit", "arena", "check")
PLAIN = {*range(17), 24, 32, 64, 100, 200, 1000}  # that mean something else, too
NAMES = {"L1", "L2", "L3"}


def sources(*rooms: str) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(p for room in rooms for p in (PACKAGE / room).rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), parsed(path)


def numbers(value: object) -> Iterator[float]:
    """All that a record is made of, but for those that go by a name of C."""
    if is_dataclass(value):
        for field in fields(value):
            yield from numbers(getattr(value, field.name))
    elif isinstance(value, int | float):
        yield float(value)


@cache
def figures() -> set[float]:
    """Of the chip that was measured."""
    memory, team = PULP_OPEN.outer.load, PULP_OPEN.team.stack
    return {*numbers(PULP_OPEN.costs), *numbers(PULP_OPEN.link), float(memory), float(team)} - PLAIN


def constants(tree: ast.Module) -> Iterator[object]:
    yield from (node.value for node in nodes(tree) if isinstance(node, ast.Constant))


def given_away(tree: ast.Module) -> list[float]:
    return [v for v in constants(tree) if isinstance(v, int | float) and not isinstance(v, bool) and v in figures()]


def test_no_figure_of_a_chip_outside_of_its_file() -> None:
    assert len(figures()) > 100
    found = {name: values for name, tree in sources(*ROOMS) if (values := given_away(tree))}
    assert found == {}


def test_a_figure_would_be_found() -> None:
    figure = PULP_OPEN.costs.product.rows_mac
    assert sorted(given_away(ast.parse(f"quad = 4 * {figure} * terms + 110"))) == [figure, 110]


def test_memories_go_by_index() -> None:
    rooms = sorted(p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name not in ("machine", "cli"))
    files = [*sources(*rooms), *sources_at_the_top()]
    assert len(files) > 100
    found = {name: hits for name, tree in files if (hits := [v for v in constants(tree) if v in NAMES])}
    assert found == {}


def sources_at_the_top() -> Iterator[tuple[str, ast.Module]]:
    yield from ((p.name, parsed(p)) for p in PACKAGE.glob("*.py"))


def test_alignment_is_what_links_and_stacks_ask_for() -> None:
    assert {m.alignment for m in TARGETS.values()} == {16}
    for asked, given in ((4, 16), (12, 48), (24, 48), (64, 64), (20, 80)):
        odd = replace(PULP_OPEN, links=(replace(PULP_OPEN.link, alignment=asked),))
        assert odd.alignment == given and odd.aligned(given + 1) == 2 * given and odd.aligned(given) == given


def test_float_units_of_the_cores_at_work() -> None:
    assert [PULP_OPEN.leaner(n).float_units() for n in (1, 3, 4, 5, 8)] == [1, 3, 4, 4, 4]
    alone = replace(PULP_OPEN, team=replace(PULP_OPEN.team, per_float_unit=1))
    assert alone.float_units() == 8


def test_a_machine_has_a_link_between_neighbours() -> None:
    far = Memory("L3", 1 << 20, load=100)
    with pytest.raises(ValueError, match="a link from each memory to the next"):
        replace(PULP_OPEN, memories=(*PULP_OPEN.memories, far))
    deep = replace(PULP_OPEN, memories=(*PULP_OPEN.memories, far), links=(PULP_OPEN.link, second()))
    assert (deep.inner, deep.outer) == (PULP_OPEN.inner, PULP_OPEN.outer)


def second() -> Link:
    return replace(PULP_OPEN.link, inner=1, outer=2)


def test_every_cost_says_where_it_was_measured() -> None:
    assert all(astuple(m.costs.measured) and all(astuple(m.costs.measured)) for m in TARGETS.values())


def test_equal_machines_are_one_key() -> None:
    again = replace(PULP_OPEN)
    assert again == PULP_OPEN and hash(again) == hash(PULP_OPEN)
    assert isinstance(again, Machine) and len({again, PULP_OPEN, PULP_OPEN.leaner(3)}) == 2
