"""Lifetimes are right: with NaNs wherever the plan says that memory is free, every result keeps its bits."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from tests.e2e.conftest import deploy_example
from trainlib_deployer.errors import VerificationFailed
from trainlib_deployer.folder import read_plan
from trainlib_deployer.run.host import Host
from trainlib_deployer.run.sections import check_sections, differences, planned_symbols, writable_symbols

ENTRY = re.compile(r"\{OFFSET_(\w+) - \w+, \d+, AT_(\w+),\s+AT_(\w+)\}")
POSITION = re.compile(r"^    AT_(\w+),$", re.MULTILINE)


def record(folder: Path, poison: bool, steps: int = 2, cores: int = 3) -> bytes:
    path = folder / f"record-{poison}.bin"
    path.unlink(missing_ok=True)
    Host(poison=poison).run(folder, steps, cores, path)
    return path.read_bytes()


def record_or_crash(folder: Path) -> bytes:
    """A poisoned index may also end the program."""
    try:
        return record(folder, poison=True)
    except VerificationFailed:
        return b""


@pytest.mark.parametrize("name", ["resnet8", "dscnn"])
def test_poison_changes_no_bit_of_a_tiled_step(name: str, project: Path) -> None:
    deploy_example(name, project, steps=2, l1="64k", l2="2M")
    normal = record(project, poison=False)
    assert len(normal) > 1000
    assert record(project, poison=True) == normal


@pytest.mark.parametrize("name", ["trainlib_default", "dscnn"])
def test_a_buffer_freed_one_operation_early_is_caught(name: str, project: Path) -> None:
    """Whichever buffer it is: what the last operation that needs it reads is then NaN, or a wild index."""
    deploy_example(name, project, steps=2)
    normal = record(project, poison=False)
    table = (project / "poison.h").read_text()
    order = POSITION.findall((project / "plan.h").read_text())
    assert len(order) == len(read_plan(project)["ops"])
    places = [m for m in ENTRY.finditer(table) if order.index(m[3]) - order.index(m[2]) > 1]
    assert len(places) > 5
    for place in random.Random(7).sample(places, 4):
        early = f"{place[0][:-1]} - 1}}"
        (project / "poison.h").write_text(table[: place.start()] + early + table[place.end() :])
        (project / "net.c").touch()
        assert record_or_crash(project) != normal, place[1]


def test_linked_sizes_are_the_planned_ones(project: Path) -> None:
    deploy_example("trainlib_default", project, steps=1, l1="30k", l2="1M")
    record(project, poison=False, steps=1)
    plan = read_plan(project)
    program = project / "build" / "host" / "train"
    check_sections(program, project)
    linked, planned = writable_symbols(program), planned_symbols(plan)
    assert set(planned) == {"arena_l1", "net_l1", "arena_l2", "net_l2"}
    assert sum(planned.values()) == sum(level["used"] for level in plan["levels"].values())
    assert differences({**linked, "arena_l2": planned["arena_l2"] - 16}, planned)
    assert differences({n: s for n, s in linked.items() if n != "net_l2"}, planned)


def test_memory_outside_of_the_plan_is_found(project: Path) -> None:
    deploy_example("trainlib_default", project, steps=1)
    with (project / "loops.c").open("a") as source:
        source.write("\nint hidden[17];\n")
    with pytest.raises(VerificationFailed, match="hidden: 68 bytes of writable memory that are not in the plan"):
        record(project, poison=False, steps=1)
