"""How much of the outer memory a plan leaves to what its build brings: found by trying, without a word too many."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.unit.test_far import KB, machine, program
from trainlib_deployer import beside
from trainlib_deployer.errors import DoesNotFit
from trainlib_deployer.plan import build


@dataclass(frozen=True)
class Tried:
    """A plan that takes all that is left, and a build."""

    kept: int
    wanted: int
    cycles: int

    @property
    def over(self) -> int:
        return max(self.wanted - self.kept, 0)


def nobody_asks() -> Any:
    pytest.fail("somebody asks by how much")


def tried(brings: Callable[[int], int], far: bool, most: int, slow: int = 0) -> tuple[list[int], int | None]:
    """Bytes that are kept, in order, and those that are taken; with more than `most`, plans are refused;
    each takes `slow` cycles more."""
    rooms: list[int] = []

    def trial(kept: int) -> Any:
        rooms.append(kept)
        if kept > most:
            raise DoesNotFit(find=nobody_asks)
        return Tried(kept, brings(kept), 1000 + slow * kept)

    try:
        return rooms, beside.enough(trial(0), trial, far).kept
    except DoesNotFit:
        return rooms, None


def steps(sizes: Mapping[int, int]) -> Callable[[int], int]:
    """So many bytes from each room on."""
    return lambda kept: next(size for room, size in sorted(sizes.items(), reverse=True) if kept >= room)


@pytest.mark.parametrize("far", [False, True])
def test_what_one_build_took_is_kept_for_the_next(far: bool) -> None:
    assert tried(steps({0: 160}), far, 500) == ([0, 160], 160)
    assert tried(steps({0: 160, 1: 164, 161: 166}), far, 500) == ([0, 160, 164, 166], 166)


def test_where_more_comes_no_nearer_less_is_tried() -> None:
    """Fault: a step that fits behind a third memory was refused, for what it brings where there is more room, or less.
    What is near is tried first, what is refused there, too."""
    fewer = steps({0: 337, 1: 300})
    assert tried(fewer, True, 310) == ([0, 337, 295, 306], 306)
    assert tried(fewer, False, 310) == ([0, 337], None)
    farther = steps({0: 320, 1: 290, 295: 324, 324: 330, 330: 340})
    assert tried(farther, True, 500) == ([0, 320, 324, 280, 290], 290)
    assert tried(steps({0: 320, 1: 285, 290: 350}), True, 500) == ([0, 320, 280, 290, 300, 310, 350], 350)
    assert tried(farther, False, 500) == ([0, 320, 324, 330, 340], 340)


def test_where_a_plan_is_much_slower_than_with_the_most_room_less_is_kept() -> None:
    """As long as that fits, and takes fewer cycles: of four amounts the third, then the last or the first."""
    assert tried(steps({0: 320, 1: 270}), True, 500, slow=1) == ([0, 320, 300, 280], 280)
    assert tried(steps({0: 320, 1: 290}), True, 500, slow=1) == ([0, 320, 300, 280], 300)
    assert tried(steps({0: 320, 1: 360, 310: 290}), True, 500, slow=1) == ([0, 320, 300, 310], 310)
    assert tried(steps({0: 320, 1: 360, 320: 290}), True, 500, slow=1) == ([0, 320, 300, 310], 320)
    assert tried(steps({0: 100, 1: 90}), True, 500, slow=1) == ([0, 100], 100)
    assert tried(steps({0: 320, 1: 290}), False, 500, slow=1) == ([0, 320], 320)


def test_what_is_over_in_the_end_is_refused() -> None:
    rooms, taken = tried(lambda kept: kept + 10, True, 100)
    assert taken is None and rooms[-1] > 100


def test_nobody_works_out_by_how_much_before_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: each refusal of a search planned the least that a step can do with, which takes longer than the search."""
    found: list[int] = []

    def counted(*given: Any) -> Any:
        found.append(1)
        return least(*given)

    least = build.least_plan
    monkeypatch.setattr(build, "least_plan", counted)
    with pytest.raises(DoesNotFit) as refused:
        build.plan(program("A+A>b b+b>c", A=64, b=64, c=64), machine(100 * KB).near_only())
    assert not found
    assert refused.value.over == {"L2": 28 * KB} and "L2: needs" in refused.value.message and len(found) == 1
