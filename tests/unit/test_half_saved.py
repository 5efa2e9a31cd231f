"""Activations in half precision: who reads what, less memory at the peak, and what PyTorch is asked to do as well."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from golden import compare, load, reference, sketch
from golden.task import Task
from tests.unit.small_programs import program_of
from tests.unit.test_within_budget import peak
from trainlib_deployer.api import deploy
from trainlib_deployer.errors import DoesNotFit, UsageError
from trainlib_deployer.folder import read_plan
from trainlib_deployer.passes.drop_dead import drop_dead
from trainlib_deployer.passes.half_saved import LATE, LEAST_BYTES, half_saved, halves
from trainlib_deployer.passes.mixed import mixed
from trainlib_deployer.passes.prune_loops import live_values
from trainlib_deployer.passes.within_budget import within_budget
from trainlib_deployer.plan.layout import untiled
from trainlib_deployer.program.ir import DType, Op, Program, readers, writers
from trainlib_deployer.program.loop import Loop


def net() -> nn.Sequential:
    torch.manual_seed(3)
    layers: list[nn.Module] = []
    channels = 3
    for width in (7, 5, 9):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.GELU()]
        channels = width
    return nn.Sequential(*layers)


@pytest.fixture(scope="module")
def program() -> Program:
    return program_of(net(), (3, 3, 13, 11))


def test_the_peak_falls(program: Program) -> None:
    small = half_saved(program)
    assert len(halves(small)) > 3
    assert peak(small) < 0.8 * peak(program)
    assert halves(half_saved(small)) == halves(small)


@pytest.mark.parametrize("then", [lambda p: p, lambda p: within_budget(p, 0)], ids=["alone", "with recomputation"])
def test_the_backward_pass_reads_what_was_rounded(program: Program, then: Callable[[Program], Program]) -> None:
    small = then(half_saved(program))
    read, written = readers(small), writers(small)
    made: set[str] = {t.name for t in small.tensors.values() if t.role.persistent}
    for op in small.ops:
        assert {v.tensor for v in op.reads} <= made, op.name
        made |= {v.tensor for v in op.writes}
    for half in halves(small):
        name = half.name.partition(".half")[0]
        assert half.nbytes * 2 == program.tensors[name].nbytes >= LEAST_BYTES
        assert not [i for i in read.get(name, []) if small.ops[i].phase in LATE and not rounds(small.ops[i])]
        assert len(written[half.name]) == 1
        used = [small.ops[i] for i in read[half.name]]
        assert used and all(widens(op, half.name) for op in used)


def rounds(op: Op) -> bool:
    return isinstance(op.kind, Loop) and op.kind.outputs == (DType.F16,)


def widens(op: Op, half: str) -> bool:
    """Each operand that is a half goes through the conversion, and through it only."""
    kind = op.kind
    assert isinstance(kind, Loop)
    slots = {i for i, v in enumerate(op.reads) if v.tensor == half}
    assert {kind.inputs[i] for i in slots} == {DType.F16}
    users = [s for s in (*kind.body, *kind.post) if slots & set(s.args)]
    return {s.op for s in users} == {"from_half"} and not slots & {*kind.results, *(r.value for r in kind.reductions)}


def test_each_restored_tensor_is_its_own(program: Program) -> None:
    small = half_saved(program)
    restored = [op for op in small.ops if ".restored" in op.name]
    assert restored
    for op in restored:
        assert op.reads[0].tensor == f"{op.writes[0].tensor.rpartition('.restored')[0]}.half"


def test_kernels_read_the_restored_tensor(program: Program) -> None:
    """The same kernels on tensors of the same shapes: only names differ."""
    small = half_saved(program)

    def kernels(p: Program) -> list[tuple[str, tuple[str, ...]]]:
        found = [op for op in p.ops if not isinstance(op.kind, Loop)]
        return sorted((op.name, tuple(v.tensor.partition(".restored")[0] for v in op.reads)) for op in found)

    assert kernels(small) == kernels(program)


@pytest.mark.slow
def test_a_deployment_says_what_it_saves(tmp_path: Path) -> None:
    plans = {}
    for saved in ("fp32", "fp16"):
        options: dict[str, Any] = {"saved": saved, "cores": 2, "l1": "64M", "steps": 1, "out": tmp_path / saved}
        deploy(net(), torch.randn(3, 3, 13, 11), torch.randn(3, 9, 13, 11), loss=nn.MSELoss(), **options)
        plans[saved] = read_plan(tmp_path / saved)
    full, small = plans["fp32"], plans["fp16"]
    assert full["saved"] == {"dtype": "fp32", "tensors": 0, "operations": 0, "bytes_saved": 0}
    said = small["saved"]
    assert said["dtype"] == "fp16" and small["certificate"]["checked"]
    assert said["tensors"] == sum(t["dtype"] == "F16" for t in small["tensors"].values()) > 0
    assert said["operations"] == len(small["ops"]) - len(full["ops"]) > 0
    assert said["bytes_saved"] == full["levels"]["L1"]["used"] - small["levels"]["L1"]["used"] > 10_000
    for name in ("README.md", "report.html"):
        assert f"in half precision: {said['bytes_saved']:,} bytes less" in (tmp_path / "fp16" / name).read_text()
        assert "half precision" not in (tmp_path / "fp32" / name).read_text()
    assert {s: load.load_task(tmp_path / s / "model").saved for s in plans} == {"fp32": "fp32", "fp16": "fp16"}


def test_where_it_gains_nothing_pytorch_stays_exact(tmp_path: Path) -> None:
    """A step that is fullest where gradients of weights lie."""
    module = nn.Sequential(nn.Linear(90, 70), nn.Tanh(), nn.Linear(70, 3))
    deployed = deploy(
        module, torch.randn(2, 90), torch.randn(2, 3), saved="fp16", cores=1, l1="1M", steps=1, out=tmp_path / "net"
    )
    assert deployed.plan.saved.dtype == "fp16" and deployed.plan.saved.tensors == 0
    assert deployed.task is not None and deployed.task.saved == "fp32"
    assert load.load_task(tmp_path / "net" / "model").saved == "fp32"


@pytest.mark.slow
def test_what_does_not_fit_is_told(tmp_path: Path) -> None:
    """With about the bytes that a deployment with the option then takes: loops in series keep a few longer. Not where
    it is in use already."""
    needed = {saved: squeezed(tmp_path / saved, saved, 1 << 20) for saved in ("fp32", "fp16")}
    with pytest.raises(DoesNotFit) as failure:
        squeezed(tmp_path / "net", "fp32", 1 << 14)
    text = failure.value.render()
    said = re.search(r"half precision: --saved fp16: about ([\d,]+) bytes less, ", text)
    assert said is not None and 0 <= int(said[1].replace(",", "")) - (needed["fp32"] - needed["fp16"]) <= 128
    assert text.index("without state") < text.index("--saved fp16") < text.index("a batch of")
    with pytest.raises(DoesNotFit) as failure:
        squeezed(tmp_path / "net", "fp16", 2048)
    assert "--saved" not in failure.value.render()


def squeezed(folder: Path, saved: str, l2: int, dtype: str = "fp32") -> int:
    module = net()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.randn(3, 3, 13, 11), torch.randn(3, 9, 13, 11)
    machine = {"cores": 1, "l1": "12k", "l2": l2}
    kept = {"saved": saved, "dtype": dtype}
    deployed = deploy(module, x, y, loss=nn.MSELoss(), optimizer=optimizer, **kept, **machine, steps=1, out=folder)
    return untiled(deployed.plan.program, deployed.plan.target).levels["L2"].used


def test_another_precision_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="one of fp32, fp16"):
        deploy(net(), torch.randn(1, 3, 5, 5), torch.randn(1, 9, 5, 5), saved="fp8", out=tmp_path / "net")


def test_pytorch_rounds_what_it_saves_but_not_what_is_there_anyway() -> None:
    """Of W2 relu(W1 x) summed up, the gradient of W1 needs x, W2 and signs, that of W2 the activation."""
    torch.manual_seed(4)
    module = nn.Sequential(nn.Linear(6, 5, bias=False), nn.ReLU(), nn.Linear(5, 4, bias=False))
    samples = [((torch.randn(7, 6),), torch.zeros(7, 4))]
    records = {}
    for saved in ("fp32", "fp16"):
        task = Task(module, lambda y, _: y.sum(), samples, "SGD", [({"lr": 0.1}, names(module))], saved=saved)
        records[saved] = reference.run(task, 1, torch.float32)
    first, last = ((0, "gradient", n) for n in names(module))
    assert (records["fp16"][first] == records["fp32"][first]).all()
    hidden = module[1](module[0](samples[0][0][0])).detach()
    rounded = torch.ones(4, 7) @ hidden.half().float()
    assert torch.allclose(torch.from_numpy(records["fp16"][last]), rounded, rtol=1e-6, atol=1e-6)
    assert abs(records["fp16"][last] - records["fp32"][last]).max() > 1e-5


def test_a_value_that_overflows_because_it_is_kept_in_half_fails() -> None:
    """Fault: an infinite tolerance, from the reference's own halves, let NaN pass."""
    key, loss = (0, "gradient", "weight"), (0, "loss", "loss")
    exact = {key: torch.randn(5, 3).numpy(), loss: np.ones(1)}
    infinite = {key: np.full_like(exact[key], np.inf), loss: exact[loss]}
    assert not compare.compare(infinite, exact, [infinite], {}, may_diverge=False).passed
    assert compare.compare(exact, exact, [exact], {}, may_diverge=False).passed
    assert sketch.sketches(exact, [infinite])[key].limit < 0


def names(module: nn.Module) -> list[str]:
    return [n for n, _ in module.named_parameters()]


def test_what_nobody_reads_is_not_rounded_either() -> None:
    """Fault: it stayed in the loop as a variable that a strict compiler refuses, once its readers had been run anew."""
    small = mixed(program_of(net(), (3, 3, 13, 11)))
    halves = {t.name for t in small.tensors.values() if t.dtype is DType.F16}
    written = [v.tensor for op in small.ops if isinstance(op.kind, Loop) and len(op.writes) > 1 for v in op.writes]
    tried = [name for name in written if name in halves]
    assert tried
    for name in tried:
        ops = drop_dead(small.with_ops([op for op in small.ops if all(v.tensor != name for v in op.reads)])).ops
        loops = [op.kind for op in ops if isinstance(op.kind, Loop)]
        assert all(len(live_values(loop)) == loop.values for loop in loops), name
