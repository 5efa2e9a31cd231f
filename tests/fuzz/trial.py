"""One network through the loader, the pipeline, the compiler and the verification: what became of it."""

from __future__ import annotations

import random
import signal
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from golden import compare
from tests.fuzz.build import BuildFailed, CachedHost
from trainlib_deployer import pipeline
from trainlib_deployer.check.certificate import CertificateError
from trainlib_deployer.check.judge import judge
from trainlib_deployer.errors import DeployError, DoesNotFit, Unsupported, UsageError, VerificationFailed
from trainlib_deployer.folder import read_plan
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.options import Options
from trainlib_deployer.run.witness import recorded, witnesses
from trainlib_deployer.user import load_model as user_model

Record = dict[tuple[int, str, str], np.ndarray[Any, Any]]
STEPS = 2
SECONDS = 120
PASSED, REFUSED, USAGE, UNFIT, ROUNDING = "passed", "refused", "usage", "does not fit", "rounding"
MISMATCH, CRASH, CERTIFICATE, BUILD, SLOW = "MISMATCH", "CRASH", "CERTIFICATE", "BUILD", "SLOW"
BAD = (MISMATCH, CRASH, CERTIFICATE, BUILD, SLOW)


@dataclass(frozen=True)
class Setting:
    """The machine, and how the program is run on the host."""

    cores: int = 8
    l1: str = "128M"
    l2: str = "4M"
    target: str | None = None
    accumulate: int = 1
    poison: bool = False
    sanitize: str = ""
    dtype: str = "fp32"

    @property
    def machine(self) -> Machine:
        return resolve(self.target, self.cores, self.l1, self.l2)

    def __str__(self) -> str:
        words = [self.target or "", f"{self.cores} cores", f"L1 {self.l1}", f"L2 {self.l2}"]
        words += [f"accumulate {self.accumulate}"] if self.accumulate > 1 else []
        words += ["poison"] if self.poison else []
        words += [self.dtype] if self.dtype != "fp32" else []
        return ", ".join(w for w in (*words, self.sanitize) if w)


def setting(seed: int, target: str | None = None, sanitize: str = "") -> Setting:
    rng = random.Random(f"{seed}/setting")
    l1 = rng.choice(("128M", "24k", "24k", "32k", "64k"))
    cores = rng.randint(1, 6 if l1 == "24k" else 8)  # the stacks and the scratch of 7 cores leave nothing of 24k
    if target is not None:
        preset = resolve(target)
        cores, l1 = preset.cores, str(preset.inner.size)
    accumulate, poison = rng.choice((1, 1, 1, 2, 3)), rng.random() < 0.4
    # so little that some of the forward pass runs twice, if it fits at all
    l2 = rng.choice(("4M", "4M", "4M", "128k", "64k", "32k")) if target is None and l1 != "128M" else "4M"
    return Setting(cores, l1, l2, target, accumulate, poison, sanitize)


@dataclass(frozen=True)
class Outcome:
    kind: str
    detail: str = ""
    seconds: float = 0.0
    facts: str = ""

    @property
    def bad(self) -> bool:
        return self.kind in BAD

    @property
    def signature(self) -> str:
        """What two failures of the same cause have in common."""
        return f"{self.kind} {self.detail}" if self.kind == CRASH else self.kind


class TooSlow(BaseException):
    """The time limit of one network; not an Exception, so that no handler on the way takes it."""


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def attempt(net: Path, where: Setting, folder: Path, store: Path, seconds: int = SECONDS) -> Outcome:
    """What happens with net.py; the project is left in `folder`."""
    start = time.perf_counter()
    try:
        with time_limit(seconds), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = deployed_and_verified(net, where, folder, store)
    except TooSlow:
        found = Outcome(SLOW, f"more than {seconds} s")
    except CertificateError as err:
        found = Outcome(CERTIFICATE, str(err))
    except VerificationFailed as err:
        found = Outcome(MISMATCH, err.message)
    except DoesNotFit as err:
        found = Outcome(UNFIT, first_line(err))
    except Unsupported as err:
        at = f" at line {err.source.line}: {err.source.text}" if err.source is not None else " (NO LINE)"
        found = Outcome(REFUSED, first_line(err) + at)
    except (UsageError, DeployError) as err:
        found = Outcome(USAGE, first_line(err))
    except BuildFailed as err:
        found = Outcome(BUILD, str(err))
    except Exception as err:
        found = Outcome(CRASH, f"{type(err).__name__} {place(err)}: {str(err)[:300]}")
    return Outcome(found.kind, found.detail, time.perf_counter() - start, found.facts)


def first_line(err: DeployError) -> str:
    return err.message.splitlines()[0]


def place(err: BaseException) -> str:
    """The last frame in our own code."""
    frames = [f for f in traceback.extract_tb(err.__traceback__) if "trainlib_deployer" in f.filename]
    frame = (frames or traceback.extract_tb(err.__traceback__))[-1]
    return f"in {Path(frame.filename).name}:{frame.lineno} {frame.name}"


def deployed_and_verified(net: Path, where: Setting, folder: Path, store: Path) -> Outcome:
    user = user_model.load(str(net), steps=STEPS, accumulate=where.accumulate)
    options = Options(where.machine, folder, STEPS, where.accumulate, where.dtype)
    done = pipeline.deploy_user_model(user, options)
    plan = read_plan(folder)
    record = folder / "build" / "record.bin"
    record.parent.mkdir(exist_ok=True)
    found = witnesses(plan)
    host = CachedHost(store, where.sanitize, where.poison, found)
    host.run(folder, STEPS, done.plan.target.cores, record)  # where L1 is small, fewer than asked for
    computed, memory = recorded(record, plan, found)
    task = replace(done.task, memory=memory)
    judged = judge(task, computed, STEPS * where.accumulate, plan["trace"])
    verdict = judged.verdict
    facts = f"{len(done.plan.program.ops)} ops, {len(done.plan.tilings)} tiled, {len(verdict.tensors)} tensors"
    if verdict.passed:
        return Outcome(PASSED, facts=facts)
    others = []
    for mode in ("FE_UPWARD", "FE_DOWNWARD"):
        host.run_rounding(folder, mode, record)
        others.append(recorded(record, plan, found)[0])
    wrong = [t for t in verdict.tensors if not t.passed]
    rounding = not verdict.missing and all(is_rounding(t, computed, others, judged.exact) for t in wrong)
    return Outcome(ROUNDING if rounding else MISMATCH, words_of(verdict, wrong), facts=facts)


def is_rounding(
    t: compare.TensorVerdict, computed: Record, others: list[Record], exact: Record, most: float = 3e-3
) -> bool:
    """Is the error no larger than what rounding in another direction makes of the same program?"""
    key = t.key
    norm = float(np.linalg.norm(np.asarray(exact[key], np.float64)))
    error = compare.distance(computed[key], exact[key], 1.0)
    spread = max(compare.distance(o[key], computed[key], 1.0) for o in others)
    return error <= spread and (t.rel_l2 <= most or error <= 1e-6 or norm == 0.0)


def words_of(verdict: compare.Verdict, wrong: list[compare.TensorVerdict]) -> str:
    words = f"{len(wrong)} of {len(verdict.tensors)} tensors, {len(verdict.missing)} missing"
    for what, t in (("first", wrong[0] if wrong else None), ("worst", verdict.worst)):
        if t is not None:
            words += f"; {what} step {t.step} {t.kind} {t.name}: {t.rel_l2:.3g} > {t.tolerance:.3g}"
    return words
