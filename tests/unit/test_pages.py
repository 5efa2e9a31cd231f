"""Links of the pages lead somewhere, every page is in the navigation, and parts that others include are there."""

from __future__ import annotations

import re

import pytest

from tests.pages import ROOT, pages

LINK = re.compile(r"\]\(([^)\s]+)\)")
INCLUDE = re.compile(r"<!-- include (\S+): (\w+) -->")


def prose(page: str) -> str:
    """Without code, in which brackets are something else."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(page: str) -> set[str]:
    """As both GitHub and MkDocs name headings."""
    headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


def broken(page: str) -> list[str]:
    lost = []
    for link in LINK.findall(prose(page)):
        if re.match(r"https?:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        wrong_anchor = (
            target.suffix == ".md" and anchor and anchor not in anchors(target.resolve().relative_to(ROOT).as_posix())
            if target.is_file()
            else False
        )
        if not target.exists() or wrong_anchor:
            lost.append(link)
    return lost


@pytest.mark.parametrize("page", pages())
def test_links_lead_somewhere(page: str) -> None:
    assert broken(page) == []


def test_every_page_is_in_the_navigation() -> None:
    config = (ROOT / "mkdocs.yml").read_text()
    missing = [p.name for p in (ROOT / "docs").glob("*.md") if f" {p.name}\n" not in config]
    assert missing == []


FILE = re.compile(r"`((?:[\w*]+/)+[\w*.]+\.(?:py|c|h|inc|j2|ld|S))`")
ROOMS = re.compile(r"`((?:\w+/)+)`")
OF_SOURCES = [
    "CONTRIBUTING.md",
    *(f"docs/{p}.md" for p in ("architecture", "glossary", "kernels", "machine", "math", "one_operation")),
]


def lost(text: str, names: re.Pattern[str]) -> list[str]:
    """Paths in a text that lead nowhere from the repository, the package or the C library."""
    beginnings = [ROOT, ROOT / "trainlib_deployer", ROOT / "c_lib"]
    return [n for n in names.findall(text) if not any(next(b.glob(n.rstrip("/")), None) for b in beginnings)]


@pytest.mark.parametrize("page", [*OF_SOURCES, *(p for p in pages() if p.startswith("docs/decisions/"))])
def test_files_that_pages_name_are_there(page: str) -> None:
    assert lost((ROOT / page).read_text(encoding="utf-8"), FILE) == []


def test_every_room_has_its_place_in_the_architecture() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rooms = {p.parent.name for p in (ROOT / "trainlib_deployer").glob("*/__init__.py")}
    assert len(rooms) > 20
    assert rooms <= {n.rstrip("/") for n in ROOMS.findall(text)}


def test_names_of_what_is_gone_are_found() -> None:
    assert lost("`plan/tiled.py`, `plan/tiles.py`, `ukernels/tl_*.inc`, `hal/none/*.c`", FILE) == [
        "plan/tiled.py",
        "hal/none/*.c",
    ]


def test_what_is_included_is_there() -> None:
    found = [part for page in pages() for part in INCLUDE.findall((ROOT / page).read_text(encoding="utf-8"))]
    assert len(found) >= 4
    for name, part in found:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert text.count(f"<!-- [{part}] -->") == text.count(f"<!-- [/{part}] -->") == 1, part
