"""The functions of a step: inference runs the first only, an update comes once in so many steps."""

from __future__ import annotations

from trainlib_deployer.program.ir import Program


def segments(program: Program) -> dict[str, range]:
    """forward: up to the last output; loss: up to the first gradient; backward: the rest, with the updates; where
    gradients add up over several steps, the updates apart. Where nothing is trained, all of it is forward."""
    ops = program.ops
    if not program.trains:
        return {"forward": range(len(ops))}
    outputs = {t for _, t in program.outputs}
    first_backward = next((i for i, op in enumerate(ops) if op.phase in ("backward", "accumulate", "update")), len(ops))
    cut = max(
        (i + 1 for i, op in enumerate(ops[:first_backward]) if any(v.tensor in outputs for v in op.writes)),
        default=0,
    )
    made = {v.tensor: i for i, op in enumerate(ops) for v in op.writes}
    first_backward = max(first_backward, made.get(program.loss, -1) + 1)
    found = {"forward": range(cut), "loss": range(cut, first_backward), "backward": range(first_backward, len(ops))}
    if any(op.phase == "accumulate" for op in ops):
        first_update = next((i for i, op in enumerate(ops) if op.phase == "update"), len(ops))
        found |= {"backward": range(first_backward, first_update), "update": range(first_update, len(ops))}
    return found
