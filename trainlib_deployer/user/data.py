"""The user's `data`, a Dataset, DataLoader or list of (input, target), to samples."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader, default_collate, default_convert

from golden.examples import leaves
from trainlib_deployer.errors import UsageError
from trainlib_deployer.user.samples import Plain, Sample, checked, checked_given, describe, example_inputs, signature

TARGETS = ("labels", "label", "targets", "target", "y")


@dataclass(frozen=True)
class Example:
    """What the user gave as an example, and the shape from the command line; None is what they left out."""

    inputs: Any
    target: Any
    shape: str | None
    runs: Callable[[Sample], bool]  # whether the model and the loss take this

    def wanted(self) -> tuple[Any, ...] | None:
        """Inputs of the shape and type that every sample must have."""
        if self.inputs is None and self.shape is None:
            return None
        return example_inputs(self.inputs, self.shape, "data")


def from_data(data: Any, example: Example, count: int, notes: list[str]) -> list[Sample]:
    """The first `count` samples of a Dataset, DataLoader or list; all of the example's shapes and types."""
    check_kind(data)
    wanted = example.wanted()
    known: list[Sample] = []
    for sample in itertools.islice(batches(data, example, wanted, notes), count):
        if known and is_smaller_batch(sample, known[0]):
            break
        if known:
            like = [(known[0][0], "the first input"), (known[0][1], "the first target")]
        else:
            target = None if example.shape else example.target
            like = [
                (wanted, f"--input {example.shape}" if example.shape else "example_input"),
                (target, "example_target"),
            ]
        check_like(sample, like, f"sample {len(known)} of data")
        known.append(sample)
    if not known:
        raise UsageError("'data' is empty, or holds less than one batch")
    return known


def check_kind(data: Any) -> None:
    """A Dataset, a DataLoader or a list, as far as one can tell."""
    readable = hasattr(data, "__iter__") or hasattr(data, "__getitem__")
    if isinstance(data, torch.Tensor | dict | str) or not readable:
        remedy = "it must be a Dataset, a DataLoader or a list of (input, target)"
        raise UsageError(f"'data' is of type {type(data).__name__}", remedy=remedy)
    if isinstance(data, tuple) and len(data) == 2 and all(isinstance(x, torch.Tensor) for x in data):
        remedy = "write: data = torch.utils.data.TensorDataset(inputs, targets)"
        raise UsageError("'data' is one pair of tensors", remedy=remedy)


def batches(data: Any, example: Example, wanted: tuple[Any, ...] | None, notes: list[str]) -> Iterator[Sample]:
    """A loader gives batches; anything else gives batches too, or items to be gathered to the example's batch size."""
    items = items_of(data)
    if isinstance(data, DataLoader):
        yield from (sample_of(item, i) for i, item in enumerate(items))
        return
    first = next(items, None)
    if first is None:
        return
    items = itertools.chain([first], items)
    as_it_is = not wanted and runs_as_it_is(first, example.runs)
    if as_it_is:
        notes.append("data: its items are batches, for as single examples they do not run")
    if as_it_is or is_batch(sample_of(first, 0), wanted):
        yield from (sample_of(item, i) for i, item in enumerate(items))
        return
    size = leaves(wanted)[0].shape[0] if wanted else 1
    if not wanted:
        notes.append("batch size: 1, as there is no example_input and data gives single samples")
    while len(group := list(itertools.islice(items, size))) == size:
        pairs = [sample_of(item, i, convert=False) for i, item in enumerate(group)]
        check_same_shapes(pairs)
        yield together(pairs)


def runs_as_it_is(item: Any, runs: Callable[[Sample], bool]) -> bool:
    """Of an item whose tensors differ in their first extent: whether it runs, and does not as a batch of one."""
    sample, alone = sample_of(item, 0), sample_of(item, 0, convert=False)
    may_be = all(t.dim() > 0 for t in leaves(sample)) and not is_batch(sample, None)
    return may_be and runs(sample) and not runs(together([alone]))


def together(pairs: Sequence[Sample]) -> Sample:
    return gathered([p[0] for p in pairs]), gathered([p[1] for p in pairs])


def gathered(values: Sequence[Any]) -> Any:
    """Examples as a batch of them; a text or None stays. Python's floats have no width of their own: they get ours."""

    def one(*given: Any) -> Any:
        if isinstance(given[0], float):
            return torch.tensor(given, dtype=torch.float32)
        return given[0] if isinstance(given[0], str | None) else default_collate(list(given))

    return pytree.tree_map(one, *values)


