"""The functions of a step: inference runs the first only, an update comes once in so many steps."""

from __future__ import annotations

from collections.abc import Sequence

from trainlib_deployer.program.ir import Op, Program


def segments(program: Program) -> dict[str, range]:
    """Of the step, and behind it those of an evaluation."""
    step, others = program.step, program.ops[len(program.step) :]
    found = of_step(program, step)
    if others:
        cut, end = len(step) + behind_outputs(program, others), len(program.ops)
        found |= {"evaluated_forward": range(len(step), cut), "evaluated_loss": range(cut, end)}
    return found


def entered_alone(program: Program) -> list[int]:
    """Where functions begin that do not always follow what stands before them: an evaluation, and an update, which
    comes once for several steps."""
    found = segments(program)
    return [found[name].start for name in ("update", "evaluated_forward") if name in found]


def behind_outputs(program: Program, ops: Sequence[Op]) -> int:
    """How many operations it takes to have them all."""
    outputs = {t for _, t in program.outputs}
    return max((i + 1 for i, op in enumerate(ops) if any(v.tensor in outputs for v in op.writes)), default=0)


def of_step(program: Program, ops: Sequence[Op]) -> dict[str, range]:
    """forward: up to the last output; loss: up to the first gradient; backward: the rest, with the updates; where
    gradients add up over several steps, the updates apart. Where nothing is trained, forward and perhaps loss."""
    if not program.trains:
        cut = behind_outputs(program, ops) if program.loss else len(ops)
        return {"forward": range(cut)} | ({"loss": range(cut, len(ops))} if program.loss else {})
    first_backward = next((i for i, op in enumerate(ops) if op.phase in ("backward", "accumulate", "update")), len(ops))
    cut = behind_outputs(program, ops[:first_backward])
    made = {v.tensor: i for i, op in enumerate(ops) for v in op.writes}
    first_backward = max(first_backward, made.get(program.loss, -1) + 1)
    found = {"forward": range(cut), "loss": range(cut, first_backward), "backward": range(first_backward, len(ops))}
    if any(op.phase == "accumulate" for op in ops):
        first_update = next((i for i, op in enumerate(ops) if op.phase == "update"), len(ops))
        found |= {"backward": range(first_backward, first_update), "update": range(first_update, len(ops))}
    return found
