"""Which of the user's lines sets an attribute, a variable or an entry that goes on from step to step."""

from __future__ import annotations

import dis
import inspect
import itertools
import types
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from golden.containers import function_in
from golden.snapshot import of_library
from trainlib_deployer.capture.user_line import is_users, line_of
from trainlib_deployer.program.ir import Source

STORES = ("STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF")
BEFORE = ("__init__", "__new__")  # what these set, no step changes


def line_that_sets(things: Iterable[Any], names: Collection[str]) -> Source | None:
    """The first line in code of these things, of their classes and of functions, where one of these names, of which the
    last part counts, is given a value."""
    wanted = {n.rpartition(".")[2] for n in names}
    for code in dict.fromkeys(codes(things)):
        before: dis.Instruction | None = None
        for now in dis.get_instructions(code):
            entry = now.opname == "STORE_SUBSCR" and before is not None and before.opname == "LOAD_CONST"
            name = before.argval if entry and before is not None else now.argval if now.opname in STORES else None
            if isinstance(name, str) and name in wanted and now.positions is not None and now.positions.lineno:
                return line_of(code.co_filename, now.positions.lineno)
            before = now if now.opname not in ("CACHE", "SWAP", "COPY") else before
    return None


def codes(things: Iterable[Any]) -> Iterator[types.CodeType]:
    for thing in things:
        if isinstance(thing, types.FunctionType):
            yield from nested(thing.__code__)
        for kind in itertools.filterfalse(of_library, type(thing).__mro__):
            for name, held in vars(kind).items():
                function = function_in(held) if name not in BEFORE else None
                if function is not None:
                    yield from nested(inspect.unwrap(function).__code__)  # PyTorch wraps the step of optimizers


def nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """Of functions in it, too; the user's alone."""
    if is_users(code.co_filename):
        yield code
        for inner in code.co_consts:
            if isinstance(inner, types.CodeType):
                yield from nested(inner)
