"""How a program of mixed precision is judged: which run of PyTorch it is held against, and how near it must be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from golden import compare, nearest, reference
from golden.autocast import without_autocast
from golden.composed import STEPS
from golden.doubt import CORNERS, Doubt, Kinks
from golden.half import BFLOAT, HALF, Half
from golden.halves import Halves
from golden.layers import inside
from golden.task import Task
from tests.unit.small_programs import FLOATS, program_of
from trainlib_deployer.check.judge import judged_in_halves
from trainlib_deployer.passes.mixed import mixed
from trainlib_deployer.program.ir import DType, Role

Array = np.ndarray[Any, Any]


def family(count: int = 4) -> list[dict[tuple[int, str, str], Array]]:
    """Two groups of runs, 10 % apart, whose members differ by 1e-3."""
    g = np.random.default_rng(7)
    centres = {n: g.standard_normal(50) for n in "abcde"}
    branch = {n: v + 0.1 * g.standard_normal(50) for n, v in centres.items()}
    return [
        {(0, "gradient", n): (branch if i % 2 else centres)[n] * (1 + 1e-3 * g.standard_normal(50)) for n in "abcde"}
        for i in range(count)
    ]


def verdict(computed: Any, runs: Any) -> compare.Verdict:
    them = nearest.Family(runs)
    near = them.beside(computed)
    return compare.compare(computed, near, [near], {}, least=them.tolerances({}))


def test_a_program_is_held_against_the_run_that_took_its_branches() -> None:
    *runs, program = family(7)
    assert verdict(program, runs).passed
    assert all(t.hides < 0.01 for t in verdict(program, runs).tensors)


@pytest.mark.parametrize("factor", [0.0, -1.0, 1.05])
def test_one_wrong_gradient_does_not_choose_the_run(factor: float) -> None:
    *runs, program = family(7)
    for key in program:
        found = verdict({**program, key: program[key] * factor}, runs)
        assert [t.name for t in found.tensors if not t.passed] == [key[2]]


def test_equal_runs_tell_nothing_of_the_others() -> None:
    """Fault: of few elements most runs round all alike; how far they are from the ones next to them was zero."""
    runs = [{(0, "gradient", "w"): np.array([1.0 + 0.01 * (i % 2)])} for i in range(9)]
    assert nearest.Family(runs).tolerances({})[0, "gradient", "w"] == compare.FLOOR
    assert 0.03 < nearest.Family(runs, by_chance=True).tolerances({})[0, "gradient", "w"] < 0.05


def test_updates_are_judged_by_the_gradients_that_the_program_has() -> None:
    """Adam makes a whole step of a gradient however small: with another sign it would go the other way."""
    torch.manual_seed(6)
    module = nn.Linear(5, 3)
    samples = [((torch.randn(4, 5),), torch.randn(4, 3))]
    names = [n for n, _ in module.named_parameters()]
    task = Task(module, nn.MSELoss(), samples, "Adam", [({"lr": 0.1}, names)], dtype="mixed")
    before = module.weight.detach().numpy().copy()
    given: dict[tuple[int, str, str], Array] = {(0, "gradient", "weight"): np.full((3, 5), -1e-6, np.float32)}
    found = reference.run(task, 1, torch.float64, resume=given)
    assert np.allclose(found[0, "parameter", "weight"] - before, 0.1, rtol=0.02)
    floors = nearest.floors(module, found, given)
    assert (0, "parameter", "weight") not in floors and floors[0, "gradient", "weight"] == HALF.granted


def test_a_state_is_off_by_what_floats_round_of_what_was_there() -> None:
    """Fault: a mean of gradients that came to a tenth of what it had been was 1.3e-6 off, and failed."""
    key, module = (0, "state", "weight.exp_avg"), nn.Linear(5, 3)
    before = np.random.default_rng(5).standard_normal((3, 5)).astype(np.float32)
    for rest in (0.1, 0.001, 2.0):
        floors = nearest.floors(module, {(1, *key[1:]): rest * before}, {key: before})
        assert floors.get((1, *key[1:])) == (None if rest > 1 else pytest.approx(compare.FLOOR / rest))


@pytest.mark.parametrize(("optimizer", "granted"), [("Adam", True), ("Rprop", True), ("SGD", False)])
def test_a_program_that_checks_itself_may_turn_few_steps_round(optimizer: str, granted: bool) -> None:
    """Fault: of a gradient next to zero Adam makes a whole step either way, and the project's own check failed."""
    torch.manual_seed(7)
    module = nn.Linear(31, 17)
    names = [n for n, _ in module.named_parameters()]
    samples = [((torch.randn(5, 31),), torch.randn(5, 17))]
    task = Task(module, nn.MSELoss(), samples, optimizer, [({"lr": 0.01}, names)], dtype="mixed")
    key = (0, "parameter", "weight")
    exact = reference.run(task, 1, torch.float64)[key]
    added = exact - module.weight.detach().numpy()
    few = exact.copy()
    few.flat[[3, 500]] -= 2 * added.flat[[3, 500]]
    limit = nearest.floors(module, {key: exact}, gentle=nearest.is_gentle(optimizer))[key]
    assert (nearest.relative(few, exact) < limit) == granted
    assert nearest.relative(exact - 0.25 * added, exact) > limit


