"""In mixed precision, functions with fewer terms where a half says no more anyway.

An exponential that is only rounded to a half has an error of 2^-17 in place of 2^-24: what is stored is the nearest
half but for one in 300. A normal distribution's function and density of a half are off by less than the rounding of
that operand moves them. Chosen where types change, before anything knows of a machine: so the bits are the same on all
of them.
"""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.passes.half_saved import LOADS, STORES
from trainlib_deployer.program.ir import Op
from trainlib_deployer.program.loop import Loop

ROUNDED = {"exp": "short_exp"}
OF_HALVES = {"gauss_cdf": "short_gauss_cdf", "gauss_density": "short_gauss_density"}


def short_functions(op: Op) -> Op:
    kind = op.kind
    assert isinstance(kind, Loop)
    steps = dict(
        zip(
            [*range(kind.at_body, kind.at_reductions), *range(kind.at_post, kind.values)],
            [*kind.body, *kind.post],
            strict=True,
        )
    )
    asked = {*kind.results, *(r.value for r in kind.reductions)}
    asked |= {a for s in steps.values() if s.op not in STORES for a in s.args if isinstance(a, int)}
    names: dict[int, str] = {}
    for n, step in steps.items():
        if step.op in ROUNDED and n not in asked:
            names[n] = ROUNDED[step.op]
        elif step.op in OF_HALVES and any(a in steps and steps[a].op in LOADS for a in step.args if isinstance(a, int)):
            names[n] = OF_HALVES[step.op]
    if not names:
        return op
    made = [replace(s, op=names.get(n, s.op)) for n, s in steps.items()]
    body, post = tuple(made[: len(kind.body)]), tuple(made[len(kind.body) :])
    return replace(op, kind=replace(kind, body=body, post=post))
