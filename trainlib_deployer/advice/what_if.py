"""What other choices of the user would change: memory and work of the same step, trained otherwise.

The rungs are those of the list that a step which does not fit comes with; here they are counted, not planned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainlib_deployer.advice.beyond import fullest
from trainlib_deployer.advice.fit import batch_of, frozen, with_batch
from trainlib_deployer.advice.stateless import by_plain_sgd
from trainlib_deployer.advice.variants import Parameters, Selection
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.plan.layout import persistent_items, tensor_items
from trainlib_deployer.program.ir import Program, Role

NO_STATE = "optimizer = torch.optim.SGD(model.parameters(), lr=...)"


@dataclass(frozen=True)
class WhatIf:
    """A choice, how to make it, and what tensors then take at the fullest moment of a step, wherever they lie."""

    what: str
    how: str
    bytes: int
    bytes_less: int
    macs: int


def what_if(program: Program, target: Machine) -> list[WhatIf]:
    """From what costs the least; only what lowers the peak."""
    before = at_peak(program, target)
    counted = ((what, how, at_peak(p, target), macs(p)) for what, how, p in variants(program))
    found = (WhatIf(what, how, taken, before - taken, work) for what, how, taken, work in counted)
    return [w for w in found if w.bytes_less > 0]


def variants(program: Program) -> Iterator[tuple[str, str, Program]]:
    states = program.of_role(Role.STATE)
    if states:
        yield "an optimizer without state", NO_STATE, by_plain_sgd(program, {t.name for t in states})
    batch = batch_of(program)
    for size in dict.fromkeys(b for b in (batch // 2, 1) if 0 < b < batch):
        words = f"a batch of {size} instead of {batch}"
        how = f"example_input with {size} sample{'s' * (size > 1)}" if program.trains else f"--batch {size}"
        yield words, how, with_batch(program, batch, size)
    for selection in selections(Parameters.of(program)) if program.trains else ():
        yield f"train {selection.what}", selection.line, frozen(program, selection.keep)


def selections(parameters: Parameters) -> Iterator[Selection]:
    """The last half of the layers, the last one, and what is spread over all."""
    count = len(parameters.blocks())
    wanted = [parameters.last(k) for k in dict.fromkeys((count // 2, 1)) if 0 < k < count]
    wanted += [s for s in (parameters.biases(), parameters.vectors()) if s is not None]
    yield from {s.keep: s for s in wanted}.values()


def at_peak(program: Program, target: Machine) -> int:
    """Bytes of tensors that are alive together at the most; no placement takes less."""
    items = [*tensor_items(program), *tensor_items(program, far=True)]
    _, most = fullest(program, items, target)
    return most + sum(target.aligned(i.size) for far in (False, True) for i in persistent_items(program, far))


def macs(program: Program) -> int:
    return sum(op.kind.macs() for op in program.step)
