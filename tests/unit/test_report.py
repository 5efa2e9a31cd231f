"""report.html: whole, harmless, offline, and the same every time."""

from __future__ import annotations

import copy
import random
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from trainlib_deployer.emit.report import PHASES, ROLES, report

VOID = {"meta", "br", "img", "link", "input", "hr"}
PLAN_ROLES = (
    "parameter state buffer input target constant scalar activation gradient output loss scratch stack surprise".split()
)
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


def buffer(i: int, level: str, ops: int, draw: random.Random) -> dict[str, Any]:
    birth = draw.randrange(ops)
    return {
        "name": f"layer{i}.value",
        "level": level,
        "offset": draw.randrange(0, 4000, 4),
        "size": draw.randrange(4, 900, 4),
        "birth": birth,
        "death": draw.randrange(birth + 1, ops + 1),
        "role": draw.choice(PLAN_ROLES),
        "layer": f"block{i % 7}.conv",
        "aliases": [f"layer{i}.twin"] if i % 5 == 0 else [],
    }


def op(i: int, ops: int) -> dict[str, Any]:
    return {
        "index": i,
        "name": f"block{i % 7}.conv.{i}",
        "kind": "conv2d_fw",
        "phase": PHASES[i * len(PHASES) // ops],
        "layer": f"block{i % 7}",
        "source": f"net.py:{i}: y{i} = self.conv(x)",
        "kernel": "tl_conv2d_fw_f32",
        "macs": i * 1000 if i % 3 else None,
        "tiles": 1 + i % 4,
        "moved": i * 64,
        "reads": [],
        "writes": [],
        "fused": [f"block{i % 7}.conv.{i}", f"relu.{i}"] if i % 6 == 0 else [],
    }


def level(name: str, buffers: list[dict[str, Any]], size: int, ops: int) -> dict[str, Any]:
    used = max((b["offset"] + b["size"] for b in buffers if b["level"] == name), default=0)
    figures = {"persistent": 12, "arena": used - 12, "stacks": 0, "peak_live": used, "lower_bound": used - 8}
    more = {"peak_at": ops // 3, "live_at_peak": [], "proved": False, "method": "greedy by birth"}
    return {"size": size, "used": used, "headroom": size - used, **figures, **more}


def plan(ops: int = 23, buffers: int = 71, seed: int = 3) -> dict[str, Any]:
    draw = random.Random(seed)
    found = [buffer(i, "L1" if i % 3 else "L2", ops, draw) for i in range(buffers)]
    levels = {"L1": level("L1", found, 6000, ops), "L2": level("L2", found, 1 << 20, ops)}
    peak = sum(v["used"] for v in levels.values())
    counts = {"total": 12345, "trained": 2345}
    return {
        "tool": {"name": "trainlib-deploy", "version": "9.8.7"},
        "model": {"name": "odd_net", "steps": 17, "accumulate": 3, "scheduled": True, "parameters": counts},
        "target": {"name": "custom", "cores": 5, "l1": 6000, "l2": 1 << 20},
        "levels": levels,
        "buffers": found,
        "tensors": {b["name"]: {} for b in found[::2]},
        "ops": [op(i, ops) for i in range(ops)],
        "certificate": {"peak": peak, "lower_bound": peak - 16, "gap": 16, "proved_optimal": False, "checked": False},
        "traffic": {"bytes": 999_424, "lower_bound": 500_000, "hidden_estimate": 0.4321},
        "trace": [],
    }


def rectangles(page: Page) -> list[tuple[dict[str, str], str]]:
    """The buffers drawn: the strip of phases has no space of its own."""
    return [(a, t) for a, t in page.of("rect") if " bytes at " in t]


def life(first: int, last: int, ops: int) -> str:
    if (first, last) == (0, ops - 1):
        return "the whole step"
    return f"operation {first}" if first == last else f"operations {first} to {last}"


def test_every_buffer_is_drawn_where_it_lies() -> None:
    p = plan()
    drawn = rectangles(Page(report(p)))
    assert len(drawn) == len(p["buffers"])
    for b in p["buffers"]:
        [(at, title)] = [(a, t) for a, t in drawn if b["name"] in re.split("[,;] ", t)]
        height = p["levels"][b["level"]]["used"]
        assert (int(at["x"]), int(at["width"])) == (b["birth"], b["death"] - b["birth"])
        assert (int(at["y"]), int(at["height"])) == (height - b["offset"] - b["size"], b["size"])
        assert f"{b['size']:,} bytes" in title and title.endswith(f"layer {b['layer']}")
        assert f"; {life(b['birth'], b['death'] - 1, len(p['ops']))}; " in title
        assert all(alias in title for alias in b["aliases"])
        assert at["class"].split()[0] in ROLES


def test_every_buffer_and_operation_has_a_row() -> None:
    p = plan()
    page = Page(report(p))
    headers = [text for _, text in page.of("th")]
    assert all(", ".join([b["name"], *b["aliases"]]) in headers for b in p["buffers"])
    rows = {a["id"]: text for a, text in page.of("tr") if a.get("id", "").startswith("op-")}
    assert len(rows) == len(p["ops"])
    for o in p["ops"]:
        for shown in (o["name"], o["layer"], o["kernel"], o["source"], f"{o['macs'] or 0:,}", *o["fused"]):
            assert shown in rows[f"op-{o['index']}"] or shown == "0"
        assert rows[f"op-{o['index']}"].count(o["name"]) == 1
        assert f"{o['moved']:,}" in rows[f"op-{o['index']}"] or not o["moved"]


def test_the_figures_and_the_peak() -> None:
    p = plan()
    text = report(p)
    page = Page(text)
    said = " ".join(t for _, t in page.of("dd"))
    for name in p["levels"]:
        v = p["levels"][name]
        for figure in ("size", "used", "lower_bound", "headroom"):
            assert f"{v[figure]:,}" in said
        live = [b for b in p["buffers"] if b["level"] == name and b["birth"] <= v["peak_at"] < b["death"]]
        five = sorted(live, key=lambda b: (-b["size"], b["offset"], b["birth"], b["name"]))[:5]
        start = text.index(f'aria-label="Largest buffers of {name}"')
        shown = text[start : text.index("</table>", start)]
        assert [shown.index(b["name"]) for b in five] == sorted(shown.index(b["name"]) for b in five)
        assert shown.count("<tr>") == 1 + len(five) == 6
    assert {float(a["x1"]) for a, _ in page.of("line")} == {v["peak_at"] + 0.5 for v in p["levels"].values()}
    for shown in ("12,345", "2,345", "17, each over 3 batches", "999,424", "2.00 times", "43.2 %", "gap 8 bytes"):
        assert shown in said
    assert "it is not proved" in text


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
    page = Page(text)
    assert not page.of("script") and text.isascii()
    cells = [t for _, t in page.of("td")]
    assert NASTY in cells and next(t for _, t in page.of("h1")).startswith(NASTY)
    assert sum(NASTY in t for _, t in rectangles(page)) == 2


def test_nothing_comes_from_elsewhere() -> None:
    text = report(plan())
    assert not re.search(r"https?:|//|@import|url\(|<script|<link|<iframe|javascript:|data:", text)
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
    p = plan(ops=400, buffers=600)
    for b in p["buffers"]:
        b["name"] = b["layer"] = "features.stage3.block11.depthwise." + b["name"]
    assert len(report(p)) < 1_000_000


@pytest.mark.parametrize("ops", [1, 2, 3])
def test_small_and_empty_ones(ops: int) -> None:
    p = plan(ops=ops, buffers=4)
    p["buffers"] = [b for b in p["buffers"] if b["level"] == "L1"]
    p["levels"]["L2"] |= {"size": 0, "used": 0, "headroom": 0, "lower_bound": 0}
    p["traffic"] = {"bytes": 0, "lower_bound": 0, "hidden_estimate": 1.0}
    p["model"] |= {"accumulate": 1, "scheduled": False}
    text = report(p)
    assert len(rectangles(Page(text))) == len(p["buffers"])
    assert "Nothing lies here" in text and "Nothing crosses" in text


def colours(text: str) -> list[dict[str, str]]:
    """The light and the dark set; the dark one has all that are seen."""
    light, dark = text.split("prefers-color-scheme: dark", 1)
    return [dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]{3,6});", part)) for part in (light, dark)]


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
    """What must be read: 4.5 to 1; what must be seen: 3 to 1."""
    of = colours(report(plan()))[scheme]
    assert {*ROLES, *PHASES} <= set(of)
    for ground in (of["page"], of["panel"]):
        assert all(contrast(of[name], ground) >= 4.5 for name in ("text", "dim", "link"))
        assert {n: contrast(of[n], ground) for n in (*ROLES, *PHASES, "peak") if contrast(of[n], ground) < 3} == {}
