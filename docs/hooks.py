"""MkDocs: what pages link to outside of docs/ goes into the site, and every decision into its list."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
INCLUDE = re.compile(r"<!-- include (\S+): (\w+) -->")
IN_TABLE = re.compile(r"^\|.*$", re.MULTILINE)
OUTSIDE = re.compile(r"\]\(((?:\.\./)+)((?:examples|CONTRIBUTING|CHANGELOG)[^)#]*)\)")


def on_files(files: Files, config: Any) -> Files:
    """Sources of examples that pages link to, as they are."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for _, name in OUTSIDE.findall(page.read_text(encoding="utf-8")):
            if (ROOT / name).is_file() and files.get_file_from_path(name) is None:
                files.append(File(name, str(ROOT), config.site_dir, use_directory_urls=False))
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    """Links out of docs/ become links to the copies; folders, which have no page, become words. A bar in code within a
    table needs no backslash here, as it does elsewhere."""

    def moved(match: re.Match[str]) -> str:
        up, name = match.groups()
        inside = up.removeprefix("../") + name
        return f"]({inside})" if (ROOT / name).is_file() else "]"

    whole = OUTSIDE.sub(moved, INCLUDE.sub(included, markdown))
    return IN_TABLE.sub(lambda row: row[0].replace("\\|", "|"), whole)


def included(match: re.Match[str]) -> str:
    """A part of the README, so that it is written once."""
    name, part = match.groups()
    text = (ROOT / name).read_text(encoding="utf-8").partition(f"<!-- [{part}] -->\n")[2]
    return text.partition(f"<!-- [/{part}] -->")[0].replace("](docs/", "](").replace("[docs/", "[")


def on_config(config: Any) -> Any:
    """Decisions by their titles, without a line of mkdocs.yml for each."""
    [decisions] = [entry["Decisions"] for entry in config.nav if "Decisions" in entry]
    for path in sorted((ROOT / "docs" / "decisions").glob("*.md")):
        if f"decisions/{path.name}" not in decisions:
            title = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
            decisions.append({title.replace("`", ""): f"decisions/{path.name}"})
    return config
