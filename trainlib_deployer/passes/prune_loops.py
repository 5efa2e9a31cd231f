"""Drop instructions, reductions and inputs of generated loops that no result depends on."""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.program.expr import Instr
from trainlib_deployer.program.ir import Op, Program
from trainlib_deployer.program.loop import Loop


def prune_loops(program: Program) -> Program:
    return program.with_ops([pruned(op) if isinstance(op.kind, Loop) else op for op in program.ops])


def pruned(op: Op) -> Op:
    kind = op.kind
    assert isinstance(kind, Loop)
    live = live_values(kind)
    if len(live) == kind.values:
        return op
    number = {old: new for new, old in enumerate(sorted(live))}

    def instructions(instrs: tuple[Instr, ...], first: int) -> tuple[Instr, ...]:
        return tuple(
            replace(s, args=tuple(number[a] if isinstance(a, int) else a for a in s.args))
            for i, s in enumerate(instrs)
            if first + i in live
        )

    base, folds = kind.at_body, kind.at_reductions
    slim = replace(
        kind,
        inputs=tuple(d for i, d in enumerate(kind.inputs) if i in live),
        body=instructions(kind.body, base),
        reductions=tuple(replace(r, value=number[r.value]) for i, r in enumerate(kind.reductions) if folds + i in live),
        post=instructions(kind.post, kind.at_post),
        results=tuple(number[r] for r in kind.results),
    )
    return replace(op, kind=slim, reads=tuple(v for i, v in enumerate(op.reads) if i in live))


def live_values(kind: Loop) -> set[int]:
    base, folds, tail = kind.at_body, kind.at_reductions, kind.at_post
    live, todo = set(kind.results), list(kind.results)
    while todo:
        v = todo.pop()
        if v < base:
            continue
        if v < folds:
            needs = [a for a in kind.body[v - base].args if isinstance(a, int)]
        elif v < tail:
            needs = [kind.reductions[v - folds].value]
        else:
            needs = [a for a in kind.post[v - tail].args if isinstance(a, int)]
        todo += [n for n in needs if n not in live]
        live |= set(needs)
    if kind.reductions and not any(folds <= v < tail for v in live):  # keep it a reduction
        live |= {folds} | {kind.reductions[0].value}
        return live | kind.needed(live)
    return live
