"""Build a project, run it, and hold what it computed against PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from golden import compare, nearest, reference, rounding, sketch
from golden.doubt import CERTAIN, Doubt, Kinks
from golden.load import load_task
from golden.loss_scale import LossScale
from golden.memory import EMPTY, Memory
from golden.record import Apart, Spilled
from golden.task import Task
from trainlib_deployer.arguments import natural, path_of
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
FIRST_ORDER_RUNS = 2
KINDS = ("loss", "output", "gradient", "parameter", "state", "evaluation")
HOST = "host"
OVERFLOWN = "halves end at 65,504: keep a layer in fp32 (--keep fp32=LAYER), or take --loss-scale dynamic"
HEADINGS = ("tensors", "compared", "failed", "worst rel. error", "tolerance", "where")
OWN_RUNS = 3  # that a project is judged by where no PyTorch is; in fp32 they seldom differ by a branch
HALF_RUNS = 8  # at most, of mixed precision: one in a few takes another branch somewhere
SHAKEN = 1 / 16  # of the gap between two halves: what elements may be off by before they are rounded
SHARP = 0.03  # relative: what a gradient may be off by
FLOAT32_RUNS = 8  # at most; the furthest may be one in which a branch flips


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


@dataclass(frozen=True)
class Judged:
    """A verdict and the reference runs that it rests on."""

    verdict: compare.Verdict
    exact: dict[Key, Array]
    singles: list[dict[Key, Array]]
    least: dict[Key, float] = field(default_factory=dict)  # tolerances that no tensor is below
    runs: int = 0  # runs with errors of rounding that were needed


def judge(
    task: Task,
    computed: dict[Key, Array],
    steps: int,
    trace: Sequence[dict[str, Any]],
    say: Say = lambda line: None,
) -> Judged:
    """The whole run against float64 and float32; failing that, step by step (docs/decisions/tolerance.md)."""
    layers = {(t["kind"], t["name"]): t["layer"] for t in trace}
    if task.dtype != "fp32":
        say("running the golden model in half precision")
        return judged_in_halves(task, computed, steps, layers)
    may_diverge = task.saved == "fp32"  # what overflows because it is kept in half precision is no fault of PyTorch's
    exact = reference.run(task, steps, torch.float64)
    singles = [reference.run(task, steps, torch.float32)]
    verdict = compare.compare(computed, exact, singles, layers, may_diverge)
    if verdict.missing or (verdict.passed and not verdict.delicate):
        return Judged(verdict, exact, singles)
    say("some of this hangs on rounding; judging step by step")
    resumed, wider = within_rounding(task, computed, steps)
    second = compare.compare(computed, resumed, wider, layers, may_diverge)
    if verdict.passed:
        return Judged(verdict.with_what_is_hidden_in(second), exact, singles)
    while not second.passed and len(wider) <= FIRST_ORDER_RUNS + FLOAT32_RUNS:
        wider.append(reference.run(task, steps, torch.float32, noise=len(wider), resume=computed))
        second = compare.compare(computed, resumed, wider, layers, may_diverge)
    return Judged(second, resumed, wider)


def judged_in_halves(task: Task, computed: dict[Key, Array], steps: int, layers: dict[tuple[str, str], str]) -> Judged:
    """Each step from where the program was, by the run of PyTorch that is next to it. There are more of them as long as
    the program fails or they could not tell a gradient from one that is a few percent larger. Then, elements next to a
    corner are turned; in the end, all elements are off by a part of a rounding."""
    kinks = Kinks()

    def run(dtype: torch.dtype, noise: int = 0, doubt: Doubt = CERTAIN, of: Task = task) -> dict[Key, Array]:
        return reference.run(replace(of, doubt=doubt), steps, dtype, noise, computed)

    def shaken(of: Task = task) -> list[dict[Key, Array]]:
        return [run(torch.float64, i, Doubt(shaken=SHAKEN, seed=i), of) for i in range(HALF_RUNS)]

    runs = [run(torch.float64, doubt=Doubt(kinks))]
    followed = bool(task.memory.steps)
    floors = nearest.floors(task.module, runs[0], computed, halves=task.halves, followed=followed, half=task.half)

    def judged(*others: dict[Key, Array]) -> Judged:
        all_runs = nearest.Family([*runs, *others], followed=followed, half=task.half)
        family = nearest.Family([runs[0], *others], by_chance=True, half=task.half) if others else all_runs
        near, least = all_runs.beside(computed), family.tolerances(floors)
        verdict = compare.compare(computed, near, [near], layers, least=least)
        verdict = verdict.with_factors(all_runs.factors(computed, near))
        return Judged(verdict, near, [near], least, len(runs) - 2)

    for _ in range(1 + HALF_RUNS):
        runs.append(run(torch.float32, len(runs) - 1))
        found = judged()
        sharp = all(t.hides <= SHARP for t in found.verdict.tensors if t.kind == "gradient" and t.compared)
        if found.verdict.missing or (found.verdict.passed and sharp):
            return found
    for turned in kinks.turned():
        if found.verdict.passed:
            return found
        runs.append(run(torch.float64, doubt=Doubt(turned=turned)))
        found = judged()
    if found.verdict.passed:
        return found
    followers = shaken()
    found = judged(*followers)
    if found.verdict.passed:
        return found
    alone = replace(task, memory=EMPTY)
    own = [run(torch.float64, of=alone), run(torch.float32, 1, of=alone), *shaken(alone)]
    runs += own  # a maximum of a program's halves may be another one than those took
    found = judged(*followers)
    if found.verdict.passed:
        return found
    return replace(found, verdict=by_the_contract(found.verdict, alone, computed, steps, own, layers))


def by_the_contract(
    found: compare.Verdict,
    task: Task,
    computed: dict[Key, Array],
    steps: int,
    own: list[dict[Key, Array]],
    layers: dict[tuple[str, str], str],
) -> compare.Verdict:
    """What failed, step by step from where the program was, in float64 without a half: how far the program is from
    that, and how far PyTorch's own runs of halves are, which know nothing of the program. Of what lasts this tells
    nothing: updates are made of gradients."""
    exact = reference.run(replace(task, dtype="fp32"), steps, torch.float64, resume=computed)
    exact = {k: v for k, v in exact.items() if k[1] not in nearest.LASTING}
    family = nearest.Family([exact, *own], by_chance=True, half=task.half)
    verdict = compare.compare(computed, exact, own, layers, may_diverge=False)
    verdict = verdict.with_factors(family.factors(computed, exact))
    return found.or_as_near_as(verdict, SHARP).or_kept(computed, exact, own)


def within_rounding(
    task: Task, computed: dict[Key, Array], steps: int
) -> tuple[dict[Key, Array], list[dict[Key, Array]]]:
    """Every step from where the program was: in float64, and what rounding may make of that to first order."""
    exact = reference.run(task, steps, torch.float64, resume=computed)
    singles = [reference.run(task, steps, torch.float32, resume=computed)]
    for seed in range(1, FIRST_ORDER_RUNS + 1):
        shaken = reference.run(task, steps, torch.float64, noise=seed, resume=computed)
        singles.append(rounding.first_order(exact, shaken))
    return exact, singles


def losses(record: dict[Key, Array], steps: int) -> list[float]:
    return [float(record[s, "loss", "loss"]) for s in range(steps) if (s, "loss", "loss") in record]
