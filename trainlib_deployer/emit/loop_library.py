"""The loop functions of a project, each written once."""

from __future__ import annotations

from dataclasses import dataclass, field
from zlib import crc32

from trainlib_deployer.emit.loops import body_text
from trainlib_deployer.program.ir import View
from trainlib_deployer.program.loop import Loop


@dataclass
class LoopLibrary:
    """Equal ones are written once, under a name that their text decides."""

    found: dict[str, str] = field(default_factory=dict)  # name -> text
    named: dict[object, str] = field(default_factory=dict)  # by all that the text is made of

    def function(self, kind: Loop, reads: tuple[View, ...], writes: tuple[View, ...]) -> str:
        """The name of the C function for this loop; most tiles of an operation have the same."""
        key = kind, placed(reads), placed(writes)
        if key not in self.named:
            self.named[key] = self.added(kind, reads, writes)
        return self.named[key]

    def added(self, kind: Loop, reads: tuple[View, ...], writes: tuple[View, ...]) -> str:
        text = body_text(kind, reads, writes)
        name = f"loop_{summary(kind)}_{crc32(text.encode()):08x}"
        whole = text.replace("@NAME@", name)
        assert self.found.setdefault(name, whole) == whole, f"two loops are called {name}"
        return name

    def source(self) -> list[tuple[str, str]]:
        """Names and texts in the order of the step, so that what follows each other lies together: a further loop moves
        none of the others."""
        return list(self.found.items())


def summary(kind: Loop) -> str:
    """What it does last: `sum`, `mul_add`, `le_select`."""
    steps = [s.op for s in (kind.reductions or kind.body)]
    return "_".join(dict.fromkeys(steps[-2:])) or "copy"


def placed(views: tuple[View, ...]) -> tuple[object, ...]:
    """What a text says of operands: of where they begin, whether at an even place."""
    return tuple((v.shape, v.strides, v.offset % 2) for v in views)
