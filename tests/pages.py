"""What pages of documentation show: blocks of code in order, with what is said of them in a comment above.

    <!-- file: net.py -->            the block is the contents of a file
    <!-- not run: why -->            the block is not run; tests/e2e/test_docs.py lists all of these
    <!-- exits: 3 -->                the command fails with this code
    <!-- numbers may differ -->      figures of the output are not compared

A block without a language behind one that runs is its output.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(
    r"(?P<notes>(?:^<!-- [^\n]* -->\n)*)^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
NOTE = re.compile(r"<!-- (file|not run|exits|numbers may differ)(?:: ([^\n]*))? -->")
RUN = ("sh", "python", "ipython")


@dataclass(frozen=True)
class Block:
    """One piece of code of a page, and the output that the page shows for it."""

    page: str
    line: int
    language: str
    text: str
    notes: dict[str, str]
    shown: str = ""
    loose: bool = False

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """All that people read."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [p.relative_to(ROOT).as_posix() for p in found]


def blocks(page: str) -> list[Block]:
    """Outputs go with the block before them."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found: list[Block] = []
    for match in FENCE.finditer(text):
        notes = dict(NOTE.findall(match["notes"]))
        line = text.count("\n", 0, match.start("language")) + 1
        block = Block(page, line, match["language"], match["text"], notes)
        last = found[-1] if found else None
        if not block.language and last is not None and last.language in RUN and not last.shown:
            loose = "numbers may differ" in {**last.notes, **notes}
            found[-1] = Block(page, last.line, last.language, last.text, last.notes, block.text, loose)
        else:
            found.append(block)
    return found


def runnable(page: str) -> list[Block]:
    return [b for b in blocks(page) if b.language in RUN]
