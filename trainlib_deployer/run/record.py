"""Reading what a verification run recorded: step, tensor number, size, contents; again and again."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainlib_deployer.formats import DType

Array = np.ndarray[Any, Any]
Key = tuple[int, str, str]
HEADER = struct.Struct("<iii")


def read_record(path: Path, trace: Sequence[dict[str, Any]]) -> dict[Key, Array]:
    """The recorded tensors by (step, kind, name). A record that ends early gives what was complete."""
    data = path.read_bytes() if path.exists() else b""
    by_id = {t["id"]: t for t in trace}
    out: dict[Key, Array] = {}
    at = 0
    while at + HEADER.size <= len(data):
        step, number, size = HEADER.unpack_from(data, at)
        at += HEADER.size
        if number not in by_id or at + size > len(data):
            break
        t = by_id[number]
        dtype = DType[t["dtype"]]
        values = np.frombuffer(data, dtype.numpy_name, count=size // dtype.size, offset=at)
        if dtype is DType.BF16:  # the upper half of a float
            values = (values.astype(np.uint32) << 16).view(np.float32)
        out[step, t["kind"], t["name"]] = values.reshape(t["shape"])
        at += size
    return out
