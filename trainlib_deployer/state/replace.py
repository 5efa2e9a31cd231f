"""New weights into a project that stands: the same plan, the same C, other contents."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from golden.sketch import UNCHECKED
from golden.task import Task
from trainlib_deployer.capture.batch_counts import batch_counts
from trainlib_deployer.check.verify import model_of, reference_sketches
from trainlib_deployer.emit.files import OF_FAR
from trainlib_deployer.emit.initial import REFERENCE, SKETCH, Binary, Kept, contents_context, references
from trainlib_deployer.emit.orders import ORDER
from trainlib_deployer.emit.render import rendered
from trainlib_deployer.errors import UsageError
from trainlib_deployer.folder import PLAN, check_whole, edited_files, note_written
from trainlib_deployer.ops.carry import ORDERS
from trainlib_deployer.plan.layout import FAR
from trainlib_deployer.program.ir import DType
from trainlib_deployer.state.dumps import is_dump, read_dump
from trainlib_deployer.state.image import Values
from trainlib_deployer.state.trained import Known, State, module_state, values_of
from trainlib_deployer.user.code import user_code
from trainlib_deployer.user.weights import matched

WEIGHTS, WEIGHTS_FAR, DATA = "weights.bin", "far.bin", "data.bin"


def put_weights(folder: Path, path: Path, may_miss: tuple[str, ...] = ()) -> list[str]:
    """A file's weights in place of those in a project; notes. Everything is made before anything is replaced."""
    known = Known(folder)
    if WEIGHTS not in known.plan.get("stored", {}):
        raise UsageError(
            f"{folder} was written by an older version", remedy="deploy the model again with --weights FILE"
        )
    edited = [n for n in edited_files(folder) if n in (WEIGHTS, "weights.c", WEIGHTS_FAR, "far.c", DATA)]
    if edited:
        raise UsageError(
            f"{folder / edited[0]} changed since trainlib-deploy wrote it", remedy="deploy the model again"
        )
    check_whole(folder)
    state, notes = given_state(known, path, may_miss)
    values = initial_values(known) | values_of(known, state)
    sources, binaries = contents_files(known.plan, values | given_orders(known))
    files = {name: text.encode() for name, text in sources.items()}
    files |= {binary.name: b"".join(part.tobytes() for part in binary.parts) for binary in binaries}
    files["model/weights.pt"] = saved(state)
    task = task_with(known, state, notes)
    files[DATA] = data_with(known, task)
    stored = known.plan["stored"] | {binary.name: binary.places for binary in binaries}
    files[PLAN] = (json.dumps({**known.plan, "stored": stored}, indent=1) + "\n").encode()
    replace_files(folder, files)
    return notes


def given_state(known: Known, path: Path, may_miss: tuple[str, ...]) -> tuple[State, list[str]]:
    """Of PyTorch's formats, or a state that a program of this network has saved."""
    if not is_dump(path):
        return matched(known.weights, path, may_miss)
    notes = ["the optimizer begins as it was deployed"] if known.trains else []
    return module_state(known, read_dump(known.layout, path)), notes


def initial_values(known: Known) -> Values:
    """What every tensor that persists holds before the first step."""
    values: Values = {}
    given = dict(given_parts(known))
    for name, t in known.plan["tensors"].items():
        if t["persistent"]:
            dtype = np.dtype(DType[t["dtype"]].numpy_name)
            count = t["bytes"] // dtype.itemsize
            flat = np.frombuffer(given[name], dtype, count) if name in given else np.zeros(count, dtype)
            values[name] = flat.reshape(t["shape"])
    return values


def given_orders(known: Known) -> Values:
    """What a step with a third memory does, which lies there, too."""
    at = known.plan["stored"].get(WEIGHTS_FAR, {}).get(ORDERS)
    return {} if at is None else {ORDERS: np.fromfile(known.folder / WEIGHTS_FAR, ORDER, offset=at)}  # to its end


def given_parts(known: Known) -> Iterator[tuple[str, bytes]]:
    """Of each tensor that does not begin as zeros: its file, from where it begins there."""
    for file in (WEIGHTS, WEIGHTS_FAR):
        places = known.plan["stored"].get(file, {})
        data = (known.folder / file).read_bytes() if places else b""
        yield from ((name, data[at:]) for name, at in places.items())


def contents_files(plan: Mapping[str, Any], values: Values) -> tuple[dict[str, str], list[Binary]]:
    """weights.c and weights.bin; of a third memory its own two."""
    weights, far = Binary(WEIGHTS), Binary(WEIGHTS_FAR)
    levels = [
        level_context(plan, name, values, far if at == FAR else weights) for at, name in enumerate(plan["levels"])
    ]
    sources = {"weights.c": rendered("weights.c.j2", {"levels": levels[:FAR]})}
    if levels[FAR:]:
        sources |= {name: rendered(template, {"far": levels[FAR]}) for name, template in OF_FAR.items()}
    return sources, [weights, far][: len(sources)]


def level_context(plan: Mapping[str, Any], name: str, values: Values, binary: Binary) -> dict[str, Any]:
    level = plan["levels"][name]
    homes = [b for b in plan["buffers"] if b["level"] == name and b["name"] in values]
    kept = [Kept(b["name"], b["offset"], values[b["name"]]) for b in homes if values[b["name"]].size]
    return {
        "name": name,
        "members": kept,
        "arena": level["arena"],
        **contents_context(kept, level["persistent"], binary),
    }


def task_with(known: Known, state: State, notes: list[str]) -> Task | None:
    """The model of the project with these weights; None, with a note, if it cannot be built again, as that of a
    notebook or a class of the script that has deployed it."""
    try:
        task = model_of(known.folder)
    except UsageError as error:
        notes.append(f"the program's own check is left out: {error}")
        return None
    before = batch_counts(task.module)
    with user_code("the weights cannot be loaded into the model"):
        task.module.load_state_dict(state)
    if batch_counts(task.module) != before:
        raise UsageError(
            "a norm with momentum=None averages over all batches, and the file has seen another number of them",
            remedy="deploy the model again with --weights FILE",
        )
    return task


def data_with(known: Known, task: Task | None) -> bytes:
    """data.bin with the sketches of what PyTorch computes from these weights."""
    data = (known.folder / DATA).read_bytes()
    place = known.plan["stored"][DATA][REFERENCE]
    before = np.frombuffer(data[place:], SKETCH)
    if task is None:
        rows = np.zeros_like(before)
        rows["limit"] = UNCHECKED.limit
    else:
        steps = len(before) // len(known.plan["trace"])
        order = [(t["kind"], t["name"], DType[t["dtype"]]) for t in known.plan["trace"]]
        with user_code("training in PyTorch fails"):
            rows = references(reference_sketches(task, steps), order)
    assert rows.nbytes == before.nbytes, "as many steps and tensors as before"
    return data[:place] + rows.tobytes()


def saved(state: State) -> bytes:
    file = io.BytesIO()
    torch.save(state, file)
    return file.getvalue()


def replace_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """All are written beside, then renamed one behind the other."""
    fresh = {folder / name: folder / f"{name}.new" for name in files}
    try:
        for (_, new), content in zip(fresh.items(), files.values(), strict=True):
            new.write_bytes(content)
        for place, new in fresh.items():
            new.replace(place)
        note_written(folder, files)
    except OSError as err:
        raise UsageError(f"cannot write {folder}: {err.strerror or err}") from err
    finally:
        for new in fresh.values():
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)
