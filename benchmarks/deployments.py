"""Examples deployed for one target after another, to be linked: what does not depend on the target is done once.

Such a project has everything but what PyTorch computes, which its own check would hold it against: it builds with the
bytes of a deployed one, and is not there to be run.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from golden.sketch import UNCHECKED
from trainlib_deployer import passes
from trainlib_deployer.beside import beside_build
from trainlib_deployer.capture.agreement import captured_and_checked
from trainlib_deployer.folder import replaced_folder
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.ops.lower import lower
from trainlib_deployer.options import Options
from trainlib_deployer.pipeline import as_asked, at_start, uncollected
from trainlib_deployer.program.ir import Program
from trainlib_deployer.tune.shipped import told, with_measurements
from trainlib_deployer.user.kept import precision_of
from trainlib_deployer.user.load_model import load
from trainlib_deployer.user.model import UserModel

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
ROOM = "16M"  # of the outer memory: as much as a step likes, for the bytes are the question


def example(name: str) -> Path:
    """As a word of a command line: a benchmark of nothing passes."""
    path = EXAMPLES / f"{name}.py"
    if not path.exists():
        raise argparse.ArgumentTypeError(f"there is no example {name!r}")
    return path


def all_examples() -> list[Path]:
    return sorted(EXAMPLES.glob("*.py"))


@dataclass(frozen=True)
class Step:
    """An example's training step, lowered, for any target."""

    user: UserModel
    program: Program
    dtype: str

    @staticmethod
    @lru_cache(maxsize=1)
    def of(example: Path, dtype: str) -> Step:
        user = load(str(example))
        options = Options(resolve(), Path(), dtype=dtype)
        with uncollected(), at_start(user):
            captured, _ = captured_and_checked(user, dtype)
            options = as_asked(options, captured, lambda line: None)
            precision = precision_of(user.module, options.dtype)
            lowered = lower(user, captured, options.accumulate, precision=precision)
            return Step(user, passes.run(lowered, passes.chosen(precision, options.arithmetic)), options.dtype)

    def write(self, target: str, folder: Path) -> None:
        options = Options(with_measurements(resolve(target, l2=ROOM)), folder, dtype=self.dtype)
        with uncollected():
            project, image = beside_build(self.program, self.user, options, lambda line: None)
            project = replace(project, plan=told(project.plan))
            with replaced_folder(folder) as written:
                project.write(written, {(options.steps - 1, "", ""): UNCHECKED}, image)


def folder_of(work: Path, target: str, example: Path, dtype: str) -> Path:
    return work / target / f"{example.stem}-{dtype}"


def deploy(example: Path, target: str, folder: Path, dtype: str = "fp32") -> None:
    with contextlib.redirect_stdout(sys.stderr):
        Step.of(example, dtype).write(target, folder)
