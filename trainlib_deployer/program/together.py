"""Loops that have nothing to do with each other, as one operation: one function, and the cores meet once.

Updates of biases and of a normalisation's scales, and running statistics, are a few dozen numbers each. What they take
is the way in and out, code that is fetched for one run, and the slowest core.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainlib_deployer.program.ir import Kind, Part, View
from trainlib_deployer.program.loop import Loop


@dataclass(frozen=True)
class Together(Kind):
    """None touches what another writes. Reads: those of the first loop, then of the next; so do writes."""

    loops: tuple[Loop, ...]

    name = "together"

    def macs(self) -> int:
        return sum(loop.macs() for loop in self.loops)

    @property
    def strided(self) -> bool:
        return True

    def parts(self, reads: tuple[View, ...], writes: tuple[View, ...]) -> Iterator[Part]:
        """Each loop with its own operands."""
        for loop in self.loops:
            given, made = len(loop.inputs), len(loop.outputs)
            yield Part(loop, reads[:given], writes[:made])
            reads, writes = reads[given:], writes[made:]
