"""`--weights FILE` into the module: what people save their networks as, under the names that they have there."""

from __future__ import annotations

import fnmatch
import itertools
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from trainlib_deployer.errors import UsageError
from trainlib_deployer.user import safetensors
from trainlib_deployer.user.code import user_code

State = dict[str, torch.Tensor]
COUNTER = (
    "num_batches_tracked"  # files of PyTorch before 0.4.1 have none, and no result depends on it but a cumulative mean
)
PREFIXES = ("module.", "model.", "_orig_mod.", "net.", "network.")  # what wrappers put before every name
DEEPEST = 4  # of a dictionary of weights inside of a checkpoint
ZIP, SAFETENSORS_BRACE = b"PK", b"{"
REMEDY = "write it with torch.save(model.state_dict(), FILE)"


@dataclass(frozen=True)
class Found:
    """A dictionary of tensors in a file, as the model calls them, and what was done to get there."""

    place: str  # the key that it stood under
    prefix: str  # taken off
    state: State

    @property
    def sentence(self) -> str:
        done = [f"'{self.place}' of the file"] if self.place else []
        done += [f"the prefix '{self.prefix}' taken off"] if self.prefix else []
        return ", ".join(done)


def load_weights(module: nn.Module, path: Path, may_miss: tuple[str, ...] = ()) -> list[str]:
    """A file's weights into the module, in place: an optimizer made in the user's file keeps its parameters. Layers
    that `may_miss` names keep their own where the file has none that fit. What was assumed comes back as notes."""
    complete, notes = matched(module.state_dict(), path, may_miss)
    with user_code(f"{path} cannot be loaded into the model"):
        module.load_state_dict(complete)
    return notes


def matched(own: State, path: Path, may_miss: tuple[str, ...] = ()) -> tuple[State, list[str]]:
    """A file's weights under the names of a state dict, all of them; and notes."""
    found = best_match(read_weights(path), own, path)
    state, notes = dict(found.state), []
    if found.sentence:
        notes.append(f"weights: {found.sentence}")
    excused = excused_names(own, may_miss)
    kept = sorted(n for n in own if n in excused and not fits(state.get(n), own[n]))
    if kept:
        notes.append(f"weights: {few(kept)} keep their own values")
    dropped = set(kept) | {n for n in state if n not in own and matches(n, may_miss)}
    state = {n: v for n, v in state.items() if n not in dropped}
    state = {n: v for n, v in state.items() if n in own or not is_extra(n)}
    missing = [n for n in own if n not in state and n not in kept]
    without_counter = [n for n in missing if n.rpartition(".")[2] == COUNTER or is_extra(n)]
    missing = [n for n in missing if n not in without_counter]
    refuse_misfits(path, own, state, missing)
    return {**{n: own[n] for n in (*kept, *without_counter)}, **state}, notes


def refuse_misfits(path: Path, own: State, state: State, missing: list[str]) -> None:
    unexpected = [n for n in state if n not in own]
    if missing or unexpected:
        lacking = (("it lacks", missing), ("the model lacks", unexpected))
        parts = [f"{who} {few(names)}" for who, names in lacking if names]
        raise UsageError(
            f"{path} does not fit the model: {'; '.join(parts)}", remedy=new_layer((missing or unexpected)[0])
        )
    for name, value in state.items():
        if not fits(value, own[name]):
            there = f"'{name}' is {sizes(value)} there and {sizes(own[name])} in the model"
            raise UsageError(f"{path} does not fit the model: {there}", remedy=new_layer(name))


def new_layer(name: str) -> str:
    layer = name.rpartition(".")[0]
    return f"a new layer keeps its own weights with --weights-allow-missing '{layer}'" if layer else ""


def excused_names(own: State, patterns: tuple[str, ...]) -> set[str]:
    names = {n for n in own if matches(n, patterns)}
    for pattern in patterns:
        if not any(matches(n, (pattern,)) for n in own):
            layers = sorted({n.rpartition(".")[0] for n in own} - {""})
            raise UsageError(
                f"--weights-allow-missing: the model has no layer '{pattern}'",
                remedy=f"its layers are: {few(layers, 8)}",
            )
    return names


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """A pattern is a layer's name, of which all below is meant, or has * and ? in it."""
    return any(name == p or name.startswith(f"{p}.") or fnmatch.fnmatchcase(name, p) for p in patterns)