def test_a_loss_scale_hides_no_states() -> None:
    """Fault: 65536 counted as the size of states, and gradients of that size as what squares of them may be off by."""
    g = np.random.default_rng(8)
    values = {
        ("gradient", "w"): 65536 * g.standard_normal(9),
        ("state", "w.exp_avg_sq"): 1e-4 * g.random(9),
        ("state", "loss_scale.scale"): np.array(65536.0),
    }
    run = {(0, *key): value for key, value in values.items()}
    wrong = {**run, (0, "state", "w.exp_avg_sq"): run[0, "state", "w.exp_avg_sq"] * 1.05}
    least = {(0, "gradient", "w"): HALF.granted}
    found = compare.compare(wrong, run, [run], {}, least=least)
    assert [t.name for t in found.tensors if not t.passed] == ["w.exp_avg_sq"]


def test_what_has_overflown_elsewhere_is_not_near() -> None:
    """Fault: a run of which nothing is finite had no distance, and was held against."""
    *runs, program = family(4)
    lost = {key: np.full_like(value, np.nan) for key, value in program.items()}
    assert nearest.Family([lost, *runs]).next_to(program, 0) is not lost
    assert nearest.Family([*runs, lost]).next_to(lost | {}, 0) is lost


# ---- what a program may do otherwise


def cornered() -> Task:
    """One of fifteen sums is next to the corner of its ReLU, and carries a good part of the gradient."""
    torch.manual_seed(11)
    net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    x = torch.randn(3, 6)
    with torch.no_grad():
        net[0].bias[2] -= net[0](x)[1, 2] - 1e-4
    names = [n for n, _ in net.named_parameters()]
    return Task(net, nn.MSELoss(), [((x,), torch.randn(3, 3))], "SGD", [({"lr": 0.1}, names)], dtype="mixed")


@pytest.mark.slow
def test_a_program_on_the_other_side_of_a_corner_is_right() -> None:
    """Fault: no run of PyTorch took the branch, whose gradients differed by a twentieth."""
    task, kinks = cornered(), Kinks()
    plain = reference.run(replace(task, doubt=Doubt(kinks)), 1, torch.float64)
    turned = next(kinks.turned())
    program = reference.run(replace(task, doubt=Doubt(turned=turned)), 1, torch.float32)
    key = (0, "gradient", "0.weight")
    assert nearest.relative(program[key], plain[key]) > 0.04
    assert judged_in_halves(task, program, 1, {}).verdict.passed
    for name, _ in task.module.named_parameters():
        key = (0, "gradient", name)
        found = judged_in_halves(task, {**program, key: program[key] * 1.05}, 1, {}).verdict
        assert [t.name for t in found.tensors if not t.passed and t.kind == "gradient"] == [name]


