"""What the page's scripts draw, as tables of columns and rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from typing import Any

from trainlib_deployer.report.roles import ROLES, label_of_buffer, role_of_buffer, role_of_tensor
from trainlib_deployer.report.runs import Measured, Verdict

Json = Mapping[str, Any]
Table = dict[str, Any]
OPS = "title phase layer source kernel macs cycles measured tiles moved reads writes direct parts".split()
STATISTIC = re.compile(r"^.*\.buffer\.(.*)$")  # the operation that updates one
BUFFERS = "label level offset size birth death role layer".split()
TENSORS = "name role bytes shape level".split()


class Interned:
    """Words that many rows share, once, by number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, word: str) -> int:
        return self.numbers.setdefault(word, len(self.numbers))


def page_data(plan: Json, verdict: Verdict | None, measured: Measured | None) -> dict[str, Any]:
    words = Interned()
    data = {
        "levels": [level(name, plan["levels"][name]) for name in plan["levels"]],
        "roles": ROLES,
        "tensors": table(TENSORS, tensor_rows(plan)),
        "ops": table(OPS, op_rows(plan, words, measured)),
        "buffers": table(BUFFERS, [buffer_row(b, plan, words) for b in plan["buffers"]]),
        "unit": measured.unit if measured else None,
        "losses": losses(verdict) if verdict and verdict.losses else None,
        "verified": verdict.table() if verdict else None,
    }
    return {"words": list(words.numbers), **data}


def losses(verdict: Verdict) -> dict[str, list[float | None]]:
    return {"program": list(verdict.losses), "pytorch": list(verdict.golden_losses)}


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    return {"columns": list(columns), "rows": rows}


def level(name: str, figures: Json) -> Json:
    keys = {"size": "size", "used": "used", "lower_bound": "bound", "peak_at": "peak", "proved": "proved"}
    return {"name": name, **{short: figures[key] for key, short in keys.items()}}


def tensor_rows(plan: Json) -> list[list[Any]]:
    homes = {name: b["level"] for b in plan["buffers"] for name in (b["name"], *b["aliases"])}
    return [
        [name, role_of_tensor(t), t.get("bytes", 0), "x".join(map(str, t.get("shape", ()))), homes.get(name, "")]
        for name, t in plan["tensors"].items()
    ]


def op_rows(plan: Json, words: Interned, measured: Measured | None) -> list[list[Any]]:
    names = {name: i for i, name in enumerate(plan["tensors"])}
    present = {op["layer"] for op in plan["ops"]} - {""}
    return [
        [*op_figures(op, words, names, measured), [words(layer) for layer in layers_inside(op, plan, present)]]
        for op in plan["ops"]
    ]


def op_figures(op: Json, words: Interned, names: Mapping[str, int], measured: Measured | None) -> list[Any]:
    title = STATISTIC.sub(r"\1: new value", op.get("title", op["name"])).replace(".blocks", ", partial sums")
    direct = op.get("direct")
    return [
        title,
        words(op["phase"]),
        words(op["layer"]),
        words(op["source"]),
        words("generated loop" if op["kernel"] == "loop" else op["kernel"]),
        op["macs"] or 0,
        op.get("cycles", 0),
        measured.of(op["index"]) if measured else None,
        op["tiles"],
        op["moved"],
        [names[n] for n in op["reads"] if n in names],
        [names[n] for n in op["writes"] if n in names],
        {**direct, "tensors": [names[n] for n in direct["tensors"] if n in names]} if direct else None,
    ]


def layers_inside(op: Json, plan: Json, present: Set[str]) -> list[str]:
    """Those of the operations that were made one, in order, where there are several."""
    known = (plan["tensors"].get(name, {}).get("layer") or name.rpartition(".")[0] for name in op["fused"])
    layers = list(dict.fromkeys(layer for layer in known if layer in present))
    return layers if layers != [op["layer"]] else []


def buffer_row(b: Json, plan: Json, words: Interned) -> list[Any]:
    role = list(ROLES).index(role_of_buffer(b, plan))
    level = list(plan["levels"]).index(b["level"])
    return [label_of_buffer(b, plan), level, b["offset"], b["size"], b["birth"], b["death"], role, words(b["layer"])]
