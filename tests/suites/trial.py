"""One subject through deployment, build, verification, and a comparison with eager PyTorch: what became of it."""

from __future__ import annotations

import copy
import shutil
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from golden.drawing import Drawing
from golden.precision import InOrder, new_tensors_in
from golden.random_numbers import Numbers
from tests.suites.subjects import LEARNING_RATE, Branch, DoesNotApply, Subject, side_by_side
from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.check.verify import Verification
from trainlib_deployer.errors import DeployError, DoesNotFit, Unsupported, UsageError, VerificationFailed

VERIFIED, REFUSED, NOT_APPLICABLE = "verified", "refused", "does not apply"
WRONG, CRASHED, UNFIT, SLOW = "wrong", "crashed", "does not fit", "slow"
FAILURES = (WRONG, CRASHED, SLOW)
Work = Callable[[Subject, Path], Any]
Array = np.ndarray[Any, np.dtype[np.float64]]
STORED = 2.0**-22  # of a parameter's size: what storing it twice in float32 may cost its change
SHAKES = 4  # runs of PyTorch from weights that differ in the last bit, where it matters
FURTHER = 2.0  # times as far as the furthest of these a program may be: with 4, a factor of 1.05 hides in ContraWR
ITS_OWN = 4.0  # of what float32 makes of a tensor in eager PyTorch, a program may make so many times as much
EAGER = {"fp32": 2e-3, "mixed": 3e-2}  # more than rounding makes of two steps; a part that is missing shows far above
LAST_BIT = {"fp32": 2.0**-23, "mixed": 2.0**-11}
NOTHING = {"fp32": 1e-3, "mixed": 1e-1}  # of the largest: what is smaller may be rounding alone


@dataclass(frozen=True)
class Outcome:
    name: str
    kind: str
    detail: str = ""


def attempt(subject: Subject, folder: Path, work: Work | None = None) -> Outcome:
    """What happens with a network; its project is left in `folder` where that went wrong."""
    shutil.rmtree(folder, ignore_errors=True)
    kind, detail = VERIFIED, ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (work or through)(subject, folder)
        shutil.rmtree(folder, ignore_errors=True)
    except DoesNotApply as err:
        kind, detail = NOT_APPLICABLE, str(err)
    except VerificationFailed as err:
        kind, detail = WRONG, err.message
    except DoesNotFit as err:
        kind, detail = UNFIT, first_line(err.message)
    except (Unsupported, UsageError) as err:
        at = f" ({err.source.text})" if err.source is not None and subject.from_outside else ""
        kind, detail = REFUSED, first_line(err.message) + at
    except DeployError as err:
        kind, detail = CRASHED, f"{type(err).__name__}: {first_line(err.message)}"
    except Exception as err:
        kind, detail = CRASHED, f"{type(err).__name__} {place(err)}: {first_line(str(err))}"
    return Outcome(subject.name, kind, detail[:300])


def through(subject: Subject, folder: Path, on: str = "host") -> None:
    """Deploy, verify, and hold against the model as it was before."""
    untouched = copy.deepcopy(subject.module)
    found = deployed(subject, folder).verify(on)
    found.raise_if_failed()
    fill_lazy(untouched, subject.module)
    against_eager(untouched, subject, found)


def fill_lazy(untouched: torch.nn.Module, deployed: torch.nn.Module) -> None:
    """Parameters that wait for a first input got their shapes and values at the deployment, for good."""
    named = [*untouched.named_parameters(), *untouched.named_buffers()]
    state = deployed.state_dict()
    untouched.load_state_dict({name: state[name] for name, value in named if is_lazy(value)}, strict=False)


def deployed(subject: Subject, folder: Path) -> Deployment:
    return deploy(
        subject.module,
        subject.data[0][0],
        subject.data[0][1],
        loss=subject.loss,
        optimizer=torch.optim.SGD(subject.module.parameters(), lr=LEARNING_RATE),
        data=subject.data,
        steps=len(subject.data),
        cores=8,
        l1="64k",
        l2="64M",
        dtype=subject.dtype,
        out=folder,
    )


def against_eager(untouched: torch.nn.Module, subject: Subject, found: Verification) -> None:
    """The losses, the first gradients and the last parameters and buffers, computed by plain PyTorch."""
    if draws_numbers(untouched, subject):
        return
    start = {name: flat(p) for name, p in untouched.named_parameters()}
    in_double, begin = copy.deepcopy(untouched), copy.deepcopy(untouched)
    try:
        exact = eager(untouched, subject)
    except RuntimeError as err:  # a step of training has left the operator's domain
        raise DoesNotApply(f"PyTorch cannot go on: {first_line(str(err))[:200]}") from None
    try:
        precise = eager(in_double, subject, torch.float64)
    except RuntimeError:  # it makes float32 tensors of its own: then nothing is known of its rounding
        precise = exact
    computed = {key: flat(values) for key, values in found.computed.items() if key in exact}
    if not any(kind == "loss" for _, kind, _ in computed):
        raise VerificationFailed("the run recorded no loss to hold against eager PyTorch")
    moved = {key: value - start[key[2]] if key[1] == "parameter" else value for key, value in exact.items()}
    largest: dict[str, float] = {}
    for (_, kind, _), value in moved.items():
        largest[kind] = max(largest.get(kind, 0.0), norm(value))
    for key, value in computed.items():
        scale = max(norm(moved[key]), NOTHING[subject.dtype] * largest[key[1]], 1e-6)
        own = ITS_OWN * norm(exact[key] - precise[key]) + STORED * norm(exact[key])
        error = norm(value - exact[key]) - own
        nowhere = not np.isfinite(exact[key]).all() and np.array_equal(np.isnan(value), np.isnan(exact[key]))
        allowed = EAGER[subject.dtype] * scale
        if not error <= allowed and not nowhere:
            runs = (eager(shaken(begin, seed, LAST_BIT[subject.dtype]), subject) for seed in range(SHAKES))
            apart = [norm(exact[key] - again[key]) for again in runs]
            if error <= allowed + FURTHER * max(apart):
                continue  # PyTorch itself goes as far from there when its weights change in the last bit: a kink
            raise VerificationFailed(
                f"{key[1]} '{key[2]}' of step {key[0]} is {error / scale:.3g} off from eager PyTorch"
            )


