"""report.html: whole, harmless, offline, and the same every time."""

from __future__ import annotations

import copy
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.report_plan import evaluated, plan
from trainlib_deployer.notebook.picture import COLOURS
from trainlib_deployer.report.compare import comparison
from trainlib_deployer.report.facts import facts, role_sums
from trainlib_deployer.report.page import report
from trainlib_deployer.report.roles import ROLES, label_of_buffer
from trainlib_deployer.report.runs import Measured, read_profile, read_verdict
from trainlib_deployer.report.scripts import ASSETS, script

VOID = {"meta", "br", "img", "link", "input", "hr"}
NASTY = "x = a < b & \"c\" '</script><script>alert(1)</script>' # näh \u2028 https://example.org"


class Page(HTMLParser):
    """Elements with their attributes and text; fails when tags do not balance."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str], list[str]]] = []
        self.found: list[tuple[str, dict[str, str], str]] = []
        self.feed(text)
        self.close()
        assert not self.open, [tag for tag, _, _ in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {k: v or "" for k, v in attrs}
        assert len(attributes) == len(attrs), f"an attribute twice: {attrs}"
        if tag in VOID:
            self.found.append((tag, attributes, ""))
        else:
            self.open.append((tag, attributes, []))

    def handle_endtag(self, tag: str) -> None:
        name, attributes, texts = self.open.pop()
        assert tag == name, f"</{tag}> closes <{name}>"
        text = "".join(texts)
        self.found.append((tag, attributes, text))
        if self.open:
            self.open[-1][2].append(text)

    def handle_data(self, data: str) -> None:
        if self.open:
            self.open[-1][2].append(data)

    def of(self, tag: str) -> list[tuple[dict[str, str], str]]:
        return [(attributes, text) for name, attributes, text in self.found if name == tag]


def data(text: str) -> dict[str, Any]:
    """What the page's scripts are given."""
    [found] = [t for a, t in Page(text).of("script") if a.get("type") == "application/json"]
    return dict(json.loads(found))


def rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def test_every_buffer_and_operation_is_drawn() -> None:
    p = plan()
    page = data(report(p))
    words, levels, roles = page["words"], list(p["levels"]), list(ROLES)
    for b, row in zip(p["buffers"], rows(page["buffers"]), strict=True):
        assert row["label"] == ", ".join([b["name"], *b["aliases"]])
        assert [row[k] for k in ("offset", "size", "birth", "death")] == [
            b[k] for k in ("offset", "size", "birth", "death")
        ]
        assert levels[row["level"]] == b["level"] and words[row["layer"]] == b["layer"]
        assert roles[row["role"]] in ROLES
    for o, row in zip(p["ops"], rows(page["ops"]), strict=True):
        assert (row["title"], row["macs"], row["moved"], row["tiles"]) == (
            o["name"],
            o["macs"] or 0,
            o["moved"],
            o["tiles"],
        )
        assert all(words[row[k]] == o[k] for k in ("phase", "layer", "source", "kernel"))


def test_roles_add_up_to_what_is_alive_at_the_peak() -> None:
    p = plan()
    sums = {s.key: s for s in role_sums(p)}
    for name, level in p["levels"].items():
        live = [b for b in p["buffers"] if b["level"] == name and b["birth"] <= level["peak_at"] < b["death"]]
        assert sum(s.at_peak[name] for s in sums.values()) == sum(b["size"] for b in live)
        weights = sum(b["size"] for b in live if b["role"] == "parameter")
        assert ("weights" in sums and sums["weights"].at_peak[name]) == weights or not weights
    text = report(p)
    shown = [t.strip() for _, t in Page(text).of("th")]
    assert [t for t in shown if t in ROLES.values()] == [s.text for s in sums.values()]


def test_pieces_are_named_after_their_tensors() -> None:
    p = plan()
    p["ops"][7] |= {"streams": ["conv.weight", "image"]}
    name = {"tile 7.1": "piece of image", "second 7.0": "next piece of conv.weight"}
    name |= {"scratch 7": f"working memory of {p['ops'][7]['name']}"}
    name |= {"tile 7.9": f"list of copies of {p['ops'][7]['name']}", "tile 9999.0": "tile 9999.0", "conv": "conv"}
    for given, shown in name.items():
        assert label_of_buffer({"name": given, "aliases": []}, p) == shown


def test_the_figures() -> None:
    p = plan()
    said = " ".join(t for _, t in Page(report(p)).of("dd"))
    for v in p["levels"].values():
        for figure in ("size", "used", "lower_bound", "headroom"):
            assert f"{v[figure]:,}" in said
    for shown in ("12,345", "2,345", "17, each over 3 batches", "999,424", "43 %", "gap 8 bytes"):
        assert shown in said
    assert "it is not proved" in report(p)


