"""The reference run: the user's own model trained by PyTorch itself, in any precision, recorded tensor by tensor.

Eager PyTorch, `loss.backward()`, `torch.optim`; standalone, so that a copy works in a generated project.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import inspect
import json
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

Array = np.ndarray[Any, Any]
Key = tuple[int, str, str]  # step, kind, name
COUNTERS = ("step", "num_batches_tracked", "mu_product", "eta", "mu")  # functions of the step number alone


@dataclass(frozen=True)
class Task:
    """What is trained, on what, how."""

    module: nn.Module
    loss: Callable[..., Any]
    samples: Sequence[tuple[tuple[Any, ...], Any]]  # (inputs, target)
    optimizer: str | type[torch.optim.Optimizer]  # a class of torch.optim, or the user's own
    groups: Sequence[tuple[Mapping[str, Any], Sequence[str]]]  # settings, parameter names
    defaults: Mapping[str, Any] = field(default_factory=dict)  # what the optimizer's constructor was given
    accumulate: int = 1  # samples an update: their gradients are averaged
    clip_norm: float | None = None
    clip_value: float | None = None
    scheduler: Any = None  # the user's torch.optim.lr_scheduler, or a function making one from an optimizer
    start: Contents | None = None  # of the module, if it may hold something else by the time of the run
    saved: str = "fp32"  # how the program stores what its forward leaves for its backward


def run(
    task: Task, steps: int, dtype: torch.dtype, noise: int = 0, resume: Mapping[Key, Array] | None = None
) -> dict[Key, Array]:
    """Train the module, which gets back what it holds now, on `steps` samples and record everything a step computes.

    With `accumulate`, a step is one backward pass, and the gradient is what has been accumulated after it. The recorded
    gradient is the one before clipping.

    `noise` (a seed) adds rounding errors of another order of summation to what each layer computes. With `resume`, the
    record of another run, every step but the first starts from the parameters and states which that run had reached.

    The float32 run is that of a user who saves as `task.saved` says; float64 stays exact.
    """
    modes = (new_tensors_in(dtype), Precise(dtype), InOrder())
    with one_thread(), torch.random.fork_rng(devices=[]), contextlib.ExitStack() as stack:
        stack.enter_context(borrowed(task.module, task.start or contents(task.module), dtype))
        for mode in modes:
            stack.enter_context(mode)
        return trained(task, steps, dtype, noise, resume)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """The order of summation, and so the last bits, must not depend on how many cores this machine has."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class Contents:
    """What a module holds: tensors by name, the modules in training mode, the parameters that are trained."""

    tensors: Mapping[str, torch.Tensor]
    training: frozenset[str]
    trainable: frozenset[str]


def contents(module: nn.Module) -> Contents:
    tensors = {n: t.detach().clone() for n, t in (*module.named_parameters(), *module.named_buffers())}
    training = frozenset(n for n, m in module.named_modules() if m.training)
    return Contents(tensors, training, frozenset(n for n, p in module.named_parameters() if p.requires_grad))


@contextlib.contextmanager
def borrowed(module: nn.Module, start: Contents, dtype: torch.dtype) -> Iterator[None]:
    """The module itself, not a copy, since a loss may read `model.parameters()`: with the contents of `start` in
    another precision. Afterwards it holds what it held before."""
    parameters = [(p, p.data, p.grad, p.requires_grad) for p in module.parameters()]
    modules = [(m, dict(m._buffers), m._forward_hooks.copy(), m.training) for m in module.modules()]
    for name, p in module.named_parameters():
        p.grad = None
        p.data = cast(start.tensors[name].clone(), dtype)
        p.requires_grad_(name in start.trainable)
    buffers = {id(b): cast(start.tensors[n].clone(), dtype) for n, b in module.named_buffers()}
    for name, m in module.named_modules():
        m.training = name in start.training
        m._buffers.update({n: buffers[id(b)] for n, b in m._buffers.items() if b is not None})
    try:
        yield
    finally:
        for p, value, gradient, trained in parameters:
            p.grad = None
            p.data, p.grad = value, gradient
            p.requires_grad_(trained)
        for m, before, hooks, training in modules:
            m._buffers.update(before)
            m._forward_hooks, m.training = hooks, training


def own(module: nn.Module) -> dict[int, Any]:
    """For deepcopy: the module and what belongs to it are not copied."""
    return {id(v): v for v in (*module.modules(), *module.parameters(), *module.buffers())}


