"""The simulators of the emulated cluster as test parameters: what is not installed is skipped, with the reason."""

from __future__ import annotations

import pytest

from trainlib_deployer.errors import ToolMissing
from trainlib_deployer.run.qemu import Qemu
from trainlib_deployer.run.spike import Spike

SIMULATORS = {"qemu": Qemu, "spike": Spike}
COMPILERS = ("clang", "gcc")


def needs(name: str, compiler: str = "clang") -> None:
    try:
        SIMULATORS[name](compiler).check_tools()
    except ToolMissing as missing:
        pytest.skip(f"{missing.message}; {missing.remedy}")


on_each_simulator = pytest.mark.parametrize("simulator", SIMULATORS)
with_each_compiler = pytest.mark.parametrize("compiler", COMPILERS)
