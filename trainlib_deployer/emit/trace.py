"""What a verification run records: the loss, outputs and gradients as they appear, parameters and state after
each step."""

from __future__ import annotations

from dataclasses import dataclass

from trainlib_deployer.program.ir import EVALUATION, Program, Role, Shape, writers


@dataclass(frozen=True)
class Trace:
    """One recorded tensor. `after` is the operation behind which it is complete; None: at the end of the step."""

    id: int
    name: str
    kind: str  # loss, output, gradient, parameter, state; evaluation, of a loss or output
    layer: str
    tensor: str
    after: int | None
    shape: Shape

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}"


def traces(program: Program) -> list[Trace]:
    """In the order in which they are complete, so that the first to differ is the first mistake."""

    def shape(kind: str, tensor: str) -> Shape:
        return program.evaluated[tensor] if kind == EVALUATION else program.tensors[tensor].shape

    def layer(name: str, tensor: str) -> str:
        return program.tensors[tensor].layer or name.rpartition(".")[0]

    begins = len(program.step)
    written = writers(program)
    last = {name: max(p for p in found if p < begins) for name, found in written.items() if found[0] < begins}
    found: list[tuple[str, str, str, int | None]] = []
    if program.loss:
        found.append(("loss", "loss", program.loss, last[program.loss]))
    found += [(name, "output", tensor, last[tensor] if program.trains else None) for name, tensor in program.outputs]
    found += [(name, "gradient", tensor, last[tensor]) for name, tensor in program.gradients]
    # A state of an optimizer may be there to be read, as where a parameter began.
    trained = {name for name, _ in program.gradients}
    for tensor in program.tensors.values():
        if tensor.role is Role.PARAMETER and tensor.name in trained:
            found.append((tensor.name, "parameter", tensor.name, None))
        elif tensor.role is Role.STATE or (tensor.role is Role.BUFFER and tensor.name in written):
            found.append((tensor.name, "state", tensor.name, None))
    found.sort(key=lambda f: begins if f[3] is None else f[3])
    if program.evaluated:
        told = (("loss", program.loss), *program.outputs)
        found += [(name, EVALUATION, tensor, written[tensor][-1]) for name, tensor in told]
    return [
        Trace(i, name, kind, layer(name, tensor), tensor, after, shape(kind, tensor))
        for i, (name, kind, tensor, after) in enumerate(found)
    ]
