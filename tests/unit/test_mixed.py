"""Mixed precision: what lies in memory as halves, what stays float, and what PyTorch is asked to do as well."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from golden import nearest, reference
from golden.autocast import without_autocast
from golden.half import HALF
from golden.halves import Halves
from golden.loss_scale import LossScale
from golden.task import Task
from tests.unit.small_programs import program_of
from tests.unit.test_half_saved import net, squeezed, widens
from tests.unit.test_within_budget import peak
from trainlib_deployer.api import deploy
from trainlib_deployer.capture.agreement import captured_and_checked
from trainlib_deployer.errors import DoesNotFit, UsageError
from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.options import kept_of, loss_scale_of
from trainlib_deployer.passes.mixed import PASSES, mixed
from trainlib_deployer.passes.products_of_halves import is_product
from trainlib_deployer.program.expr import Instr
from trainlib_deployer.program.ir import DType, Kind, Op, Program, Role, Tensor, View
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.user.assemble import Parts, assemble
from trainlib_deployer.user.kept import kept_layers

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def program() -> Program:
    return program_of(net(), (3, 3, 13, 11))


def test_the_peak_falls(program: Program) -> None:
    assert peak(mixed(program)) < 0.8 * peak(program)


@pytest.mark.slow
def test_what_does_not_fit_is_told(tmp_path: Path) -> None:
    """With about the bytes that a deployment with the option then takes; not where it is in use already."""
    float_bytes, half_bytes = (squeezed(tmp_path / d, "fp32", 1 << 20, d) for d in ("fp32", "mixed"))
    with pytest.raises(DoesNotFit) as failure:
        squeezed(tmp_path / "net", "fp32", 2048)
    said = re.search("--dtype mixed: about ([0-9,]+) bytes less", failure.value.render())
    more = re.search("--dtype fp16: about ([0-9,]+) bytes less", failure.value.render())
    assert said is not None and more is not None
    assert int(said[1].replace(",", "")) == pytest.approx(float_bytes - half_bytes, rel=0.1)
    assert int(more[1].replace(",", "")) > int(said[1].replace(",", ""))
    with pytest.raises(DoesNotFit) as failure:
        squeezed(tmp_path / "net", "fp32", 2048, "mixed")
    assert "--dtype" not in failure.value.render()


def test_halves_are_converted_wherever_they_are_calculated_with(program: Program) -> None:
    small = mixed(program)
    assert len(halves := {t.name for t in small.tensors.values() if t.dtype is DType.F16}) > 8
    for op in small.ops:
        if not isinstance(op.kind, Loop):
            multiplied, stored = types_of(op.kind)
            for v, dtype in zip(op.reads, (*multiplied, *(DType.F32 for _ in op.reads)), strict=False):
                assert small.tensors[v.tensor].dtype is dtype, op.name
            assert {small.tensors[v.tensor].dtype for v in op.writes} == {stored}, op.name
            continue
        for v, dtype in zip(op.reads, op.kind.inputs, strict=True):
            assert dtype is small.tensors[v.tensor].dtype
            assert v.tensor not in halves or widens(op, v.tensor), op.name
        assert op.kind.outputs == tuple(small.tensors[v.tensor].dtype for v in op.writes)


def types_of(kind: Kind) -> tuple[list[DType], DType]:
    """Of what is multiplied, and of what is stored."""
    if not isinstance(kind, MatMul | Conv):
        return [], DType.F32
    rounds = kind.rounds if isinstance(kind, MatMul) else (False, kind.rounds)
    return [DType.F32 if r else kind.storage for r in rounds], kind.result


def test_products_multiply_halves_and_round_weights_and_results(program: Program) -> None:
    """No operation of its own, and no float tensor, stands between the activations of two layers."""
    small = mixed(program)
    products = [op for op in small.ops if is_product(op.kind)]
    assert len(products) == 8 and all(op.kind.storage is DType.F16 for op in products)
    assert not any(op.function == "to_half" and ".weight" in op.reads[0].tensor for op in small.ops)
    for op in products:
        _, stored = types_of(op.kind)
        of_weights = isinstance(op.kind, Conv) and op.kind.direction == "bw_w"
        assert (stored is DType.F32) == (of_weights or op.layer == "7"), op.name


def test_without_a_kernel_of_halves_floats_are_rounded(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a result that stays float, where kernels store halves alone."""
    monkeypatch.setattr(sys.modules[mixed.__module__], "only_whole", lambda kind: True)
    monkeypatch.setattr(sys.modules[mixed.__module__], "stored_as_halves", lambda op, halves: ())
    small = mixed(program)
    made = {v.tensor: op for op in small.ops for v in op.writes}
    products = [op for op in small.ops if is_product(op.kind)]
    assert len(products) == 8
    for op in products:
        for v in op.reads[:2]:
            kind = made[v.tensor].kind
            assert isinstance(kind, Loop) and "from_half" in [s.op for s in kind.body], (op.name, v.tensor)


