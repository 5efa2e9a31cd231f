"""Who imports whom: no circles in the package, whether at the top of a file, for types alone or inside a function."""

from __future__ import annotations

import ast
import configparser
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.unit.source_trees import parsed

PACKAGE = "trainlib_deployer"
ROOT = Path(__file__).resolve().parents[2]


def module_of(path: Path, root: Path) -> str:
    name = ".".join(path.relative_to(root).with_suffix("").parts)
    return name.removesuffix(".__init__")


def imported(path: Path) -> Iterator[tuple[str, bool]]:
    """Names that a file imports, of modules or in them, and whether a function does."""
    for node, within in statements(parsed(path), within=False):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield f"{node.module}.{alias.name}", within
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, within


def statements(node: ast.AST, within: bool) -> Iterator[tuple[ast.AST, bool]]:
    """All that are below a node, and whether a function has them."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield child, within
            yield from statements(child, within or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def arrows(root: Path) -> dict[str, set[str]]:
    """Module to the modules of the package that it imports. A kernel's row is handed the kind that it is for, whose
    family asks the table: the row names its type, no more."""
    paths = {module_of(p, root): p for p in sorted((root / PACKAGE).rglob("*.py"))}
    found: dict[str, set[str]] = {}
    for module, path in paths.items():
        targets = set()
        for name, _ in imported(path):
            target = name if name in paths else name.rpartition(".")[0]
            row_of_kind = module.startswith(f"{PACKAGE}.kernels.") and target.startswith(f"{PACKAGE}.ops.")
            if target in paths and target != module and not row_of_kind:
                targets.add(target)
        found[module] = targets
    return found


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules each of which leads to every other."""
    reached = {m: reach(graph, m) for m in graph}
    groups = {tuple(sorted(n for n in reached[m] if m in reached[n])) for m in graph if m in reached[m]}
    return [list(g) for g in sorted(groups)]


def reach(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    left = [start]
    while left:
        for target in graph[left.pop()] - seen:
            seen.add(target)
            left.append(target)
    return seen


def test_no_circle_of_imports() -> None:
    assert circles(arrows(ROOT)) == []


def test_the_planner_imports_nothing_inside_a_function() -> None:
    rooms = ("plan", "machine", "arena", "program", "passes", "emit", "check")
    paths = [p for room in rooms for p in sorted((ROOT / PACKAGE / room).rglob("*.py"))]
    assert len(paths) > 40
    late = [f"{module_of(p, ROOT)}: {name}" for p in paths for name, inner in imported(p) if inner]
    assert late == []


def asked_of(room: str) -> set[str]:
    """What emission imports from another room."""
    found = {n for p in (ROOT / PACKAGE / "emit").rglob("*.py") for n, _ in imported(p)}
    return {n for n in found if n.startswith(f"{PACKAGE}.{room}.")}


def test_emission_asks_the_planner_for_records_alone() -> None:
    records = asked_of("plan")
    assert len(records) > 5
    assert {n for n in records if not n.rpartition(".")[2][0].isupper()} == set()
    assert not asked_of("far") | asked_of("arena") | asked_of("passes")


PLAIN = ("program", "arena", "machine")  # rooms that know nothing of PyTorch
BLOCKED = """
import sys
from importlib import import_module
sys.modules["torch"] = None
for module in sys.argv[1:]:
    import_module(module)
"""


def plainly_imported(*modules: str) -> str:
    """What Python complains of where these are imported and PyTorch cannot be."""
    run = subprocess.run(
        [sys.executable, "-c", BLOCKED, *modules], check=False, capture_output=True, text=True, timeout=60, cwd=ROOT
    )
    return run.stderr


def test_what_describes_programs_needs_no_pytorch() -> None:
    modules = [f"{PACKAGE}.formats"] + [
        module_of(p, ROOT) for room in PLAIN for p in sorted((ROOT / PACKAGE / room).rglob("*.py"))
    ]
    assert len(modules) > 20
    assert plainly_imported(*modules) == ""
    assert "import of torch halted" in plainly_imported(f"{PACKAGE}.ops.matmul")


def test_every_package_is_installed() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    packages = {module_of(path, ROOT) for path in (ROOT / PACKAGE).rglob("__init__.py")}
    assert packages | {"golden", f"{PACKAGE}.c_lib"} == set(setup["options"]["packages"].split())


def test_circles_are_found(tmp_path: Path) -> None:
    files = {
        "a": "from trainlib_deployer.b import x",
        "b": "def f():\n    from trainlib_deployer import c",
        "c": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from trainlib_deployer.a import y",
        "d": "import trainlib_deployer.a",
    }
    (tmp_path / PACKAGE).mkdir()
    for name, text in files.items():
        (tmp_path / PACKAGE / f"{name}.py").write_text(text)
    assert circles(arrows(tmp_path)) == [[f"{PACKAGE}.{n}" for n in "abc"]]