def shaken(module: torch.nn.Module, seed: int, bit: float) -> torch.nn.Module:
    """With weights that differ in the last bit."""
    other, generator = copy.deepcopy(module), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in other.parameters():
            if p.is_floating_point():
                p.mul_(1 + bit * (2 * torch.rand(p.shape, generator=generator) - 1))
    return other


def flat(values: Any) -> Array:
    if isinstance(values, torch.Tensor):
        values = values.detach().numpy(force=True)
    return np.array(values, np.float64).ravel()


def norm(values: Array) -> float:
    return float(np.linalg.norm(values))


def draws_numbers(module: torch.nn.Module, subject: Subject) -> bool:
    """Do two steps differ, though nothing is learned? PyTorch's table of operators seeds its generator anew."""
    losses = []
    for step in range(8):
        again = copy.deepcopy(module)
        with torch.random.fork_rng(), Drawing(Numbers(step)):
            losses.append(float(subject.loss(again(*copy.deepcopy(subject.data[0][0])), subject.data[0][1])))
    return len(set(losses)) > 1


def eager(
    module: torch.nn.Module, subject: Subject, dtype: torch.dtype = torch.float32
) -> dict[tuple[int, str, str], Array]:
    """PyTorch alone, one step after the other; its wrong gradients of batch norm, of a batch of one, put right."""
    found: dict[tuple[int, str, str], Array] = {}
    module.to(dtype)
    parameters = {n: p for n, p in module.named_parameters() if p.requires_grad and p.numel()}
    optimizer = torch.optim.SGD(module.parameters(), lr=LEARNING_RATE)
    with new_tensors_in(dtype), InOrder():
        for step, sample in enumerate(subject.data):
            optimizer.zero_grad()
            inputs, target = pytree.tree_map_only(torch.Tensor, lambda t: copied(t, dtype), sample)
            loss = subject.loss(module(*inputs), target)
            loss.backward()
            found[step, "loss", "loss"] = flat(loss)
            if step == 0:
                for n, p in parameters.items():
                    found[step, "gradient", n] = flat(torch.zeros_like(p) if p.grad is None else p.grad)
            optimizer.step()
    last = len(subject.data) - 1
    found |= {(last, "parameter", n): flat(p) for n, p in parameters.items()}
    buffers = {n: b for n, b in module.named_buffers() if b.dtype == dtype and b.numel()}
    return found | {(last, "state", n): flat(b) for n, b in buffers.items()}


def copied(t: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return t.to(dtype, copy=True) if t.is_floating_point() else t.clone()


def attempt_all(name: str, branches: list[Branch], folder: Path, dtype: str = "fp32") -> list[Outcome]:
    """Each sample is deployed; those that can be are verified in one program, and one by one where that fails."""
    found: dict[str, Outcome] = {}
    good: dict[str, Branch] = {}
    for i, branch in enumerate(branches):
        own = f"{name} {i}"
        outcome = front(own, branch, folder, dtype)
        found[own] = outcome
        if outcome.kind == VERIFIED:
            good[f"s{i}"] = branch
    if good:
        together = attempt(side_by_side(name, copy.deepcopy(good), dtype), folder)
        if together.kind != VERIFIED:
            for key, branch in good.items():
                own = f"{name} {key[1:]}"
                found[own] = attempt(side_by_side(own, {key: branch}, dtype), folder / key)
    return list(found.values())


def front(name: str, branch: Branch, folder: Path, dtype: str) -> Outcome:
    """Everything before the compiler."""
    try:
        subject = side_by_side(name, {"s": copy.deepcopy(branch)}, dtype)
    except DoesNotApply as err:
        return Outcome(name, NOT_APPLICABLE, str(err))
    except Exception as err:
        return Outcome(name, NOT_APPLICABLE, f"PyTorch cannot: {type(err).__name__}: {first_line(str(err))[:200]}")
    return attempt(subject, folder, deployed)


def first_line(words: str) -> str:
    return words.splitlines()[0] if words else ""


def place(err: BaseException) -> str:
    """The last frame in our own code."""
    frames = traceback.extract_tb(err.__traceback__)
    ours = [f for f in frames if "trainlib_deployer" in f.filename or "golden" in f.filename]
    frame = (ours or frames)[-1]
    return f"in {Path(frame.filename).name}:{frame.lineno} {frame.name}"