def test_what_lasts_and_what_the_update_needs_stays_float(program: Program) -> None:
    """Fault: the rate of Adam, a tensor of one number, was rounded to a half, and with it every update."""
    small = mixed(program)
    floats = {n for n, t in small.tensors.items() if t.dtype is not DType.F16}
    assert {t.name for t in small.tensors.values() if t.role.persistent} <= floats
    assert {*small.shown, *(t for _, t in small.gradients)} <= floats
    late = [op for op in small.ops if op.phase not in PASSES]
    assert late and all(v.tensor in floats for op in late for v in op.writes)
    statistics = [n for n, t in small.tensors.items() if t.role is Role.ACTIVATION and t.shape in [(7,), (5,), (9,)]]
    assert statistics and set(statistics) <= floats


def test_halves_are_moved_without_conversions() -> None:
    """From one half to the other, in another order: no element changes, so none is converted."""
    tensors = {
        n: Tensor(n, s, DType.F32, r)
        for n, s, r in (
            ("x", (3, 5), Role.INPUT),
            ("a", (3, 5), Role.ACTIVATION),
            ("b", (5, 3), Role.ACTIVATION),
            ("y", (5, 3), Role.OUTPUT),
        )
    }

    def move(source: View, target: str, name: str) -> Op:
        body = (Instr(name, (0,), DType.F32),)
        kind = Loop(source.shape, 0, (DType.F32,), body if name else (), (), (), (1 if name else 0,), (DType.F32,))
        return Op(target, kind, (source,), (View(target, source.shape, (source.shape[1], 1)),), "forward", "")

    turned = View("a", (5, 3), (1, 5))
    ops = [
        move(View("x", (3, 5), (5, 1)), "a", "neg"),
        move(turned, "b", ""),
        move(View("b", (5, 3), (3, 1)), "y", "abs"),
    ]
    small = mixed(Program("net", tensors, ops, outputs=(("output", "y"),)))
    bodies = [[s.op for s in op.kind.body] for op in small.ops if isinstance(op.kind, Loop)]
    assert bodies == [["neg", "to_half"], [], ["from_half", "abs"]]


# ---- what PyTorch does as well


def rounded(x: torch.Tensor) -> torch.Tensor:
    return x.half().to(x.dtype)


def test_products_multiply_halves_but_vectors_take_weights_as_they_are() -> None:
    torch.manual_seed(3)
    w = nn.Parameter(torch.randn(5, 7))
    for rows, expected in ((1, w.detach()), (3, rounded(w.detach()))):
        x = torch.randn(rows, 7)
        with Halves(torch.float32, [w], chains=False):
            y = nn.functional.linear(x * 1.0, w)
        assert torch.equal(y, rounded(x) @ expected.T)


def test_results_losses_and_gradients_of_parameters_are_not_rounded() -> None:
    torch.manual_seed(4)
    module = nn.Linear(6, 5)
    x, target = torch.randn(4, 6), torch.tensor([1, 0, 4, 2])
    with Halves(torch.float32, [*module.parameters(), x], chains=False):
        y = module(x)
        loss = nn.functional.cross_entropy(y, target)
        loss.backward()
    a, w, b = rounded(x), rounded(module.weight.detach()), module.bias.detach()
    out = (a @ w.T + b).requires_grad_()
    plain = nn.functional.cross_entropy(out, target)
    plain.backward()
    assert torch.equal(y, out.detach()) and loss == plain
    assert out.grad is not None and module.weight.grad is not None
    assert torch.allclose(module.weight.grad, rounded(out.grad).T @ a, rtol=1e-6, atol=0)
    assert not torch.equal(module.weight.grad, rounded(module.weight.grad))


def test_statistics_stay_float_and_chains_may() -> None:
    torch.manual_seed(5)
    x = torch.randn(6, 9)
    with Halves(torch.float32, [x], chains=False):
        once = (x * 3.1 + 1.7) * 0.3
    with Halves(torch.float32, [x], chains=True):
        chain = (x * 3.1 + 1.7) * 0.3
    with Halves(torch.float32, [x], chains=False):
        centred = x - x.mean(0)
    assert torch.equal(chain, (x * 3.1 + 1.7) * 0.3)
    assert torch.equal(once, rounded(rounded(x * 3.1) + 1.7) * 0.3)
    assert torch.equal(centred, x - x.mean(0))


