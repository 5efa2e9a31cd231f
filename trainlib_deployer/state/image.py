"""The bytes of a saved state: a header, the tensors in their order, a checksum and an end mark, as tl_state.h says."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any
from zlib import crc32

import numpy as np

from trainlib_deployer.state.layout import Layout

Array = np.ndarray[Any, Any]
Values = dict[str, Array]
MAGIC, VERSION, END, PAGE = b"TLST", 2, b"TEND", 32
# Magic, version, hash of the network, of the layout (two words each), bytes of the tensors, sequence number; checksum.
FIELDS, HEADER = struct.Struct("<4sIIIIIII"), struct.Struct("<4sIIIIIIII")
TRAILER = struct.Struct("<I4s")  # checksum of all before, end mark


OTHERS = "holds the state of another network: names, shapes, types or what decides about branches differ"


class NoState(ValueError):
    """Why these bytes hold no state of this network, in words that follow the file's name."""


def image_bytes(layout: Layout) -> int:
    """What net_save writes: whole pages."""
    return -(-(HEADER.size + layout.nbytes + TRAILER.size) // PAGE) * PAGE


def encode(layout: Layout, values: Mapping[str, Array]) -> bytes:
    fields = FIELDS.pack(MAGIC, VERSION, *layout.network.digest, *layout.digest, layout.nbytes, 1)
    head = fields + struct.pack("<I", crc32(fields))
    body = b"".join(np.ascontiguousarray(values[p.name], p.numpy).tobytes() for p in layout.pieces)
    assert len(body) == layout.nbytes, "every tensor has its planned size"
    whole = head + body
    return (whole + TRAILER.pack(crc32(whole), END)).ljust(image_bytes(layout), b"\xff")


def decode(layout: Layout, data: bytes) -> Values:
    """The newest whole state anywhere in these bytes: a file, a memory image, both slots of a flash."""
    found: dict[int, Values] = {}
    reasons: list[str] = []
    at = data.find(MAGIC)
    while at >= 0:
        fault = fault_at(layout, data, at)
        if fault:
            reasons.append(fault)
        else:
            sequence = HEADER.unpack_from(data, at)[7]
            found[sequence] = values_at(stored_at(layout, data, at), data, at + HEADER.size)
        at = data.find(MAGIC, at + 1)
    if not found:
        raise NoState(reasons[0] if reasons else "holds no saved state")
    return found[newest(list(found))]


def newest(sequences: list[int]) -> int:
    """Numbers of 32 bits that may have begun again."""
    last = sequences[0]
    for number in sequences[1:]:
        if 0 < (number - last) % 2**32 < 2**31:
            last = number
    return last


def fault_at(layout: Layout, data: bytes, at: int) -> str:
    if at + HEADER.size > len(data):
        return "is cut off"
    _, version, *_, size, _, check = HEADER.unpack_from(data, at)
    if version != VERSION:
        return f"holds a state of version {version}; this is version {VERSION}"
    if check != crc32(data[at : at + FIELDS.size]):
        return "is damaged: the checksum of its header is wrong"
    if not stored_at(layout, data, at).pieces:
        return OTHERS
    end = at + HEADER.size + size
    if end + TRAILER.size > len(data):
        return f"is cut off: {len(data) - at:,} of {end + TRAILER.size - at:,} bytes are there"
    if TRAILER.unpack_from(data, end) != (crc32(data[at:end]), END):
        return "is damaged: its checksum is wrong"
    found = values_at(stored_at(layout, data, at), data, at + HEADER.size)
    for p in layout.pieces:
        if p.fixed is not None and p.name in found and crc32(found[p.name].tobytes()) != p.fixed:
            return OTHERS
    return ""


def stored_at(layout: Layout, data: bytes, at: int) -> Layout:
    """The tensors of a layout that a state holds, one behind the other from its first on."""
    _, _, *network, first, second, size, _, _ = HEADER.unpack_from(data, at)
    if (first, second) == layout.digest and size == layout.nbytes:
        return layout
    shared = layout.network
    fits = layout.borrows and tuple(network) == shared.digest and size >= shared.nbytes
    return shared if fits else Layout(())


def values_at(layout: Layout, data: bytes, at: int) -> Values:
    values: Values = {}
    for p in layout.pieces:
        values[p.name] = np.frombuffer(data[at : at + p.nbytes], p.numpy).reshape(p.shape)
        at += p.nbytes
    return values