def fits(value: torch.Tensor | None, own: torch.Tensor) -> bool:
    if not isinstance(own, torch.Tensor):
        return True
    return isinstance(value, torch.Tensor) and (is_lazy(own) or own.shape == value.shape)


def is_extra(name: str) -> bool:
    """What get_extra_state of a module has put beside its tensors."""
    return name.rpartition(".")[2] == "_extra_state"


# ---- which dictionary of the file, under which names


def best_match(content: Any, own: State, path: Path) -> Found:
    """The dictionary with the most of the model's names and the fewest others."""
    candidates = [Found(place, prefix, state) for place, d in states(content) for prefix, state in spellings(d, own)]
    if not candidates:
        raise UsageError(f"{path} holds no state_dict", remedy=REMEDY)

    def worth(found: Found) -> tuple[int, int]:
        shared = sum(n in own for n in found.state)
        return shared, shared - len(found.state)

    return max(candidates, key=worth)


def states(content: Any, place: str = "", depth: int = 0) -> Iterator[tuple[str, State]]:
    """Every dictionary of named tensors, the outermost first."""
    if not isinstance(content, Mapping) or depth > DEEPEST:
        return
    tensors = {k: v for k, v in content.items() if isinstance(k, str) and isinstance(v, torch.Tensor)}
    extra = {k: v for k, v in content.items() if isinstance(k, str) and is_extra(k)}
    if tensors and content.keys() == {**tensors, **extra}.keys():
        yield place, {**tensors, **extra}
    for key, value in content.items():
        if isinstance(key, str):
            yield from states(value, f"{place}.{key}" if place else key, depth + 1)


def spellings(state: State, own: State) -> Iterator[tuple[str, State]]:
    """The names as they are, and without what wrappers put before them, in any order."""
    yield "", state
    seen = {""}
    for length in (1, 2, 3):
        for parts in itertools.product(PREFIXES, repeat=length):
            prefix = "".join(parts)
            inside = {n.removeprefix(prefix): v for n, v in state.items() if n.startswith(prefix)}
            if inside and prefix not in seen and any(n in own for n in inside):
                seen.add(prefix)
                yield prefix, inside


# ---- files


def read_weights(path: Path) -> Any:
    """What a file holds: tensors in dictionaries."""
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    try:
        return reader(path)(path)
    except Exception as err:  # a damaged file makes the readers raise anything
        if "Unsupported global" in str(err):
            raise UsageError(
                f"{path} is not a file of weights: Python objects in it are not loaded",
                remedy='write the tensors alone: torch.save(torch.load(FILE, weights_only=False)["state_dict"], NEW)',
            ) from err
        raise UsageError(f"{path} is not a file of weights", remedy=REMEDY) from err


def reader(path: Path) -> Callable[[Path], Any]:
    """By what the file begins with: endings lie."""
    with path.open("rb") as file:
        head = file.read(9)
    if head[:2] == ZIP:
        with zipfile.ZipFile(path) as archive:
            return read_npz if any(n.endswith(".npy") for n in archive.namelist()) else read_torch
    return safetensors.read if head[8:9] == SAFETENSORS_BRACE else read_torch


def read_torch(path: Path) -> Any:
    with warnings.catch_warnings(action="ignore"):  # of pickles that are damaged
        return torch.load(path, map_location="cpu", weights_only=True)


def read_npz(path: Path) -> State:
    with np.load(path, allow_pickle=False) as arrays:
        return {name: torch.from_numpy(np.array(arrays[name])) for name in arrays.files}


def is_lazy(value: Any) -> bool:
    return bool(torch.nn.parameter.is_lazy(value))


def few(names: list[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f"'{n}'" for n in names[:most]) + more


def sizes(value: torch.Tensor) -> str:
    return "x".join(map(str, value.shape)) or "a scalar"
