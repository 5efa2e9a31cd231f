"""The check itself: a mistake planted in any one gradient is caught."""

import re
from pathlib import Path

import pytest

from golden import compare, load
from tests.e2e.conftest import CORE, deploy_example
from trainlib_deployer.check.judge import judge
from trainlib_deployer.folder import read_plan
from trainlib_deployer.run.host import Host
from trainlib_deployer.run.record import read_record

MUTATIONS = {"zeroed": 0.0, "negated": -1.0, "scaled by 1.01": 1.01}
TRACE = re.compile(r"^    TRACE\(TRACE_gradient_\w+, ([^;]*), (\d+)\);$", re.MULTILINE)


@pytest.mark.parametrize("name", [*CORE, "gru", "siamese", "unet", "vit"])
def test_every_planted_gradient_mistake_is_caught(name: str, project: Path) -> None:
    """On the record of a run: each gradient of the network, each mutation, one at a time."""
    deploy_example(name, project, steps=2)
    plan = read_plan(project)
    record = project / "record.bin"
    Host().run(project, 2, 8, record)
    computed = read_record(record, plan["trace"])
    task = load.load_task(project / "model")
    judged = judge(task, computed, 2, plan["trace"])
    assert judged.verdict.passed
    gradients = [t["name"] for t in plan["trace"] if t["kind"] == "gradient"]
    assert gradients
    for gradient in gradients:
        for what, factor in MUTATIONS.items():
            wrong = {k: v * factor if k[1:] == ("gradient", gradient) else v for k, v in computed.items()}
            verdict = compare.compare(wrong, judged.exact, judged.singles, {})
            assert not verdict.passed, f"gradient of {gradient} {what}: not caught"


@pytest.mark.parametrize("what", MUTATIONS)
@pytest.mark.parametrize("name", ["resnet8", "mlp"])
def test_a_mistake_in_the_generated_c_is_caught(name: str, what: str, project: Path) -> None:
    """In the program itself, where the update then uses the wrong gradient too."""
    deployed = deploy_example(name, project, steps=2)
    gradients = [t["name"] for t in read_plan(project)["trace"] if t["kind"] == "gradient"]
    source = (project / "net.c").read_text()
    places = list(TRACE.finditer(source))
    assert len(places) == len(gradients)
    number = len(what) % len(places)
    place = places[number]
    loop = f"if (tl_core_id() == 0) for (int i = 0; i < {int(place[2]) // 4}; i++) ((float *)({place[1]}))[i] *="
    planted = f"    tl_barrier();\n    {loop} {MUTATIONS[what]}f;\n{place[0]}"
    (project / "net.c").write_text(source[: place.start()] + planted + source[place.end() :])
    result = deployed.verify()
    assert not result.passed
    first = result.verdict.first_failure
    assert first is not None
    assert (first.kind, first.name) == ("gradient", gradients[number])