@contextlib.contextmanager
def new_tensors_in(dtype: torch.dtype) -> Iterator[None]:
    """What the user's forward makes itself, such as torch.zeros(2, 3), must fit the rest."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def trained(
    task: Task, steps: int, dtype: torch.dtype, noise: int, resume: Mapping[Key, Array] | None
) -> dict[Key, Array]:
    module = task.module
    if noise:
        disturb(module, noise)
    loss_function = cast(copy.deepcopy(task.loss, own(module)), dtype)
    parameters = dict(module.named_parameters())
    optimizer = make_optimizer(task.optimizer, task.groups, task.defaults, parameters)
    scheduler = make_scheduler(task.scheduler, optimizer)
    record: dict[Key, Array] = {}
    for step in range(steps):
        first, last = step % task.accumulate == 0, (step + 1) % task.accumulate == 0
        if resume is not None and step:
            take_over(module, optimizer, {k[1:]: v for k, v in resume.items() if k[0] == step - 1})
        inputs, target = task.samples[step % len(task.samples)]
        before = {n: b.clone() for n, b in module.named_buffers()}
        if first:
            optimizer.zero_grad(set_to_none=True)
        with Masks(lambda shape, q, call, step=step: keep(shape, q, call, step)):  # type: ignore[misc]
            given, wanted = (copy.deepcopy(cast(v, dtype)) for v in (inputs, target))  # a forward may change its input
            with saved_tensors(task.saved if dtype is torch.float32 else "", module, (given, wanted), noise):
                output = module(*given)
                loss = loss_function(output, wanted)
            (loss / task.accumulate).backward()
        record[step, "loss", "loss"] = array(loss)
        for name, value in named_outputs(output):
            record[step, "output", name] = array(value)
        reached = {n: p for n, p in parameters.items() if p.grad is not None}
        for name, p in reached.items():
            record[step, "gradient", name] = array(p.grad)
        if last:
            update(task, parameters, optimizer, scheduler)
        record_state(record, step, module, optimizer, before)
    return record


HALF_ROUNDING = 2.0**-13  # relative; less than 2^-12, so that what is a half already (ones, masks) stays


@contextlib.contextmanager
def saved_tensors(how: str, module: nn.Module, samples: Any, noise: int) -> Iterator[None]:
    """With "fp16", autograd keeps float32 tensors in half precision; what is in memory anyway stays as it is: the
    parameters, buffers and samples, and views of them. With `noise`, other elements are rounded up: a program may
    keep other tensors than PyTorch does."""
    if how != "fp16":
        yield
        return
    present = (*module.parameters(), *module.buffers(), *pytree.tree_leaves(samples))
    places = {t.untyped_storage().data_ptr() for t in present if isinstance(t, torch.Tensor)}

    generator = torch.Generator().manual_seed(noise)

    def pack(t: torch.Tensor) -> tuple[torch.Tensor, torch.dtype]:
        if t.dtype is not torch.float32 or t.untyped_storage().data_ptr() in places:
            return t, t.dtype
        if noise:
            t = t.detach() * (1 + HALF_ROUNDING * (2 * torch.rand(t.shape, generator=generator) - 1))
        return t.to(torch.float16), torch.float32

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed[0].to(packed[1])):
        yield


def update(task: Task, parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer, schedule: Any) -> None:
    if task.clip_norm is not None:
        torch.nn.utils.clip_grad_norm_(parameters.values(), task.clip_norm)
    if task.clip_value is not None:
        torch.nn.utils.clip_grad_value_(parameters.values(), task.clip_value)
    optimizer.step()
    if schedule is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the copy's optimizer does not count its steps for it
            schedule.step()


def record_state(
    record: dict[Key, Array],
    step: int,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    before: Mapping[str, torch.Tensor],
) -> None:
    for name, p in module.named_parameters():
        if p.grad is None:
            continue
        record[step, "parameter", name] = array(p)
        for label, value in optimizer.state[p].items():
            if label not in COUNTERS and isinstance(value, torch.Tensor):
                record[step, "state", f"{name}.{label}"] = array(value)
    for name, b in module.named_buffers():
        if name.rpartition(".")[2] not in COUNTERS and not torch.equal(b, before[name]):
            record[step, "state", name] = array(b)


def take_over(module: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[tuple[str, str], Array]) -> None:
    """Continue from recorded parameters, accumulated gradients, optimizer states and buffers."""

    def load(target: torch.Tensor, *key: str) -> None:
        if key in state:
            target.copy_(torch.from_numpy(np.array(state[key[0], key[1]])).reshape(target.shape))

    with torch.no_grad():
        for name, p in module.named_parameters():
            load(p, "parameter", name)
            if p.grad is not None:
                load(p.grad, "gradient", name)
            for label, value in optimizer.state[p].items():
                if isinstance(value, torch.Tensor) and label not in COUNTERS:
                    load(value, "state", f"{name}.{label}")
        for name, b in module.named_buffers():
            load(b, "state", name)


class Precise(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Where the user's forward asks for float32, as `mask.float()` does, it gets the precision of this run."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtype = dtype

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if (kwargs := kwargs or {}).get("dtype") is torch.float32:
            kwargs = {**kwargs, "dtype": self.dtype}
        if self.dtype is not torch.float32 and any(is_of(v, self.dtype) for v in pytree.tree_leaves((args, kwargs))):
            args, kwargs = cast((args, kwargs), self.dtype)  # constants that only the user's own function knows
        return func(*args, **kwargs)


class InOrder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """PyTorch's gradient of batch and instance norm on the CPU is wrong, in float64 as well, where the gradient it is
    given lies in memory as [1, height, width, channels] and the input does not: here, both lie in order."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.native_batch_norm_backward.default:
            args = (args[0].contiguous(), args[1].contiguous(), *args[2:])
        return func(*args, **(kwargs or {}))


