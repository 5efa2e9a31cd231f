"""The page's modules as one script. Each is an ES module of its own, to be read and linted as such; here they are put
one behind the other, those first that others import, without the words that would load files."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ASSETS = Path(__file__).parent / "assets"
ENTRY = "main.js"
IMPORT = re.compile(r'^import \{[^}]*\} from "\./(?P<module>[\w.]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=function|const|class)", re.MULTILINE)


def ordered(module: str, found: dict[str, str]) -> dict[str, str]:
    """A module behind all that it imports."""
    text = (ASSETS / module).read_text(encoding="utf-8")
    for match in IMPORT.finditer(text):
        if match["module"] not in found:
            ordered(match["module"], found)
    found[module] = text
    return found


@cache
def script() -> str:
    """Names at the top of modules differ, so that they can share a scope; a test holds them to it. All is ASCII."""
    texts = ordered(ENTRY, {}).items()
    text = "\n".join(f"// ---- {name}\n" + EXPORT.sub("", IMPORT.sub("", text)) for name, text in texts)
    return "".join(c if c.isascii() else f"\\u{ord(c):04x}" for c in text)
