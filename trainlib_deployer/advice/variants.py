"""Ways to train less of the same network: which parameters, in words and as the line that freezes the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trainlib_deployer.program.ir import Program, Role, Shape


@dataclass(frozen=True)
class Selection:
    """Which parameters are trained: as the user would say it, and the line to paste behind the model."""

    what: str
    line: str
    keep: frozenset[str]


@dataclass(frozen=True)
class Parameters:
    """What the user trains, in order, and what is frozen already."""

    shapes: Mapping[str, Shape]
    frozen: frozenset[str] = frozenset()

    @staticmethod
    def of(program: Program) -> Parameters:
        shapes = {name: program.tensors[name].shape for name, _ in program.gradients}
        return Parameters(shapes, frozenset(t.name for t in program.of_role(Role.PARAMETER)) - shapes.keys())

    def blocks(self) -> list[list[str]]:
        """Layers, in order; one that holds vectors only, like a norm, goes with the layer before it."""
        wide = {layer_of(name) for name, shape in self.shapes.items() if len(shape) > 1}
        found: list[list[str]] = []
        for layer in dict.fromkeys(map(layer_of, self.shapes)):
            if found and layer not in wide:
                found[-1].append(layer)
            else:
                found.append([layer])
        return found

    def selections(self) -> Iterator[Selection]:
        """All; the last blocks, from most to fewest; what is spread over all layers. No set of parameters twice."""
        seen: set[frozenset[str]] = set()
        lasts = (self.last(k) for k in range(len(self.blocks()) - 1, 0, -1))
        everything = Selection("everything", "", frozenset(self.shapes))
        for found in (everything, *lasts, self.biases(), self.vectors()):
            if found is not None and found.keep not in seen:
                seen.add(found.keep)
                yield found

    def last(self, k: int) -> Selection:
        """The last `k` blocks only."""
        blocks = self.blocks()
        layers = [layer for block in blocks[-k:] for layer in block]
        keep = frozenset(name for name in self.shapes if layer_of(name) in layers)
        what = f"the last {k} of {len(blocks)} layers, from '{layers[0]}' on"
        return Selection(what if k > 1 else f"the last layer, '{layers[0]}', only", self.line(keep), keep)

    def biases(self) -> Selection | None:
        """None where there are no biases, or nothing else."""
        keep = frozenset(name for name in self.shapes if name.endswith("bias"))
        if not 0 < len(keep) < len(self.shapes):
            return None
        return Selection("the biases only", self.pasted('n.endswith("bias")'), keep)

    def vectors(self) -> Selection | None:
        """The scales of norms too: every parameter of at most one dimension."""
        keep = frozenset(name for name, shape in self.shapes.items() if len(shape) < 2)
        if not 0 < len(keep) < len(self.shapes):
            return None
        return Selection("norms and biases only", self.pasted("p.dim() < 2"), keep)

    def line(self, keep: frozenset[str]) -> str:
        """The shorter of what names the trained layers and what names the others."""
        rest = frozenset(self.shapes) - keep
        conditions = (self.condition(keep, rest), f"not {self.condition(rest, keep)}")
        return self.pasted(min(conditions, key=len))

    def condition(self, these: frozenset[str], others: frozenset[str]) -> str:
        """True for these parameters and false for the others, in as few names as will do."""
        prefixes = dict.fromkeys(shortest_prefix(name, others) for name in self.shapes if name in these)
        if None not in prefixes:
            return f"n.startswith({tuple_text([str(p) for p in prefixes])})"
        return f"(n in {set_text([name for name in self.shapes if name in these])})"

    def pasted(self, condition: str) -> str:
        """What is frozen already stays frozen."""
        if self.frozen:
            condition = f"p.requires_grad and {condition}"
        return f"for n, p in model.named_parameters(): p.requires_grad_({condition})"


def layer_of(parameter: str) -> str:
    return parameter.rpartition(".")[0]


def shortest_prefix(name: str, others: frozenset[str]) -> str | None:
    """Of whole names, so that none of the others begins with it."""
    parts = name.split(".")[:-1]
    prefixes = (".".join(parts[: i + 1]) + "." for i in range(len(parts)))
    return next((p for p in prefixes if not any(o.startswith(p) for o in others)), None)


def tuple_text(names: list[str]) -> str:
    some = ", ".join(f'"{name}"' for name in names)
    return f"({some})" if len(names) > 1 else some


def set_text(names: list[str]) -> str:
    return "{" + ", ".join(f'"{name}"' for name in names) + "}"
