"""The files of a project that are written from templates."""

from __future__ import annotations

TEMPLATES = {
    "plan.h": "plan.h.j2",
    "poison.h": "poison.h.j2",
    "net.h": "net.h.j2",
    "net.c": "net.c.j2",
    "loops.h": "loops.h.j2",
    "loops.c": "loops.c.j2",
    "state.c": "state.c.j2",
    "weights.h": "weights.h.j2",
    "weights.c": "weights.c.j2",
    "data.h": "data.h.j2",
    "data.c": "data.c.j2",
    "main.c": "main.c.j2",
    "Makefile": "Makefile.j2",
    "README.md": "README.md.j2",
    "golden.py": "golden.py.j2",
}
OF_TRAINING = {"fit.c": "fit.c.j2", "learn.c": "learn.c.j2"}
OF_FAR = {"far.c": "far.c.j2"}
OF_EVALUATION = {"evaluate.c": "evaluate.c.j2"}
CALLING = (
    "net.c",
    "loops.c",
    "state.c",
    "fit.c",
    "learn.c",
    "evaluate.c",
    "main.c",
    "data.c",
    "far.c",
    "poison.h",
)  # the library


def templates(trains: bool, evaluates: bool, far: bool) -> dict[str, str]:
    """File to template."""
    more = {**(OF_TRAINING if trains else {}), **(OF_EVALUATION if evaluates else {}), **(OF_FAR if far else {})}
    return {**TEMPLATES, **more}
