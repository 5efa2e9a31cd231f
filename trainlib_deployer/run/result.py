"""What a run leaves besides its record."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

MARK = re.compile(r"^(?:ARENA )?(STACK|L\d) (\d+) of (\d+) bytes$", re.MULTILINE)


@dataclass(frozen=True)
class RunResult:
    counts: Mapping[str, object] = field(default_factory=dict)  # cycles or instructions
    output: str = ""

    @property
    def memory(self) -> dict[str, dict[str, int]]:
        """How much of each level's arena, and of the deepest core's stack, lost its paint in the run."""
        return {
            "stack" if name == "STACK" else name: {"touched": int(touched), "planned": int(planned)}
            for name, touched, planned in MARK.findall(self.output)
        }
