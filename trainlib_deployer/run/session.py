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

from trainlib_deployer.errors import UsageError
from trainlib_deployer.program.ir import DType
from trainlib_deployer.run.host import Host
from trainlib_deployer.run.make import make
from trainlib_deployer.state.dumps import read_dump
from trainlib_deployer.state.image import Values, decode, encode, image_bytes
from trainlib_deployer.state.trained import Known, State, module_state, optimizer_state, values_of

Array = np.ndarray[Any, Any]
LIBRARY = "build/lib/net.so"


class Session:
    """A project's program, its memory and what it has learned so far. Several may live at once, of one project too."""

    def __init__(self, folder: Path | str, cores: int = 1, optimizer: Any = None) -> None:
        """`cores` are threads: the results have the same bits for any number, and small networks are fastest with one.
        `optimizer` is its class, where the project cannot import it."""
        self.known = Known(Path(folder), optimizer)
        self.interface: dict[str, Any] = self.known.plan["interface"]
        self.library = opened(self.known, cores)
        if self.trains:
            self.library.net_train_step.restype = self.library.net_evaluate.restype = ctypes.c_float
        self.library.net_init()
        self.start = self.image()

    @property
    def trains(self) -> bool:
        return not self.known.plan["model"].get("inference", False)

    def check_trains(self) -> None:
        if not self.trains:
            raise UsageError(f"{self.known.folder} is inference alone", remedy="deploy the model without inference")

    def step(self, x: Any, y: Any, learning_rate: float | None = None) -> float:
        """Train on one sample, as net_train_step does; its loss before the update. Without a learning rate, that of the
        optimizer or the schedule that was deployed."""
        self.check_trains()
        rate = self.scheduled("rates", self.interface["learning_rate"]) if learning_rate is None else learning_rate
        settings = [rate, *([self.scheduled("momenta", 0.0)] if self.interface.get("momenta") else [])]
        return float(self.library.net_train_step(*self.given(x, y), *map(ctypes.c_float, settings)))

    def evaluate(self, x: Any, y: Any) -> float:
        """The loss of a sample; nothing is learned."""
        self.check_trains()
        return float(self.library.net_evaluate(*self.given(x, y)))

    def predict(self, x: Any) -> Any:
        """The network's output, or a dictionary of several; nothing is learned."""
        self.library.net_forward(*self.arrays("input", x))
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
        self.check_trains()
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
        Path(path).write_bytes(self.image())

    def load(self, path: Path | str) -> None:
        """What save, net_save or `make host SAVE=FILE` has written; inference takes it from training, too."""
        self.put(read_dump(self.known.layout, Path(path)))

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

    def given(self, x: Any, y: Any) -> list[Any]:
        return [*self.arrays("input", x), *self.arrays("target", y)]

    def arrays(self, role: str, value: Any) -> list[Any]:
        """Pointers to what C reads; they keep their arrays alive."""
        wanted = [a for a in self.interface["arguments"] if a["role"] == role]
        leaves = pytree.tree_leaves(value)
        if len(leaves) != len(wanted):
            raise UsageError(f"{len(leaves)} tensors as {role}; the program takes {len(wanted)}")
        return [pointer(checked(a, leaf)) for a, leaf in zip(wanted, leaves, strict=True)]

    def output(self, entry: Mapping[str, Any]) -> torch.Tensor:
        function = getattr(self.library, entry["function"])
        function.restype = ctypes.c_void_p
        dtype = np.dtype(DType[entry["dtype"]].numpy_name)
        found = np.empty(entry["shape"], dtype)
        ctypes.memmove(found.ctypes.data, function(), found.nbytes)
        return torch.from_numpy(found)


def opened(known: Known, cores: int) -> ctypes.CDLL:
    """A copy of the library, which has variables of its own; it goes with its last user."""
    Host().check_tools()
    most = int(known.plan["target"]["working"])
    if not 1 <= cores <= most:
        raise UsageError(f"cores is {cores}; the project has stacks for 1 to {most}")
    make(known.folder, LIBRARY, {"CORES": cores})
    with tempfile.TemporaryDirectory(prefix="trainlib-deploy-") as own:
        library = ctypes.CDLL(shutil.copy(known.folder / LIBRARY, own))
    weakref.finalize(library, _ctypes.dlclose, library._handle)
    return library


def checked(argument: Mapping[str, Any], value: Any) -> Array:
    """As the program reads it."""
    array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    wanted = np.dtype(DType[argument["dtype"]].numpy_name)
    if list(array.shape) != argument["shape"]:
        there, here = ("x".join(map(str, s)) or "a scalar" for s in (array.shape, argument["shape"]))
        raise UsageError(f"{argument['role']} '{argument['name']}' is {there}; the program was deployed for {here}")
    if array.dtype.kind == "f" and wanted.kind != "f":
        raise UsageError(f"{argument['role']} '{argument['name']}' is {array.dtype}; the program takes integers")
    cast = np.ascontiguousarray(array, wanted)
    if wanted.kind != "f" and not np.array_equal(cast, array):
        raise UsageError(f"{argument['role']} '{argument['name']}' has values that do not fit {wanted.name}")
    return cast


def pointer(array: Array) -> Any:
    found = ctypes.c_void_p(array.ctypes.data)
    found.array = array  # type: ignore[attr-defined]
    return found