@pytest.mark.parametrize(
    ("name", "more", "corner"),
    [
        ("relu", (), 0.0),
        ("relu_", (), 0.0),
        ("leaky_relu", (), 0.0),
        ("threshold", (0.5, 7.0), 0.5),
        ("hardtanh_", (), -1.0),
        ("clamp", (-2.0, 0.3), 0.3),
        ("clamp", (0.3,), 0.3),
        ("clamp_max", (0.3,), 0.3),
        ("hardswish", (), -3.0),
        ("softshrink", (0.25,), -0.25),
    ],
)
@pytest.mark.parametrize("side", [-1, 1])
def test_an_element_next_to_a_corner_is_put_on_its_other_side(
    name: str, more: tuple[float, ...], corner: float, side: int
) -> None:
    """Fault: forward alone, so that only a ReLU's gradient, which is made of its result, knew of it."""
    start = torch.tensor([[corner + 1.5], [corner + side * 2.0**-10], [corner + 1.25]])
    operation = getattr(torch.ops.aten, name)

    def both(doubt: Doubt) -> tuple[torch.Tensor, torch.Tensor]:
        leaf = start.clone().requires_grad_()
        with Halves(torch.float32, [leaf], False, branches=doubt.of(4)):
            value = operation(leaf * 1.0, *more)
            value.sum().backward()
        return value.detach(), leaf.grad

    kinks = Kinks()
    value, gradient = both(Doubt(kinks))
    assert next(kinks.turned()) == {4: (1, 1, corner)}
    turned_value, turned_gradient = both(Doubt(turned=next(kinks.turned())))
    assert (turned_value - value).abs().sum() < 2.0**-8 or name == "threshold"
    assert gradient[1] != turned_gradient[1] or name.endswith("_")
    assert torch.equal(gradient[::2], turned_gradient[::2]) and torch.equal(value[::2], turned_value[::2])


def test_a_clamp_has_the_corners_that_are_given() -> None:
    """Fault: of `clamp(x, min=0)` one was 1."""
    assert CORNERS["clamp"](0.0) == (0.0, None) and CORNERS["clamp"](None, 2.0) == (None, 2.0)
    assert CORNERS["clamp_max"](2.0) == (2.0,) and CORNERS["hardtanh"]() == (-1.0, 1.0)


@pytest.mark.parametrize("half", [HALF, BFLOAT], ids=["halves", "bfloat16"])
@pytest.mark.parametrize("corner", [0.0, 0.1, 0.25, -0.3, -1.0])
def test_across_a_corner_lies_the_next_half(corner: float, half: Half) -> None:
    """Fault: where conversions to halves were taken for the user's wish, this one changed nothing, and a verification
    whose reference turned an element next to the corner of a hard swish ended in an error."""
    with without_autocast(bfloat=True):
        below, above = half.across(corner + 1e-3, corner), half.across(corner, corner)
    assert below < corner < above
    ends = torch.tensor([below, above], dtype=half.dtype)
    assert ends.double().tolist() == [below, above]
    between = torch.linspace(below, above, 99, dtype=torch.float64).to(half.dtype).unique().double().tolist()
    assert between == sorted({below, above, *([corner] if corner in between else [])})


@pytest.mark.parametrize("half", [HALF, BFLOAT], ids=["halves", "bfloat16"])
@pytest.mark.parametrize("part", [1 / 16, 1.0])
def test_what_is_shaken_is_one_of_the_halves_beside_it(part: float, half: Half) -> None:
    value = torch.cat([torch.randn(4000), 1e-6 * torch.randn(4000), torch.tensor([0.0, 1.0, 65504.0, torch.inf])])
    branches = Doubt(shaken=part, seed=3).of(0, half)
    found, plain = branches.rounded(value), value.to(half.dtype)
    other = found != plain
    assert torch.equal(branches.rounded(found.float()), found)  # a half stays
    assert torch.equal(branches.rounded(value.flip(0)), found.flip(0))  # wherever it lies
    assert torch.equal(branches.rounded(value.double()), Doubt(shaken=part, seed=3).of(1, half).rounded(value.double()))
    assert 0.5 * part / 4 < other.float().mean() < 2 * part / 4
    above = torch.nextafter(plain, torch.tensor(torch.inf, dtype=half.dtype))
    below = torch.nextafter(plain, torch.tensor(-torch.inf, dtype=half.dtype))
    assert ((found == above) | (found == below) | ~other).all()


def test_parameters_are_not_shaken() -> None:
    """A program rounds them as PyTorch does."""
    w = torch.randn(50, 40)
    with Halves(torch.float32, [w], False, branches=Doubt(shaken=1.0).of(0)) as halves:
        assert torch.equal(halves.half(w), w.half().float())
        assert not torch.equal(halves.half(w * 1.0), w.half().float())


