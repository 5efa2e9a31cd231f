"""The samples of a run without data: the user's example and deterministic variations of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from golden.examples import leaves
from trainlib_deployer import torch_types
from trainlib_deployer.arguments import MOST, digits, quoted
from trainlib_deployer.errors import UsageError

Sample = tuple[tuple[Any, ...], Any]  # positional arguments of forward, target
SEED = 1
Plain = bool | int | float | str | None  # what inputs may have beside tensors: the same in all samples


# ---- describing and checking


def type_name(t: torch.Tensor) -> str:
    return torch_types.type_name(t.dtype)


def describe(value: Any) -> str:
    """`4x10 float32`."""
    if isinstance(value, torch.Tensor):
        return f"{'x'.join(map(str, value.shape)) or 'a scalar'} {type_name(value)}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(describe, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{k}: {describe(v)}' for k, v in value.items())}}}"
    return "None" if value is None else " ".join(f"the {type(value).__name__} {value!r}".split())[:80]


def checked(value: Any, what: str) -> Any:
    """Tensors in containers, on the CPU, of a type and with values that can be deployed; detached copies."""
    if not pytree.tree_leaves(value):
        raise UsageError(f"{what} holds no tensor")
    for leaf in pytree.tree_leaves(value):
        check_leaf(leaf, what)
    return cloned(value)


def checked_given(value: Any, what: str) -> Any:
    """Of the inputs of forward, where plain values may stand beside tensors."""
    for leaf in pytree.tree_leaves(value):
        if not leaves(value) or not isinstance(leaf, Plain):
            check_leaf(leaf, what)
    return cloned(value) if leaves(value) else checked(value, what)


def check_leaf(leaf: Any, what: str) -> None:
    if not isinstance(leaf, torch.Tensor):
        remedy = "write torch.from_numpy(...)" if type(leaf).__module__ == "numpy" else "write torch.tensor(...)"
        raise UsageError(f"{what} holds {describe(leaf)}, not a tensor", remedy=remedy)
    if leaf.device.type != "cpu" or leaf.layout is not torch.strided:
        raise UsageError(f"{what} is not a dense tensor on the CPU")
    fault = torch_types.value_fault(leaf)
    if fault is not None:
        raise UsageError(f"{what} {fault[0]}", remedy=fault[1])
    if leaf.numel() == 0:
        raise UsageError(f"{what} is empty: its shape is {'x'.join(map(str, leaf.shape))}")


def checked_inputs(value: Any) -> tuple[Any, ...]:
    """The positional arguments of forward: a tuple is several."""
    inputs: tuple[Any, ...] = checked_given(value if isinstance(value, tuple) else (value,), "example_input")
    if leaves(inputs)[0].dim() == 0:
        raise UsageError("example_input is a scalar: its first dimension must be the batch")
    return inputs


def cloned(value: Any) -> Any:
    return of_tensors(lambda t: t.detach().clone(), value)


def of_tensors(function: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    """The same structure, with something else for each tensor in it."""
    return pytree.tree_map_only(torch.Tensor, function, value)


def signature(value: Any) -> tuple[Any, ...]:
    """Shapes and types. A loader makes lists of tuples: these are alike."""
    given, tree = pytree.tree_flatten(value)
    return (
        str(tree).replace("tuple", "list"),
        *((tuple(t.shape), t.dtype) if isinstance(t, torch.Tensor) else (type(t), t) for t in given),
    )


# ---- the example


def parse_shapes(text: str) -> list[tuple[int, ...]]:
    """`1x3x32x32`; several inputs are separated by commas."""
    shapes = []
    for part in text.split(","):
        numbers = [digits(n) or 0 for n in part.strip().lower().split("x")]
        if not all(1 <= n <= MOST for n in numbers):
            raise UsageError(f"--input {quoted(text)} is not a shape", remedy="write it like 1x3x32x32, batch first")
        shapes.append(tuple(numbers))
    return shapes


def example_inputs(given: Any, shape: str | None, where: str) -> tuple[Any, ...]:
    """The user's example, at the batch size of --input if there is one; or random numbers of that shape."""
    if given is None and shape is None:
        raise UsageError(
            f"{where} has no 'example_input'",
            remedy="write: example_input = torch.randn(1, 3, 32, 32); or give --input 1x3x32x32",
        )
    if shape is None:
        return checked_inputs(given)
    shapes = parse_shapes(shape)
    if given is None:
        generator = torch.Generator().manual_seed(SEED)
        return tuple(torch.randn(s, generator=generator) for s in shapes)
    inputs = checked_inputs(given)
    wanted, there = [s[1:] for s in shapes], [tuple(t.shape[1:]) for t in leaves(inputs)]
    if wanted != there:
        there_text = ", ".join(map(describe, inputs))
        raise UsageError(
            f"--input {shape} does not fit example_input, which is {there_text}: only the batch may differ"
        )
    new = torch.empty(shapes[0])
    resized: tuple[Any, ...] = rebatch(inputs, inputs, new)
    return resized


