"""The same from Python, for notebooks: `deploy(model, x, y).verify()`, `sweep(model, x, y)`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import torch
from torch import nn

from golden.borrow import unwrapped
from golden.metrics import Metrics
from golden.task import Task
from trainlib_deployer.advice.budget import Budget
from trainlib_deployer.advice.points import Points
from trainlib_deployer.advice.sweeping import sweep_user_model
from trainlib_deployer.arguments import natural, one_of_type, path_of
from trainlib_deployer.check.verify import Verification, verify
from trainlib_deployer.errors import UsageError
from trainlib_deployer.folder import check_writable, default_folder, read_plan
from trainlib_deployer.frames import frame
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.notebook.picture import memory_map
from trainlib_deployer.options import (
    ARITHMETICS,
    Options,
    check_inference,
    check_types,
    dtypes_of,
    kept_of,
    loss_scale_of,
)
from trainlib_deployer.pipeline import deploy_user_model
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.report.folder import note_verdict
from trainlib_deployer.report.profile import Profile, profiled
from trainlib_deployer.run.session import Session
from trainlib_deployer.state.trained import State
from trainlib_deployer.tune.asked import Tune
from trainlib_deployer.user.assemble import Evaluation, Inference, Parts, assemble
from trainlib_deployer.user.examples import write_examples
from trainlib_deployer.user.load_model import identifier
from trainlib_deployer.user.model import UserModel

Say = Callable[[str], None]


def quiet(line: str) -> None:
    """Says nothing."""


def aloud(line: str) -> None:
    """For what was assumed."""
    print(line, file=sys.stderr)


@dataclass(frozen=True)
class Deployment:
    """A project on disk and its plan in memory."""

    plan: Plan
    folder: Path
    task: Task | None = field(default=None, repr=False)  # the model as it was, for the reference

    def verify(self, on: str = "host", steps: int | None = None, cores: int | None = None) -> Verification:
        """Run the project and hold every tensor against PyTorch; look at `.passed`, or call `.raise_if_failed()`. The
        report has the verdict, too."""
        result = verify(self.folder, on=on, steps=steps, cores=cores, task=self.task)
        note_verdict(self.folder, result.as_json())
        return result

    def profile(self, on: str = "host", cores: int | None = None) -> Profile:
        """What each operation of a step takes there: nanoseconds on this machine, cycles under PULP-SDK, instructions
        on simulators that count them."""
        return profiled(self.folder, on, cores)

    def __repr__(self) -> str:
        return f"Deployment({self.folder}: {self.plan!r})"

    def _repr_html_(self) -> str:
        link = f'<a href="{escape(str(self.folder / "report.html"))}" target="_blank">{escape(str(self.folder))}</a>'
        return f"<p>{link}</p>{self.plan._repr_html_()}{memory_map(read_plan(self.folder))}"

    def to_dataframe(self) -> Any:
        """A row an operation."""
        kept = ("index", "name", "kind", "phase", "layer", "kernel", "cycles", "macs", "tiles", "moved", "source")
        return frame({k: op[k] for k in kept} for op in read_plan(self.folder)["ops"])

    @cached_property
    def session(self) -> Session:
        """The generated C in this process."""
        return Session(self.folder, optimizer=None if self.task is None else self.task.optimizer)

    def step(self, x: Any, y: Any, learning_rate: float | None = None) -> float:
        """Train on one sample with the generated C; its loss before the update."""
        return self.session.step(x, y, learning_rate)

    def evaluate(self, x: Any, y: Any) -> float:
        """The loss of a sample by the generated C, as after model.eval() with evaluate=True; nothing is learned."""
        return self.session.evaluate(x, y)

    def predict(self, x: Any) -> Any:
        """What the generated C computes forward: a tensor, or a dictionary of several."""
        return self.session.predict(x)

    def state_dict(self) -> State:
        """What `step` has learned, for the module's load_state_dict."""
        return self.session.state_dict()

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Parameters and buffers for the next `step`; the optimizer's state stays."""
        self.session.load_state_dict(state)

    def write_examples(self, data: Any, path: Path | str) -> int:
        """All of a Dataset, DataLoader or list as a file that the program learns from; how many examples they are."""
        if self.task is None:
            raise UsageError("this deployment does not know its model any more")
        return write_examples(self.task, data, path_of(path, "path"), lambda line: aloud(f"note: {line}"))

    def reset(self) -> None:
        """Forget what `step` has learned."""
        self.session.reset()


