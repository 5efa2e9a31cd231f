"""One core, one memory: what any microcontroller with a C compiler offers."""

import subprocess
from pathlib import Path

from tests.e2e.conftest import deploy_example
from trainlib_deployer.folder import read_plan


def test_everything_lives_in_the_only_memory(project: Path) -> None:
    deployed = deploy_example("trainlib_default", project, steps=2, target="generic", cores=None, l1=None)
    plan = read_plan(project)
    assert plan["levels"]["L1"]["used"] == 0
    assert {b["level"] for b in plan["buffers"]} == {"L2"}
    deployed.verify().raise_if_failed()
    assert not float_functions(project, "main.c", "kernels/check.c", "fit.c"), "a controller may have no float unit"
    assert float_functions(project, "loops.c")


def float_functions(project: Path, *sources: str) -> list[str]:
    """Those that a compiler calls for sums, products and comparisons where there is no float unit."""
    target = [
        "--target=riscv32",
        "-march=rv32imc",
        "-mabi=ilp32",
        "-DTL_HAL_SINGLE",
        "-DNET_TRACE",
        "-I.",
        "-Ikernels",
    ]
    called: list[str] = []
    for source in sources:
        made = project / "build" / "soft.o"
        subprocess.run(["clang-19", *target, "-O2", "-c", source, "-o", str(made)], check=True, cwd=project)
        called += subprocess.run(["nm", "-u", str(made)], capture_output=True, text=True, check=True).stdout.split()
    return [name for name in called if name.startswith("__") and "sf" in name]
