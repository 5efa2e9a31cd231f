"""Two plans side by side: what the second one takes more or less."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainlib_deployer.machine.targets import cores_text
from trainlib_deployer.report.facts import evaluation_ops, role_sums, step_ops, total

Json = Mapping[str, Any]
LAYERS = 12  # those that differ most


@dataclass(frozen=True)
class Difference:
    """One figure of both plans."""

    what: str
    here: int
    there: int

    @property
    def change(self) -> str:
        """`+12.5 %`, from this plan to the other."""
        if self.here == self.there:
            return "the same"
        return f"{100 * (self.there - self.here) / self.here:+.1f} %" if self.here else "new"


@dataclass(frozen=True)
class Comparison:
    """The other plan's name, sums, bytes by what they are for, and the layers whose forecast differs most."""

    name: str
    sums: list[Difference]
    roles: list[Difference]
    layers: list[Difference]


def comparison(plan: Json, other: Json) -> Comparison:
    before, after = cycles_of_layers(plan), cycles_of_layers(other)
    layers = [
        Difference(n or "(no layer)", before.get(n, 0), after.get(n, 0)) for n in dict.fromkeys((*before, *after))
    ]
    changed = sorted((d for d in layers if d.here != d.there), key=lambda d: -abs(d.there - d.here))
    name = f"{other['model']['name']} on {cores_text(other['target']['name'], other['target']['cores'])}"
    return Comparison(name, list(sums(plan, other)), list(roles(plan, other)), changed[:LAYERS])


def sums(plan: Json, other: Json) -> Iterator[Difference]:
    for level in dict.fromkeys((*plan["levels"], *other["levels"])):
        here, there = (p["levels"].get(level, {}).get("used", 0) for p in (plan, other))
        yield Difference(f"bytes of {level}", here, there)
    steps = step_ops(plan["ops"]), step_ops(other["ops"])
    for words, key in (("multiply-adds", "macs"), ("cycles, forecast", "cycles"), ("bytes copied", "moved")):
        yield Difference(words, *(total(ops, key) for ops in steps))
    yield Difference("operations", *map(len, steps))
    if any(evaluations := (evaluation_ops(plan["ops"]), evaluation_ops(other["ops"]))):
        yield Difference("cycles of an evaluation, forecast", *(total(ops, "cycles") for ops in evaluations))
    yield Difference("trained parameters", *(p["model"]["parameters"]["trained"] for p in (plan, other)))


def roles(plan: Json, other: Json) -> Iterator[Difference]:
    before, after = ({s.key: s for s in role_sums(p)} for p in (plan, other))
    for key in dict.fromkeys((*before, *after)):
        found = before.get(key) or after[key]
        here, there = (sum(s[key].at_peak.values()) if key in s else 0 for s in (before, after))
        yield Difference(found.text, here, there)


def cycles_of_layers(plan: Json) -> dict[str, int]:
    found: dict[str, int] = {}
    for op in step_ops(plan["ops"]):
        found[op["layer"]] = found.get(op["layer"], 0) + op.get("cycles", 0)
    return found
