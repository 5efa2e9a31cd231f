"""What a build for a chip brings into its memories besides the planned tensors, and where a link script puts it."""

from __future__ import annotations

from dataclasses import dataclass

CODE, CONSTANTS, DATA, ZEROS = "code", "constants", "data", "zeros"  # sections, as compilers call them
TABLES = "tables"  # constants of the step: those that back ends place apart
CONTENTS = "initial contents"  # what is copied into another memory before the first step
TENSORS = "tensors"  # what is planned


@dataclass(frozen=True)
class Bank:
    """A stretch of a memory, behind the one before, that some kinds go to. It begins no earlier than at `begins`;
    `own` bytes of it are an SDK's or a back end's: code, variables, stacks."""

    holds: tuple[str, ...]
    begins: int = 0
    own: int = 0


@dataclass(frozen=True)
class Board:
    """What QEMU emulates in place of a chip with the same core, and what a compiler is told of that."""

    emulator: str
    machine: str  # the emulator's, with options
    cross: str  # what the names of the compiler's tools begin with
    flags: str
    flash_at: int
    ram_at: int
    link_flags: str = ""  # by which the compiler finds its own library


@dataclass(frozen=True)
class Build:
    """A compiler, whose sizes of code are measured (`image/measured`), and what its link script does."""

    compiler: str
    source: str  # of the figures below
    outer: tuple[Bank, ...]  # the memory of tensors
    flash: tuple[Bank, ...] = ()  # a memory of code and constants, if that is another one
    flash_size: int = 0
    apart: int = 0  # bytes from the beginning of the inner memory to that of the outer one, where addresses are given
    board: Board | None = None
    driver: int = 0  # code and variables of what drives a memory behind the outer one
    simulated: int = 0  # bytes of the outer memory that a simulator has, where those are more than the chip's