def items_of(data: Any) -> Iterator[Any]:
    if hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        return (data[i] for i in range(len(data)))
    return iter(data)


def sample_of(item: Any, index: int, convert: bool = True) -> Sample:
    if not isinstance(item, tuple | list) or len(item) != 2:
        what = f"{len(item)} values" if isinstance(item, tuple | list) else describe(item)
        remedy = from_keys(item) if isinstance(item, Mapping) else ""
        raise UsageError(f"sample {index} of data is {what}; it must be a pair (input, target)", remedy=remedy)
    inputs = tuple(item[0]) if isinstance(item[0], tuple | list) else (item[0],)
    beside = Plain if any(map(is_numeric, pytree.tree_leaves(inputs))) else int | float
    for leaf in (*(v for v in pytree.tree_leaves(inputs) if not isinstance(v, beside)), *pytree.tree_leaves(item[1])):
        if not is_numeric(leaf):
            remedy = "give the dataset a transform to tensors"
            raise UsageError(f"sample {index} of data holds {describe(leaf)}, not a tensor", remedy=remedy)
    return (converted(inputs), converted(item[1])) if convert else (inputs, item[1])


def converted(value: Any) -> Any:
    """Arrays as tensors. PyTorch's own makes lists of tuples, which a loss may tell apart."""
    return pytree.tree_map(default_convert, value)


def is_numeric(leaf: Any) -> bool:
    """What becomes a tensor."""
    return isinstance(leaf, torch.Tensor | int | float) or type(leaf).__module__ == "numpy"


def from_keys(item: Mapping[str, Any]) -> str:
    """How to make pairs of items like it, as Hugging Face's are: a label is the target, else the last."""
    if len(item) < 2 or not all(isinstance(key, str) for key in item):
        return ""
    target = next((key for key in TARGETS if key in item), list(item)[-1])
    inputs = [f"b[{json.dumps(key)}]" for key in item if key != target]
    given = inputs[0] if len(inputs) == 1 else f"({', '.join(inputs)})"
    return f"data = [({given}, b[{json.dumps(target)}]) for b in loader]  # inputs in forward's order"


def check_same_shapes(pairs: Sequence[Sample]) -> None:
    shapes = [[tuple(getattr(x, "shape", ())) for x in pytree.tree_leaves(p)] for p in pairs]
    for i, other in enumerate(shapes):
        if other != shapes[0]:
            raise UsageError(f"the samples of data differ in shape within a batch: {shapes[0]} and, {i} later, {other}")


def is_batch(sample: Sample, wanted: tuple[Any, ...] | None) -> bool:
    """Whether an item has its batch dimension already."""
    inputs, targets = pytree.tree_leaves(sample[0]), pytree.tree_leaves(sample[1])
    plain = str | None if wanted is None else Plain  # numbers may be those of an example
    if not all(isinstance(t, torch.Tensor | plain) for t in inputs) or not all(map(torch.is_tensor, targets)):
        return False
    tensors = leaves(sample)
    if wanted is not None:
        return bool(leaves(sample[0])) and tensors[0].dim() == leaves(wanted)[0].dim()
    return all(t.dim() > 0 for t in tensors) and len({t.shape[0] for t in tensors}) == 1


def is_smaller_batch(sample: Sample, first: Sample) -> bool:
    """The rest at the end of a loader."""
    now, then = leaves(sample), leaves(first)
    if not all(t.dim() > 0 for t in (*now, *then)) or len(now) != len(then):
        return False
    return all(a.shape[0] < b.shape[0] and a.shape[1:] == b.shape[1:] for a, b in zip(now, then, strict=True))


def check_like(sample: Sample, like: Sequence[tuple[Any, str]], what: str) -> None:
    """Input and target have the shapes and types of those in `like`, where these are known."""
    checked_given(sample[0], f"the input of {what}")
    checked(sample[1], f"the target of {what}")
    for have, (want, name) in zip(sample, like, strict=True):
        if want is not None and signature(have) != signature(want):
            words = f"{what} does not fit: it has {describe(have)} where {name} is {describe(want)}"
            remedy = "leave it away, or let 'data' give batches of this size" if name.startswith("--input") else ""
            raise UsageError(words, remedy=remedy)
