"""The page: a template with the sums, the page's style and scripts, and tables for the scripts to draw."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import jinja2

from trainlib_deployer.compiled import Compiled
from trainlib_deployer.report.compare import comparison
from trainlib_deployer.report.facts import (
    evaluation_ops,
    facts,
    lead,
    level_facts,
    peak_text,
    role_sums,
    step_of,
    step_ops,
    total,
)
from trainlib_deployer.report.runs import Measured, Verdict, counted
from trainlib_deployer.report.scripts import ASSETS, script
from trainlib_deployer.report.tables import page_data

Json = Mapping[str, Any]
# What would end a script early, or a line of one.
ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


@cache
def template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ASSETS),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        bytecode_cache=Compiled(__file__),
    )
    return environment.get_template("report.html.j2")


def report(
    plan: Json, verdict: Verdict | None = None, measured: Measured | None = None, other: Json | None = None
) -> str:
    """A whole page, in ASCII: other characters are references, so that no encoding can spoil them."""
    try:
        text = template().render(context(plan, verdict, measured or counted(verdict), other))
    except jinja2.UndefinedError as err:
        raise KeyError(f"plan.json: {err}") from err
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


def context(plan: Json, verdict: Verdict | None, measured: Measured | None, other: Json | None) -> dict[str, Any]:
    model = plan["model"]
    levels = plan["levels"]
    return {
        "tool": f"{plan['tool']['name']} {plan['tool']['version']}",
        "name": model["name"],
        "step": step_of(plan),
        "inference": model.get("inference", False),
        "lead": lead(plan),
        "facts": facts(plan),
        "levels": [
            {"name": name, "facts": level_facts(v), "peak": peak_text(v, plan), "used": v["used"]}
            for name, v in levels.items()
        ],
        "roles": role_sums(plan),
        "verdict": verdict,
        "what_if": plan.get("what_if", ()),
        "macs": total(step_ops(plan["ops"]), "macs"),
        "evaluates": bool(evaluation_ops(plan["ops"])),
        "comparison": comparison(plan, other) if other else None,
        "style": (ASSETS / "style.css").read_text(encoding="utf-8"),
        "script": script(),
        "data": script_data(page_data(plan, verdict, measured)),
    }


def script_data(data: Json) -> str:
    """JSON that is harmless inside of a page, whatever users call their layers."""
    text = json.dumps(data, separators=(",", ":"))
    return "".join(ESCAPES.get(c, c) for c in text) if ESCAPES.keys() & set(text) else text
