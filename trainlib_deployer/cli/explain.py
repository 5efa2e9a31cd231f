"""A plan in the terminal: a summary; one layer; or everything, the memory map of each level and the schedule."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainlib_deployer.cli.console import counted, print_summary, prose, table
from trainlib_deployer.cli.memory_map import draw
from trainlib_deployer.errors import UsageError
from trainlib_deployer.report.facts import evaluation_ops, step_of, step_ops, total
from trainlib_deployer.report.roles import ROLES, role_of_buffer

Json = Mapping[str, Any]
MOST = 8  # rows of a summary's tables


LEAST = {
    "parameters": "parameters and buffers",
    "state": "the optimizer",
    "sample": "the sample",
    "saved": "outputs and what backward still needs of forward",
    "flight": "gradients in flight",
}


def explain(folder: object, plan: Json, everything: bool = False) -> None:
    """What matters first."""
    print_summary(folder, plan)
    print_certificate(plan["certificate"])
    print_least(plan.get("least"))
    step, evaluation = step_ops(plan["ops"]), evaluation_ops(plan["ops"])
    print(f"{total(step, 'macs'):,} multiply-adds a {step_of(plan)}")
    if evaluation:
        print(f"an evaluation beside it: {work(evaluation)}")
    for name, level in plan["levels"].items():
        if level["used"]:
            print()
            roles_at_peak(name, plan)
    print()
    costliest(step)
    if not everything:
        print(f"\nexplain {folder} LAYER: one layer; --tensor NAME: one tensor; --all: the memory map and the schedule")
        return
    for name in plan["levels"]:
        picture = draw(name, plan) if "live_at_peak" in plan["levels"][name] else []
        print("\n" + "\n".join(picture)) if picture else None
        print()
        memory_map(f"memory map of {name}", (b for b in plan["buffers"] if b["level"] == name), plan)
    print()
    operations("schedule (cycles are estimated)", plan["ops"])


def explain_layer(layer: str, plan: Json) -> None:
    """Its tensors and operations, and those of the layers in it."""
    ops = [op for op in plan["ops"] if within(op["layer"], layer)]
    buffers = [b for b in plan["buffers"] if within(b["layer"], layer)]
    if not ops and not buffers:
        names = list(dict.fromkeys(x["layer"] for x in (*plan["ops"], *plan["buffers"]) if x["layer"]))
        close = difflib.get_close_matches(layer, names, 3, 0.4) or [n for n in names if layer in n][:3]
        few = f"its layers are: {', '.join(names[:MOST])}{' ...' if len(names) > MOST else ''}"
        raise UsageError(f"there is no layer '{layer}'", remedy=f"did you mean: {', '.join(close)}" if close else few)
    of_step = step_ops(ops)
    share = 100 * total(of_step, "cycles") / max(total(step_ops(plan["ops"]), "cycles"), 1)
    print(f"{layer}: {work(of_step)}, {share:.1f} % of the {step_of(plan)}")
    if of_evaluation := evaluation_ops(ops):
        print(f"in an evaluation: {work(of_evaluation)}")
    for line in dict.fromkeys(op["source"] for op in ops if op["source"]):
        print(line)
    for name in plan["levels"]:
        if here := [b for b in buffers if b["level"] == name]:
            print()
            memory_map(f"in {name}", here, plan, layer)
    print()
    operations("operations", ops, layer)


def work(ops: Sequence[Json]) -> str:
    sums = f"{total(ops, 'macs'):,} multiply-adds, {total(ops, 'cycles'):,} cycles (estimated)"
    return f"{counted(len(ops), 'operation')}, {sums}"


def within(name: str, layer: str) -> bool:
    return name == layer or name.startswith(f"{layer}.")


def print_certificate(certificate: Json) -> None:
    optimal = "proved optimal" if certificate["proved_optimal"] else "not proved optimal"
    checked = "checked" if certificate["checked"] else "not checked"
    print(
        f"peak {certificate['peak']:,} bytes, lower bound {certificate['lower_bound']:,}, gap {certificate['gap']:,}; "
        f"{optimal}; the plan is {checked}"
    )


def print_least(least: Json | None) -> None:
    """Beside what PyTorch keeps for a step."""
    if least is None:
        return
    parts = ", ".join(f"{least[key]:,} of {words}" for key, words in LEAST.items() if least[key])
    prose(f"PyTorch stores {least['total']:,} bytes for a step: {parts}")
    print(f"the plan's tensors are {least['tensors']:,} at their fullest moment, {least['ratio']:.2f} times as many")
    for reason in least.get("why", ()):
        prose(f"  {reason['bytes']:,} bytes: {reason['words']}")


def roles_at_peak(name: str, plan: Json) -> None:
    """What a level holds when it holds most."""
    peak = plan["levels"][name].get("peak_at", 0)
    live = [b for b in plan["buffers"] if b["level"] == name and b["birth"] <= peak < b["death"]]
    sizes, counts = Counter[str](), Counter[str]()
    for b in live:
        role = ROLES[role_of_buffer(b, plan)]
        sizes[role] += b["size"]
        counts[role] += 1
    rows = [(role, f"{counts[role]:,}", f"{size:,}") for role, size in sizes.most_common()]
    table(f"{name} at its peak, operation {peak}", ("what for", "buffers", "bytes"), rows, right=(1, 2))


def costliest(ops: Sequence[Json]) -> None:
    """A line an operation; the layer's own page has the rest."""
    whole = sum(op.get("cycles", 0) for op in ops)
    rows = [
        (
            str(op["index"]),
            op["phase"],
            op["layer"],
            ", ".join(op.get("kernels", ())) or "generated loop",
            f"{op['cycles']:,}" if "cycles" in op else "",
            f"{100 * op['cycles'] / whole:.1f} %" if op.get("cycles") else "",
            f"{op['macs']:,}" if op["macs"] else "",
            op["source"].partition(": ")[0],
        )
        for op in sorted(ops, key=lambda op: -op.get("cycles", 0))[:MOST]
    ]
    columns = ("", "phase", "layer", "kernel", "cycles", "", "macs", "line")
    filled("most cycles, estimated", columns, rows, right=(0, 4, 5, 6))