@pytest.mark.parametrize("shape", [(5, 1), (5, 3, 2)])
@pytest.mark.parametrize("dim", [0, 1])
def test_a_weight_norm_is_taken_apart_forward_alone(shape: tuple[int, ...], dim: int) -> None:
    """A program makes its gradient of floats. Of vectors of one element that is zero, but for what floats round; fault:
    with parts as halves it was nothing but their rounding, here and in programs."""
    dim = dim and len(shape) - 1
    v, dw = torch.randn(shape).double(), torch.randn(shape).double()
    g = torch.rand([n if d == dim else 1 for d, n in enumerate(shape)]).double()
    aten = torch.ops.aten
    w, norms = aten._weight_norm_interface(v, g, dim)
    for one, steps in zip((w, norms), STEPS[aten._weight_norm_interface.default](v, g, dim), strict=True):
        assert torch.allclose(one, steps)
    backward = aten._weight_norm_interface_backward
    exact = backward(dw.half().double(), v, g, norms, dim)[0]
    for chains in (False, True):
        with Halves(torch.float64, [v, g, norms], chains):
            found = backward(dw * 1.0, v, g, norms, dim)[0]
        assert torch.allclose(found, exact, atol=1e-12)


@pytest.mark.parametrize("size", [(2, 1, 3, 5), (1, 2, 1, 4), (2, 1, 3, 2, 5)])
@pytest.mark.parametrize("corners", [True, False])
def test_a_grid_is_a_product(size: tuple[int, ...], corners: bool) -> None:
    """Fault: its operands were no halves, and points next to a pixel's edge lay beyond it."""
    dims = len(size) - 2
    torch.manual_seed(3)  # with a few seeds all halves are what they round to
    theta = torch.randn(size[0], dims, dims + 1).double()
    grid = torch.ops.aten.affine_grid_generator
    steps = STEPS[grid.default](theta, size, corners)
    assert torch.allclose(steps, grid(theta, size, corners))
    with Halves(torch.float64, [theta], False):
        assert torch.allclose(grid(theta, size, corners), steps, atol=1e-2)
        assert not torch.equal(grid(theta, size, corners), steps)


def test_a_shaken_run_passes_some_results_on_as_floats() -> None:
    """Fault: all runs but those of one loop for everything rounded alike between two operations."""
    x = torch.randn(40)

    def found(doubt: Doubt) -> torch.Tensor:
        with Halves(torch.float32, [x], False, branches=doubt.of(0)):
            return (x * 1.1 + 0.3).sum()

    between = [found(Doubt(shaken=1e-9, seed=seed)).item() for seed in range(16)]
    floats = (x * 1.1).half().float() + 0.3
    assert {*between} == {(x * 1.1 + 0.3).sum().item(), (x * 1.1 + 0.3).half().float().sum().item()} | {
        floats.sum().item(),
        floats.half().float().sum().item(),
    }


def test_what_cancels_is_measured_as_it_is_judged() -> None:
    """Fault: runs were measured by the tensor's own size, the program by a thousandth of the largest one's, and where
    it should be zero anything passed."""
    g = np.random.default_rng(9)
    large = g.standard_normal(50)
    runs = [{(0, "gradient", "zero"): 1e-9 * g.standard_normal(7), (0, "gradient", "w"): large} for _ in range(4)]
    runs[0][0, "gradient", "zero"] = np.zeros(7)
    assert verdict(runs[1], runs).passed
    wrong = {**runs[1], (0, "gradient", "zero"): 1e-5 * large[:7]}
    assert [t.name for t in verdict(wrong, runs).tensors if not t.passed] == ["zero"]


def branching(count: int, elements: int) -> list[dict[tuple[int, str, str], Array]]:
    """Runs of two steps whose gradients are a tenth apart, each element for itself, and one that is zero at first."""
    g = np.random.default_rng(elements)
    centre = {(step, n): g.standard_normal(elements) for step in (0, 1) for n in "abcd"}
    return [
        {(s, "gradient", n): v * (1 + 0.1 * g.standard_normal(elements)) for (s, n), v in centre.items()}
        | {(0, "gradient", "late"): np.zeros(5), (1, "gradient", "late"): np.arange(5.0)}
        for _ in range(count)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.05, 0.95])
