"""The message of a network that does not fit: exact bytes, the fullest operation, and what helps by how much."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.unit.small_programs import program_of
from trainlib_deployer.advice.fit import batch_of, does_not_fit, dropped, frozen, with_batch
from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.errors import DoesNotFit
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.plan.build import least_plan
from trainlib_deployer.plan.layout import INNER, OUTER, fits, layout, untiled
from trainlib_deployer.plan.setting import Setting

pytestmark = pytest.mark.slow

BATCH, WIDE, NARROW = 6, 96, 20
SHORT = 13_000  # bytes missing: more than L1 could take


def net() -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(WIDE, WIDE), nn.Tanh(), nn.Linear(WIDE, NARROW))


def deployed(
    folder: Path, l2: str | int, batch: int = BATCH, trained: str = "", momentum: float = 0.9, accumulate: int = 1
) -> Deployment:
    """Stacks and scratch in an L1 that is too small for the tensors."""
    model = net()
    for name, p in model.named_parameters():
        p.requires_grad_(trained in name)
    parameters = [p for p in model.parameters() if p.requires_grad]
    return deploy(
        model,
        torch.randn(batch, WIDE),
        torch.randn(batch, NARROW),
        loss=nn.MSELoss(),
        optimizer=torch.optim.SGD(parameters, lr=0.1, momentum=momentum),
        cores=1,
        l1="12k",
        l2=l2,
        steps=1,
        accumulate=accumulate,
        out=folder,
    )


@pytest.fixture(scope="module", autouse=True)
def no_chains() -> Iterator[None]:
    """Operations of a plan then have the numbers of the message, which counts them before any joins another."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Setting, "with_chains", None)
        yield


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    return deployed(tmp_path_factory.mktemp("roomy") / "net", "1M")


def used(deployment: Deployment) -> int:
    """With every tensor in L2, as the message counts."""
    return untiled(deployment.plan.program, deployment.plan.target).levels["L2"].used


def message(folder: Path, l2: int, batch: int = BATCH) -> str:
    with pytest.raises(DoesNotFit) as failure:
        deployed(folder, l2, batch)
    assert failure.value.exit_code == 3 and not folder.exists()
    return failure.value.render()


def test_the_peak_by_hand(roomy: Deployment) -> None:
    """Weights and momentum, samples, the weight gradient of the first layer; then what its update waits for."""
    weights = 4 * (WIDE * WIDE + WIDE + WIDE * NARROW + NARROW)
    samples = 4 * BATCH * (WIDE + NARROW)
    assert used(roomy) >= 2 * weights + samples + 4 * WIDE * WIDE
    assert used(roomy) <= 2 * weights + samples + 4 * WIDE * WIDE + 4 * (3 * BATCH * WIDE + 2 * BATCH * NARROW) + 512
    level = untiled(roomy.plan.program, roomy.plan.target).levels["L2"]
    assert level.used == level.lower_bound and level.proved


def test_message(roomy: Deployment, tmp_path: Path) -> None:
    needed = used(roomy)
    text = message(tmp_path / "net", needed - SHORT)
    assert f"L2: needs {needed:,} of {needed - SHORT:,} bytes: {SHORT:,} bytes over" in text
    level = untiled(roomy.plan.program, roomy.plan.target).levels["L2"]
    op = roomy.plan.program.ops[level.peak_position]
    assert f"L2 is fullest during operation {level.peak_position}: {op.name}, layer '{op.layer}'" in text
    rows = re.findall(r"^ +([\d,]+)  (\S+)$", text.partition("largest of")[2], re.MULTILINE)
    sizes = [int(size.replace(",", "")) for size, _ in rows]
    assert len(rows) == 5 and sizes == sorted(sizes, reverse=True)
    assert sizes[:3] == [4 * WIDE * WIDE] * 3, "a weight, its momentum, its gradient"


