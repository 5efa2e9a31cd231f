"""Weight gradients that exist only inside of their update: the bits of those that are kept, and as well checked."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from trainlib_deployer import passes
from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.folder import read_plan
from trainlib_deployer.passes import order_halves
from trainlib_deployer.passes.fuse_updates import fuse_updates
from trainlib_deployer.passes.store_updates import store_updates
from trainlib_deployer.program.ir import Role
from trainlib_deployer.run.host import Host

WIDTHS = (131, 67, 33, 5)
WEIGHTS = {"0.weight", "2.weight", "4.weight"}
DTYPES = ("fp32", "mixed")
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "heavy": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, 0.01),
}


def deployed(folder: Path, kind: str = "sgd", batch: int = 1, **more: Any) -> Deployment:
    torch.manual_seed(3)
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(WIDTHS):
        layers += [nn.Linear(before, after), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    x, y = torch.randn(batch, WIDTHS[0]), torch.randn(batch, WIDTHS[-1])
    sizes = {"cores": 8, "l1": "24k", "l2": "1M", **more}
    return deploy(model, x, y, loss=nn.MSELoss(), optimizer=OPTIMIZERS[kind], steps=2, out=folder, **sizes)


@pytest.fixture(autouse=True)
def gradients_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those in parts are recorded, too: tests/e2e/test_in_parts.py."""
    monkeypatch.setattr(order_halves, "ENOUGH", 9.0)


def recorded(made: Deployment) -> set[str]:
    """Parameters whose gradients are not kept."""
    program = made.plan.program
    return {name for name, tensor in program.gradients if program.tensors[tensor].role is Role.RECORDED}


