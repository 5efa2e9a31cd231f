"""What a verification run records: the loss, outputs and gradients as they appear, parameters and state after
each step."""

from __future__ import annotations

from dataclasses import dataclass

from trainlib_deployer.program.ir import Program, Role, writers


@dataclass(frozen=True)
class Trace:
    """One recorded tensor. `after` is the operation behind which it is complete; None: at the end of the step."""

    id: int
    name: str
    kind: str  # loss, output, gradient, parameter, state
    layer: str
    tensor: str
    after: int | None

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}"


def traces(program: Program) -> list[Trace]:
    """In the order in which they are complete, so that the first to differ is the first mistake."""
    last = {name: positions[-1] for name, positions in writers(program).items()}
    found: list[tuple[str, str, str, int | None]] = []
    if program.trains:
        found.append(("loss", "loss", program.loss, last[program.loss]))
    found += [(name, "output", tensor, last[tensor] if program.trains else None) for name, tensor in program.outputs]
    found += [(name, "gradient", tensor, last[tensor]) for name, tensor in program.gradients]
    trained = {name for name, _ in program.gradients}
    written = {v.tensor for op in program.ops for v in op.writes}
    for tensor in program.tensors.values():
        if tensor.role is Role.PARAMETER and tensor.name in trained:
            found.append((tensor.name, "parameter", tensor.name, None))
        elif tensor.role in (Role.STATE, Role.BUFFER) and tensor.name in written:
            found.append((tensor.name, "state", tensor.name, None))
    end = len(program.ops)
    found.sort(key=lambda f: end if f[3] is None else f[3])
    return [
        Trace(i, name, kind, program.tensors[tensor].layer or name.rpartition(".")[0], tensor, after)
        for i, (name, kind, tensor, after) in enumerate(found)
    ]