def test_a_proved_plan_says_so() -> None:
    p = plan()
    p["certificate"] |= {"gap": 0, "proved_optimal": True}
    p["levels"]["L1"] |= {"proved": True, "lower_bound": p["levels"]["L1"]["used"]}
    text = report(p)
    assert "It is proved" in text and "proved the least" in text and "it is not proved" not in text


def test_what_users_write_is_text() -> None:
    p = plan()
    p["ops"][3]["source"] = p["ops"][4]["layer"] = p["buffers"][0]["layer"] = p["model"]["name"] = NASTY
    p["buffers"][1]["name"] = p["ops"][5]["name"] = p["ops"][5]["kernel"] = NASTY
    text = report(p)
    assert len(Page(text).of("script")) == 2 and text.isascii() and "alert(1)" in text
    page = data(text)
    assert next(t for _, t in Page(text).of("h1")) == NASTY
    assert NASTY in page["words"] and rows(page["ops"])[5]["title"] == NASTY
    assert rows(page["buffers"])[1]["label"].startswith(NASTY)


def test_nothing_comes_from_elsewhere() -> None:
    text = report(plan()).replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|@import|url\(|<link|<iframe|javascript:|fetch\(|XMLHttp", text)
    assert "default-src 'none'" in text
    page = Page(text)
    ids = [a["id"] for _, a, _ in page.found if "id" in a]
    assert len(ids) == len(set(ids))
    for _, attributes, _ in page.found:
        assert not {"src", "srcset", "action"} & set(attributes) and not any(k.startswith("on") for k in attributes)
        assert attributes.get("href", "#memory").removeprefix("#") in ids


def test_same_plan_same_bytes_and_untouched() -> None:
    p = plan()
    before = copy.deepcopy(p)
    assert report(p) == report(p) == report(copy.deepcopy(p))
    assert p == before


def test_large_nets_stay_small() -> None:
    """Of 400 operations and 600 buffers, at most 150 bytes each beside what every page has."""
    p = plan(ops=400, buffers=600)
    for b in p["buffers"]:
        b["name"] = b["layer"] = "features.stage3.block11.depthwise." + b["name"]
    assert len(report(p)) < len(report(plan(1, 1))) + 1000 * 150


def test_a_forward_pass_alone_speaks_of_no_training() -> None:
    p = plan()
    p["model"]["inference"] = True
    text = report(p)
    ids = {a["id"] for _, a, _ in Page(text).found if "id" in a}
    assert not {"loss", "what-if"} & ids and "Forward pass of" in text and "Forward and backward" not in text
    assert {a["href"][1:] for a, _ in Page(text).of("a")} <= ids


@pytest.mark.parametrize("ops", [1, 2, 3])
def test_small_and_empty_ones(ops: int) -> None:
    p = plan(ops=ops, buffers=4)
    p["buffers"] = [b for b in p["buffers"] if b["level"] == "L1"]
    p["levels"]["L2"] |= {"size": 0, "used": 0, "headroom": 0, "lower_bound": 0}
    p["traffic"] = {"bytes": 0, "lower_bound": 0, "hidden_estimate": 1.0}
    p["model"] |= {"accumulate": 1, "scheduled": False}
    text = report(p)
    assert len(data(text)["buffers"]["rows"]) == len(p["buffers"])
    assert "Copied between" not in text


def test_the_verdict_is_summed_by_tensor(tmp_path: Path) -> None:
    tensors = [
        {"name": "w", "layer": "", "kind": "gradient", "step": s, "rel_l2": e, "tolerance": 4.0, "passed": e < 4}
        for s, e in enumerate((1.0, 7.0, 3.0))
    ]
    found = {"passed": False, "on": "qemu", "steps": 3, "losses": [1.5, float("nan"), 1], "golden_losses": [1, 2, 3]}
    counts = {"operations": [{"position": 2, "name": "x", "instructions": 300}]}
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "verdict.json").write_text(
        json.dumps({**found, "tensors": tensors, "cycles_or_instructions": counts})
    )
    verdict = read_verdict(tmp_path)
    assert verdict is not None
    text = report(plan(), verdict)
    page = data(text)
    [row] = rows(page["verified"])
    assert (row["name"], row["steps"], row["error"], row["passed"]) == ("w", 3, 7.0, False)
    assert page["losses"] == {"program": [1.5, None, 1.0], "pytorch": [1.0, 2.0, 3.0]}
    assert "2 of 3 tensors of 3 steps on qemu agree: the verification failed" in text
    assert rows(page["ops"])[2]["measured"] == 100 and page["unit"] == "instructions"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"passed": 1}', '{"passed": true, "tensors": 3}'])
def test_a_damaged_verdict_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "verdict.json").write_text(text)
    assert read_verdict(tmp_path) is None and read_verdict(tmp_path / "build") is None