def is_of(value: Any, dtype: torch.dtype) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype is dtype


# ---- randomness: masks that a program can compute again, element by element

WORD = 0xFFFFFFFF
FIRST_CALL = 1 << 20  # the generator's seed before the first mask of a step


class Masks(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Fills every tensor that PyTorch would fill with random bits (all kinds of dropout do) by
    `fill(shape, probability of a one, number of the call)`.

    The number of the call is kept in PyTorch's generator, so that a forward that is computed again for the backward,
    as torch.utils.checkpoint does, meets the same masks.
    """

    def __init__(self, fill: Callable[[Sequence[int], float, int], torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.fill = fill

    def __enter__(self) -> Any:
        torch.default_generator.manual_seed(FIRST_CALL)
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.ops.aten.bernoulli_.float:
            return func(*args, **(kwargs or {}))
        seed = torch.default_generator.initial_seed()
        torch.default_generator.manual_seed(seed + 1)
        target, probability = args[0], args[1] if len(args) > 1 else 0.5
        return target.copy_(self.fill(target.shape, probability, seed - FIRST_CALL))


def keep(shape: Sequence[int], probability: float, call: int, step: int) -> torch.Tensor:
    """True where the upper 24 bits of a hash of (step, call, element) lie below the probability."""
    key = (mix(torch.tensor(step * 0x9E3779B9 & WORD)) + mix(torch.tensor(call + 1))) & WORD
    element = torch.arange(int(np.prod(tuple(shape), dtype=np.int64))).reshape(tuple(shape))
    return (mix(element ^ key) >> 8) < int(probability * 2**24)


def mix(x: torch.Tensor) -> torch.Tensor:
    """A permutation of 32-bit numbers in which every bit of x reaches every bit (in int64; products wrap)."""
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & WORD
    x = ((x ^ (x >> 15)) * 0x846CA68B) & WORD
    return x ^ (x >> 16)


ROUNDING = 2.0**-22  # relative; a sum of a few hundred float32 terms is known about so well


def disturb(module: nn.Module, seed: int) -> None:
    """Every layer's output gets relative errors of the size of rounding."""
    generator = torch.Generator().manual_seed(seed)

    def on_output(_module: nn.Module, _inputs: Any, output: Any) -> Any:
        def noisy(v: Any) -> Any:
            if not isinstance(v, torch.Tensor) or not v.is_floating_point():
                return v
            return v * (1 + ROUNDING * (2 * torch.rand(v.shape, generator=generator, dtype=v.dtype) - 1))

        return pytree.tree_map(noisy, output)

    for layer in module.modules():
        if not any(True for _ in layer.children()):
            layer.register_forward_hook(on_output)


def make_optimizer(
    given: str | type[torch.optim.Optimizer],
    wanted: Sequence[tuple[Mapping[str, Any], Sequence[str]]],
    defaults: Mapping[str, Any],
    parameters: Mapping[str, nn.Parameter],
) -> torch.optim.Optimizer:
    """An optimizer of this class over groups of (settings, names of parameters)."""
    kind: Any = getattr(torch.optim, given) if isinstance(given, str) else given
    accepted = inspect.signature(kind.__init__).parameters
    anything = any(a.kind is a.VAR_KEYWORD for a in accepted.values())
    groups = [
        {k: v for k, v in settings.items() if anything or k in accepted} | {"params": [parameters[n] for n in names]}
        for settings, names in wanted
    ]
    optimizer = kind(groups, **{k: v for k, v in defaults.items() if k in accepted})
    for group, (settings, _) in zip(optimizer.param_groups, wanted, strict=True):
        group.update({k: v for k, v in settings.items() if k not in accepted})
    return optimizer  # type: ignore[no-any-return]


def make_scheduler(given: Any, optimizer: torch.optim.Optimizer) -> Any:
    """The user's scheduler as it stands, but over this optimizer."""
    if given is None or isinstance(given, torch.optim.lr_scheduler.LRScheduler):
        return given and copy.deepcopy(given, {id(given.optimizer): optimizer})
    return given(optimizer)


def cast(value: Any, dtype: torch.dtype) -> Any:
    """Floats to `dtype`, in tensors, modules and containers; everything else as it is."""
    if isinstance(value, nn.Module):
        return value.to(dtype)
    return pytree.tree_map(lambda v: v.to(dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v, value)


def named_outputs(output: Any) -> list[tuple[str, torch.Tensor]]:
    """One tensor is 'output'; several are numbered in the order of the tree, or take their keys."""
    if isinstance(output, torch.Tensor):
        return [("output", output)]
    if isinstance(output, dict):
        return [(str(k), v) for k, v in output.items() if isinstance(v, torch.Tensor)]
    leaves = [v for v in pytree.tree_leaves(output) if isinstance(v, torch.Tensor)]
    return [(f"output{i}", v) for i, v in enumerate(leaves)]


def array(value: torch.Tensor | None) -> Array:
    assert value is not None
    return np.array(value.detach().cpu().numpy(), copy=True)


# ---- from a generated project's model/ folder


def load_task(folder: Path) -> Task:
    """Rebuild the user's model from model/: its own code, the weights, the samples, the optimizer's settings."""
    spec = json.loads((folder / "spec.json").read_text())
    if spec["pickled"]:
        given = torch.load(folder / "module.pt", weights_only=False)
    elif (folder / "net.py").exists():
        given = from_file(folder / "net.py", spec["attribute"])
    else:
        raise FileNotFoundError(
            "this model came from a notebook and could not be stored; verify it there with deployment.verify()"
        )
    module, loss = given["module"], given["loss"]
    module.load_state_dict(torch.load(folder / "weights.pt", weights_only=True))
    trainable, training = set(spec["trainable"]), set(spec["training_modules"])
    for name, p in module.named_parameters():
        p.requires_grad_(name in trainable)
    for name, m in module.named_modules():
        m.training = name in training
    samples = torch.load(folder / "samples.pt", weights_only=True)
    groups = [(g["settings"], g["names"]) for g in spec["groups"]]
    return Task(
        module,
        default_loss(samples[0][1]) if loss is None else loss,
        samples,
        optimizer_class(given["optimizer"], module) if spec["own_optimizer"] else spec["optimizer"],
        groups,
        spec["defaults"],
        spec["accumulate"],
        spec["clip_norm"],
        spec["clip_value"],
        given["scheduler"],
        saved=spec.get("saved", "fp32"),
    )


def optimizer_class(given: Any, module: nn.Module) -> type[torch.optim.Optimizer]:
    """The class of what the user's file calls `optimizer`."""
    if not isinstance(given, type | torch.optim.Optimizer):
        given = given(module.parameters())
    return given if isinstance(given, type) else type(given)


def from_file(path: Path, attribute: str) -> dict[str, Any]:
    """The model, and the loss, optimizer and scheduler (None: not given) of the user's file."""
    location = importlib.util.spec_from_file_location("net", path)
    assert location is not None and location.loader is not None
    file = importlib.util.module_from_spec(location)
    sys.modules["net"] = file
    with importable(path.parent):
        seed()
        location.loader.exec_module(file)
        found = getattr(file, attribute)
        if not isinstance(found, nn.Module):
            seed()
            found = found()
    return {"module": found, **{k: getattr(file, k, None) for k in ("loss", "optimizer", "scheduler")}}


def seed() -> None:
    """As when the project was written."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)


@contextlib.contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Modules beside the file are found, and found there: others of the same names make way for the time being."""
    names = {p.stem for p in folder.iterdir() if p.suffix == ".py" or p.is_dir()} - {"net", "reference"}
    aside = {n: sys.modules.pop(n) for n in list(sys.modules) if n.partition(".")[0] in names}
    path, bytecode = list(sys.path), sys.dont_write_bytecode
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.path[:], sys.dont_write_bytecode = path, bytecode
        sys.modules.update(aside)


def default_loss(target: Any) -> nn.Module:
    first = pytree.tree_leaves(target)[0]
    return nn.MSELoss() if first.is_floating_point() else nn.CrossEntropyLoss()
