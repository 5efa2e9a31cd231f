"""What is decided once stands in one file: a second home is found here, and so are numbers that Python and C share."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.unit.source_trees import PACKAGE, nodes, parsed
from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.panels import BLOCK
from trainlib_deployer.machine.targets import MOST_CORES
from trainlib_deployer.program.expr import C_FORM
from trainlib_deployer.run import BACKENDS
from trainlib_deployer.run.emulated import EMULATED_CORES

ROOT = Path(__file__).resolve().parents[2]
C_LIB = ROOT / "c_lib"
PLANNED = ("program", "ops", "kernels", "passes", "plan", "emit", "check", "advice")  # rooms that handle kinds


def names_back_ends(tree: ast.AST) -> bool:
    return any(isinstance(n, ast.Constant) and n.value in BACKENDS and n.value != "host" for n in nodes(tree))


def names_plan_json(tree: ast.AST) -> bool:
    return any(isinstance(n, ast.Constant) and n.value == "plan.json" for n in nodes(tree))


def rounds_up(tree: ast.AST) -> bool:
    """Divides by an alignment."""
    divisions = (n for n in nodes(tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.FloorDiv | ast.Mod))
    return any(re.search(r"\balignment$", ast.unparse(n.right)) for n in divisions)


def says_most_cores(tree: ast.AST) -> bool:
    """A limit, as a number or in words."""
    texts = [n.value for n in nodes(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    named = [t.id for n in nodes(tree) if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)]
    return "MOST_CORES" in named or any(re.search(rf"cores.* to {MOST_CORES}\b", t, re.IGNORECASE) for t in texts)


def sets_a_block(tree: ast.AST) -> bool:
    """The terms of a sum that are added up on their own; what else is called a block has another number."""
    named = (n for n in nodes(tree) if isinstance(n, ast.Assign) and ast.unparse(n) == f"BLOCK = {BLOCK}")
    divided = (n.right for n in nodes(tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.FloorDiv))
    return any(named) or any(isinstance(n, ast.Constant) and n.value == BLOCK for n in divided)


def names_types(tree: ast.AST) -> bool:
    """In NumPy's words or C's, but for those that Python has, too."""
    wanted = {d.numpy_name for d in DType} | {d.c_name for d in DType} - {"float"}
    constants = {n.value for n in nodes(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return len(constants & wanted) > 1 or "tl_half" in constants


OWN = {f"run/{module}.py" for module, _ in BACKENDS.values()}  # each may say its own name
HOMES: dict[str, tuple[Callable[[ast.AST], bool], set[str]]] = {
    "back ends": (names_back_ends, {"run/__init__.py"}),
    "plan.json": (names_plan_json, {"folder.py"}),
    # a proof shares nothing with what it judges
    "alignment": (rounds_up, {"machine/sizes.py", "check/placement.py", "check/certificate.py"}),
    "most cores": (says_most_cores, {"machine/targets.py"}),
    # the record of a sketch in C, and integers of tables that no tensor is made of
    "element types": (names_types, {"formats.py", "emit/initial.py"}),
    "block of terms": (sets_a_block, {"kernels/panels.py"}),
}


@cache
def sources() -> dict[str, ast.AST]:
    return {p.relative_to(PACKAGE).as_posix(): parsed(p) for p in PACKAGE.rglob("*.py")}


def found_in(rule: Callable[[ast.AST], bool]) -> set[str]:
    assert len(sources()) > 150
    return {name for name, tree in sources().items() if rule(tree)}


@pytest.mark.parametrize("what", HOMES)
def test_one_home(what: str) -> None:
    rule, homes = HOMES[what]
    assert found_in(rule) - OWN == homes


def test_benchmarks_read_plans_as_the_package_does() -> None:
    trees = {p.name: parsed(p) for p in (ROOT / "benchmarks").glob("*.py")}
    assert len(trees) > 10
    assert not [name for name, tree in trees.items() if names_plan_json(tree)]


@pytest.mark.parametrize(
    ("what", "second"),
    [
        ("back ends", "CHOICES = ('host', 'spike')"),
        ("plan.json", "text = (folder / 'plan.json').read_text()"),
        ("alignment", "size = -(-size // machine.alignment) * machine.alignment"),
        ("alignment", "rest = size % alignment"),
        ("most cores", "MOST_CORES = 8"),
        ("most cores", "help = 'Cores of the cluster, 1 to 16'"),
        ("block of terms", "blocks = -(-terms // 64)"),
        ("block of terms", "BLOCK = 64"),
        ("element types", "NUMPY = {'F32': '<f4', 'U8': '|u1'}"),
        ("element types", "c_type = 'tl_half' if half else 'float'"),
    ],
)
def test_a_second_home_is_found(what: str, second: str) -> None:
    assert HOMES[what][0](ast.parse(second))


def defined(name: str) -> list[tuple[str, int]]:
    """Where the C library gives a name a number."""
    rule = re.compile(rf"(?:#define|enum \{{) {name}(?: =)? (\d+)")
    texts = ((p.relative_to(C_LIB).as_posix(), p.read_text()) for p in sorted(C_LIB.rglob("*.[ch]")))
    return [(path, int(m[1])) for path, text in texts for m in rule.finditer(text)]


def test_python_and_c_agree() -> None:
    assert defined("TL_MOST_CORES") == [("include/tl_hal.h", MOST_CORES)]
    assert defined("TL_KC") == [("ukernels/tl_block.h", BLOCK)]
    assert defined("EMULATED_CORES") == [("hal/rv32_machine.h", EMULATED_CORES)]
    others = [(n, path) for n in ("BLOCK", "KC", "MOST_CORES") for path, _ in defined(n)]
    assert others == [("BLOCK", "reference/pool.c")], "the references are on their own"


@pytest.mark.parametrize("dtype", DType)
def test_rows_of_element_types_agree(dtype: DType) -> None:
    assert np.dtype(dtype.numpy_name).itemsize == dtype.size
    assert dtype.calculated.calculated is dtype.calculated
    if dtype.conversion is not None:
        own = C_LIB / dtype.name.lower()  # in the place of that of IEEE halves
        header = ((own if own.is_dir() else C_LIB / "include") / "tl_half.h").read_text()
        for name in (dtype.conversion.load, dtype.conversion.store):
            assert f" tl_{name}(" in header and C_FORM[name] == f"tl_{name}({{0}})"


def asked_by_name(tree: ast.AST) -> Iterator[str]:
    """Kinds that are asked what they are called, or which methods they have, instead of what they can do."""
    for node in nodes(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("hasattr", "getattr"):
            yield ast.unparse(node)
        compared = isinstance(node, ast.Compare) and not isinstance(node.comparators[0], ast.Name)
        if compared and re.search(r"\bkind\.name$", ast.unparse(node.left)):
            yield ast.unparse(node)


def test_kinds_are_asked_what_they_can_do() -> None:
    trees = {n: tree for n, tree in sources().items() if n.partition("/")[0] in PLANNED}
    found = {n.rpartition("/")[2]: hits for n, tree in trees.items() if (hits := list(asked_by_name(tree)))}
    assert found == {"lower.py": ["getattr(captured.graph, node.target)"], **OF_GRAPHS}


def test_rows_of_kernels_are_typed() -> None:
    """A kernel is written down for the kinds that it takes, not for anything."""
    trees = {n: tree for n, tree in sources().items() if n.startswith("kernels/")}
    assert len(trees) > 10
    assert not [n for n, tree in trees.items() if any(isinstance(x, ast.Name) and x.id == "Any" for x in nodes(tree))]


OF_GRAPHS = {"own_optimizer.py": ["getattr(update.graph, node.target)"]}  # names that PyTorch gives


@pytest.mark.parametrize("text", ["hasattr(kind, 'cuts')", "op.kind.name == 'chain'", "first.kind.name in ('map',)"])
def test_a_question_by_name_is_found(text: str) -> None:
    assert list(asked_by_name(ast.parse(text)))
