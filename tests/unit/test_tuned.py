"""Measurements of tiles: what is chosen by them, and how they are kept."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import tune_table
from benchmarks.tune_table import Compared
from tests.unit.test_ways import MACHINE, SHAPE, operation
from trainlib_deployer.emit.library import Library
from trainlib_deployer.emit.resources import c_lib_dir
from trainlib_deployer.errors import UsageError
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.machine.tuned import Tuned
from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.plan.best_tiling import best_tiling, names_in
from trainlib_deployer.plan.links import links
from trainlib_deployer.plan.tiles import Room, Tiling
from trainlib_deployer.program.ir import DType, Role, Tensor
from trainlib_deployer.tune import contents, shipped
from trainlib_deployer.tune.asked import ROUNDS, Tune
from trainlib_deployer.tune.contents import LOOP, bare, content
from trainlib_deployer.tune.table import Table
from trainlib_deployer.tune.worth import changes

KIND = Conv("bw_w", SHAPE)


def cut(tuned: Tuned | None, capacity: int = 40_000) -> Tiling:
    program, op = operation(KIND)
    found = best_tiling(program, op, Room(frozenset(), capacity, replace(MACHINE, tuned=tuned)))
    assert found is not None
    return found


def measured(*took: int) -> tuple[str, list[Tiling], Tuned]:
    """What is cut, its first ways, and a table in which they took so much."""
    ways = [cut(Tuned(rank=rank)) for rank in range(len(took))]
    assert len({t.way for t in ways}) == len(ways)
    (work,) = {t.measured_as[0] for t in ways if t.measured_as}
    return work, ways, Tuned({work: {t.way: n for t, n in zip(ways, took, strict=True)}})


def test_what_was_measured_is_known_whatever_made_a_tensor() -> None:
    """The name of what is cut says nothing of the user's own operations."""
    made = Tensor("0", (3, 5), DType.F32, Role.ACTIVATION)
    assert repr(replace(made, function="pow", wide=True)) == repr(made)


def test_ranks_go_from_the_best_estimate_on() -> None:
    _, ways, _ = measured(0, 0, 0, 0)
    assert ways[0].way == cut(None).way and cut(None).measured_as is None
    assert cut(Tuned(rank=99)).way not in {t.way for t in ways[:3]}
    assert {t.cycles for t in ways} == {ways[0].cycles}, "a network is arranged as if nothing had changed"


@pytest.mark.parametrize("took", [(70, 60, 50), (50, 60, 70), (60, 50, 70), (60, 60, 60)])
def test_the_least_measured_is_taken(took: tuple[int, int, int]) -> None:
    _, ways, table = measured(*took)
    best = ways[took.index(min(took))]
    found = cut(table)
    assert found.way == best.way and found.tiles.parts == best.tiles.parts
    assert found.cycles == pytest.approx(cut(None).cycles * min(took) / took[0])


def test_more_ways_are_measured_than_estimates_ask_for() -> None:
    """Each by a name of its own, in no more room, and of the same operation."""
    ways = [cut(Tuned(rank=rank)) for rank in range(40)]
    names = list(dict.fromkeys(t.way for t in ways))
    assert len(names) > 10 and [t.way for t in ways[: len(names)]] == names, "up to the last one"
    assert all(t.nbytes <= 40_000 and t.estimated is not None and t.estimated.way == names[0] for t in ways[1:])
    assert {name.rpartition(" by ")[2] for name in names if " by tl_" in name} and {t.ahead for t in ways} == {0, 1}


def test_another_kernel_is_called_and_has_its_scratch() -> None:
    """Fault: it had the bytes of the one whose place it took."""
    _, op = operation(KIND)
    ways = {t.way: t for rank in range(40) if (t := cut(Tuned(rank=rank))).row}
    assert ways
    for tiling in ways.values():
        rows = {link.row for tile in links(op, replace(tiling, names=names_in(op)), MACHINE.cores) for link in tile}
        assert tiling.row in {row.symbol for row in rows if row}
        assert all(row.scratch(p.kind, MACHINE.cores) <= tiling.scratch for row in rows if row for p in tiling.parts)
        usual = links(op, replace(tiling, names=names_in(op), row=""), MACHINE.cores)
        assert {link.row.arithmetic for tile in usual for link in tile if link.row} == {
            row.arithmetic for row in rows if row
        }