def test_statistics_of_instances_stay_float() -> None:
    """Fault: this norm repeats what it has counted, which was rounded on the way back."""
    x = torch.randn(2, 3, 5, 7)
    plain, norm = (nn.InstanceNorm2d(3, track_running_stats=True) for _ in range(2))
    plain(x)
    with Halves(torch.float32, [*norm.buffers(), x], chains=False):
        norm(x)
    assert torch.equal(norm.state_dict()["running_var"], plain.state_dict()["running_var"])


def test_what_is_changed_in_place_is_still_changed() -> None:
    x = torch.randn(4, 3)
    with Halves(torch.float32, [x], chains=False):
        y = x * 1.3
        y.add_(1.1)
    assert torch.equal(y, rounded(x * 1.3) + 1.1)


def test_random_numbers_are_drawn_as_ever() -> None:
    """Fault: integers of 24 bits on the way to them were rounded to halves, and infinite."""

    class Noisy(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + torch.randn_like(x)

    module = Noisy(5, 5)
    task = Task(module, nn.MSELoss(), [((torch.randn(4, 5),), torch.zeros(4, 5))], "SGD", [({"lr": 0.1}, ["bias"])])
    plain, halves = (reference.run(replace(task, dtype=d), 1, torch.float64) for d in ("fp32", "mixed"))
    assert np.allclose(halves[0, "output", "output"], plain[0, "output", "output"], atol=0.01)


def test_complex_parameters_have_floors() -> None:
    """Fault: their pairs were held against numbers of half their count."""
    module = nn.Module()
    module.w = nn.Parameter(torch.randn(3, dtype=torch.complex64))
    record = {(0, "parameter", "w"): torch.view_as_real(module.w.detach() + 1).double().numpy()}
    assert 0 < nearest.floors(module, record)[0, "parameter", "w"] < HALF.granted * 4


@pytest.mark.parametrize("text", ["0", "-8", "nan", "inf", "many", "dynamic:0:5", "dynamic:8:0", "dynamic:8", "1e39"])
def test_a_loss_scale_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="loss scale"):
        loss_scale_of(text)


def test_loss_scales_in_words() -> None:
    assert loss_scale_of("1024") == LossScale(1024.0)
    assert loss_scale_of("dynamic") == LossScale(65536.0, 2000)
    assert loss_scale_of("dynamic:32:7") == LossScale(32.0, 7)
    assert loss_scale_of(None) is None


@pytest.mark.parametrize("asked", [{"loss_scale": 1024}, {"keep": "0"}])
def test_what_goes_with_mixed_precision_alone(asked: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="goes with mixed precision"):
        deploy(nn.Sequential(nn.Linear(3, 2)), torch.randn(1, 3), torch.tensor([1]), out=tmp_path / "net", **asked)


# ---- halves in the user's own code


