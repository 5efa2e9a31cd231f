"""The check of what was written finds overlaps, early deaths, false bounds and unsafe work in place."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from trainlib_deployer.api import deploy
from trainlib_deployer.check.certificate import CertificateError, Emitted, check
from trainlib_deployer.plan import layout
from trainlib_deployer.plan.elementwise import elementwise
from trainlib_deployer.program.ir import Program
from trainlib_deployer.program.lifetimes import Lifetime, lifetimes


def small_net() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Conv2d(2, 5, 3, padding=1), nn.BatchNorm2d(5), nn.ReLU(), nn.Conv2d(5, 3, 3), nn.Tanh(), nn.Flatten()
    )


def deployed(folder: Path, l1: str = "128M") -> Path:
    deploy(
        small_net(),
        torch.randn(2, 2, 7, 9),
        torch.randn(2, 105),
        loss=nn.MSELoss(),
        l1=l1,
        l2="2M",
        cores=3,
        steps=1,
        out=folder,
    )
    return folder


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Emitted:
    return Emitted.read(deployed(tmp_path_factory.mktemp("project") / "net"))


def wrong(emitted: Emitted) -> str:
    return "\n".join(check(emitted)[1])


def test_what_is_emitted_holds(emitted: Emitted) -> None:
    levels, complaints = check(emitted)
    assert complaints == []
    for name, level in levels.items():
        claimed = emitted.plan["levels"][name]
        assert (level.peak, level.lower_bound) == (claimed["used"], claimed["lower_bound"])
    assert levels["L1"].peak > 10_000


def test_deployments_are_checked(tmp_path: Path) -> None:
    text = (deployed(tmp_path / "net", l1="16k") / "plan.json").read_text()
    assert '"checked": true' in text and '"checked": false' not in text


def alive_together(emitted: Emitted) -> tuple[str, str]:
    """Two large tensors of the arena that are in use at one time, at different bytes."""
    large = [b for b in emitted.plan["buffers"] if b["size"] > 1000 and b["role"] == "activation"]
    pairs = [
        (a, b) for a in large for b in large if a["birth"] < b["birth"] < a["death"] and a["offset"] != b["offset"]
    ]
    assert pairs
    first, second = pairs[0]
    names = emitted.plan["tensors"]
    return names[first["name"]]["c_name"], names[second["name"]]["c_name"]


def test_overlap(emitted: Emitted) -> None:
    first, second = alive_together(emitted)
    at = emitted.places[first][1]
    moved = re.sub(rf"(OFFSET_{second} = )\d+", rf"\g<1>{at}", emitted.header)
    assert f"{first} and {second} both use byte {at}" in wrong(replace(emitted, header=moved))
    odd = re.sub(rf"(OFFSET_{second} = )\d+", rf"\g<1>{at + 4}", emitted.header)
    assert f"{second}: offset {at + 4} is not a multiple of 16" in wrong(replace(emitted, header=odd))


def test_false_figures(emitted: Emitted) -> None:
    for what in ("USED", "LOWER_BOUND"):
        changed = re.sub(rf"(#define PLAN_L1_{what} )\d+", r"\g<1>17", emitted.header)
        assert "L1: " in wrong(replace(emitted, header=changed))


def test_operations_in_another_order(emitted: Emitted) -> None:
    """The first two operations exchanged: what the second reads does not exist yet."""
    parts = re.split(r"(    next\(\d+\);\n)", emitted.net)
    head, brace, first = parts[0].rpartition("\n{\n")
    swapped = "".join([head, brace, parts[2], parts[1], first, *parts[3:]])
    assert "is read before anything writes it" in wrong(replace(emitted, net=swapped))


@pytest.mark.parametrize("seed", range(4))
def test_an_early_death_is_caught(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner frees every large activation one operation early."""

    def hasty(program: Program) -> dict[str, Lifetime]:
        lives = lifetimes(program)
        long = sorted(n for n, life in lives.items() if life.death - life.birth > 2 and life.death < len(program.ops))
        name = max(long[seed::4], key=lambda n: program.tensors[n].nbytes)
        return lives | {name: replace(lives[name], death=lives[name].death - 1)}

    monkeypatch.setattr(layout, "lifetimes", hasty)
    with pytest.raises(CertificateError, match=r"used in operations \d+ to \d+, planned for"):
        deployed(tmp_path / "net")
    assert not (tmp_path / "net").exists()