def memory_map(title: str, buffers: Iterable[Json], plan: Json, layer: str = "") -> None:
    """By address; buffers at the same address live at different times. Of one `layer`, only others are named."""
    last = len(plan["ops"])
    rows = [
        (
            f"{b['offset']:,}",
            f"{b['offset'] + b['size']:,}",
            f"{b['size']:,}",
            "always" if b["birth"] <= 0 and b["death"] >= last else f"{b['birth']} to {b['death'] - 1}",
            b["role"],
            b["name"] + (f" = {', '.join(b['aliases'])}" if b["aliases"] else ""),
            b["layer"] if b["layer"] != layer else "",
        )
        for b in sorted(buffers, key=lambda b: (b["offset"], b["birth"]))
    ]
    columns = ("from", "to", "bytes", "operations", "role", "name", "layer")
    filled(title, columns, rows, right=(0, 1, 2, 3))


def operations(title: str, ops: Iterable[Json], layer: str = "") -> None:
    """Of one `layer`, whose name and lines have been said, only others are named."""
    rows = [
        (
            str(op["index"]),
            op["phase"],
            op["layer"] if op["layer"] != layer else "",
            op["kind"],
            ", ".join(op.get("kernels", ())),
            f"{op['cycles']:,}" if "cycles" in op else "",
            f"{op['macs']:,}" if op["macs"] else "",
            ", ".join(name.removeprefix(f"{layer}.") for name in op["writes"]),
            "" if layer else op["source"],
        )
        for op in ops
    ]
    columns = ("", "phase", "layer", "kind", "kernels", "cycles", "macs", "writes", "source")
    filled(title, columns, rows, right=(0, 5, 6))


def filled(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], right: Iterable[int]) -> None:
    """Without columns in which nothing stands."""
    kept = [i for i in range(len(columns)) if not rows or any(row[i] for row in rows)]
    numbers = [kept.index(i) for i in right if i in kept]
    table(title, [columns[i] for i in kept], [[row[i] for i in kept] for row in rows], numbers)
