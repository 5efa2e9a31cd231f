"""What a step of mixed precision takes: whether types or order come first, and where no floats are made."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.unit.small_programs import FLOATS, program_of
from tests.unit.test_within_budget import peak
from trainlib_deployer import passes
from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.ops.recurrent import Scan
from trainlib_deployer.passes.mixed import mixed
from trainlib_deployer.passes.order_halves import order_halves, ordered
from trainlib_deployer.program.ir import DType


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.other = (nn.Conv1d(channels, channels, 3, padding=1) for _ in range(2))
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(x + self.relu(self.other(self.relu(self.first(x)))))


@pytest.mark.parametrize("length", [17, 31])
def test_the_smaller_of_both_is_taken(length: int) -> None:
    """Fault: the gradient of a weight, a float among halves, went behind what waited for it, and more was in use at
    once than with the order that floats have."""
    net = nn.Sequential(nn.Conv1d(3, 5, 3, padding=1), *(Residual(5) for _ in range(3)), nn.Conv1d(5, 2, 1))
    program = program_of(net, (1, 3, length), passes.DIRECT[: passes.AT])
    types, order = peak(ordered(mixed(program))), peak(ordered(mixed(ordered(program))))
    assert (types > order) == (length == 17) and types != order
    assert peak(order_halves(program, ordered(program), mixed)) == min(types, order)


@pytest.mark.parametrize("pool", [nn.MaxPool2d(2), nn.MaxPool2d(3, 2, 1), nn.AdaptiveMaxPool2d(5)])
def test_maxima_are_taken_of_halves(pool: nn.Module) -> None:
    """Fault: a float copy of what a pool reads, and a float of what it makes, lay beside the halves."""
    net = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), pool, nn.Conv2d(5, 7, 3), nn.ReLU())
    small = mixed(program_of(net, (2, 3, 13, 11), FLOATS))
    pools = [op for op in small.ops if op.function.endswith("max_pool2d")]
    assert len(pools) == 2 and {op.kind.storage for op in pools} == {DType.F16}
    assert {small.tensors[v.tensor].dtype for op in pools for v in (*op.reads, *op.writes)} == {DType.F16, DType.U8}


def test_maxima_of_floats_that_are_kept_are_taken_of_floats() -> None:
    net = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(5, 7, 3))
    small = mixed(program_of(net, (2, 3, 13, 11), FLOATS), keep=("0", "1", "2"))
    assert {op.kind.storage for op in small.ops if op.function == "max_pool2d"} == {DType.F32}


@pytest.mark.parametrize(("kernel", "stride"), [(5, 1), (5, 2), (7, 1), (7, 2), (2, 2), (3, 3)])
def test_depthwise_kernels_read_and_write_halves(kernel: int, stride: int) -> None:
    """Fault: a float copy of all planes, and floats of all sums, lay beside the halves. An output is made of floats."""
    pad = kernel // 2
    layers = (nn.Conv2d(6, 6, kernel, stride, pad, groups=6, bias=False) for _ in range(3))
    small = mixed(program_of(nn.Sequential(*layers), (1, 6, 17, 13), FLOATS))
    convolutions = [op for op in small.ops if isinstance(op.kind, Conv)]
    gradients = [op for op in convolutions if op.kind.direction == "bw_w"]
    assert {small.tensors[v.tensor].dtype for op in gradients for v in op.reads} == {DType.F16}
    sums = [op for op in convolutions if op not in gradients]
    whole = [op for op in sums if op.kind.storage is DType.F16]
    for op in whole:
        assert {small.tensors[v.tensor].dtype for v in (op.reads[0], *op.writes)} == {DType.F16}, op.name
    floats = [op for op in sums if op not in whole]
    assert len(whole) == 4 and floats == [op for op in sums if op.writes[0].tensor in small.shown]
    assert {op.kind.storage for op in floats} == {DType.F32}


@pytest.mark.parametrize("layer", [nn.RNN, nn.LSTM, nn.GRU])
def test_scans_read_and_write_halves(layer: type[nn.RNNBase]) -> None:
    """Fault: gates, states and their gradients lay as floats beside the halves that they were made of. A float stays
    what one tile hands to the next."""

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = layer(5, 7), nn.Linear(7, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.layer(x)[0][-1])

    small = mixed(program_of(Last(), (11, 1, 5), FLOATS))
    scans = [(op, op.kind) for op in small.ops if isinstance(op.kind, Scan)]
    assert [kind.storage for _, kind in scans] == [DType.F16, DType.F16]
    for op, kind in scans:
        types = {n: small.tensors[v.tensor].dtype for n, v in zip(kind.writes, op.writes, strict=True)}
        assert {n for n, d in types.items() if d is DType.F16} == set(types) - {"carry", "dh", "dc"}
        assert all(
            small.tensors[v.tensor].numel < 2 * 4 * 7 or v.tensor.startswith("layer.weight") or n in kind.halves
            for n, v in zip(kind.reads, op.reads, strict=True)
        )


def test_scans_of_layers_that_are_kept_read_and_write_floats() -> None:
    class Mean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.GRU(5, 7)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x)[0].mean(0)

    small = mixed(program_of(Mean(), (11, 2, 5), FLOATS), keep=("layer",))
    assert {op.kind.storage for op in small.ops if isinstance(op.kind, Scan)} == {DType.F32}


def test_what_meets_weights_at_batch_1_is_half() -> None:
    """Fault: activations and their gradients lay as floats, as matrices that meet one vector are multiplied as they
    are, and as updates make the gradients of weights of them. The gradient of a bias is one of these."""
    layers = [nn.Linear(37, 127), nn.ReLU(), nn.Linear(127, 113), nn.ReLU(), nn.Linear(113, 5)]
    program = program_of(nn.Sequential(*layers), (1, 37), FLOATS)
    small = mixed(program)
    halves = {n for n, t in small.tensors.items() if t.dtype is DType.F16}
    assert halves >= {"1.relu", "2.linear", "3.relu", "4.linear.grad", "2.bias.grad", "2.linear.grad", "0.bias.grad"}
    products = {op.name: op for op in small.ops if isinstance(op.kind, MatMul)}
    assert not products["0.linear"].kind.widens, "its vector is the sample"
    rest = [op for name, op in products.items() if name != "0.linear"]
    assert len(rest) == 4 and all(op.kind.widens for op in rest)
    stored = {op.name for op in rest if op.kind.result is DType.F16}
    assert stored == {"2.linear", "4.linear.grad", "2.linear.grad"}
    assert peak(ordered(small)) <= 0.55 * peak(ordered(program))
    assert not any(op.function in ("from_half", "to_half") for op in small.ops), "nothing is converted on its own"
    kept = mixed(program, keep=("2",))
    assert {kept.tensors[n].dtype for n in ("2.linear", "2.weight", "2.linear.grad")} == {DType.F32}
