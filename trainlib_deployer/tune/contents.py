"""What kernels are made of: their own text, that of what they call, and what headers make of their words."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

from trainlib_deployer.emit.library import Library, bare
from trainlib_deployer.emit.resources import c_lib_dir
from trainlib_deployer.kernels.table import ROWS

LOOP = "a generated loop"
EMIT = Path(__file__).resolve().parents[1] / "emit"
GENERATES = ("folds.py", "loop_text.py", "loops.py")  # loops
LIBRARY = ("tl_loop.h", "tl_math.h")  # ... and what they are written with
SOURCES = {row.symbol: row.source for row in ROWS}
LENGTH = 16


@cache
def content(kernel: str) -> str:
    """Of a row by its symbol, or of LOOP; empty where there is none of this name."""
    if kernel == LOOP:
        headers = Library.at(c_lib_dir()).headers
        return digest([*(EMIT / name for name in GENERATES), *(headers[name] for name in LIBRARY)], [])
    if kernel not in SOURCES:
        return ""
    library = Library.at(c_lib_dir())
    files = library.needed([c_lib_dir() / "kernels" / SOURCES[kernel]], [])
    texts = [library.sources[path] for path in files]
    named = library.mentioned(texts)
    return digest(files, [library.inline[name] for name in sorted(named & library.inline.keys())])


def digest(files: list[Path], texts: list[str]) -> str:
    generators = [path.read_text() for path in files if path.suffix == ".py"]
    written = [path.read_text() for path in files if path.suffix != ".py"]
    whole = "\0".join([*generators, *(bare(text) for text in (*written, *texts))])
    return sha256(whole.encode()).hexdigest()[:LENGTH]
