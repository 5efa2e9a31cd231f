"""Operations whose kernels may bring an operand through scratch themselves, block by block, whenever they read it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

from trainlib_deployer.program.ir import Kind


class Brought(NamedTuple):
    """What a call brings."""

    operand: int  # among those that it reads
    transfers: int  # one after the other
    nbytes: int  # of all of them


class Bringing(Kind):
    """An operation that may."""

    @property
    @abstractmethod
    def brought(self) -> Brought | None:
        """None where each operand is read where it lies."""

    @abstractmethod
    def bringing(self) -> Iterator[Bringing]:
        """The same bits by kernels that do, with less and less scratch."""


def brought(kind: Kind) -> Brought | None:
    return kind.brought if isinstance(kind, Bringing) else None


def comes_by_itself(kind: Kind, operand: int) -> bool:
    found = brought(kind)
    return found is not None and found.operand == operand


def brought_bytes(kind: Kind) -> int:
    found = brought(kind)
    return 0 if found is None else found.nbytes
