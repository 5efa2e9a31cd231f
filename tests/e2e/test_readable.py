"""The C of resnet8 is small and made to be read: a layer more changes its own lines, its neighbours' operands, and
figures in plan.h."""

from __future__ import annotations

import difflib
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.e2e.conftest import example
from tests.e2e.simulators import needs
from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.emit.addresses import operation_names
from trainlib_deployer.program.series import Series
from trainlib_deployer.program.together import Together

HEAD = re.compile(r"\b(?:op|streams)_(\w+?)(?:\(void\)|\[\] = \{)$")
FIGURES = {"plan.h", "poison.h"}  # where and when things lie
LOOPS = {"loops.c", "loops.h"}  # named by what they do: who calls them says whose they are
REFERENCES = 'TL_PART("data.bin"'  # all of them in one piece


class Longer(nn.Module):
    """The example with a layer between its last two blocks."""

    def __init__(self, extra: nn.Module) -> None:
        super().__init__()
        for name, child in example("resnet8").module.named_children():
            setattr(self, name, child)
        self.extra = extra

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.bn(self.conv(x)))
        x = self.stack3(self.extra(self.stack2(self.stack1(x))))
        out: torch.Tensor = self.fc(self.pool(x).flatten(1))
        return out


def deployed(net: nn.Module, shape: tuple[int, ...], folder: Path) -> Deployment:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    data = [(torch.randn(shape), torch.tensor([3]))]
    options = {"l1": "64k", "l2": "2M", "target": "pulp-open", "name": "net"}
    return deploy(
        net, *data[0], data=data, loss=nn.CrossEntropyLoss(), optimizer=optimizer, steps=1, out=folder, **options
    )


def neighbours(made: Deployment, layer: str) -> tuple[set[str], set[str]]:
    """C names of the operations that share what comes and goes with the layer's own, and of those whose first transfers
    these start; and their layers."""
    ops, known = made.plan.program.ops, made.plan.program.tensors
    tensors = [{v.tensor for v in (*op.reads, *op.writes) if not known[v.tensor].role.persistent} for op in ops]
    touched = set().union(*(t for op, t in zip(ops, tensors, strict=True) if op.layer == layer))
    found = {at for at, t in enumerate(tensors) if t & touched}
    found |= {guest for at in found for guest in made.plan.guests.get(at, ())}
    names = operation_names(ops)
    return {names[at] for at in found}, {ops[at].layer for at in found}


def joined(made: Deployment, other: Deployment) -> tuple[set[str], set[str]]:
    """Operations that run other loops in series than the other project's do, what reads their results, and those that
    start their first transfers: C names, and the names of the loops. A layer more makes others neighbours."""
    ops = made.plan.program.ops
    known = {op.fused for op in other.plan.program.ops}
    series = {at for at, op in enumerate(ops) if isinstance(op.kind, Series) and op.fused not in known}
    written = {v.tensor for at in series for v in ops[at].writes}
    found = series | {at for at, op in enumerate(ops) if written & {v.tensor for v in op.reads}}
    found |= {host for host, guests in made.plan.guests.items() if found & {*guests}}
    names = operation_names(ops)
    return {names[at] for at in found}, {name for at in series for name in ops[at].fused}


def together(made: Deployment, other: Deployment) -> set[str]:
    """C names of operations that are other updates together than the other project has."""
    ops = made.plan.program.ops
    known = {op.fused for op in other.plan.program.ops}
    names = operation_names(ops)
    return {names[at] for at, op in enumerate(ops) if isinstance(op.kind, Together) and op.fused not in known}


def called(made: Deployment) -> dict[str, set[str]]:
    """Generated loops, each with the operations that call it."""
    found: dict[str, set[str]] = {}
    operation = ""
    for line in (made.folder / "net.c").read_text().splitlines():
        head = HEAD.search(line)
        operation = head[1] if head else operation
        for loop in re.findall(r"\b(loop_\w+)\(", line):
            found.setdefault(loop, set()).add(operation)
    return found


def removed(before: list[str], after: list[str]) -> Iterator[tuple[str, str]]:
    """Lines that are there no more, each with the operation that it belonged to."""
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, lo, hi, _, _ in matcher.get_opcodes():
        for at in range(lo, hi if tag != "equal" else lo):
            heads = (HEAD.search(line) for line in reversed(before[: at + 1]))
            yield before[at], next((h[1] for h in heads if h), "")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Deployment]:
    folder = tmp_path_factory.mktemp("projects")
    layers = {"short": nn.Identity(), "long": nn.Conv2d(32, 32, 1)}
    found = {name: deployed(Longer(layer), (1, 3, 32, 32), folder / name) for name, layer in layers.items()}
    keywords = example("dscnn")
    shape = tuple(keywords.inputs[0].shape)
    return {**found, "dscnn": deployed(keywords.module, shape, folder / "dscnn")}


def sources(made: Deployment) -> list[Path]:
    return sorted(p for p in made.folder.iterdir() if p.suffix in (".c", ".h"))


def test_other_lines_stay(made: dict[str, Deployment]) -> None:
    names, layers = neighbours(made["long"], "extra")
    assert len(names) < 20
    (short, loops_of_short), (long, loops_of_long) = (
        joined(made["short"], made["long"]),
        joined(made["long"], made["short"]),
    )
    assert len(short | long) < 20 and all(name.startswith((*layers,)) for name in loops_of_short | loops_of_long)
    updates = together(made["short"], made["long"]), together(made["long"], made["short"])
    assert all(1 <= len(found) <= 2 for found in updates), "its update joins others, or makes others wait less"
    names |= short | long | updates[0] | updates[1]
    loops = (made["long"].folder / "loops.c").read_text()
    assert not [f for f, callers in called(made["short"]).items() if f"{f}(" not in loops and callers - names]
    mine = re.compile(f'"(?:gradient )?(?:{"|".join(map(re.escape, sorted(layers)))})[.:]')
    moved, same = {}, set()
    for path in (p for p in sources(made["long"]) if p.name not in FIGURES | LOOPS):
        before, after = ((d.folder / path.name).read_text().splitlines() for d in (made["short"], made["long"]))
        lost = [
            (operation, line)
            for line, operation in removed(before, after)
            if not mine.search(line)
            and REFERENCES not in line
            and not names & {operation, *re.findall(r"^    RUN\((\w+)\);$", line)}
        ]
        moved |= {path.name: lost} if lost else {}
        same |= {path.name} if before == after else set()
    assert not moved
    assert same == {"data.h", "fit.c", "learn.c", "net.h", "weights.h"}


def test_lines_fit_a_page(made: dict[str, Deployment]) -> None:
    long = [line for d in made.values() for p in sources(d) for line in p.read_text().splitlines() if len(line) > 120]
    assert not long


@pytest.mark.parametrize(("name", "most"), [("short", 40_000), ("dscnn", 30_000)])
def test_code_and_constants_of_the_step_are_small(name: str, most: int, made: dict[str, Deployment]) -> None:
    needs("qemu")
    size = shutil.which("llvm-size-19") or shutil.which("llvm-size")
    if size is None:
        pytest.skip("no llvm-size")
    folder = made[name].folder
    subprocess.run(["make", "-s", "-C", folder, "build/qemu-clang/net.o", "RV_ON=qemu", "TRACE=0"], check=True)
    text = subprocess.run([size, "-A", folder / "build/qemu-clang/net.o"], check=True, capture_output=True, text=True)
    rows = [line.split() for line in text.stdout.splitlines() if line.startswith((".text", ".rodata", ".srodata"))]
    assert most / 2 < sum(int(row[1]) for row in rows) < most
