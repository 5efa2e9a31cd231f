"""Does a generated loop read each element of one operand before it writes the same one of another? Judged by its C."""

from __future__ import annotations

import re
from dataclasses import dataclass


def parameter_name(declaration: str) -> str:
    return declaration.rpartition("*")[2]


def elementwise(body: str, read: str, written: str) -> bool:
    """Both pointers step alike, and every iteration reads before it writes."""
    starts = [re.search(rf"\b\w+ \*[pq]{p[1:]} = {p}\b(.*);", body) for p in (read, written)]
    if (starts[0] is None) != (starts[1] is None) or (starts[0] and starts[1] and starts[0][1] != starts[1][1]):
        return False
    source, target = (p if starts[0] is None else swap + p[1:] for p, swap in ((read, "p"), (written, "q")))
    loops = [found for part in body.split("for (")[1:] if (found := Accesses.of(part, source, target)).any]
    if not loops:
        loops = [Accesses.of(body, source, target)]
    taken = sum(len(found.reads) for found in loops)
    once = all(found.goes_on for found in loops[1:])
    return once and taken == len(re.findall(rf"\b{source}\[", body)) and all(found.in_order() for found in loops)


@dataclass(frozen=True)
class Accesses:
    """Where an iteration of a loop reads one pointer and writes another: (index, position in the text)."""

    step: int
    goes_on: bool  # where the loop before it stopped
    reads: list[tuple[str, int]]
    writes: list[tuple[str, int]]

    @staticmethod
    def of(part: str, source: str, target: str) -> Accesses:
        step = re.match(r"[^)]*; i \+= (\d+)\)", part)
        reads = [(m[1], m.start()) for m in re.finditer(rf"= {source}\[(.*?)\];", part)]
        writes = [(m[1], m.start()) for m in re.finditer(rf"^ *{target}\[(.*?)\] =", part, re.MULTILINE)]
        return Accesses(int(step[1]) if step else 1, part.startswith("; i < "), reads, writes)

    @property
    def any(self) -> bool:
        return bool(self.reads or self.writes)

    def in_order(self) -> bool:
        """What is read is what is written later, and as many elements as the loop goes on by."""
        read, written = ([index for index, _ in found] for found in (self.reads, self.writes))
        steps = [f"i + {k}" if k else "i" for k in range(self.step)]
        if not written or len(set(written)) < len(written) or set(read) != set(written):
            return False
        if len(written) != self.step or (self.step > 1 and sorted(written) != sorted(steps)):
            return False
        return max(at for _, at in self.reads) < min(at for _, at in self.writes)
