"""The generated C, stepped from Python: the project as a shared library in this process, with the bits of the chip."""

from __future__ import annotations

import _ctypes
import ctypes
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from golden.precision import as_real
from trainlib_deployer.arguments import path_of
from trainlib_deployer.errors import UsageError
from trainlib_deployer.folder import check_cores, check_whole
from trainlib_deployer.program.ir import DType
from trainlib_deployer.run.host import Host
from trainlib_deployer.run.make import make
from trainlib_deployer.state.dumps import read_dump
from trainlib_deployer.state.image import Values, decode, encode, image_bytes
from trainlib_deployer.state.trained import Known, State, module_state, optimizer_state, values_of
from trainlib_deployer.user.trial import check_labels

Array = np.ndarray[Any, Any]
LIBRARY = "build/lib/net.so"
EVALUATED = "evaluated"  # the shape of what an evaluation takes or gives


class Session:
    """A project's program, its memory and what it has learned so far. Several may live at once, of one project too."""

    def __init__(self, folder: Path | str, cores: int = 1, optimizer: Any = None) -> None:
        """`cores` are threads: the results have the same bits for any number, and small networks are fastest with one.
        `optimizer` is its class, where the project cannot import it."""
        self.known = Known(path_of(folder, "the folder"), optimizer)
        self.interface: dict[str, Any] = self.known.plan["interface"]
        self.library = opened(self.known, cores)
        for name in ("net_train_step", "net_evaluate"):
            if hasattr(self.library, name):
                getattr(self.library, name).restype = ctypes.c_float
        self.library.net_init()
        self.start = self.image()

    def step(self, x: Any, y: Any, learning_rate: float | None = None) -> float:
        """Train on one sample, as net_train_step does; its loss before the update. Without a learning rate, that of the
        optimizer or the schedule that was deployed."""
        self.known.check_trains()
        rate = self.scheduled("rates", self.interface["learning_rate"]) if learning_rate is None else learning_rate
        settings = [rate, *([self.scheduled("momenta", 0.0)] if self.interface.get("momenta") else [])]
        floats = [ctypes.c_float(number(s, "learning_rate")) for s in settings]
        return float(self.library.net_train_step(*self.arrays("input", x), *self.arrays("target", y), *floats))

    def evaluate(self, x: Any, y: Any) -> float:
        """The loss of a sample, as after model.eval() where the project evaluates so; nothing is learned."""
        if not hasattr(self.library, "net_evaluate"):
            raise UsageError(f"{self.known.folder} has no loss", remedy="deploy with --evaluate")
        given = (*self.arrays("input", x, EVALUATED), *self.arrays("target", y, EVALUATED))
        return float(self.library.net_evaluate(*given))

    def predict(self, x: Any) -> Any:
        """The network's output, or a dictionary of several; nothing is learned."""
        self.library.net_forward(*self.arrays("input", x, EVALUATED))
        found = {o["name"]: self.output(o) for o in self.interface["outputs"]}
        return next(iter(found.values())) if len(found) == 1 else found

    @property
    def steps(self) -> int:
        """Samples trained on; of inference, forward passes."""
        return int(self.library.net_steps())

    def state_dict(self) -> State:
        """For the module's load_state_dict."""
        return module_state(self.known, self.values())

    def optimizer_state_dict(self) -> dict[str, Any]:
        """For the optimizer's load_state_dict."""
        return optimizer_state(self.known, self.values())

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """The module's parameters and buffers into the program; the optimizer's state and the step number stay."""
        self.put(self.values() | values_of(self.known, state, int(self.steps)))

    def reset(self) -> None:
        """As deployed."""
        self.library.net_init()
        self.load_image(self.start)

    def save(self, path: Path | str) -> None:
        """What net_save writes, for any build of this network."""
        try:
            path_of(path, "the file").write_bytes(self.image())
        except OSError as err:
            raise UsageError(f"cannot write {path}: {err.strerror or err}") from err

    def load(self, path: Path | str) -> None:
        """What save, net_save or `make host SAVE=FILE` has written; inference takes it from training, too."""
        self.put(read_dump(self.known.layout, path_of(path, "the file")))

    # ---- states

    def image(self) -> bytes:
        buffer = ctypes.create_string_buffer(image_bytes(self.known.layout))
        self.library.net_save(buffer)
        return buffer.raw

    def load_image(self, image: bytes) -> None:
        fault = self.library.net_load(image, ctypes.c_size_t(len(image)))
        assert not fault, "an image of this layout loads"

    def values(self) -> Values:
        return decode(self.known.layout, self.image())

    def put(self, values: Values) -> None:
        self.load_image(encode(self.known.layout, values))

    # ---- arguments and results

    def scheduled(self, what: str, fixed: float) -> float:
        """Of this update; fixed without a schedule."""
        values: Sequence[float] = self.interface[what]
        if not values:
            return float(fixed)
        update = self.steps // int(self.known.spec["accumulate"])
        if update >= len(values):
            raise UsageError(
                f"the schedule of learning rates covers {len(values)} updates", remedy="give step(..., learning_rate=)"
            )
        return float(values[update])

    def arrays(self, role: str, value: Any, shape: str = "shape") -> list[Any]:
        """Pointers to what C reads; they keep their arrays alive."""
        wanted = [{**a, "shape": shape_of(a, shape)} for a in self.interface["arguments"] if a["role"] == role]
        leaves = pytree.tree_leaves(value)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor | np.ndarray)]
        if len(tensors) == len(wanted):
            leaves = tensors  # what stands beside them is the same in every step
        elif len(wanted) == 1 and not tensors:
            leaves = [value]  # nested lists of numbers
        if len(leaves) != len(wanted):
            raise UsageError(f"{len(leaves)} tensors as {role}; the program takes {len(wanted)}")
        return [pointer(checked(a, leaf)) for a, leaf in zip(wanted, leaves, strict=True)]

    def output(self, entry: Mapping[str, Any]) -> torch.Tensor:
        function = getattr(self.library, entry["function"])
        function.restype = ctypes.c_void_p
        dtype = np.dtype(DType[entry["dtype"]].numpy_name)
        found = np.empty(shape_of(entry, EVALUATED), dtype)
        ctypes.memmove(found.ctypes.data, function(), found.nbytes)
        return torch.from_numpy(found)


