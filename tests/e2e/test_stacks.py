"""Stacks cannot run over: the frames of the deepest chain of calls, added up from what the compiler made."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.e2e.simulators import needs, with_each_compiler
from trainlib_deployer.api import deploy
from trainlib_deployer.machine.machine import LEAN_STACK

SPARE = 64  # bytes of a stack for what starts the step: the machine's own code, under PULP-SDK its task
ROOT = "step_on_core"
FUNCTION = re.compile(r"^[0-9a-f]+ <([^.>][^>]*)>:$")
FRAME = re.compile(r"\s(?:c\.)?addi(?:16sp)?\s+sp, (?:sp, )?-(0x[0-9a-f]+|\d+)$")
JUMP = re.compile(r"\s(?:c\.)?(?:jal|jalr|j|b\w+)\s.*<([^.>+]+)>$")
INDIRECT = re.compile(r"\s(?:c\.)?jalr\s[^<]*$")
RETURN = re.compile(r"\s(?:c\.jr\s+ra|(?:c\.)?jalr\s+zero, 0x0\(ra\))$")


@dataclass
class Function:
    """Bytes of stack that it takes for itself, and what it calls."""

    frame: int = 0
    calls: set[str] = field(default_factory=set)
    indirect: bool = False


def functions(listing: str) -> dict[str, Function]:
    """From a disassembly. Steps of the stack pointer that a function takes on different paths count together."""
    found: dict[str, Function] = {}
    current = Function()
    for line in listing.splitlines():
        if head := FUNCTION.match(line):
            current = found.setdefault(head[1], Function())
        elif frame := FRAME.search(line):
            current.frame += int(frame[1], 0)
        elif jump := JUMP.search(line):
            current.calls.add(jump[1])
        elif INDIRECT.search(line) and not RETURN.search(line):
            current.indirect = True
    for name, function in found.items():
        function.calls.discard(name)
    return found


def deepest(found: dict[str, Function], name: str, above: tuple[str, ...] = ()) -> tuple[int, tuple[str, ...]]:
    """Bytes, and the chain of calls that takes them."""
    assert name not in above, f"{name} calls itself: {above}"
    function = found[name]
    assert not function.indirect, f"{name} calls what is not known"
    below = [deepest(found, other, (*above, name)) for other in function.calls if other in found]
    size, chain = max(below, default=(0, ()))
    return function.frame + size, (f"{name} {function.frame}", *chain)


class Layers(nn.Module):
    """What has kernels of its own: convolutions of all kinds, products, pooling, a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 10, 3, padding=1)
        self.each = nn.Conv2d(10, 10, 3, 2, 1, groups=10)
        self.grouped = nn.Conv2d(10, 14, 3, padding=1, groups=2)
        self.back = nn.ConvTranspose2d(14, 6, 3, 2)
        self.norm = nn.BatchNorm2d(6)
        self.pools = nn.Sequential(nn.MaxPool2d(2), nn.AvgPool2d(3, 2, 1), nn.AdaptiveAvgPool2d((3, 5)))
        self.most = nn.AdaptiveMaxPool2d((2, 3))
        self.over = nn.LSTM(6, 7, batch_first=True)
        self.gates = nn.GRU(7, 5, batch_first=True)
        self.last = nn.Linear(5, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.gelu(self.back(self.grouped(torch.relu(self.each(self.first(x))))))
        x = self.most(self.pools(self.norm(x))).flatten(2).transpose(1, 2)
        x, _ = self.gates(self.over(x)[0])
        out: torch.Tensor = self.last(torch.softmax(x, -1).mean(1))
        return out


def one_tap() -> nn.Module:
    """Whose products of halves have columns that are partly outside."""
    return nn.Sequential(nn.Conv2d(12, 20, 1), nn.Tanh(), nn.Conv2d(20, 7, 1))


@pytest.fixture(scope="module", params=("fp32", "mixed"))
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(3)
    model = Layers()
    data = [(torch.randn(2, 3, 21, 17), torch.tensor([3, 0]))]
    folder = tmp_path_factory.mktemp("stacks") / "project"
    deploy(model, *data[0], data=data, steps=1, out=folder, dtype=request.param, cores=8, l1="20k", l2="1M")
    return folder


def listing(project: Path, compiler: str) -> str:
    needs("qemu", compiler)
    objdump = shutil.which("llvm-objdump-19") or shutil.which("llvm-objdump")
    if objdump is None:
        pytest.skip("no llvm-objdump")
    program = f"build/qemu-{compiler}/train.elf"
    subprocess.run(["make", "-s", "-C", str(project), program, f"COMPILER={compiler}", "RV_ON=qemu"], check=True)
    command = [objdump, "-d", "--no-show-raw-insn", "-M", "no-aliases", str(project / program)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@with_each_compiler
def test_the_deepest_calls_fit_a_lean_stack(compiler: str, project: Path) -> None:
    """Fault: a convolution over planes of halves took 1,296 bytes by gcc."""
    assert f"PLAN_STACK_BYTES {LEAN_STACK} " in (project / "plan.h").read_text()
    size, chain = deepest(functions(listing(project, compiler)), ROOT)
    print(size, chain)
    assert any(link.startswith("tl_conv2d") for link in chain), "the deepest calls are those of a convolution"
    assert LEAN_STACK // 2 < size <= LEAN_STACK - SPARE, chain


@with_each_compiler
def test_so_do_those_of_one_tap_on_halves(compiler: str, tmp_path: Path) -> None:
    """Fault: what lies aside in tiles that are partly outside took four times as much."""
    data = [(torch.randn(1, 12, 11, 11), torch.randn(1, 7, 11, 11))]
    deploy(one_tap(), *data[0], data=data, loss=nn.MSELoss(), steps=1, out=tmp_path / "net", dtype="mixed", l1="20k")
    size, chain = deepest(functions(listing(tmp_path / "net", compiler)), ROOT)
    assert any(link.startswith("tl_pairs_part") for link in chain)
    assert size <= LEAN_STACK - SPARE, chain


@with_each_compiler
def test_so_do_those_of_many_taps_and_of_pixels_that_are_apart(compiler: str, tmp_path: Path) -> None:
    """Fault: the sums of a tile of halves lay there twice."""
    net = nn.Sequential(nn.Conv2d(12, 20, 5), nn.Tanh(), nn.Conv2d(20, 7, 1, 2))
    data = [(torch.randn(1, 12, 11, 11), torch.randn(1, 7, 4, 4))]
    deploy(net, *data[0], data=data, loss=nn.MSELoss(), steps=1, out=tmp_path / "net", dtype="mixed", l1="20k")
    found = functions(listing(tmp_path / "net", compiler))
    size, chain = deepest(found, ROOT)
    assert {"tl_conv2d_fw_f16", "tl_conv2d_bw_x_apart_f16"} <= {*found}
    assert size <= LEAN_STACK - SPARE, chain


@with_each_compiler
def test_so_do_those_of_classes_that_share_planes_of_halves(compiler: str, tmp_path: Path) -> None:
    """Fault: the axes of all classes lay below everything that one of them calls."""
    data = [(torch.randn(1, 14, 11, 9), torch.randn(1, 6, 23, 19))]
    net, options = nn.ConvTranspose2d(14, 6, 3, 2), {"loss": nn.MSELoss(), "dtype": "mixed", "l1": "20k"}
    deploy(net, *data[0], data=data, steps=1, out=tmp_path / "net", **options)
    found = functions(listing(tmp_path / "net", compiler))
    size, chain = deepest(found, ROOT)
    assert "two_by_two" in found and size <= LEAN_STACK - SPARE, chain


def test_frames_add_up_along_the_deepest_chain() -> None:
    text = "\n".join(
        (
            "80000000 <step_on_core>:\n80000000:      \tc.addi\tsp, -0x10",
            "80000002:      \tjal\tra, 0x80000010 <left>\n80000006:      \tc.j\t0x80000020 <right>",
            "80000010 <left>:\n80000010:      \taddi\tsp, sp, -0x100\n80000014:      \tc.jr\tra",
            "80000020 <right>:\n80000020:      \tc.addi16sp\tsp, -0x60\n80000022:      \tjal\tra, 0x80000040 <leaf>",
            "80000026:      \tc.addi16sp\tsp, 0x60\n80000040 <leaf>:\n80000040:      \tc.addi16sp\tsp, -0xb0",
        )
    )
    found = functions(text)
    assert deepest(found, ROOT) == (0x10 + 0x60 + 0xB0, ("step_on_core 16", "right 96", "leaf 176"))
    found["leaf"].calls.add("right")
    with pytest.raises(AssertionError, match="calls itself"):
        deepest(found, ROOT)
    found["leaf"] = Function(indirect=True)
    with pytest.raises(AssertionError, match="not known"):
        deepest(found, ROOT)
