"""A plan in the terminal: the memory map of each level and the schedule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainlib_deployer.cli.console import print_summary, table
from trainlib_deployer.cli.memory_map import biography, draw
from trainlib_deployer.report.facts import step_of


def explain(folder: object, plan: Mapping[str, Any], tensor: str | None = None) -> None:
    """Everything that plan.json says, in reading order; or the life of one tensor."""
    if tensor is not None:
        print("\n".join(biography(tensor, plan)))
        return
    print_summary(folder, plan)
    print_certificate(plan["certificate"])
    for name in plan["levels"]:
        picture = draw(name, plan) if "live_at_peak" in plan["levels"][name] else []
        print("\n" + "\n".join(picture)) if picture else None
        print()
        memory_map(name, plan)
    print()
    schedule(plan)


def print_certificate(certificate: Mapping[str, Any]) -> None:
    optimal = "proved optimal" if certificate["proved_optimal"] else "not proved optimal"
    checked = "checked" if certificate["checked"] else "not checked"
    print(
        f"peak {certificate['peak']:,} bytes, lower bound {certificate['lower_bound']:,}, gap {certificate['gap']:,}; "
        f"{optimal}; the plan is {checked}"
    )


def memory_map(level: str, plan: Mapping[str, Any]) -> None:
    """By address; buffers at the same address live at different times."""
    last = len(plan["ops"])
    buffers = sorted((b for b in plan["buffers"] if b["level"] == level), key=lambda b: (b["offset"], b["birth"]))
    rows = [
        (
            f"{b['offset']:,}",
            f"{b['offset'] + b['size']:,}",
            f"{b['size']:,}",
            "always" if b["birth"] <= 0 and b["death"] >= last else f"{b['birth']} to {b['death'] - 1}",
            b["role"],
            b["name"] + (f" = {', '.join(b['aliases'])}" if b["aliases"] else ""),
            b["layer"],
        )
        for b in buffers
    ]
    columns = ("from", "to", "bytes", "operations", "role", "name", "layer")
    table(f"memory map of {level}", columns, rows, right=(0, 1, 2))


def schedule(plan: Mapping[str, Any]) -> None:
    rows = [
        (
            str(op["index"]),
            op["phase"],
            op["layer"],
            op["kind"],
            ", ".join(op.get("kernels", ())),
            f"{op['cycles']:,}" if "cycles" in op else "",
            f"{op['macs']:,}" if op["macs"] else "",
            ", ".join(op["writes"]),
            op["source"],
        )
        for op in plan["ops"]
    ]
    columns = ("", "phase", "layer", "kind", "kernels", "cycles", "macs", "writes", "source")
    table("schedule (cycles are estimated)", columns, rows, right=(0, 5, 6))
    print(f"{sum(op['macs'] or 0 for op in plan['ops']):,} multiply-adds a {step_of(plan)}")
