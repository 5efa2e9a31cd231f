"""What a caller of the step gives and gets in C: parameters of functions, functions that return outputs, sizes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from trainlib_deployer.emit.addresses import Addresses
from trainlib_deployer.emit.initial import Binary, samples
from trainlib_deployer.emit.interface import given, interface
from trainlib_deployer.emit.names import another, output_identifier
from trainlib_deployer.program.ir import Program, Role, Tensor, View
from trainlib_deployer.user.model import UserModel


@dataclass(frozen=True)
class Signature:
    user: UserModel
    at: Addresses
    data: Binary  # where samples of the verification run go

    @property
    def program(self) -> Program:
        return self.at.plan.program

    @cached_property
    def arguments(self) -> list[dict[str, Any]]:
        """Inputs, then targets: the parameters of net_train_step."""
        program = self.program
        out: list[dict[str, Any]] = []
        for t in given(program):
            name = self.at.names[t.name]
            out.append(
                {
                    "name": name,
                    "size_macro": another(f"NET_{name.upper()}_SIZE", [a["size_macro"] for a in out]),
                    "bytes": t.nbytes,
                    "evaluated_bytes": prod(program.evaluated.get(t.name, t.shape)) * t.dtype.size,
                    **described(t),
                    "pointer": self.at.pointer(View.whole(t)),
                    "is_input": t.role is Role.INPUT,
                    "contents": samples(self.user, t, program.of_role(t.role).index(t), self.data),
                }
            )
        return out

    @cached_property
    def outputs(self) -> list[dict[str, Any]]:
        """Functions that return them; names of macros beside those of the arguments."""
        functions, sizes = set[str](), {a["size_macro"] for a in self.arguments}
        out = []
        for name, tensor in self.program.outputs:
            t = self.program.tensors[tensor]
            function = another(output_identifier(name), functions)
            macro = another(f"NET_{function.upper()}_SIZE", sizes)
            functions.add(function)
            sizes.add(macro)
            pointer = self.at.pointer(View.whole(t))
            out.append({"name": function, "size_macro": macro, "pointer": pointer, **described(t)})
        return out

    @property
    def functions(self) -> dict[str, str]:
        """That return outputs, by the tensors they return."""
        return {tensor: o["name"] for (_, tensor), o in zip(self.program.outputs, self.outputs, strict=True)}

    def as_json(self) -> dict[str, Any]:
        return interface(self.user, self.program, [o["name"] for o in self.outputs])

    def samples(self) -> dict[str, int]:
        """What data.bin holds of them, beside what is planned."""
        each = sum(t.nbytes for t in given(self.program))
        return {"count": len(self.user.samples), "bytes": each * len(self.user.samples)}

    def context(self) -> dict[str, Any]:
        constant = [(f"const {a['c_type']} *{a['name']}", a["is_input"]) for a in self.arguments]
        return {
            "arguments": self.arguments,
            "outputs": self.outputs,
            "step_parameters": ", ".join(text for text, _ in constant),
            "forward_parameters": ", ".join(text for text, is_input in constant if is_input),
            "place_parameters": ", ".join(f"{a['c_type']} *{a['name']}" for a in self.arguments),
            "sample": ", ".join(f"data_{a['name']}[step % DATA_SAMPLES]" for a in self.arguments),
            "samples": len(self.user.samples),
        }


def described(t: Tensor) -> dict[str, Any]:
    return {"c_type": t.dtype.stored, "numel": t.numel, "shape": "x".join(map(str, t.shape))}
