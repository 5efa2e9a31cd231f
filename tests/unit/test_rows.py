"""The table of kernels as a whole: each row has its source, and a project that calls it gets all that it needs."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

from tests.unit.kernel_harness import C_LIB
from trainlib_deployer.emit.library import Library
from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.table import ROWS

KERNELS = C_LIB / "kernels"


def symbols(objects: Path) -> dict[str, tuple[set[str], set[str]]]:
    """By source: the library's own symbols that it defines, and those that it needs."""
    found: dict[str, tuple[set[str], set[str]]] = {p.stem: (set(), set()) for p in objects.glob("*.o")}
    names = [f"{name}.o" for name in found]
    out = subprocess.run(["nm", "-A", "-g", *names], check=True, cwd=objects, capture_output=True, text=True).stdout
    for line in out.splitlines():
        *_, kind, symbol = line.split()
        if symbol.startswith("tl_"):
            found[line.partition(".o:")[0]][kind == "U"].add(symbol)
    return found


def test_a_project_gets_what_a_row_needs_and_no_more(lib: ctypes.CDLL, kernel_objects: Path) -> None:
    library, of = Library.at(C_LIB), symbols(kernel_objects)
    rows = {r.symbol for r in ROWS}
    for row in (r for r in ROWS if r.storage is not DType.BF16):  # sources of halves, built otherwise
        assert hasattr(lib, row.symbol)
        copied = [p.stem for p in library.needed([KERNELS / row.source], [])]
        defined, wanted = (set().union(*(of[name][i] for name in copied)) for i in (0, 1))
        assert wanted <= defined | of["host"][0], row.symbol
        assert defined & rows == {row.symbol}
        if row.storage is DType.F16:
            assert not {name for name in copied if f"{name}_f16" in of}, "what is there for floats, too"


def test_no_source_is_without_a_use() -> None:
    """Every file of a family is a row's, or defines what another one mentions."""
    library = Library.at(C_LIB)
    used = {path for row in ROWS for path in library.needed([KERNELS / row.source], [])}
    families = {Path(row.source).parts[0] for row in ROWS}
    assert {p for p in library.sources if p.relative_to(KERNELS).parts[0] in families} <= used


def test_symbols_are_one_row_each() -> None:
    assert len({r.symbol for r in ROWS}) == len(ROWS)