def deploy(
    model: nn.Module,
    example_input: Any = None,
    example_target: Any = None,
    *,
    loss: Any = None,
    optimizer: Any = None,
    data: Any = None,
    cores: int | None = None,
    l1: str | int | None = None,
    l2: str | int | None = None,
    l3: str | int | None = None,
    target: str | None = None,
    out: str | Path | None = None,
    steps: int = 5,
    accumulate: int = 1,
    samples: int | None = None,
    dtype: str = "fp32",
    updates: int | None = None,
    keep: str | Sequence[str] | None = None,
    loss_scale: float | str | None = None,
    saved: str = "fp32",
    arithmetic: str = "fastest",
    clip_grad_norm: float | None = None,
    clip_grad_value: float | None = None,
    scheduler: Any = None,
    metrics: Metrics | None = None,
    inference: bool = False,
    evaluate: bool = False,
    batch: int | None = None,
    name: str | None = None,
    tune: str | Tune | None = None,
    say: Say | None = None,
) -> Deployment:
    """Write the C project that trains `model`. Without a target: 8 cores, 64 kB of L1, 512 kB of L2; `l3` is memory
    behind that. With dtype="mixed", activations, their gradients and what products multiply are in half precision,
    but in the layers that `keep` names, with a loss_scale if one is given, a factor or "dynamic"; with saved="fp16",
    what the forward pass keeps for the backward pass is. The program's own run cycles over the first `samples` of
    `data`; a `scheduler` is followed for so many `updates`. net_evaluate also tells what `metrics`, functions of
    output and target, measure. With dtype="bf16", on machines that have it, halves are bfloat16. With inference=True
    the project runs the forward pass alone, as after model.eval(), in a `batch` of its own if one is given; target,
    loss and optimizer are not needed. With evaluate=True net_evaluate and net_forward, which else run the network as
    it trains, run it as after model.eval(), in a `batch` of their own. `tune` measures tiles at a place, "host",
    "qemu" or "gvsoc", or as a Tune says, and keeps the fastest."""
    counts = {"steps": steps, "accumulate": accumulate, "samples": samples, "updates": updates, "batch": batch}
    check_arguments(model, target, name, say, **counts)
    machine = resolve(target, cores, l1, l2, l3)
    check_types(dtype, saved, machine)
    scale = loss_scale_of(None if loss_scale is None else str(loss_scale), inference)
    if arithmetic not in ARITHMETICS:
        raise UsageError(f"arithmetic is {arithmetic!r}; it must be one of {', '.join(ARITHMETICS)}")
    check_inference(inference, evaluate, batch, accumulate, saved)
    one_of_type(tune, (str, Tune), "tune", "a place, or a Tune")
    one_of_type(metrics, Mapping, "metrics", "a dictionary of functions of output and target")
    clean = identifier(name or type(unwrapped(model)).__name__)
    folder = default_folder(clean, inference) if out is None else path_of(out, "out")
    kept, measured = kept_of(keep), tune if isinstance(tune, Tune) else Tune.parse(tune)
    options = Options(machine, folder, steps, accumulate, dtype, saved, arithmetic, scale, keep=kept, tune=measured)
    check_writable(folder)
    parts = Parts(
        name=clean,
        module=model,
        example_input=example_input,
        example_target=example_target,
        loss=loss,
        optimizer=optimizer,
        data=data,
        input_shape=None,
        count=samples or steps * accumulate,
        exactly=samples is not None,
        where="the call",
        scheduler=scheduler,
        metrics=metrics,
        clip_norm=clip_grad_norm,
        clip_value=clip_grad_value,
        updates=max(updates or 0, steps),
        inference=Inference(batch) if inference else None,
        evaluation=Evaluation(batch) if evaluate else None,
        dtype=dtype,
    )
    return run_stages(assemble(parts), options, say)


def sweep(
    model: nn.Module,
    example_input: Any = None,
    example_target: Any = None,
    *,
    loss: Any = None,
    optimizer: Any = None,
    data: Any = None,
    cores: int | None = None,
    l1: str | int | None = None,
    l2: str | int | None = None,
    l3: str | int | None = None,
    target: str | None = None,
    accumulate: int = 1,
    clip_grad_norm: float | None = None,
    clip_grad_value: float | None = None,
    name: str | None = None,
    every: bool = False,
    time: str | None = None,
    energy: str | None = None,
    memory: str | int | None = None,
    dtype: str = "fp32",
    say: Say | None = None,
) -> Points:
    """Ways to train `model`, all of it or parts, from the least memory to the most: those that no other one beats, or
    `every` one; `within` are those that keep within a budget. `dtype` as deploy has it, or several: "fp32,mixed"."""
    check_arguments(model, target, name, say, accumulate=accumulate)
    dtypes = dtypes_of(str(dtype))
    machine = resolve(target, cores, l1, l2, l3)
    parts = Parts(
        name=identifier(name or type(unwrapped(model)).__name__),
        module=model,
        example_input=example_input,
        example_target=example_target,
        loss=loss,
        optimizer=optimizer,
        data=data,
        input_shape=None,
        count=1,
        where="the call",
        clip_norm=clip_grad_norm,
        clip_value=clip_grad_value,
        updates=1,
    )
    user = assemble(parts)
    say_notes(user, say or aloud)
    budget = Budget.parse(time, energy, None if memory is None else str(memory))
    return sweep_user_model(user, machine, accumulate, every, say or quiet, budget, dtypes)


def check_arguments(model: Any, target: Any, name: Any, say: Any, **counts: Any) -> None:
    if not isinstance(model, nn.Module):
        what = f"the class {model.__name__}" if isinstance(model, type) else f"of type {type(model).__name__}"
        raise UsageError(f"the model is {what}, not an nn.Module")
    one_of_type(target, str, "target", "a name")
    one_of_type(name, str, "name", "a string")
    if say is not None and not callable(say):
        raise UsageError(f"say is of type {type(say).__name__}; it must be a function of one string")
    for what, number in counts.items():
        if number is not None or what not in ("samples", "updates", "batch"):
            natural(number, what)


def say_notes(user: UserModel, say: Say) -> None:
    for note in user.notes:
        say(f"note: {note}")


def run_stages(user: UserModel, options: Options, say: Say | None) -> Deployment:
    say_notes(user, say or aloud)
    done = deploy_user_model(user, options, say or quiet)
    return Deployment(done.plan, done.folder, done.task)
