"""All of the user's data as a file that programs read: example by example, whatever the batch."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

import numpy as np
import torch
from torch.utils.data import DataLoader

from golden.examples import HEADER, MAGIC, MOST_BYTES, Layout, leaves
from golden.snapshot import Snapshot
from golden.task import Task
from trainlib_deployer.errors import UsageError
from trainlib_deployer.folder import replacing
from trainlib_deployer.torch_types import type_name, value_fault
from trainlib_deployer.user.code import user_code
from trainlib_deployer.user.data import check_kind, gathered, is_batch, items_of, sample_of
from trainlib_deployer.user.labels import labels_asked
from trainlib_deployer.user.samples import Sample, all_finite, describe
from trainlib_deployer.user.trial import check_labels


def write_examples(task: Task, data: Any, path: Path, say: Callable[[str], None] = lambda line: None) -> int:
    """How many there are. The file appears when it is whole; `say` hears what is odd about them."""
    check_kind(data)
    check_replaced(path)
    if task.inference:
        raise UsageError("what only runs has no targets to learn: give the deployment that trains")
    inputs, target = task.samples[0]
    layout, likes = task.layout, leaves((inputs, target))
    check = label_check(task)
    with written(path) as file:
        file.write(bytes(HEADER.size))
        count = checksum = odd = 0
        for i, item in enumerate(groups(data, inputs)):
            what = f"sample {i} of data"
            check(item[1], what)
            rows = bytes_of(leaves(item), layout, likes, what)
            odd += not all_finite(item)
            checksum = crc32(rows, checksum)
            count += len(rows) // layout.nbytes
            if HEADER.size + count * layout.nbytes > MOST_BYTES:
                raise UsageError(f"data has more than {MOST_BYTES:,} bytes", remedy="give each file a part of it")
            file.write(rows)
        if count < layout.batch:
            raise UsageError(f"data has {count} examples; a step takes {layout.batch}")
        file.seek(0)
        file.write(layout.header(count, checksum))
    if odd:
        say(f"{odd:,} sample{'s' * (odd > 1)} of data {'have' if odd > 1 else 'has'} values that are NaN or infinite")
    return count


def check_replaced(path: Path) -> None:
    """Nothing but an earlier file of examples is written over."""
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            found = file.read(len(MAGIC))
    except OSError as err:
        raise UsageError(f"cannot read {path}: {err.strerror or err}") from err
    if found != MAGIC:
        raise UsageError(f"{path} exists and is no file of examples: it stays as it is", remedy="give another name")


@contextlib.contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """A file that takes its name when nothing has gone wrong."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a regular file")
    try:
        with replacing(path) as file:
            yield file
    except OSError as err:
        raise UsageError(f"cannot write {path}: {err.strerror or err}") from err


def label_check(task: Task) -> Callable[[Any, str], None]:
    """For a target and what it is called. A program without this check would find the first wrong label on the chip."""
    start = task.start or Snapshot(task.module, task.loss)
    known = labels_asked(task.module, task.loss, start, *task.samples[0])

    def check(target: Any, what: str) -> None:
        for number, t in enumerate(leaves(target)):
            if number in known:
                check_labels(t, known[number].classes, known[number].ignored, what)

    return check


def groups(data: Any, inputs: tuple[Any, ...]) -> Iterator[Sample]:
    """The items of data: batches of any size; single examples as batches of one."""
    with Snapshot().undone(), user_code("data cannot be read"):
        for i, item in enumerate(items_of(data)):
            sample = sample_of(item, i)
            if isinstance(data, DataLoader) or is_batch(sample, inputs):
                yield sample
            else:
                given, target = sample_of(item, i, convert=False)
                yield gathered([given]), gathered([target])


def bytes_of(given: list[torch.Tensor], layout: Layout, likes: list[torch.Tensor], what: str) -> bytes:
    """The rows of all tensors, example by example."""
    count = given[0].shape[0] if layout.by_row and given[0].dim() else 1
    lead = (count,) if layout.by_row else ()
    parts = []
    for field, t, like in itertools.zip_longest(layout.fields, given, likes):
        if field is None or t is None or tuple(t.shape) != (*lead, *field.shape) or t.dtype is not like.dtype:
            there, wanted = (", ".join(map(describe, tensors)) for tensors in (given, likes))
            other = t is not None and like is not None and t.dtype is not like.dtype
            remedy = f"convert it: .to(torch.{type_name(like.dtype)})" if other else ""
            raise UsageError(f"{what} does not fit: it has {there} where a step takes {wanted}", remedy=remedy)
        if fault := value_fault(t):
            raise UsageError(f"{what} {fault[0]}", remedy=fault[1])
        parts.append(np.ascontiguousarray(t.detach().numpy(), field.kind).reshape(count, -1).view(np.uint8))
    return np.concatenate(parts, axis=1).tobytes()