def rebatch(value: Any, old: Any, new: Any) -> Any:
    """Rows repeated or cut to the new batch size, in every tensor that has the old one."""
    before, after = (leaves(x)[0].shape[0] for x in (old, new))
    rows = torch.arange(after) % before
    return of_tensors(lambda t: t[rows].clone() if t.dim() and t.shape[0] == before else t, value)


# ---- variations of the example


def perturbed(
    example: Sample, count: int, run: Callable[[tuple[Any, ...]], Any], accepts: Callable[[Any, Any], bool]
) -> list[Sample]:
    """The example, then random samples like it. What the model does not run (`run` gives None), as indices into tables
    of several sizes, is the example with its rows in another order, or the example itself; a target that the loss does
    not accept is the example's again."""
    generator = torch.Generator().manual_seed(SEED)
    inputs, target = example
    known = [example]
    for _ in range(count - 1):
        drawn = (
            of_tensors(lambda t: random_like(t, generator), inputs),
            of_tensors(lambda t: rows_shuffled(t, generator), inputs),
            cloned(inputs),
        )
        fresh, output = next((x, y) for x in drawn if (y := run(x)) is not None or x is drawn[-1])
        choices = (random_target(example, fresh, limit, generator) for limit in (classes_of(output, target), None))
        known.append((fresh, next((c for c in choices if accepts(output, c)), cloned(target))))
    return known


def rows_shuffled(t: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return t[torch.randperm(t.shape[0], generator=generator)] if t.dim() else t.clone()


def random_like(t: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Normal with the mean and deviation of the example; integers uniform in its range; a mask is shuffled."""
    if t.dtype is torch.bool or (t.is_floating_point() and (is_mask(t) or not all_finite(t))):
        return shuffled(t, generator)
    if not t.is_floating_point():
        return torch.randint(int(t.min()), int(t.max()) + 1, t.shape, generator=generator, dtype=t.dtype)
    spread = float(t.std()) if t.numel() > 1 else 0.0
    fresh = torch.randn(t.shape, generator=generator) * (spread or 1.0) + t.mean()
    least = t.min()
    # what is never negative (an image, an argument of log or sqrt) stays above its least value
    return least + (fresh - least).abs() if spread and float(least) >= 0 else fresh


def all_finite(value: Any) -> bool:
    return all(bool(torch.isfinite(t).all()) for t in leaves(value))


def is_mask(t: torch.Tensor) -> bool:
    return set(torch.unique(t).tolist()) == {0.0, 1.0}


def shuffled(t: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return t.reshape(-1)[torch.randperm(t.numel(), generator=generator)].reshape(t.shape)


def classes_of(output: Any, target: Any) -> int | None:
    """How many classes an integer target of cross-entropy has: the extent of the output that the target lacks."""
    if not isinstance(output, torch.Tensor) or not isinstance(target, torch.Tensor) or target.is_floating_point():
        return None
    shape, wanted = tuple(output.shape), tuple(target.shape)
    if len(shape) >= 2 and (shape[0], *shape[2:]) == wanted:
        return shape[1]
    return shape[-1] if shape and shape[:-1] == wanted else None


def is_table(t: torch.Tensor) -> bool:
    return t.dim() > 1 and not t.is_floating_point() and t.dtype is not torch.bool


def random_target(example: Sample, fresh: tuple[Any, ...], classes: int | None, generator: torch.Generator) -> Any:
    """Class indices below `classes`; an autoencoder's target is its new input; other floats are shuffled in place.
    Tables of numbers that are no classes stay: they may be sequences that end where others have padding."""
    inputs, target = example
    if classes is None and any(map(is_table, leaves(target))):
        return cloned(target)
    old, new = leaves(inputs), leaves(fresh)

    def one(t: torch.Tensor) -> torch.Tensor:
        for before, after in zip(old, new, strict=True):
            if t.is_floating_point() and t.shape == before.shape and t.dtype == before.dtype and torch.equal(t, before):
                return after.clone()
        if t.is_floating_point() or t.dtype is torch.bool:
            return shuffled(t, generator)
        if classes is not None:
            return torch.randint(0, classes, t.shape, generator=generator, dtype=t.dtype)
        return random_like(t, generator)

    return pytree.tree_map(one, target)