BEFORE = [("a", 10), ("b", 20), ("c", 30), ("d", 40), ("e", 50)]


def test_what_operations_around_it_take_counts_with_a_change() -> None:
    after = [("a", 9), ("b", 15), ("c", 36), ("d", 47), ("e", 44)]
    assert changes(BEFORE, after, {1: "one", 4: "other"}) == {"one": -1 - 5 + 6, "other": 7 - 6}
    assert changes(BEFORE, after, {1: "one", 4: "one"}) == {"one": 1}, "layers that are alike are one"
    assert changes(BEFORE, BEFORE, {1: "one"}) == {"one": 0} and changes(BEFORE, after, {}) == {}


def test_of_a_step_that_is_arranged_otherwise_changes_count_alone() -> None:
    after = [("a", 9), ("b and c", 49), ("d", 38), ("e", 50)]
    assert changes(BEFORE, after, {2: "one", 0: "other"}) == {"one": -2, "other": -1}


@pytest.mark.parametrize(("took", "way"), [((1000, 991, 995), 0), ((1000, 995, 985), 2)])
def test_a_gain_that_may_be_chance_is_none(took: tuple[int, int, int], way: int) -> None:
    _, ways, table = measured(*took)
    assert cut(table).way == ways[way].way


def test_what_was_not_measured_stays_as_estimated() -> None:
    work, ways, table = measured(70, 60, 50)
    rest = {way: n for way, n in table.taken[work].items() if way != ways[0].way}
    assert cut(Tuned({work: rest})).way == ways[0].way, "nothing is known of what it would replace"
    assert cut(Tuned({"another": table.taken[work]})).way == ways[0].way
    assert cut(table, capacity=24_000).way not in {t.way for t in ways}, "a smaller room, other tiles"


TELL = """
from tests.unit.test_tuned import KIND, cut
from trainlib_deployer.machine.tuned import Tuned
print(cut(Tuned()).measured_as)
"""


@pytest.mark.slow
def test_names_are_the_same_in_every_process() -> None:
    root = Path(__file__).parents[2]
    seed = {"PYTHONHASHSEED": "12345", "PYTHONPATH": str(root)}
    told = subprocess.run([sys.executable, "-c", TELL], cwd=root, env=seed, check=True, capture_output=True, text=True)
    assert told.stdout == f"{cut(Tuned()).measured_as}\n"


KERNELS = {"work": {"tl_matmul_rows_x_panels_f32"}, "other": {LOOP, "tl_matmul_vector_f32"}}


def test_a_table_is_kept_and_a_damaged_one_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "table.json"
    Table.at(path).add("cycles", {("work", "3 x 5"): 17, ("work", "5 x 3"): 19}, KERNELS)
    Table.at(path).add("cycles", {("other", "1"): 7, ("work", "5 x 3"): 18}, KERNELS)
    found = Table.at(path)
    assert found.taken == {"work": {"3 x 5": 17, "5 x 3": 18}, "other": {"1": 7}} and found.unit == "cycles"
    assert found.knows("work", "3 x 5") and not found.knows("other", "3 x 5") and not found.lost
    assert found.drop({"other", "none"}) and Table.at(path).taken == {"work": {"3 x 5": 17, "5 x 3": 18}}
    for damaged in ("", "[]", "{", json.dumps({"unit": "cycles", "taken": {"work": 3}}), "[" * 100_000):
        path.write_text(damaged)
        assert Table.at(path).taken == {}