def test_a_factor_shows_where_each_element_may_be_far_off(factor: float) -> None:
    """Fault: branches moved most gradients of a U-Net by a tenth, and a twentieth more of one passed for them."""
    *runs, program = branching(11, 1600)
    for name in (*"abcd", "late"):
        wrong = {k: v * factor if k[2] == name else v for k, v in program.items()}
        for computed, fails in ((program, []), (wrong, [name, name])):
            found = verdict(computed, runs)
            assert all(t.hides > 0.05 for t in found.tensors if t.name in "abcd")
            family = nearest.Family(runs)
            found = found.with_factors(family.factors(computed, family.beside(computed)))
            assert all(t.hides_factor < 0.04 for t in found.tensors)
            assert [t.name for t in found.tensors if not t.passed] == fails


def test_of_few_runs_a_factor_may_be_rounding() -> None:
    """Fault: what four pairs differ by in the mean may be little by chance, and right programs were called scaled."""
    scaled = 0
    for elements in range(100, 180):
        *runs, program = branching(4, elements)
        family = nearest.Family(runs)
        found = family.factors(program, family.beside(program)).values()
        assert not any(abs(own) > most for own, most in found)
        scaled += sum(abs(own) > most / (1 + nearest.FEW / 4) for own, most in found)
    assert scaled


def test_of_few_elements_a_factor_may_be_rounding() -> None:
    for elements in (2, 7):
        *runs, program = branching(11, elements)
        family = nearest.Family(runs)
        found = verdict(program, runs).with_factors(family.factors(program, family.beside(program)))
        assert found.passed and any(t.hides_factor > 0.05 for t in found.tensors)


def test_a_frozen_norm_keeps_its_deviation_and_a_mean_its_shape() -> None:
    """Fault: the inverse deviation of a norm that is not trained was a half, off by 2^-12 in each layer of one network,
    that of an instance norm zero, where a variance was larger than any half, and the reference rounded means that it
    saw in another shape."""
    norms = nn.BatchNorm2d(5), nn.InstanceNorm2d(5, affine=True, track_running_stats=True)
    net = nn.Sequential(nn.Conv2d(3, 5, 3), *(norm.eval() for norm in norms), nn.ReLU())
    program = mixed(program_of(net, (2, 3, 8, 7), FLOATS))
    small = [t for t in program.tensors.values() if t.numel in (5, 10) and t.role in (Role.ACTIVATION, Role.GRADIENT)]
    assert {5, 10} == {t.numel for t in small} and all(t.dtype is DType.F32 for t in small)
    x = torch.randn(2, 5, 4, 3)
    with Halves(torch.float32, [x], False):
        mean = (x * 1.0).mean((2, 3), keepdim=True)
        found, exact = mean.flatten(1) * 1.0, mean.flatten(1)
    assert torch.equal(found, exact)


@pytest.mark.parametrize("by_hand", [False, True])
def test_outputs_and_what_a_loss_makes_are_floats(by_hand: bool) -> None:
    """Fault: the slope of a sigmoid that a network ends with was that of its output as a half, and what a loss is made
    of by hand were halves: of 1 - p little is left, and gradients of one network were 9 % off."""

    def cross_entropy(p: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return -(t * torch.log(p) + (1 - t) * torch.log(1 - p)).mean()

    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(5, 11), nn.Sigmoid()).double()
    nn.init.normal_(net[0].weight, std=4.0)
    x, t = torch.randn(7, 5).half().double(), torch.rand(7, 11).double()
    loss = cross_entropy if by_hand else nn.BCELoss()
    net[0].weight.data = net[0].weight.data.half().double()
    (exact,) = torch.autograd.grad(loss(net(x), t), net[0].weight)
    with inside(net, [""]) as network, Halves(torch.float64, [*net.parameters(), x, t], False, network=network):
        (found,) = torch.autograd.grad(loss(net(x), t), net[0].weight)
    assert net(x).max() > 1 - 2.0**-12
    assert (found - exact).norm() <= 2.0**-9 * exact.norm()