def test_remedies_are_exact(roomy: Deployment, tmp_path: Path) -> None:
    needed = used(roomy)
    text = message(tmp_path / "net", needed - SHORT)
    plain = deployed(tmp_path / "plain", "1M", momentum=0.0)
    state = 4 * (WIDE * WIDE + WIDE + WIDE * NARROW + NARROW)
    saved = needed - used(plain)
    assert saved > state, "products store the weights, and no gradient is there"
    assert 0.95 * saved < about(text, f"an optimizer without state ({state:,} bytes of it)") <= saved
    assert f"--l2 {-(-needed // 1024)}k" in text
    last = deployed(tmp_path / "last", "1M", trained="2.")
    assert abs(about(text, "train the last layer, '2', only") - (needed - used(last))) <= 128
    assert 'for n, p in model.named_parameters(): p.requires_grad_(n.startswith("2."))' in text
    biases = deployed(tmp_path / "biases", "1M", trained="bias")
    assert abs(about(text, "train the biases only") - (needed - used(biases))) <= 128
    one = deployed(tmp_path / "one", "1M", batch=1)
    assert abs(about(text, "a batch of 1 instead of 6") - (needed - used(one))) <= 128
    assert needed - used(one) > 4_000
    sums = deployed(tmp_path / "sums", "1M", batch=1, accumulate=6)
    assert used(sums) > needed, "the sums take more than the batch: no remedy"
    assert "--accumulate" not in text


def test_time_is_that_of_the_deployment(roomy: Deployment, tmp_path: Path) -> None:
    """Fault: remedies told bytes alone; that a step in half precision is faster was for the user to find."""
    text = message(tmp_path / "net", used(roomy) - SHORT)
    wide = re.search(r"--l2 (\d+)k: about ([\d,]+) cycles a step\n", text)
    assert wide is not None, text
    assert int(wide[2].replace(",", "")) == round(deployed(tmp_path / "wide", f"{wide[1]}k").plan.cycles)
    assert re.search(r"--dtype fp16: about [\d,]+ bytes less, about [\d,]+ cycles a step, 11 bits of weights", text)
    assert "0.2 % less accuracy" in text


def test_accumulation_is_what_deploying_it_takes(tmp_path: Path) -> None:
    """A batch so large that sums of gradients take less."""
    program = deployed(tmp_path / "large", "1M", batch=90).plan
    needed = untiled(program.program, program.target).levels["L2"].used
    text = message(tmp_path / "net", needed - SHORT, batch=90)
    sums = deployed(tmp_path / "sums", "1M", batch=30, accumulate=3)
    assert abs(about(text, "--accumulate 3 over batches of 30") - (needed - used(sums))) <= 128


def about(text: str, remedy: str) -> int:
    found = re.search(re.escape(remedy) + r": about ([\d,]+) bytes less", text)
    assert found, text
    return int(found[1].replace(",", ""))


def test_a_smaller_batch_is_what_deploying_it_takes(roomy: Deployment, tmp_path: Path) -> None:
    program = roomy.plan.program
    assert batch_of(program) == BATCH
    for batch in (1, 4):
        estimated = untiled(with_batch(program, BATCH, batch), roomy.plan.target)
        really = used(deployed(tmp_path / f"{batch}", "1M", batch=batch))
        assert abs(estimated.levels["L2"].used - really) <= 128, "but for the order of operations"


def test_variants_keep_the_program(roomy: Deployment) -> None:
    program = roomy.plan.program
    before = list(program.ops)
    slim = frozen(program, {"2.bias"})
    assert {v.tensor for op in slim.ops for v in op.writes} & {n for n, _ in program.gradients} == {"2.bias"}
    assert not [t for t in slim.tensors if t.startswith("0.") and "momentum" in t]
    everything = frozen(program, {n for n, _ in program.gradients})
    assert [op.name for op in everything.ops] == [op.name for op in before]
    assert len(dropped(program, {"0.weight"}).tensors) == len(program.tensors) - 1
    assert program.ops == before


def test_what_is_not_trained_is_not_read_for_it(tmp_path: Path) -> None:
    """Fault: with a norm's bias alone trained, the loop of both gradients still read what that of the weight needs."""
    model = nn.Sequential(nn.Linear(7, 5), nn.LayerNorm(5), nn.Tanh(), nn.Linear(5, 3))
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(4, 7), torch.randn(4, 3)
    program = deploy(model, x, y, loss=nn.MSELoss(), optimizer=sgd, steps=1, out=tmp_path).plan.program
    for kept, operands in ({"1.bias"}, 1), ({"1.weight"}, 4):
        sums = next(op for op in frozen(program, kept).ops if op.name == "1.layer_norm.grad.weight")
        assert len(sums.reads) == operands


def test_a_loop_for_what_is_trained_and_what_is_not(tmp_path: Path) -> None:
    """Fault: the variant that trains the last layer alone reads the other's sum of gradients, which is gone, where the
    rate of a group is computed in the loop that updates a bias of one element."""
    model = nn.Sequential(nn.Linear(WIDE, 1), nn.Tanh(), nn.Linear(1, NARROW))
    groups = [{"params": [model[0].weight, model[2].weight]}, {"params": [model[0].bias, model[2].bias], "lr": 0.01}]
    with pytest.raises(DoesNotFit) as failure:
        deploy(
            model,
            torch.randn(BATCH, WIDE),
            torch.randn(BATCH, NARROW),
            loss=nn.MSELoss(),
            optimizer=torch.optim.SGD(groups, lr=0.1),
            accumulate=2,
            cores=1,
            l1="4k",
            l2="3k",
            out=tmp_path / "net",
        )
    assert 'startswith("2.")' in failure.value.render()


