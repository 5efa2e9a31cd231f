"""What a verification run hands out in C, and what it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from golden.sketch import Key, Sketch
from trainlib_deployer.emit.addresses import Addresses
from trainlib_deployer.emit.initial import REFERENCE, SKETCH, Binary, reference_steps, references, string_lines
from trainlib_deployer.emit.names import comment, unique_identifiers
from trainlib_deployer.emit.trace import Trace, traces
from trainlib_deployer.program.ir import Program, View


@dataclass(frozen=True)
class Recorded:
    at: Addresses

    @property
    def program(self) -> Program:
        return self.at.plan.program

    @cached_property
    def traces(self) -> list[Trace]:
        return traces(self.program)

    @cached_property
    def after(self) -> dict[int | None, list[Trace]]:
        """Under the operation behind which they are recorded."""
        found: dict[int | None, list[Trace]] = {}
        for trace in self.traces:
            found.setdefault(trace.after, []).append(trace)
        return found

    @cached_property
    def tags(self) -> dict[str, str]:
        """Names of their numbers."""
        return unique_identifiers(t.title for t in self.traces)

    def entry(self, trace: Trace) -> dict[str, Any]:
        t = self.program.tensors[trace.tensor]
        far = t.name in self.program.far
        return {
            "far": far,
            "tag": f"TRACE_{self.tags[trace.title]}",
            "comment": comment(trace.name),
            "pointer": self.at.pointer(View.whole(t)),
            "call": "net_trace_far" if far else "net_trace",
            "bytes": prod(trace.shape) * t.dtype.size,
        }

    def at_end(self, functions: Mapping[str, str]) -> list[dict[str, Any]]:
        """What is kept from step to step, and outputs that the interface hands out by `functions`."""
        handed = {tensor: {"pointer": f"net_{function}()"} for tensor, function in functions.items()}
        return [self.entry(t) | handed.get(t.tensor, {}) for t in self.after.get(None, ())]

    def context(self, functions: Mapping[str, str], found: Mapping[Key, Sketch], data: Binary) -> dict[str, Any]:
        """`found` is what PyTorch computes, for which `data` has room."""
        types = [self.program.tensors[t.tensor].dtype for t in self.traces]
        expected = references(found, [(t.kind, t.name, d) for t, d in zip(self.traces, types, strict=True)])
        return {
            "traces_at_end": self.at_end(functions),
            "traces": [self.entry(t) for t in self.traces],
            "trace_names": [string_lines(t.title) for t in self.traces],
            "trace_sizes": [d.size for d in types],
            "reference_steps": reference_steps(found),
            "references": data.add(expected, name=REFERENCE),
            "sketch_bytes": SKETCH.itemsize,
        }
