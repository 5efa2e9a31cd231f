"""One core, one memory: what any microcontroller with a C compiler offers."""

from pathlib import Path

from tests.e2e.conftest import deploy_example
from trainlib_deployer.folder import read_plan


def test_everything_lives_in_the_only_memory(project: Path) -> None:
    deployed = deploy_example("trainlib_default", project, steps=2, target="generic", cores=None, l1=None)
    plan = read_plan(project)
    assert plan["levels"]["L1"]["used"] == 0
    assert {b["level"] for b in plan["buffers"]} == {"L2"}
    deployed.verify().raise_if_failed()