GOOD = """\
        const float *p0 = r0 + i0 * 63;
        float *q0 = w0 + i0 * 63;
        const float v1 = p1[0];
        for (int i = 0; i < 63; i++) {
            const float v0 = p0[i];
            q0[i] = v2;
        }
"""


def test_work_in_place_must_be_elementwise() -> None:
    assert elementwise(GOOD, "r0", "w0")
    assert not elementwise(GOOD.replace("r0 + i0 * 63", "r0 + i0 * 62"), "r0", "w0"), "other rows"
    assert not elementwise(GOOD.replace("p0[i]", "p0[i * 2]"), "r0", "w0"), "other elements"
    assert not elementwise(GOOD.replace("p1[0]", "p0[0]"), "r0", "w0"), "one element for all"
    lines = GOOD.splitlines()
    lines[4], lines[5] = lines[5], lines[4]
    assert not elementwise("\n".join(lines), "r0", "w0"), "written before it is read"
    flat = "    for (int i = lo; i < hi; i++) {\n        const float v0 = r0[i];\n        w0[i] = v1;\n    }\n"
    assert elementwise(flat, "r0", "w0") and not elementwise(flat, "r1", "w0")


FOUR = """\
    int i = lo;
    for (; i < hi - 3; i += 4) {
        const float v0_0 = r0[i];
        const float v0_1 = r0[i + 1];
        const float v0_2 = r0[i + 2];
        const float v0_3 = r0[i + 3];
        w0[i] = v1_0;
        w0[i + 1] = v1_1;
        w0[i + 2] = v1_2;
        w0[i + 3] = v1_3;
    }
    for (; i < hi; i++) {
        const float v0 = r0[i];
        w0[i] = v1;
    }
"""


def test_four_elements_at_a_time_are_read_before_they_are_written() -> None:
    assert elementwise(FOUR, "r0", "w0")
    lines = FOUR.splitlines()
    lines[5], lines[6] = lines[6], lines[5]
    assert not elementwise("\n".join(lines), "r0", "w0"), "the last is read after the first is written"
    assert not elementwise(FOUR.replace("i += 4", "i += 2"), "r0", "w0"), "elements that were written before"
    assert not elementwise(FOUR.replace("w0[i + 2]", "w0[i + 1]"), "r0", "w0"), "one element twice"
    assert not elementwise(FOUR.replace("r0[i + 2]", "r0[i + 4]"), "r0", "w0"), "of the next four"
    assert not elementwise(FOUR.replace("for (; i < hi; i++)", "for (int i = lo; i < hi; i++)"), "r0", "w0"), "again"


def test_sharing_without_a_loop_is_an_overlap(emitted: Emitted) -> None:
    """Where a tensor follows another in place, the same bytes in a loop that shifts them are refused."""
    shared = [b for b in emitted.plan["buffers"] if b["aliases"]]
    assert shared, "the net is meant to work in place somewhere"
    shifted = re.sub(r"(\br\d+)\[i\]", r"\1[i + 1]", re.sub(r"(\bp\d+)\[i\]", r"\1[i + 1]", emitted.loops))
    assert "both use byte" in wrong(replace(emitted, loops=shifted))


@pytest.fixture(scope="module")
def streamed(tmp_path_factory: pytest.TempPathFactory) -> Emitted:
    """A step in tiles, some of which come early."""
    torch.manual_seed(5)
    net = nn.Sequential(nn.Linear(60, 90), nn.Tanh(), nn.Linear(90, 110), nn.Tanh(), nn.Linear(110, 30))
    data = [(torch.randn(2, 60), torch.randn(2, 30))]
    folder = tmp_path_factory.mktemp("streamed") / "net"
    deploy(net, *data[0], data=data, loss=nn.MSELoss(), l1="20k", l2="2M", cores=3, steps=1, out=folder)
    return Emitted.read(folder)