def bits(made: Deployment, cores: int) -> dict[tuple[int, str, str], bytes]:
    result = made.verify(cores=cores)
    result.raise_if_failed()
    return {k: v.tobytes() for k, v in result.computed.items()}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_the_bits_are_those_of_a_gradient_that_is_kept(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fused = deployed(tmp_path / "fused", kind)
    assert recorded(fused) == WEIGHTS
    whole = deployed(tmp_path / "whole", kind, l1="4M")
    without = tuple(p for p in passes.DEFAULT if p is not fuse_updates)
    monkeypatch.setattr(passes, "chosen", lambda precision, arithmetic: without)
    kept = deployed(tmp_path / "kept", kind)
    assert not recorded(kept)
    expected = bits(kept, 8)
    assert any(k[1:] == ("gradient", "0.weight") for k in expected)
    found = bits(fused, 8)
    if kind == "sgd":  # w + (s a) b in place of w + s (a b), so from the first update on
        assert before_update(found, 0) == before_update(expected, 0) and found.keys() == expected.keys()
        for key, value in found.items():
            close = np.frombuffer(value, np.float32), np.frombuffer(expected[key], np.float32)
            np.testing.assert_allclose(*close, rtol=2e-6, atol=1e-7)
    else:
        assert found == expected
    for cores in (1, 5, 8):
        assert bits(fused, cores) == bits(whole, cores) == found


def before_update(found: dict[tuple[int, str, str], bytes], step: int) -> dict[tuple[int, str, str], bytes]:
    """Everything of a step but its parameters."""
    return {k: v for k, v in found.items() if k[0] == step and k[1] != "parameter"}


@pytest.mark.parametrize(("dtype", "batch"), [("fp32", 3), ("fp32", 32), ("mixed", 8), ("mixed", 64)])
def test_products_that_update_have_the_bits_of_a_gradient_that_is_kept(
    dtype: str, batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = deployed(tmp_path / "stored", batch=batch, dtype=dtype)
    assert recorded(stored) == WEIGHTS
    assert all(f"{w}: sgd" in {op["name"] for op in read_plan(stored.folder)["ops"] if op["macs"]} for w in WEIGHTS)
    small, whole = (deployed(tmp_path / l1, batch=batch, dtype=dtype, l1=l1) for l1 in ("20k", "4M"))
    monkeypatch.setattr(passes, "DEFAULT", tuple(p for p in passes.DEFAULT if p is not store_updates))
    kept = deployed(tmp_path / "kept", batch=batch, dtype=dtype)
    assert not recorded(kept)
    expected = bits(kept, 8)
    for made, cores in ((stored, 5), (small, 3), (whole, 8)):
        assert bits(made, cores) == expected


@pytest.mark.parametrize(("dtype", "size"), [("fp32", (3, 7)), ("mixed", (5, 11))])
def test_convolutions_by_one_tap_update_whatever_the_tiles(dtype: str, size: tuple[int, int], tmp_path: Path) -> None:
    torch.manual_seed(4)
    model = nn.Sequential(nn.Conv2d(19, 46, 1), nn.Tanh(), nn.Conv2d(46, 37, 1, bias=False), nn.ReLU(), nn.Flatten())
    x = torch.randn(1, 19, *size)
    y = torch.randn_like(model(x))
    loss, optimizer = nn.MSELoss(), OPTIMIZERS["sgd"]
    made = [
        deploy(
            model,
            x,
            y,
            loss=loss,
            optimizer=optimizer,
            steps=2,
            out=tmp_path / l1,
            cores=8,
            l1=l1,
            l2="1M",
            dtype=dtype,
        )
        for l1 in ("18k", "64k", "4M")
    ]
    assert all(recorded(m) == {"0.weight", "2.weight"} for m in made)
    assert bits(made[0], 3) == bits(made[1], 8) == bits(made[2], 1)


@pytest.mark.parametrize("kind", ["heavy", "adam"])
def test_only_plain_updates_are_stored_by_products(kind: str, tmp_path: Path) -> None:
    assert not recorded(deployed(tmp_path / "net", kind, batch=8, dtype="mixed")) & WEIGHTS


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_wrong_sum_of_a_product_that_updates_is_seen_as_a_gradient(dtype: str, tmp_path: Path) -> None:
    made = deployed(tmp_path / "net", batch=8, dtype=dtype)
    source = made.folder / "kernels" / "tl_update.h"
    right = source.read_text()
    source.write_text(right.replace("sum = sums[4 * i + j]", "sum = 1.05f * sums[4 * i + j]"))
    assert source.read_text() != right
    first = made.verify().verdict.first_failure
    assert first is not None and first.kind == "gradient" and first.name in WEIGHTS


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_wrong_update_by_a_product_is_seen(dtype: str, tmp_path: Path) -> None:
    made = deployed(tmp_path / "net", batch=8, dtype=dtype)
    source = made.folder / "kernels" / "tl_update.h"
    right = source.read_text()
    source.write_text(
        right.replace("minus_rate, sum, old", "1.05f * w->minus_rate, sum, old").replace("w->1.05f", "1.05f")
    )
    assert source.read_text() != right
    first = made.verify().verdict.first_failure
    assert first is not None and first.kind == "parameter" and first.name in WEIGHTS


def test_no_memory_and_one_visit_of_each_weight(tmp_path: Path) -> None:
    """The plan has no place for these gradients; an update moves the weights in and out, some of them early, and little
    else."""
    made = deployed(tmp_path / "net")
    plan = read_plan(made.folder)
    gradients = {dict(made.plan.program.gradients)[name] for name in WEIGHTS}
    assert not gradients & {name for b in plan["buffers"] for name in (b["name"], *b["aliases"])}
    weight = 4 * WIDTHS[0] * WIDTHS[1]
    (update,) = [op for op in plan["ops"] if op["name"] == "0.weight: sgd"]
    moved = update["moved"] + (update["early"] or {"moved": 0})["moved"]
    assert 2 * weight <= moved <= 2 * weight + 4 * (WIDTHS[0] + WIDTHS[1])
    assert update["macs"] == WIDTHS[0] * WIDTHS[1]


@pytest.mark.parametrize(
    "more",
    [
        {"batch": 2, "cores": 4},
        {"batch": 33},
        {"batch": 65, "dtype": "mixed"},
        {"clip_grad_norm": 0.1},
        {"accumulate": 2},
        {"batch": 8, "clip_grad_norm": 0.1},
        {"batch": 8, "dtype": "mixed", "clip_grad_norm": 0.1},
        {"batch": 8, "dtype": "mixed", "accumulate": 2},
        {"batch": 8, "dtype": "mixed", "loss_scale": "dynamic"},
        {"batch": 8, "dtype": "mixed", "loss_scale": "1024"},
        {"batch": 8, "dtype": "fp16"},
    ],
    ids=str,
)
def test_gradients_that_must_be_kept(more: dict[str, Any], tmp_path: Path) -> None:
    made = deployed(tmp_path / "net", **more)
    assert not recorded(made) & WEIGHTS
    made.verify().raise_if_failed()


@pytest.mark.parametrize("l1", ["24k", "4M"])
def test_a_wrong_gradient_in_the_update_is_seen_as_a_gradient(l1: str, tmp_path: Path) -> None:
    """In the loop itself: what is recorded is the very number that the update uses."""
    made = deployed(tmp_path / "net", l1=l1)
    loops = (made.folder / "loops.c").read_text()
    called = re.search(r"op_t_0_weight_sgd\(void\).*?(loop_\w+)\(", (made.folder / "net.c").read_text(), re.DOTALL)
    assert called is not None
    before, head, behind = loops.partition(f"void {called[1]}(")
    body, end, others = behind.partition("\n}\n")
    wrong = body.replace("__builtin_fmaf(v0, v1", "1.01f * __builtin_fmaf(v0, v1")
    assert wrong != body
    (made.folder / "loops.c").write_text("".join((before, head, wrong, end, others)))
    first = made.verify().verdict.first_failure
    assert first is not None and (first.kind, first.name) == ("gradient", "0.weight")


def test_poison_changes_nothing(tmp_path: Path) -> None:
    made = deployed(tmp_path / "net", "adam")
    plain, poisoned = tmp_path / "plain.bin", tmp_path / "poisoned.bin"
    Host().run(made.folder, 2, None, plain)
    Host(poison=True).run(made.folder, 2, None, poisoned)
    assert plain.read_bytes() == poisoned.read_bytes()


def test_a_build_that_records_nothing(tmp_path: Path) -> None:
    """Two uses of a layer: in each tile the place of what is recorded is all that a number of the tile is for."""
    torch.manual_seed(0)
    trunk = nn.Sequential(nn.Linear(64, 61), nn.Tanh())
    made = deploy(
        Twice(trunk),
        torch.randn(1, 64),
        torch.randn(1, 61),
        loss=nn.MSELoss(),
        cores=8,
        l1="10k",
        l2="1M",
        optimizer=torch.optim.NAdam(trunk.parameters()),
        steps=1,
        out=tmp_path / "net",
    )
    assert recorded(made) and "RECORDED(v[0])" in (made.folder / "net.c").read_text()
    assert made.step(torch.randn(1, 64), torch.randn(1, 61)) > 0


class Twice(nn.Module):
    def __init__(self, trunk: nn.Module) -> None:
        super().__init__()
        self.trunk = trunk

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.trunk(x) * self.trunk(x.flip(1))  # type: ignore[no-any-return]


class OfItself(nn.Module):
    """The gradients of both weights are made of the weights themselves: by a product, and element by element."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Parameter(torch.randn(31, 31) * 0.2) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (self.first @ self.first.detach() + self.second * self.second.t())


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("cores", [1, 3])
def test_gradients_made_of_the_weight_that_is_moved(kind: str, cores: int, tmp_path: Path) -> None:
    """Fault: they were made where it was moved, of elements that had been moved before."""
    torch.manual_seed(3)
    x, y = torch.randn(2, 1, 31, 31)
    sizes = {"cores": cores, "l1": "24k", "l2": "1M"}
    deploy(
        OfItself(), x, y, loss=nn.MSELoss(reduction="sum"), optimizer=OPTIMIZERS[kind], steps=2, out=tmp_path, **sizes
    ).verify().raise_if_failed()