def shape_of(entry: Mapping[str, Any], which: str) -> list[int]:
    """Of an argument or output; older projects have no other one for an evaluation."""
    return list(entry.get(which, entry["shape"]))


def opened(known: Known, cores: int) -> ctypes.CDLL:
    """A copy of the library, which has variables of its own; it goes with its last user."""
    Host().check_tools()
    check_whole(known.folder)
    check_cores(cores, known.plan)
    make(known.folder, LIBRARY, {"CORES": cores})
    with tempfile.TemporaryDirectory(prefix="trainlib-deploy-") as own:
        library = ctypes.CDLL(shutil.copy(known.folder / LIBRARY, own))
    if hasattr(_ctypes, "dlclose"):  # not everywhere; without it, libraries stay until the process ends
        weakref.finalize(library, _ctypes.dlclose, library._handle)
    return library


def checked(argument: Mapping[str, Any], value: Any) -> Array:
    """As the program reads it."""
    what, wanted = f"{argument['role']} '{argument['name']}'", np.dtype(DType[argument["dtype"]].numpy_name)
    array = array_of(value, what)
    if list(array.shape) != argument["shape"]:
        there, here = ("x".join(map(str, s)) or "a scalar" for s in (array.shape, argument["shape"]))
        raise UsageError(f"{what} is {there}; the program was deployed for {here}")
    if array.dtype.kind == "f" and wanted.kind != "f":
        raise UsageError(f"{what} is {array.dtype}; the program takes integers")
    cast = np.ascontiguousarray(array, wanted)
    if wanted.kind != "f" and not np.array_equal(cast, array):
        raise UsageError(f"{what} has values that do not fit {wanted.name}")
    if argument.get("classes"):  # none in older projects
        check_labels(torch.from_numpy(cast), argument["classes"], argument["ignored"], what)
    return cast


def array_of(value: Any, what: str) -> Array:
    """Real numbers; complex ones as pairs, as the program has them."""
    try:
        if isinstance(value, torch.Tensor):
            plain = as_real(value.detach().cpu())
            return (plain.float() if plain.dtype is torch.bfloat16 else plain).numpy()
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError, NotImplementedError) as err:
        raise UsageError(f"{what} cannot be read as numbers: {first_line(err)}") from err
    if array.dtype.kind not in "fiub":
        raise UsageError(f"{what} is of type {array.dtype}; the program takes real numbers")
    return array


def first_line(err: Exception) -> str:
    return str(err).strip().partition("\n")[0]


def number(value: Any, what: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError) as err:
        raise UsageError(f"{what} is {value!r:.60}; it must be a number") from err


def pointer(array: Array) -> Any:
    found = ctypes.c_void_p(array.ctypes.data)
    found.array = array  # type: ignore[attr-defined]
    return found
