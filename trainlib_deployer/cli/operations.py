"""docs/operations.md from the registry: `python -m trainlib_deployer.cli.operations > docs/operations.md`."""

from __future__ import annotations

import inspect
import sys
from collections import defaultdict

from trainlib_deployer import pipeline
from trainlib_deployer.capture import complex_rules, remedies
from trainlib_deployer.capture.decompositions import DECOMPOSED
from trainlib_deployer.capture.rewrites import REWRITES
from trainlib_deployer.ops.optim import OPTIMIZERS
from trainlib_deployer.ops.registry import FAMILY, RULES

assert pipeline, "whoever captures and lowers fills the registry when imported"

HEAD = """\
# Operations that can be deployed

Written by `python -m trainlib_deployer.cli.operations > docs/operations.md`; a test keeps it current.

A network may use anything that PyTorch traces to these operations, forward and backward: `nn.Linear` becomes `addmm`
and `mm`, `nn.MultiheadAttention` becomes matrix products, permutations and a softmax. Tensors are float32, or integers
and booleans of up to 32 bits. Every shape is known before the run.
"""

COMPLEX = """\
As pairs of real tensors: in a network, in its parameters, buffers and outputs. Inputs and targets are real;
`torch.view_as_complex` makes complex numbers of them. Fourier transforms are done in stages where the length has
factors."""

APART = """\
Traced as other operations than PyTorch's own: what these are made of is above. Matrices of linear algebra have up to 32
rows and columns; those whose singular values or eigenvalues are wanted, up to 16 of either."""

TAIL = """
## What to write instead

An operation that is not above is refused with the line of the user's file that calls it. For these the message also
says what to write instead; of those that are above, for what is beyond the sizes that are said.

| operation | instead |
|---|---|
"""


def document() -> str:
    """The whole page."""
    families = sorted(set(FAMILY.values()))
    sections = "".join(map(family_section, families)) + apart_section() + complex_section() + optimizer_section()
    return HEAD + sections + TAIL + remedy_rows()


def family_section(family: str) -> str:
    """What a family's file says of itself, then its operations: those with a note in a table, the others in a line."""
    overloads: dict[str, list[str]] = defaultdict(list)
    notes: dict[str, str] = {}
    for target, owner in FAMILY.items():
        if owner != family:
            continue
        name, overload = split_name(target)
        overloads[name].append(overload)
        notes[name] = notes.get(name, "") or first_line(inspect.getdoc(RULES[target]))
    plain = [code(n, overloads[n]) for n in sorted(overloads) if not notes[n]]
    noted = [(code(n, overloads[n]), notes[n]) for n in sorted(overloads) if notes[n]]
    about = summary(sys.modules[f"trainlib_deployer.ops.{family}"].__doc__)
    text = f"\n## {family.capitalize()}\n\n{about}\n\n{', '.join(plain)}\n"
    if noted:
        rows = "".join(f"| {name} | {escaped(note)} |\n" for name, note in noted)
        text += f"\n| operation | note |\n|---|---|\n{rows}"
    return text


def split_name(target: object) -> tuple[str, str]:
    """`aten.add.Tensor` as add and Tensor; a Python function by its name."""
    if not hasattr(target, "overloadpacket"):
        return str(getattr(target, "__name__", target)), "default"
    name, _, overload = str(target).removeprefix("aten.").rpartition(".")
    return name, overload


def code(name: str, overloads: list[str]) -> str:
    """`add` (Scalar, Tensor); the default overload goes without saying."""
    named = sorted(o for o in overloads if o != "default")
    return f"`{name}`" + (f" ({', '.join(named)})" if named else "")


def first_line(text: str | None) -> str:
    return (text or "").strip().split("\n")[0]


def summary(text: str | None) -> str:
    """The first paragraph."""
    return " ".join((text or "").strip().split("\n\n")[0].split())


def escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def apart_section() -> str:
    """By name alone, functions as well as ATen's operations; what has a rule of its own is listed there."""
    known = {split_name(target)[0] for target in RULES}
    names = {split_name(target)[0].strip("_") for target in (*DECOMPOSED, *REWRITES)} - known
    listed = ", ".join(f"`{n}`" for n in sorted(names) if n)
    return f"\n## Taken apart\n\n{APART}\n\n{listed}\n"


def complex_section() -> str:
    """What is done to pairs is listed by name alone."""
    names = {split_name(target)[0] for target in complex_rules.RULES} | {p.__name__ for p in complex_rules.PARTWISE}
    listed = ", ".join(f"`{n}`" for n in sorted(names))
    return f"\n## Complex numbers\n\n{COMPLEX}\n\n{listed}\n"


def optimizer_section() -> str:
    names = ", ".join(f"`{n}`" for n in sorted(OPTIMIZERS))
    return f"\n## Optimizers\n\nOf `torch.optim`, with parameter groups: {names}\n"


def remedy_rows() -> str:
    return "".join(f"| `{name}` | {escaped(text)} |\n" for name, text in sorted(remedies.REMEDIES.items()))


if __name__ == "__main__":
    print(document(), end="")