def test_nothing_is_known_of_a_kernel_that_is_another_one_now(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    Table.at(path).add("cycles", {("work", "3 x 5"): 17, ("other", "1"): 7}, KERNELS)
    whole = json.loads(path.read_text())
    for changed, left in ((LOOP, {"work"}), ("tl_matmul_rows_x_panels_f32", {"other"})):
        kernels = {**whole["kernels"], changed: "0" * 16}
        path.write_text(json.dumps({**whole, "kernels": kernels}))
        found = Table.at(path)
        assert set(found.taken) == left and found.outdated == {changed} and found.lost == 1
    found.add("cycles", {("work", "3 x 5"): 11}, KERNELS)
    assert Table.at(path).taken == {"work": {"3 x 5": 11}, "other": {"1": 7}}


@pytest.mark.parametrize(
    ("file", "word", "other"),
    [
        ("kernels/matmul/matmul_rows_x_panels.c", "TL_PANELS", "TL_PACKED"),  # its own text
        ("kernels/tile/tile.c", "row += 4", "row += 8"),  # what it calls
        ("ukernels/tl_terms.h", "TL_FMA(0, 0)", "TL_FMA(1, 1)"),  # a macro of that
        ("ukernels/tl_product.h", "lo += last - first", "lo += last"),  # a function of a header
    ],
)
def test_what_a_kernel_is_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, word: str, other: str
) -> None:
    def now(name: str) -> str:
        return content.__wrapped__(name)

    monkeypatch.setattr(contents, "c_lib_dir", lambda: tmp_path / "c_lib")
    shutil.copytree(c_lib_dir(), tmp_path / "c_lib")
    names = ("tl_matmul_rows_x_panels_f32", "tl_depthwise_fw_f32", "a kernel that is no more")
    before = [now(name) for name in names]
    text = (tmp_path / "c_lib" / file).read_text()
    assert word in text
    (tmp_path / "c_lib" / file).write_text(text.replace(word, other))
    Library.at.cache_clear()
    after = [now(name) for name in names]
    Library.at.cache_clear()
    assert before[0] != after[0] and before[1:] == after[1:] and before[2] == ""


def test_comments_outdate_no_measurement() -> None:
    kernel = "/* One. */\nint tl_f(int n)\n{\n    return n; /* Two,\n * three */\n}\n"
    assert bare(kernel) == bare("int tl_f(int n)\n{ return n; }") == "int tl_f(int n) { return n; }"
    assert bare(kernel) != bare(kernel.replace("n;", "-n;"))


def test_a_cache_that_cannot_be_written_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    table = Table.at(tmp_path / "file" / "tuned" / "table.json")
    assert not table.add("cycles", {("work", "3 x 5"): 17}, KERNELS) and table.knows("work", "3 x 5")
    assert Table.at(tmp_path / "deep" / "table.json").add("cycles", {("work", "3 x 5"): 17}, KERNELS)


def test_measurements_that_come_with_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a chip as it is: not of one with fewer cores, nor of sizes without a chip."""
    work, ways, table = measured(70, 60, 50)
    path = tmp_path / "pulp-open.json"
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    monkeypatch.setattr(shipped, "shipped", lambda name: Table.at(path))
    chip = resolve("pulp-open", None, "40k", "2M")
    assert shipped.with_measurements(chip) is chip
    Table.at(path).add("cycles", {(work, way): n for way, n in table.taken[work].items()}, {work: {LOOP}})
    tuned = shipped.with_measurements(chip).tuned
    assert tuned is not None and cut(tuned).way == ways[2].way
    for other in (resolve("pulp-open", 7), resolve(None, 8, "48k"), resolve("siracusa")):
        assert shipped.with_measurements(other) is other


def test_what_slows_one_example_is_left_out_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that had it is compared again without it."""
    found = iter((Compared({"a", "b"}, set()), Compared({"b"}, {"a"}), Compared({"c"}, set()), Compared({"b"}, set())))
    asked: list[str] = []

    def compare(name: str, *_: object) -> Compared:
        asked.append(name)
        return next(found)

    monkeypatch.setattr(tune_table, "compare", compare)
    search = tune_table.Search(resolve("pulp-open"), "fp32")
    tune_table.compare_all(["mlp", "vae", "gru"], search, Table(Path("none")))
    assert asked == ["mlp", "vae", "gru", "mlp"]


def test_where_to_measure() -> None:
    assert Tune.parse(None) is None
    assert Tune.parse("qemu") == Tune("qemu", ROUNDS) and Tune.parse("gvsoc:7") == Tune("gvsoc", 7)
    for wrong in ("moon", "qemu:", "qemu:x", "qemu:0", "qemu:-1", ""):
        with pytest.raises(UsageError):
            Tune.parse(wrong)
