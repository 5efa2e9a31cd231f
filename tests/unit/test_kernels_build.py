"""All kernels compile as a project compiles them: without what their tests promise, and with an SDK's few headers."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

C_LIB = Path(__file__).resolve().parents[2] / "c_lib"
KERNELS = sorted((C_LIB / "kernels").rglob("*.c"))
FLAGS = "-std=gnu99 -O1 -Wall -Wextra -Werror -fsyntax-only".split()
MISSING = re.compile(r"\b(?:memcmp|strlen|strcmp|strcpy)\(")  # of PULP-SDK's string.h


@pytest.mark.compiler
def test_without_warnings() -> None:
    folders = [f"-I{C_LIB / part}" for part in ("include", "ukernels")]
    command = ["cc", *FLAGS, *folders, *map(str, KERNELS)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "CCACHE_DISABLE": "1"}
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.compiler
def test_names_mean_one_thing_under_pulp_sdk() -> None:
    """Headers of PULP's own instructions gave two macros one name, and the SDK's compiler is told of no warnings."""
    chip = "-DTL_XPULP -DTL_XF16AUXVEC -D__riscv_zfinx -D__riscv -D__riscv_xlen=32 -O2".split()
    folders = [f"-I{C_LIB / part}" for part in ("include", "ukernels")]
    command = ["cc", "-E", "-Werror", *chip, *folders, *map(str, KERNELS)]
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr.decode()


def test_nothing_of_the_c_library_that_pulp_sdk_lacks() -> None:
    found = {
        p.name: hits for p in KERNELS if (hits := MISSING.findall(re.sub(r"/\*.*?\*/", "", p.read_text(), flags=re.S)))
    }
    assert found == {}
