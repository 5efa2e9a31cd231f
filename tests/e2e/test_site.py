"""The site: built strictly, readable from a disk, nothing fetched from elsewhere, pictures small."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT

MOST_PICTURES = 1_500_000  # bytes
pytestmark = pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="pip install '.[site]'")


def test_it_builds_strictly_and_needs_no_network(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = sorted(tmp_path.rglob("*.html"))
    assert len(pages) >= 40
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert "<!-- include" not in text, page
        assert not re.search(r"<code>[^<]*\\\|", text), f"{page}: a bar with the backslash that other readers need"
        assert not re.search(r'md-ellipsis">[^<]*`', text), f"{page}: a title with its marks"
        fetched = re.findall(r'<(?:script|img|iframe)[^>]* src="(https?:[^"]+)"|<link[^>]* href="(https?:[^"]+)"', text)
        assert not fetched, page
    assert (tmp_path / "examples/firmware/firmware.c").is_file()


def test_pictures_are_small() -> None:
    pictures = sorted((ROOT / "docs" / "pictures").glob("*.png"))
    assert len(pictures) >= 10 and sum(p.stat().st_size for p in pictures) < MOST_PICTURES
