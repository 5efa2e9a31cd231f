"""Build a project, run it, and hold what it computed against PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from golden import compare, nearest, reference, sketch
from golden.load import load_task
from golden.loss_scale import LossScale
from golden.memory import EMPTY, Memory
from golden.record import Apart, Spilled
from golden.task import Task
from trainlib_deployer.arguments import natural, path_of
from trainlib_deployer.check.judge import HALF_RUNS, judge
from trainlib_deployer.errors import ToolMissing, UsageError, VerificationFailed
from trainlib_deployer.folder import check_cores, check_whole, perhaps_another_version, read_plan
from trainlib_deployer.frames import frame
from trainlib_deployer.html import table
from trainlib_deployer.run import backend
from trainlib_deployer.run.host import Host
from trainlib_deployer.run.witness import Witness, recorded, witnesses
from trainlib_deployer.user.code import user_code
from trainlib_deployer.user.model import UserModel

Say = Callable[[str], None]
Array = np.ndarray[Any, Any]
Key = tuple[int, str, str]
KINDS = ("loss", "output", "gradient", "parameter", "state", "evaluation")
HOST = "host"
OVERFLOWN = "halves end at 65,504: keep a layer in fp32 (--keep fp32=LAYER), or take --loss-scale dynamic"
HEADINGS = ("tensors", "compared", "failed", "worst rel. error", "tolerance", "where")
OWN_RUNS = 3  # that a project is judged by where no PyTorch is; in fp32 they seldom differ by a branch


@dataclass(frozen=True)
class Verification:
    """The verdict on one run, and the numbers behind it."""

    on: str
    steps: int
    verdict: compare.Verdict
    losses: list[float]
    golden_losses: list[float]
    computed: dict[Key, Array]
    counts: dict[str, Any]
    disturbed_runs: int = 0  # runs with errors of rounding that were needed to judge
    memory: dict[str, dict[str, int]] = field(default_factory=dict)  # bytes touched and planned, see RunResult
    dtype: str = "fp32"

    @property
    def passed(self) -> bool:
        return self.verdict.passed

    @property
    def summary(self) -> str:
        """`PASS on host: 120 of 120 tensors agree with PyTorch`."""
        tensors = [t for t in self.verdict.tensors if t.compared]
        agree = sum(t.passed for t in tensors)
        missing = f", {len(self.verdict.missing)} missing" if self.verdict.missing else ""
        word, lost = "PASS" if self.passed else "FAIL", len(self.verdict.tensors) - len(tensors)
        missing += f", {lost} not compared" if lost else ""
        return f"{word} on {self.on}: {agree} of {len(tensors)} tensors agree with PyTorch{missing}"

    @property
    def unjudged(self) -> str:
        """What PyTorch itself has no numbers for, and in half precision what may help; empty if there is nothing."""
        words = self.verdict.unjudged
        return f"{words}; {OVERFLOWN}" if words and self.dtype in ("mixed", "fp16") else words

    def rows(self) -> list[tuple[str, ...]]:
        """One a kind of tensor, as HEADINGS says."""
        tensors = [t for t in self.verdict.tensors if t.compared]
        rows: list[tuple[str, ...]] = []
        for kind in [k for k in KINDS if any(t.kind == k for t in tensors)]:
            members = [t for t in tensors if t.kind == kind]
            failed = sum(not t.passed for t in members)
            worst = max(members, key=lambda t: t.rel_l2 / t.tolerance)
            where = f"{worst.name} (step {worst.step})" if worst.name != kind else f"step {worst.step}"
            rows.append((kind, f"{len(members)}", f"{failed}", f"{worst.rel_l2:.2e}", f"{worst.tolerance:.2e}", where))
        return rows

    def __repr__(self) -> str:
        losses = f"; loss {self.losses[0]:.6g} -> {self.losses[-1]:.6g}" if self.losses else ""
        return f"Verification({self.summary}{losses})"

    def _repr_html_(self) -> str:
        return table(repr(self), HEADINGS, self.rows())

    def to_dataframe(self) -> Any:
        """A row a tensor and step."""
        return frame(asdict(t) for t in self.verdict.tensors)

    def as_json(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "on": self.on,
            "steps": self.steps,
            "losses": self.losses,
            "golden_losses": self.golden_losses,
            **{k: v for k, v in self.verdict.as_json().items() if k != "passed"},
            "divergence": self.verdict.divergence,
            "unjudged": self.unjudged,
            "cycles_or_instructions": self.counts,
            "memory": self.memory,
            "disturbed_runs": self.disturbed_runs,
        }

    def dump(self, path: Path) -> None:
        """One array per tensor and step, named step/kind/name."""
        arrays = {"/".join(map(str, key)): values for key, values in self.computed.items()}
        with path.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    def raise_if_failed(self) -> None:
        if self.passed:
            return
        first = self.verdict.first_failure
        if first is not None:
            layer = f" of layer '{first.layer}'" if first.layer else ""
            if first.is_scaled:
                raise VerificationFailed(
                    f"the gradient '{first.name}'{layer} is {1 + first.factor:.3g} times PyTorch's, in the mean over "
                    f"the steps: {first.scaled:.3g} more or less would be rounding"
                )
            raise VerificationFailed(
                f"the {first.kind} '{first.name}'{layer} differs from PyTorch first, in step {first.step}: "
                f"relative error {first.rel_l2:.3g}, tolerance {first.tolerance:.3g}"
            )
        names = ", ".join("/".join(map(str, k)) for k in self.verdict.missing[:5]) or "every tensor"
        raise VerificationFailed(f"nothing to compare: the run recorded no values for {names}")


def verify(
    folder: Path,
    on: str = "host",
    steps: int | None = None,
    cores: int | None = None,
    say: Say = lambda line: None,
    task: Task | None = None,
) -> Verification:
    """Run `steps` training steps on a back end and compare every tensor with float64 PyTorch."""
    folder = path_of(folder, "the folder")
    plan = read_plan(folder)
    with perhaps_another_version(folder):
        return verified(folder, plan, on, steps, cores, say, task)


def verified(
    folder: Path, plan: dict[str, Any], on: str, steps: int | None, cores: int | None, say: Say, task: Task | None
) -> Verification:
    check_whole(folder)
    check_cores(cores, plan)
    updates = int(plan["model"]["steps"]) if steps is None else natural(steps, "steps")
    covered = len(plan["interface"].get("rates", ()))
    if covered and updates > covered:
        raise UsageError(
            f"the schedule of learning rates covers {covered} updates", remedy=f"deploy with --updates {updates}"
        )
    count = updates * int(plan["model"].get("accumulate", 1))
    seen = witnesses(plan)
    chosen = Host(witnesses=seen) if on == HOST else backend(on)
    chosen.check_tools()
    record = folder / "build" / f"record-{on}.bin"
    try:
        record.parent.mkdir(exist_ok=True)
        record.unlink(missing_ok=True)
    except OSError as err:
        remedy = "a run builds inside of the project: copy it to where you can write"
        raise UsageError(f"cannot write {record.parent}: {err.strerror or err}", remedy=remedy) from err
    say(f"building and running {updates} steps on {on}")
    result = chosen.run(folder, steps=updates, cores=cores, record=record)
    computed, memory = recorded(record, plan, seen)
    if seen and on != HOST:
        memory = remembered(folder, plan, seen, updates, cores)
    say("running the golden model")
    task = replace(task or model_of(folder), memory=memory)
    judged = judge(task, computed, count, plan["trace"], say)
    return Verification(
        on,
        updates,
        judged.verdict,
        losses(computed, count),
        losses(judged.exact, count),
        computed,
        dict(result.counts),
        judged.runs or len(judged.singles) - 1,
        result.memory,
        task.dtype,
    )


def remembered(folder: Path, plan: dict[str, Any], seen: Sequence[Witness], steps: int, cores: int | None) -> Memory:
    """What a program has in memory on any machine, as the host tells it: it has the same bits."""
    host, record = Host(witnesses=seen), folder / "build" / "record-memory.bin"
    try:
        host.check_tools()
    except ToolMissing:
        return EMPTY
    record.unlink(missing_ok=True)
    host.run(folder, steps=steps, cores=cores, record=record)
    _, memory = recorded(record, plan, seen)
    record.unlink()
    return memory


def model_of(folder: Path) -> Task:
    """The user's model, built again from its own file."""
    try:
        with user_code(f"{folder / 'model'} does not give the model again", "has what it imports changed?"):
            return load_task(folder / "model")
    except UsageError as err:
        if isinstance(err.__cause__, FileNotFoundError):
            raise UsageError(str(err.__cause__)) from err
        raise


