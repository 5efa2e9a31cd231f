"""The example networks train on the host as PyTorch trains them, with the same bits for any number of cores.

Also with NaNs wherever the plan says that memory is free: every buffer lives as long as it must.
"""

from pathlib import Path

import pytest

from tests.e2e.conftest import CORE, EXAMPLES, deploy_example
from trainlib_deployer.check.verify import Verification
from trainlib_deployer.folder import read_plan
from trainlib_deployer.run.host import Host
from trainlib_deployer.run.record import read_record


def check(result: Verification, steps: int) -> None:
    result.raise_if_failed()
    assert result.steps == steps
    assert {t.kind for t in result.verdict.tensors} >= {"loss", "output", "gradient", "parameter"}


def check_memory(result: Verification) -> None:
    """As many cores as planned for use what is planned, but for panels of a product that needs no packing."""
    assert result.memory
    for level, mark in result.memory.items():
        assert 0.95 * mark["planned"] < mark["touched"] <= mark["planned"], level


def check_poisoned(project: Path, result: Verification) -> None:
    """On three cores, with poison, every bit is the same."""
    record = project / "poisoned.bin"
    Host(poison=True).run(project, result.steps, 3, record)
    again = read_record(record, read_plan(project)["trace"])
    assert again.keys() == result.computed.keys()
    for key, values in again.items():
        assert values.tobytes() == result.computed[key].tobytes(), f"{key}: other bits"


@pytest.mark.parametrize(("batch", "steps"), [(1, 5), (4, 3)], ids=["batch1", "batch4"])
@pytest.mark.parametrize("name", CORE)
def test_example_trains_like_pytorch(name: str, batch: int, steps: int, project: Path) -> None:
    deployed = deploy_example(name, project, batch, steps)
    results = {cores: deployed.verify(cores=cores) for cores in (1, 3, 8)}
    for result in results.values():
        check(result, steps)
    check_memory(results[8])
    check_lines(project)
    first = {k: v.tobytes() for k, v in results[1].computed.items()}
    for cores in (3, 8):
        assert {k: v.tobytes() for k, v in results[cores].computed.items()} == first, f"{cores} cores give other bits"
    if batch == 4:
        check_poisoned(project, results[1])


def check_lines(project: Path) -> None:
    """What is written for a network fits a page."""
    long = [(p.name, line) for p in project.glob("*.[ch]") for line in p.read_text().splitlines() if len(line) > 120]
    assert (project / "net.c").is_file() and not long


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - set(CORE)))
def test_further_example_with_its_own_data(name: str, project: Path) -> None:
    deployed = deploy_example(name, project, steps=2)
    result = deployed.verify()
    check(result, 2)
    check_lines(project)
    check_poisoned(project, result)


@pytest.mark.parametrize("name", ["encoder", "siamese", "vae"])
def test_integers_and_several_inputs_at_another_batch_size(name: str, project: Path) -> None:
    """Token ids; three inputs; a noise input and several outputs."""
    check(deploy_example(name, project, batch=3, steps=1).verify(), 1)