@pytest.mark.parametrize(
    "convert",
    [
        lambda x: x.half(),
        lambda x: x.half(memory_format=torch.contiguous_format),
        lambda x: x.to(torch.float16),
        lambda x: x.to("cpu", torch.float16),
        lambda x: x.to(dtype=torch.float16, copy=True),
    ],
)
def test_conversions_to_halves_ask_for_mixed_precision(convert: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.randn(3, 5)
    with without_autocast() as regions:
        assert torch.equal(x.to(torch.float64), x.double()) and not regions.wanted
        assert torch.equal(convert(x), x) and convert(x).dtype is torch.float32 and regions.wanted
        assert not torch.equal(convert(x).add_(1), x)  # written in place is the copy
        assert convert(x.double()).dtype is torch.float64
        assert convert(torch.arange(3)).dtype is torch.float32
        assert HALF.rounded(x).dtype is torch.float16
    assert convert(x).dtype is torch.float16


@pytest.mark.parametrize("asks", [False, True])
def test_a_tensor_made_half_is_mixed_precision(asks: bool) -> None:
    """Program and reference alike: what the user's products make of it lies in memory as halves."""

    class Halved(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(torch.tanh(x.to(torch.float16) if asks else x).float())

    module, samples = Halved(5, 3), [((torch.randn(4, 5),), torch.randn(4, 3))]
    user = assemble(Parts("net", module, *samples[0][0], samples[0][1], nn.MSELoss(), None, None, None, 1, "the test"))
    assert captured_and_checked(user)[0].autocast == asks
    task = Task(module, nn.MSELoss(), samples, "SGD", [({"lr": 0.1}, ["bias"])], dtype="mixed")
    found = reference.run(task, 1, torch.float64)[0, "output", "output"]
    weight, bias = (p.detach().double() for p in (module.weight, module.bias))
    given = samples[0][0][0].double()
    wanted = rounded(torch.tanh(rounded(given) if asks else given)) @ rounded(weight).T + bias
    assert np.allclose(found, wanted.numpy(), rtol=0, atol=1e-12)


def test_the_reference_rounds_past_what_it_takes_from_the_user() -> None:
    """Where conversions to halves change nothing, its own must."""
    folder = Path(without_autocast.__code__.co_filename).parent
    assert not [p.name for p in folder.glob("*.py") if re.search(r"\.half\(\)|\.to\(torch\.float16", p.read_text())]


# ---- what counts


@pytest.mark.parametrize("how", ["bilinear", pytest.param("bicubic", marks=pytest.mark.slow)])
def test_what_becomes_a_position_is_float(how: str) -> None:
    """Faults: the places of pixels beyond the first 2,048 were rounded to other ones, and where between two of them a
    point lies to a thirtieth; weights of pixels were polynomials of halves."""

    class Sampled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 2, 3, padding=1)
            self.theta = nn.Parameter(torch.tensor([[0.9, 0.1, 0.05], [-0.15, 1.1, -0.02]]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            grid = nn.functional.affine_grid(self.theta.expand(1, 2, 3), [1, 1, 5, 7], align_corners=False)
            return nn.functional.grid_sample(self.conv(x), grid, how, align_corners=False) * 2

    small = mixed(program_of(Sampled(), (1, 1, 53, 61)))
    makers = {v.tensor: op for op in small.ops for v in op.writes}
    late = [op for op in small.ops if any(small.tensors[v.tensor].dtype is DType.I32 for v in op.writes)]
    assert late
    seen = set[str]()
    while late:
        op = late.pop()
        for name in {v.tensor for v in op.reads} - seen - {"net.affine_grid"}:
            seen.add(name)
            assert small.tensors[name].dtype is not DType.F16
            late += [makers[name]] if name in makers else []
    assert any("grid_sample" in n for n in seen) and small.tensors["net.affine_grid"].dtype is DType.F16
    weights = {t.dtype for n, t in small.tensors.items() if "grid_sample" in n and t.numel == 5 * 7}
    assert DType.F32 in weights and DType.F16 not in weights


# ---- layers that stay float


def test_what_is_done_in_a_kept_layer_is_float(program: Program) -> None:
    layers = sorted({op.layer for op in program.ops if is_product(op.kind) and op.layer})
    small = mixed(program, layers[:1])
    made = {small.tensors[v.tensor].dtype for op in small.ops if op.layer == layers[0] for v in op.writes}
    assert DType.F16 not in made
    storage = {
        layer: {op.kind.storage for op in small.ops if op.layer == layer and is_product(op.kind)} for layer in layers
    }
    assert storage.pop(layers[0]) == {DType.F32} and {DType.F16} in storage.values()
    assert mixed(program, ["lay"]) == mixed(program)  # the beginning of a name is none


def test_kept_layers_round_nothing_in_the_reference() -> None:
    """Forward and backward; what others have made they find rounded."""
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(5, 7), nn.Sequential(nn.Linear(7, 6), nn.Tanh()), nn.Linear(6, 4))
    task = Task(
        net,
        nn.MSELoss(),
        [((torch.randn(3, 5),), torch.randn(3, 4))],
        "SGD",
        [({"lr": 0.1}, ["0.bias"])],
        dtype="mixed",
    )
    every, some, plain = (
        reference.run(t, 1, torch.float64)
        for t in (replace(task, keep=["0", "1", "2"]), replace(task, keep=["1"]), replace(task, dtype="fp32"))
    )
    assert all(np.array_equal(every[k], plain[k]) for k in plain)
    with torch.no_grad():
        given, *_ = task.samples[0][0]
        first = rounded(rounded(given.double()) @ rounded(net[0].weight.double()).T + net[0].bias.double())
        second = torch.tanh(first @ net[1][0].weight.double().T + net[1][0].bias.double())
        last = rounded(second) @ rounded(net[2].weight.double()).T + net[2].bias.double()
    assert np.allclose(some[0, "output", "output"], last.numpy(), rtol=0, atol=1e-12)


def test_layers_are_named_as_users_write_them() -> None:
    net = nn.ModuleDict(
        {"body": nn.ModuleDict({"norm1": nn.LayerNorm(3), "norm2": nn.LayerNorm(3)}), "head": nn.Linear(3, 3)}
    )
    assert kept_layers(net, ("head", "norm*")) == ("head", "body.norm1", "body.norm2")
    with pytest.raises(UsageError, match="no layer 'haed'") as failure:
        kept_layers(net, ("haed",))
    assert "head" in failure.value.render()
    assert kept_of("fp32=head, norm*") == kept_of("head,norm*") == kept_of(["head", "norm*"]) == ("head", "norm*")
    for text in ("fp16=head", "head,,", ["head", ""]):
        with pytest.raises(UsageError):
            kept_of(text)
