"""Damaged files of examples, read by C under the sanitizers and by Python:
`python -m tests.fuzz.damaged_examples 10000`.

Every one must be refused by both, with a reason; what was not changed must be read."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from zlib import crc32

import numpy as np
import torch

from golden.examples import HEADER, Layout, fault_of

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["-std=gnu99", "-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'c_lib' / 'include'}"]
SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
SOURCES = ("tests/c/examples_driver.c", "c_lib/kernels/examples.c", "c_lib/kernels/examples_file.c", "c_lib/hal/host.c")
LAYOUT = Layout.of(torch.zeros(3, 7), torch.zeros(3, dtype=torch.int64))
COUNT = 41


def whole() -> bytes:
    """A file of 41 examples of seven numbers and a label."""
    random_bits = np.random.default_rng(3)
    rows = [random_bits.random(7, np.float32).tobytes() + struct.pack("<i", i % 5) for i in range(COUNT)]
    body = b"".join(rows)
    return LAYOUT.header(COUNT, crc32(body)) + body


def damaged(data: bytes, dice: random.Random) -> bytes:
    """One to three things that happen to files."""
    changed = bytearray(data)
    for _ in range(dice.randint(1, 3)):
        kind, at, some = dice.randrange(8), dice.randrange(len(changed) or 1), dice.randint(1, 64)
        if kind == 0 and changed:
            changed[at] ^= 1 << dice.randrange(8)
        elif kind == 1:
            del changed[at:]
        elif kind == 2:
            del changed[at : at + some]
        elif kind == 3:
            changed[at:at] = dice.randbytes(some)
        elif kind == 4:
            changed[at : at + some] = dice.randbytes(len(changed[at : at + some]))
        elif kind == 5:
            changed[at : at + some] = bytes(len(changed[at : at + some]))
        elif kind == 6:
            changed += dice.randbytes(some)
        elif len(changed) >= HEADER.size:
            signed(changed, dice)
    return bytes(changed)


def signed(changed: bytearray, dice: random.Random) -> None:
    """A header that agrees with itself and says something else."""
    word = dice.randrange(7)
    value = dice.choice(
        [0, 1, COUNT - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32 // LAYOUT.nbytes + 1, dice.getrandbits(32)]
    )
    struct.pack_into("<I", changed, 4 * word, value)
    struct.pack_into("<I", changed, HEADER.size - 4, crc32(changed[: HEADER.size - 4]))


def built(folder: Path) -> Path:
    program = folder / "driver"
    sources = [str(ROOT / s) for s in SOURCES]
    subprocess.run(["gcc", *FLAGS, *SANITIZED, *sources, "-pthread", "-lm", "-o", str(program)], check=True)
    return program


def faults(program: Path, images: list[bytes]) -> list[int]:
    """Of each, what C says."""
    sizes = [str(f.nbytes) for f in LAYOUT.fields]
    command = [str(program), str(program.with_name("image")), *map(str, LAYOUT.digest), *sizes]
    given = b"".join(struct.pack("<I", len(i)) + i for i in images)
    done = subprocess.run(command, input=given, capture_output=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return [int(line) for line in done.stdout.split()]


def campaign(count: int, seed: int, folder: Path) -> Counter[str]:
    """How often each reason was given."""
    dice, fine = random.Random(seed), whole()
    images = [fine]
    while len(images) <= count:
        images += [image for image in [damaged(fine, dice)] if image != fine]
    found: Counter[str] = Counter()
    for image, fault in zip(images, faults(built(folder), images), strict=True):
        reason = fault_of(image, LAYOUT)
        assert bool(fault) == bool(reason) == (image != fine), (fault, reason, image[:40])
        found[reason] += 1
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        for words, times in campaign(int(sys.argv[1]), 1, Path(place)).most_common():
            print(f"{times:6d} {words or 'read, as it was not changed'}")
