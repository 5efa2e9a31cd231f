"""What was learned, as PyTorch calls it: a state dict for the module, one for the optimizer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from golden.load import load_task
from golden.precision import as_real, shaped_like
from trainlib_deployer.errors import UsageError
from trainlib_deployer.folder import as_written, read_plan
from trainlib_deployer.program.ir import STEP
from trainlib_deployer.state.image import Values
from trainlib_deployer.state.layout import Layout
from trainlib_deployer.user import safetensors
from trainlib_deployer.user.optimizer_state import after_a_step

State = dict[str, torch.Tensor]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Known:
    """What a project knows of the user's model."""

    folder: Path
    optimizer: Any = None  # its class, where the project cannot import it

    @cached_property
    def plan(self) -> dict[str, Any]:
        return read_plan(self.folder)

    @property
    def trains(self) -> bool:
        return not self.plan["model"].get("inference", False)

    def check_trains(self) -> None:
        if not self.trains:
            raise UsageError(f"{self.folder} is inference alone", remedy="take the project that trains the network")

    @cached_property
    def layout(self) -> Layout:
        return Layout.of_plan(self.plan)

    @cached_property
    def spec(self) -> dict[str, Any]:
        spec = json.loads(self.part("spec.json").read_text())
        return {"aliases": {}, "counters": {}, "decided": [], "updates": 0, **spec}  # as older projects have it

    @cached_property
    def weights(self) -> State:
        """As deployed."""
        return dict(torch.load(self.part("weights.pt"), weights_only=True))

    def part(self, name: str) -> Path:
        as_written(self.folder, [f"model/{name}"])
        return self.folder / "model" / name

    @cached_property
    def trained(self) -> list[str]:
        """Parameters that the optimizer updates."""
        return [t["name"] for t in self.plan["trace"] if t["kind"] == "gradient"]

    @cached_property
    def optimizer_class(self) -> Any:
        if not self.spec["own_optimizer"]:
            return self.spec["optimizer"]
        return self.optimizer or load_task(self.folder / "model").optimizer


def module_state(known: Known, values: Values) -> State:
    """For module.load_state_dict. What the program lacks, as buffers that forward makes anew, is as deployed."""
    found: State = {}
    for name, deployed in known.weights.items():
        value = values.get(known.spec["aliases"].get(name, name))
        if value is None or not isinstance(deployed, torch.Tensor):
            found[name] = deployed
        else:
            found[name] = shaped_like(torch.from_numpy(np.array(value)).to(as_real(deployed).dtype), deployed)
    for name, a_step in known.spec["counters"].items():
        if name in found:
            found[name] = found[name] + a_step * samples_seen(values)
    return found


def values_of(known: Known, state: Mapping[str, torch.Tensor], steps: int = 0) -> Values:
    """A module's state dict as the program has it after so many steps."""
    if not isinstance(state, Mapping):
        raise UsageError(f"the state dict is of type {type(state).__name__}")
    weights, state = tensors(known.weights), tensors(state)
    sizes = {p.name: p for p in known.layout.pieces if p.role != "state"}
    names = {known.spec["aliases"].get(n, n): n for n in weights}
    missing = [n for n in weights if n not in state]
    others = [n for n in state if n not in weights]
    if missing or others:
        verb = "lacks" if missing else "has no place in the program for"
        raise UsageError(f"the state dict {verb} '{(missing or others)[0]}'")
    found: Values = {}
    for name, key in names.items():
        value = state[key].detach().cpu()
        if value.shape != weights[key].shape:
            there, here = ("x".join(map(str, v.shape)) or "a scalar" for v in (value, weights[key]))
            raise UsageError(f"'{key}' is {there} in the state dict and {here} in the program")
        if name in known.spec["decided"] and not torch.equal(value.to(weights[key].dtype), weights[key]):
            raise UsageError(f"'{key}' decides about shapes or branches", remedy="deploy anew with the new weights")
        if name in sizes:
            counted = value - known.spec["counters"][key] * steps if key in known.spec["counters"] else value
            given = as_real(counted.float() if counted.dtype is torch.bfloat16 else counted).numpy()
            with np.errstate(over="ignore"):
                found[name] = given.astype(sizes[name].numpy).reshape(sizes[name].shape)
            if not fits(found[name].reshape(given.shape), given):
                raise UsageError(f"'{key}' has values that do not fit the program's {sizes[name].numpy}")
    return found


def fits(found: Array, given: Array) -> bool:
    """Whole numbers stay as they are; of floats, none becomes infinite."""
    if given.dtype.kind in "iu":
        return np.array_equal(found, given)
    return given.dtype.kind != "f" or np.array_equal(np.isfinite(found), np.isfinite(given))


def tensors(state: Mapping[str, Any]) -> State:
    """A module may keep more in its own."""
    return {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}


def write_state(path: Path, state: State) -> None:
    """In the format that the ending names; only .pt has a place for what is no tensor."""
    if path.suffix in (".safetensors", ".npz"):
        state = tensors(state)
    if path.suffix == ".safetensors":
        safetensors.write(path, state)
    elif path.suffix == ".npz":
        with path.open("wb") as file:
            np.savez(file, **{n: v.numpy() for n, v in state.items()})  # type: ignore[arg-type]
    else:
        torch.save(state, path)


def updates(known: Known, values: Values) -> int:
    return int(known.spec["updates"]) + samples_seen(values) // int(known.spec["accumulate"])


def samples_seen(values: Values) -> int:
    """While it was trained; of inference nobody counts them."""
    return int(values.get(STEP, np.zeros(())))


def optimizer_state(known: Known, values: Values) -> dict[str, Any]:
    """For optimizer.load_state_dict. Which entries there are, an optimizer of the same class says after a step."""
    known.check_trains()
    groups = [(tupled(g["settings"]), g["names"]) for g in known.spec["groups"]]
    shapes = {n: known.weights[n].shape for _, names in groups for n in names}
    complex_one = next((n for n in shapes if known.weights[n].is_complex()), None)
    if complex_one is not None:
        raise UsageError(f"'{complex_one}' is complex: the state of its optimizer stays in the program")
    done = updates(known, values)
    trained = [n for n in shapes if n in known.trained] if done else []
    optimizer, parameters = after_a_step(known.optimizer_class, groups, tupled(known.spec["defaults"]), shapes, trained)
    for i, (_, names) in enumerate(groups):
        for n in (n for n in names if n in trained):
            fill(optimizer.state[parameters[n]], n, f"group{i}", values, done)
    return optimizer.state_dict()


def fill(state: dict[str, Any], name: str, group: str, values: Values, done: int) -> None:
    for label, like in state.items():
        value = values.get(f"{name}.{label}", values.get(f"{group}.{label}"))
        if value is None and label == "step":
            state[label] = torch.tensor(float(done)) if isinstance(like, torch.Tensor) else done
        elif value is not None and isinstance(like, torch.Tensor):
            state[label] = torch.from_numpy(np.array(value)).to(like.dtype).reshape(like.shape)


def tupled(settings: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has lists only."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