def test_nothing_helps(roomy: Deployment, tmp_path: Path) -> None:
    """Far too little memory: what does not suffice is said with what is still missing."""
    text = message(tmp_path / "net", 2048)
    partly = text.partition("what helps, but not enough by itself:")[2]
    missing = used(deployed(tmp_path / "plain", "1M", momentum=0.0)) - 2048
    assert f"still about {missing:,} over" in partly
    assert "--l2" in text.partition("what helps")[0]


def test_the_variables_of_the_sdk_take_their_part_of_l1(roomy: Deployment) -> None:
    """The link script of the SDK fails by them, not by our tensors."""
    program, target = roomy.plan.program, resolve(cores=3, l1="1M").with_memory(INNER, 1 << 20, reserved=64)
    tight = target.aligned(layout(program, target, INNER).inner.used)
    own = target.inner.reserved
    assert own > 0
    assert fits(layout(program, target.with_memory(INNER, tight + own), INNER))
    assert not fits(layout(program, target.with_memory(INNER, tight + own - 1), INNER))
    assert fits(layout(program, target.with_memory(INNER, tight, reserved=0), INNER))
    chip = target.with_memory(INNER, tight + own - 1).with_memory(OUTER, 0)
    text = does_not_fit(program, chip, untiled).render()
    assert f"L1: needs {tight:,}, and the build {own:,}, of {tight + own - 1:,} bytes: 1 bytes over" in text


def test_a_memory_that_holds_no_tensor_is_fullest_nowhere(roomy: Deployment) -> None:
    """What the SDK takes is too much: there is nothing to list."""
    chip = resolve(cores=3, l1="1M").with_memory(INNER, 0, reserved=64)
    text = does_not_fit(roomy.plan.program, chip, untiled).render()
    assert "L1: needs 0, and the build 64, of 0 bytes: 64 bytes over" in text
    assert "fullest" not in text and "the largest of" not in text


def test_a_chip_of_one_memory_says_nothing_of_another() -> None:
    """Fault: `L1: needs 0 of 0 bytes: 0 bytes free`. And less of the chip than there is was mended by `--target
    generic`, which had been given."""
    program = program_of(nn.Sequential(nn.Linear(61, 83), nn.Linear(83, 7)), (6, 61))
    text = does_not_fit(program, resolve("generic", l2="20k"), untiled).render()
    assert "L2: needs" in text and "L1:" not in text
    assert "all of generic, without --l2" in text and "--target generic" not in text


def test_a_third_memory_that_can_take_nothing_says_why() -> None:
    """Fault: with `--l3 8M` and a build that fills L2, nothing was said of the third memory that had been given."""
    program = program_of(nn.Sequential(nn.Linear(61, 83), nn.Linear(83, 7)), (6, 61))
    chip = resolve("pulp-open", l1="4k", l3="8M").with_memory(OUTER, 64 << 10, reserved=70_000)
    why = "what the build brings fills L2 by itself, so L3 helps nothing"
    assert why in does_not_fit(program, chip, least_plan).render()
    roomy = chip.with_memory(OUTER, 64 << 10, reserved=50_000)
    assert why not in does_not_fit(program, roomy, least_plan).render()
    assert why not in does_not_fit(program, resolve("pulp-open", l2="20k"), least_plan).render()


def test_what_no_batch_can_help_is_refused_without_a_look_at_any(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of more than twice the memory. Fault: the refusal of a large network took ten minutes."""
    program = program_of(nn.Sequential(nn.Linear(61, 83), nn.Linear(83, 7)), (6, 61))
    for rung in ("half_saved", "with_batch", "with_sums"):
        monkeypatch.setattr(f"trainlib_deployer.advice.fit.{rung}", lambda *_: pytest.fail("it was tried"))
    refused = does_not_fit(program, resolve(cores=1, l1="2k", l2="10k"), untiled)
    assert refused.message in next(refused.parts()) and "advice" not in vars(refused), "that comes first"
    assert not any("batch" in what or "saved" in what for what in refused.helps)
    assert "biases only" in refused.render()