def task_of(
    user: UserModel,
    accumulate: int,
    saved: str = "fp32",
    winograd: bool = False,
    dtype: str = "fp32",
    loss_scale: LossScale | None = None,
) -> Task:
    """What the reference trains, from what the user's module holds now."""
    return Task(
        user.module,
        user.loss,
        user.samples,
        user.optimizer.own or user.optimizer.kind,
        [(dict(g.hyper), g.names) for g in user.optimizer.groups],
        dict(user.optimizer.defaults),
        accumulate,
        user.clip_norm,
        user.clip_value,
        user.scheduler,
        user.start,
        user.optimizer.state,
        user.metrics,
        saved,
        dtype,
        loss_scale,
        winograd,
        not user.trains,
        user.by_row,
        None if user.evaluation is None else user.evaluation.layout.batch,
    )


def reference_sketches(task: Task, steps: int) -> dict[Key, sketch.Sketch]:
    """What goes into a project so that it can judge itself."""
    exact = Spilled()
    reference.train(task, steps, torch.float64, exact)
    others = [Apart(exact) for _ in range(OWN_RUNS if task.dtype == "fp32" else HALF_RUNS)]
    for seed, other in enumerate(others):
        reference.train(task, steps, torch.float32, other, noise=seed)
    gentle = nearest.is_gentle(task.optimizer)
    least = (
        nearest.floors(task.module, exact, gentle=gentle, halves=task.halves, half=task.half)
        if task.dtype != "fp32"
        else {}
    )
    return sketch.sketches_within(exact, others, least)


def losses(record: dict[Key, Array], steps: int) -> list[float]:
    return [float(record[s, "loss", "loss"]) for s in range(steps) if (s, "loss", "loss") in record]
