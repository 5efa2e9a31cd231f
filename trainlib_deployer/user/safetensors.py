"""Files of named tensors in the safetensors format: a length, a JSON header, the bytes. No code can hide in one."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import torch

from trainlib_deployer.errors import UsageError

LENGTH = struct.Struct("<Q")
LONGEST_HEADER = 100_000_000  # bytes, as the format says
ALIGNMENT = 8  # of the data behind the header
TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
NAMES = {dtype: name for name, dtype in TYPES.items()}


def read(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a file; a ValueError where it is damaged."""
    data = path.read_bytes()
    if len(data) < LENGTH.size:
        raise ValueError("shorter than its own length")
    (length,) = LENGTH.unpack_from(data)
    body = LENGTH.size + length
    if length > LONGEST_HEADER or body > len(data):
        raise ValueError("the header is longer than the file")
    header = json.loads(data[LENGTH.size : body].decode())
    if not isinstance(header, dict):
        raise ValueError("the header is no table")
    return {n: tensor(entry, data, body) for n, entry in header.items() if n != "__metadata__"}


def tensor(entry: Any, data: bytes, body: int) -> torch.Tensor:
    """One tensor of the header; what it says must be true of the bytes."""
    if not isinstance(entry, dict) or entry.get("dtype") not in TYPES:
        raise ValueError("a tensor of no known type")
    dtype, shape = TYPES[entry["dtype"]], naturals(entry.get("shape"))
    begin, end = naturals(entry.get("data_offsets"))
    if end - begin != prod(shape) * dtype.itemsize or body + end > len(data):
        raise ValueError("a tensor that is not where the header says")
    if begin == end:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data[body + begin : body + end]), dtype=dtype).reshape(shape)


def naturals(value: Any) -> list[int]:
    if not isinstance(value, list) or not all(type(x) is int and x >= 0 for x in value):
        raise ValueError("a tensor without a place")
    return value


def write(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """In the order of their names, so that the same tensors make the same file."""
    header: dict[str, Any] = {}
    chunks: list[bytes] = []
    at = 0
    for name, value in sorted(tensors.items()):
        if value.dtype not in NAMES:
            raise UsageError(f"'{name}' is {value.dtype}, which .safetensors has no name for", remedy="write .pt")
        raw = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": NAMES[value.dtype], "shape": list(value.shape), "data_offsets": [at, at + len(raw)]}
        chunks.append(raw)
        at += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    path.write_bytes(LENGTH.pack(len(text)) + text + b"".join(chunks))
