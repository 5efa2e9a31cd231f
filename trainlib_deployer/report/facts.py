"""The sums that come first: what a step takes, where, for what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainlib_deployer.machine.sizes import show_size
from trainlib_deployer.machine.targets import cores_text
from trainlib_deployer.plan.smaller import Saved
from trainlib_deployer.program.ir import EVALUATION
from trainlib_deployer.report.roles import ROLES, role_of_buffer, role_of_tensor

Json = Mapping[str, Any]
Facts = list[tuple[str, str]]


@dataclass(frozen=True)
class RoleSum:
    """Bytes of one role: in each level at its fullest moment, and of all its tensors if none shared memory."""

    key: str
    text: str
    at_peak: dict[str, int]
    apart: int


def role_sums(plan: Json) -> list[RoleSum]:
    peaks = {name: Counter[str]() for name in plan["levels"]}
    for b in plan["buffers"]:
        if b["birth"] <= plan["levels"][b["level"]]["peak_at"] < b["death"]:
            peaks[b["level"]][role_of_buffer(b, plan)] += b["size"]
    apart = Counter[str]()
    for tensor in plan["tensors"].values():
        apart[role_of_tensor(tensor)] += tensor.get("bytes", 0)
    sums = (RoleSum(k, text, {n: peaks[n][k] for n in peaks}, apart[k]) for k, text in ROLES.items())
    return [s for s in sums if s.apart or any(s.at_peak.values())]


def step_of(plan: Json) -> str:
    return "forward pass" if plan["model"].get("inference") else "training step"


def lead(plan: Json) -> str:
    """One sentence for who reads nothing else."""
    proof = plan["certificate"]
    memory = " and ".join(f"{level['used']:,} bytes of {name}" for name, level in plan["levels"].items())
    if proof["proved_optimal"]:
        return f"One {step_of(plan)} takes {memory}. It is proved that no placement of these tensors takes less."
    gap = f"{proof['gap']:,} bytes above the lower bound"
    return f"One {step_of(plan)} takes {memory}: {gap}; it is not proved that this is the least."


def facts(plan: Json) -> Facts:
    model, target = plan["model"], plan["target"]
    counts = model["parameters"]
    trained = "" if model.get("inference") else f", of which {counts['trained']:,} are trained"
    levels = ", ".join(f"{name} {size_text(level['size'])}" for name, level in plan["levels"].items())
    working = target.get("working", target["cores"])
    idle = f", {working} of them at work" if working < target["cores"] else ""
    step = step_ops(plan["ops"])
    cycles, macs = total(step, "cycles"), total(step, "macs")
    return [
        ("Chip", f"{cores_text(target['name'], target['cores'])}{idle}; {levels}"),
        ("Parameters", f"{counts['total']:,}{trained}"),
        ("Steps of a test run", steps_text(model)),
        ("Operations in a step", f"{len(step):,}"),
        ("Multiply-adds in a step", f"{macs:,}"),
        *([("Forecast of a step", forecast(cycles, macs))] if cycles else []),
        *evaluation_facts(evaluation_ops(plan["ops"])),
        *traffic_facts(plan["traffic"]),
        *carried_facts(plan),
        *([("Half precision", kept)] if (kept := Saved(**plan.get("saved", {})).sentence) else []),
    ]


def steps_text(model: Json) -> str:
    steps = f"{model['steps']:,}"
    if model["accumulate"] > 1:
        steps += f", each over {model['accumulate']:,} batches"
    return steps + (", with a learning rate of its own each" if model["scheduled"] else "")


def forecast(cycles: int, macs: int) -> str:
    rate = f", {macs / cycles:.2f} multiply-adds a cycle" if macs else ""
    return f"{cycles:,} cycles{rate}"


def evaluation_facts(ops: Sequence[Json]) -> Facts:
    """What runs beside the training, as after model.eval(), in the same memory."""
    if not ops:
        return []
    cycles, macs = total(ops, "cycles"), total(ops, "macs")
    sums = f"{len(ops):,} operations, {macs:,} multiply-adds"
    return [("An evaluation, beside it", f"{sums}; {forecast(cycles, macs)}" if cycles else sums)]


def traffic_facts(traffic: Json) -> Facts:
    moved, least = traffic["bytes"], traffic["lower_bound"]
    if not moved:
        return []
    once = f" ({least:,} if each operation copied each of its tensors once)" if least else ""
    hidden = f"{100 * traffic['hidden_estimate']:.0f} % of the time behind other work, by estimate"
    return [("Copied between L2 and L1", f"{moved:,} bytes{once}; {hidden}")]


def carried_facts(plan: Json) -> Facts:
    """Where tensors live behind the outer memory."""
    found = plan.get("carried")
    if not found:
        return []
    outer, far = list(plan["levels"])[1:3]
    words = f"{found['moved']:,} bytes in {found['copies']:,} copies, for {found['tensors']:,} tensors"
    return [(f"Copied between {far} and {outer}", f"{words}; the cores wait some {found['waited']:,} cycles")]


def level_facts(level: Json) -> Facts:
    gap = level["used"] - level["lower_bound"]
    optimal = "proved the least" if level["proved"] else f"not proved; gap {gap:,} bytes"
    return [
        ("Used", f"{level['used']:,} of {size_text(level['size'])} ({percent(level['used'], level['size'])})"),
        ("Lower bound", f"{level['lower_bound']:,}, {optimal}"),
        ("Kept from step to step", f"{level['persistent']:,}"),
        ("Stacks of the cores", f"{level['stacks']:,}"),
        ("Left", f"{level['headroom']:,}"),
    ]


def peak_text(level: Json, plan: Json) -> str:
    at = level["peak_at"]
    if not 0 <= at < len(plan["ops"]):
        return ""
    op = plan["ops"][at]
    where = f", {op['source']}" if op["source"] else ""
    return f"Fullest during operation {at}, {op.get('title', op['name'])} ({op['phase']}){where}"


def step_ops(ops: Iterable[Json]) -> list[Json]:
    """Those of a step, of which an evaluation is no part."""
    return [op for op in ops if op["phase"] != EVALUATION]


def evaluation_ops(ops: Iterable[Json]) -> list[Json]:
    return [op for op in ops if op["phase"] == EVALUATION]


def total(ops: Sequence[Json], key: str) -> int:
    return sum(op.get(key) or 0 for op in ops)


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def size_text(size: int) -> str:
    """`64k (65,536 bytes)`, or `12,544 bytes`."""
    short = show_size(size)
    return f"{size:,} bytes" if short == str(size) else f"{short} ({size:,} bytes)"
