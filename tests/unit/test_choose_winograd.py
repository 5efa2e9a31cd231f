"""Which convolutions are done by Winograd's algorithm."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from trainlib_deployer import deploy, passes
from trainlib_deployer.advice.fit import in_halves
from trainlib_deployer.capture.step import capture
from trainlib_deployer.errors import UsageError
from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.winograd import pays
from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.ops.conv_shape import ConvShape
from trainlib_deployer.ops.lower import lower
from trainlib_deployer.passes.choose_winograd import by_winograd
from trainlib_deployer.program.ir import Program
from trainlib_deployer.program.precision import Precision
from trainlib_deployer.user.assemble import Parts, assemble

SHAPE = ConvShape(1, 1, 16, 16, 32, 31, 32, 31, 3, 3, (1, 1), (1, 1), (1, 1))


def test_where_it_pays() -> None:
    assert pays(Conv("fw", SHAPE))
    assert pays(Conv("bw_x", replace(SHAPE, groups=2, n=2)))


def test_narrow_images() -> None:
    """Whose tiles are in several rows: the direct form is slower in input gradients than forward, Winograd's is faster
    where tiles are two and two side by side."""
    narrow = replace(SHAPE, n=2, co=32, h=6, w=6, ho=6, wo=6)
    assert pays(Conv("bw_x", narrow)) and not pays(Conv("fw", narrow))
    two_and_two = replace(SHAPE, n=2, ci=8, h=12, w=12, ho=12, wo=12)
    assert pays(Conv("fw", two_and_two)) and not pays(Conv("fw", replace(two_and_two, w=13, wo=13)))


@pytest.mark.parametrize(
    "change",
    [
        {"kh": 5, "ho": 30},
        {"kw": 1, "wo": 33},
        {"stride": (2, 1), "ho": 16},
        {"dilation": (1, 2), "wo": 29},
        {"ci": 3},  # transforms take too long for so few terms
        {"h": 3, "w": 3, "ho": 3, "wo": 3},
    ],
    ids=str,
)
def test_where_not(change: dict[str, int]) -> None:
    assert not pays(Conv("fw", replace(SHAPE, **change)))


@pytest.mark.parametrize(
    ("optimizer", "more", "done"),
    [
        (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1}, {"fw", "bw_x", "bw_w"}),
        (torch.optim.Adam, {}, {"fw", "bw_x"}),  # makes a whole step of what should be zero
        (torch.optim.Rprop, {}, {"fw", "bw_x"}),
    ],
)
def test_a_weight_gradient_that_is_divided_by_its_size_stays_exact(
    optimizer: type[torch.optim.Optimizer], more: dict[str, float], done: set[str]
) -> None:
    net = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.Tanh(), nn.Conv2d(8, 9, 3, padding=1))
    x, y = torch.randn(1, 8, 24, 24), torch.randn(1, 9, 24, 24)
    made = optimizer(net.parameters(), lr=0.01, **more)  # type: ignore[call-arg]
    user = assemble(Parts("net", net, x, y, nn.MSELoss(), made, None, None, 1, "the test"))
    kinds = [op.kind for op in passes.run(lower(user, capture(user))).ops if isinstance(op.kind, Conv)]
    assert {k.direction for k in kinds if k.winograd} == done


def test_of_halves_the_reference_is_told() -> None:
    """Also of weight gradients, where updates multiply and add."""
    net = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.Tanh(), nn.Conv2d(16, 16, 3, padding=1))
    x, y = torch.randn(1, 16, 32, 30), torch.randn(1, 16, 32, 30)
    made = torch.optim.SGD(net.parameters(), lr=0.01)
    user = assemble(Parts("net", net, x, y, nn.MSELoss(), made, None, None, 1, "the test"))
    mixed = Precision(halves=True)
    lowered = lower(user, capture(user), precision=mixed)
    for arithmetic in ("direct", "fastest"):
        program = passes.run(lowered, passes.chosen(mixed, arithmetic))
        halves = {k for op in program.ops if isinstance(k := op.kind, Conv) and k.winograd}
        floats, told = by_winograd(program)
        assert not floats
        assert {k.direction for k in halves} == ({"fw", "bw_x", "bw_w"} if arithmetic == "fastest" else set())
    shapes = (1, 16, 32, 30), (16, 16, 3, 3), (1, 1), 1
    assert told == tuple((direction, *shapes) for direction in ("bw_w", "bw_x", "fw"))


def test_direct_is_all_but_that() -> None:
    assert {p.__name__ for p in passes.DEFAULT} - {p.__name__ for p in passes.DIRECT} == {"choose_winograd"}


def test_an_unknown_arithmetic_is_refused() -> None:
    with pytest.raises(UsageError, match="arithmetic is 'exact'; it must be one of fastest, direct"):
        deploy(nn.Linear(2, 2), torch.zeros(1, 2), loss=nn.MSELoss(), arithmetic="exact")


@pytest.mark.parametrize("arithmetic", ["fastest", "direct"])
def test_a_remedy_in_mixed_precision_has_the_convolutions_of_a_deployment(arithmetic: str) -> None:
    """Fault: it was planned with every multiplication of the definition."""
    net = nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.Tanh(), nn.Conv2d(32, 32, 3, padding=1))
    x, y = torch.randn(1, 32, 24, 24), torch.randn(1, 32, 24, 24)
    user = assemble(Parts("net", net, x, y, nn.MSELoss(), None, None, None, 1, "the test"))
    captured = capture(user)
    floats, halves = (
        passes.run(lower(user, captured, precision=p), passes.chosen(p, arithmetic))
        for p in (Precision(), Precision(True))
    )

    def done(program: Program) -> set[tuple[str, bool, DType]]:
        kinds = [op.kind for op in program.ops]
        return {(k.direction, k.winograd is not None, k.storage) for k in kinds if isinstance(k, Conv)}

    assert done(in_halves(floats, ())) == done(halves)
    assert any(tiled for _, tiled, storage in done(halves) if storage is DType.F16) == (arithmetic == "fastest")
