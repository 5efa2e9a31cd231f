"""The example networks train on the host as PyTorch trains them, with the same bits for any number of cores."""

from pathlib import Path

import pytest

from tests.e2e.conftest import CORE, EXAMPLES, deploy_example
from trainlib_deployer.run.host import Host
from trainlib_deployer.run.record import read_record
from trainlib_deployer.verify import Verification, read_plan


def check(result: Verification, steps: int) -> None:
    result.raise_if_failed()
    assert result.steps == steps
    assert {t.kind for t in result.verdict.tensors} >= {"loss", "output", "gradient", "parameter"}


@pytest.mark.parametrize(("batch", "steps"), [(1, 5), (4, 3)], ids=["batch1", "batch4"])
@pytest.mark.parametrize("name", CORE)
def test_example_trains_like_pytorch(name: str, batch: int, steps: int, project: Path) -> None:
    deployed = deploy_example(name, project, batch, steps)
    results = {cores: deployed.verify(cores=cores) for cores in (1, 3, 8)}
    for result in results.values():
        check(result, steps)
    first = {k: v.tobytes() for k, v in results[1].computed.items()}
    for cores in (3, 8):
        assert {k: v.tobytes() for k, v in results[cores].computed.items()} == first, f"{cores} cores give other bits"


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - set(CORE)))
def test_further_example_with_its_own_data(name: str, project: Path) -> None:
    deployed = deploy_example(name, project, steps=2)
    result = deployed.verify()
    check(result, 2)
    record = project / "three.bin"
    Host().run(project, 2, 3, record)
    again = read_record(record, read_plan(project)["trace"])
    assert again.keys() == result.computed.keys()
    for key, values in again.items():
        assert values.tobytes() == result.computed[key].tobytes(), f"{key}: 3 cores give other bits"


@pytest.mark.parametrize("name", ["encoder", "siamese", "vae"])
def test_integers_and_several_inputs_at_another_batch_size(name: str, project: Path) -> None:
    """Token ids; three inputs; a noise input and several outputs."""
    check(deploy_example(name, project, batch=3, steps=1).verify(), 1)
