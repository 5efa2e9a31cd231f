"""What a run leaves besides its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class RunResult:
    counts: Mapping[str, object] = field(default_factory=dict)  # cycles or instructions
    output: str = ""
