"""The example networks train on the host as PyTorch trains them, with the same bits for any number of cores."""

from pathlib import Path

import pytest

from tests.e2e.conftest import EXAMPLES, deploy_example


@pytest.mark.parametrize(("batch", "steps"), [(1, 5), (4, 3)], ids=["batch1", "batch4"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_example_trains_like_pytorch(name: str, batch: int, steps: int, project: Path) -> None:
    deployed = deploy_example(name, project, batch, steps)
    results = {cores: deployed.verify(cores=cores) for cores in (1, 3, 8)}
    for result in results.values():
        result.raise_if_failed()
        assert result.steps == steps
        kinds = {t.kind for t in result.verdict.tensors}
        assert kinds >= {"loss", "output", "gradient", "parameter"}
    first = {k: v.tobytes() for k, v in results[1].computed.items()}
    for cores in (3, 8):
        assert {k: v.tobytes() for k, v in results[cores].computed.items()} == first, f"{cores} cores give other bits"
