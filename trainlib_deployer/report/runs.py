"""What runs have left beside a plan: the verdict of a verification, and what each operation took."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

VERDICT = "build/verdict.json"
PROFILE = re.compile(
    r"^ *(?P<unit>[a-z]+) .*bytes moved .*$\n(?P<rows>(?: *\d+ .*\n)*).* all operations$", re.MULTILINE
)
COUNTED = ("name", "kind", "layer", "steps", "error", "tolerance", "passed")


@dataclass(frozen=True)
class Verdict:
    """A verification as `verify --json` writes it."""

    passed: bool
    on: str
    losses: Sequence[float | None]
    golden_losses: Sequence[float | None]
    tensors: Sequence[Mapping[str, Any]]
    operations: Mapping[int, int]  # instructions of a step, where the back end counts them

    def table(self) -> dict[str, Any]:
        """A row a tensor: of all steps, the one that came nearest to its tolerance."""
        worst: dict[tuple[str, str], tuple[float, Mapping[str, Any]]] = {}
        steps: dict[tuple[str, str], int] = {}
        for t in self.tensors:
            key, share = (t["kind"], t["name"]), t["rel_l2"] / t["tolerance"] if t["tolerance"] else 0.0
            steps[key] = steps.get(key, 0) + 1
            if key not in worst or not t["passed"] or share > worst[key][0]:
                worst[key] = (share, t)
        rows = [
            [t["name"], t["kind"], t["layer"], steps[key], finite(t["rel_l2"]), t["tolerance"], t["passed"]]
            for key, (_, t) in worst.items()
        ]
        return {"columns": list(COUNTED), "rows": rows}

    @property
    def sentence(self) -> str:
        agree = sum(bool(t["passed"]) for t in self.tensors)
        outcome = "agree" if self.passed else "agree: the verification failed"
        steps = len(self.losses) or len({t["step"] for t in self.tensors})  # inference has no losses
        return f"{agree:,} of {len(self.tensors):,} tensors of {steps:,} steps on {self.on} {outcome}"


def finite(value: float) -> float | None:
    """JSON has no other numbers."""
    return float(value) if isfinite(value) else None


@dataclass(frozen=True)
class Measured:
    """What each operation of a step took, and in what it was counted."""

    unit: str
    taken: Mapping[int, int]

    @property
    def total(self) -> int:
        return sum(self.taken.values())

    def of(self, index: int) -> int | None:
        return self.taken.get(index)


def read_verdict(folder: Path) -> Verdict | None:
    """Of the last verification, if it can be read."""
    try:
        found = json.loads((folder / VERDICT).read_text())
        counted = found.get("cycles_or_instructions", {}).get("operations", ())
        verdict = Verdict(
            bool(found["passed"]),
            str(found["on"]),
            [finite(v) for v in found["losses"]],
            [finite(v) for v in found["golden_losses"]],
            [t for t in found["tensors"] if t.get("compared", True)],
            {int(o["position"]): round(o["instructions"] / max(found["steps"], 1)) for o in counted},
        )
        return verdict if verdict.sentence and verdict.table() else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def read_profile(text: str, operations: int) -> Measured | None:
    """The table that a build with PROFILE=1 prints, the last one; None where there is none of so many operations."""
    tables = list(PROFILE.finditer(text))
    if not tables:
        return None
    numbers = [int(line.split()[0]) for line in tables[-1]["rows"].splitlines()]
    return Measured(tables[-1]["unit"], dict(enumerate(numbers))) if len(numbers) == operations else None


def counted(verdict: Verdict | None) -> Measured | None:
    """Instructions, where the verification ran on a simulator that counts them."""
    return Measured("instructions", verdict.operations) if verdict and verdict.operations else None