EARLY_SOURCE = re.compile(r"(early_(\d+)\[\d+\] = \{\s*\{\{\(char \*\))(.*?)(, TILE\()")


def hosts(emitted: Emitted) -> list[tuple[int, int, str]]:
    """Operations that start the first tile of another, that one, and the source of the first stream."""
    return [
        (at, int(found[2]), found[3])
        for at, text in enumerate(emitted.statements)
        for found in EARLY_SOURCE.finditer(text)
    ]


def test_what_comes_early_is_not_written_meanwhile(streamed: Emitted) -> None:
    assert wrong(streamed) == ""
    assert len(hosts(streamed)) >= 3
    names = {t["c_name"]: n for n, t in streamed.plan["tensors"].items()}
    for host, guest, source in hosts(streamed):
        name = re.sub(r".*[ .]", "", source.rstrip(")"))
        for at in range(host, guest):
            ops = [dict(op) for op in streamed.plan["ops"]]
            ops[at]["writes"] = [*ops[at]["writes"], names[name]]
            planted = replace(streamed, plan={**streamed.plan, "ops": ops})
            assert f"operation {at} writes {name}, which comes early for operation {guest}" in wrong(planted)


def test_what_comes_early_shares_no_byte_with_what_is_written(streamed: Emitted) -> None:
    """The host's result moved to where the source lies."""
    tensors = streamed.plan["tensors"]
    for host, guest, source in hosts(streamed):
        name = re.sub(r".*[ .]", "", source.rstrip(")"))
        level, begin = streamed.places[name]
        result = tensors[streamed.plan["ops"][host]["writes"][0]]["c_name"]
        moved = re.sub(rf"(OFFSET_{result} = )\d+(, /\* )\w+", rf"\g<1>{begin + 16}\g<2>{level}", streamed.header)
        found = wrong(replace(streamed, header=moved))
        assert f"operation {host} writes {name}, which comes early for operation {guest}" in found


def test_a_tile_that_comes_early_is_awaited(streamed: Emitted) -> None:
    host, guest, _ = hosts(streamed)[0]
    flagged = re.compile(rf"(LANES\({guest}\), PLAN_CORES, )(\d+)\}}")
    forgotten = flagged.sub(r"\g<1>0}", streamed.net)
    assert f"operation {guest}: stream" in wrong(replace(streamed, net=forgotten))
    text = streamed.statements[host]
    table = re.search(rf"TL_CONST static const tl_early early_{guest}\[.*?\n\s*\}};", text, re.DOTALL)
    assert table is not None
    assert f"operation {guest}: stream" in wrong(replace(streamed, net=streamed.net.replace(table[0], "")))


def test_no_function_ends_with_a_tile_on_its_way(streamed: Emitted) -> None:
    host, guest, _ = hosts(streamed)[-1]
    end = f"    next({guest - 1});\n"
    cut = streamed.net.replace(end, end + "}\n\nstatic void other(void)\n{\n")
    assert host < guest
    assert f"starts transfers of operation {guest} and ends before it" in wrong(replace(streamed, net=cut))


def test_a_tile_outside_of_its_buffers_is_caught(streamed: Emitted) -> None:
    row = re.compile(r"\{\{(\d+), (\d+), 1, 1, (\d), ([01])\}, ")
    longer = row.sub(lambda m: f"{{{{{m[1]}, {int(m[2]) + 4096}, 1, 1, {m[3]}, {m[4]}}}, ", streamed.net)
    further = row.sub(lambda m: f"{{{{{m[1]}, {m[2]}, 1, 1, 2, {m[4]}}}, ", streamed.net)
    for planted in (longer, further):
        assert planted != streamed.net
        assert "outside of its buffers" in wrong(replace(streamed, net=planted))
    apart = re.sub(r"SECOND\(\d+, \d+\)", "48", streamed.net)
    assert apart != streamed.net
    assert "outside of its buffers" in wrong(replace(streamed, net=apart))