PROFILE = """
   nanoseconds   bytes moved for transfers       share %          MACs     MACs each  operation (nanoseconds of core 0)
      20436004         81856        130773          25.5        442368         0.022  conv: conv2d
        242750         82432        102901           0.3             0         0.000  bn: batch_norm
         33740             0             0           0.0             0         0.000  bn: batch_norm
     148197386       8817144      39073142         100.0      37062528         0.250  all operations
PASS: 340 of 340 tensors agree with PyTorch
"""


PULP = """
        cycles  instructions   load stalls  L1 conflicts   bytes moved for transfers       share %  operation (cycles)
         45035         29705          1649             0             0             0          21.0  conv: conv2d
         20155         15137          1106             7             0             0           9.4  dw1: conv2d
        215863        140000          9000            70             0             0         100.0  all operations
"""


def test_a_profile_is_read() -> None:
    assert read_profile(PULP, 2) == Measured("cycles", {0: 45035, 1: 20155})
    assert read_profile(PROFILE, 3) == Measured("nanoseconds", {0: 20436004, 1: 242750, 2: 33740})
    assert read_profile(PROFILE, 4) is None and read_profile("nothing", 3) is None
    assert read_profile(PROFILE.replace("nanoseconds", "cycles") + PROFILE, 3) == read_profile(PROFILE, 3)


def test_a_comparison_says_what_changed() -> None:
    one, other = plan(), plan(buffers=73, seed=4)
    other["ops"][4] |= {"cycles": 77_000, "layer": "slow"}
    found = comparison(one, other)
    sums = {d.what: (d.here, d.there) for d in found.sums}
    assert sums["bytes of L1"] == (one["levels"]["L1"]["used"], other["levels"]["L1"]["used"])
    assert sums["cycles, forecast"] == (0, 77_000)
    roles = {d.what: d.here for d in found.roles}
    assert any(roles.values()) and {r.text: sum(r.at_peak.values()) for r in role_sums(one)}.items() <= roles.items()
    assert [(d.what, d.there, d.change) for d in found.layers] == [("slow", 77_000, "new")]
    text = report(one, other=other)
    assert "odd_net on 5 cores" in text and "77,000" in text and 'id="comparison"' not in report(one)


def test_an_evaluation_is_no_part_of_the_step() -> None:
    alone, both = plan(), evaluated(plan(), 7)
    more = dict(facts(both))
    assert more.pop("An evaluation, beside it") == (
        "7 operations, 131,000 multiply-adds; 210 cycles, 623.81 multiply-adds a cycle"
    )
    assert more == dict(facts(alone))
    assert dict(facts(alone))["Chip"].startswith("5 cores; L1 ")
    sums = {d.what: (d.here, d.there) for d in comparison(alone, both).sums}
    assert sums.pop("cycles of an evaluation, forecast") == (0, 210)
    assert all(here == there for here, there in sums.values()) and not comparison(alone, both).layers
    words = "then those of an evaluation"
    assert words in report(both) and words not in report(alone)


def test_modules_share_a_scope() -> None:
    """Every import is exported by the module that it names, and no two modules use a name at their top."""
    modules = {p.name: p.read_text() for p in ASSETS.glob("*.js")}
    declared = re.compile(r"^(?:export )?(?:function|const|let|class) (\w+)", re.MULTILINE)
    everything = [name for text in modules.values() for name in declared.findall(text)]
    assert len(everything) == len(set(everything)) > 50
    for text in modules.values():
        for names, module in re.findall(r'^import \{([^}]*)\} from "\./([\w.]+)";$', text, re.MULTILINE):
            for name in (n.strip() for n in names.split(",")):
                assert re.search(rf"^export (?:function|const|class) {name}\b", modules[module], re.MULTILINE), name
    whole = script()
    assert not re.search(r"^(import|export)\b", whole, re.MULTILINE) and whole.isascii()
    assert all(f"// ---- {name}\n" in whole for name in modules)


def colours(scheme: int) -> dict[str, str]:
    """The light set or the dark one."""
    style = (ASSETS / "style.css").read_text()
    pairs = re.findall(r"--([a-z]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", style)
    return {name: both[scheme] for name, *both in pairs}


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_contrast(scheme: int) -> None:
    """What must be read: 4.5 to 1; what must be seen, and the names in it: 3 to 1."""
    of = colours(scheme)
    assert set(ROLES) <= set(of)
    for ground in (of["page"], of["panel"]):
        assert all(contrast(of[name], ground) >= 4.5 for name in ("text", "dim", "link", "good", "bad"))
        assert {n: contrast(of[n], ground) for n in ROLES if contrast(of[n], ground) < 3} == {}


def test_pictures_in_notebooks_are_seen_in_the_dark_too() -> None:
    """Their themes are not the browser's: one set of colours is seen on both grounds."""
    assert set(COLOURS) == set(ROLES)
    for ground in ("#ffffff", "#111111"):
        assert {n: c for n, c in COLOURS.items() if contrast(c, ground) < 3} == {}
