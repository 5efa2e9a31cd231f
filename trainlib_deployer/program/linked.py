"""Operations of several links: kernels and loops, one after the other on each tile while it is in L1."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from trainlib_deployer.program.ir import Kind, Splittable

T = TypeVar("T")  # a view, or what stands for it


class Linked(Splittable):
    """All cores meet between two links."""

    @abstractmethod
    def links(self, reads: Sequence[T], writes: Sequence[T]) -> Sequence[tuple[Kind, tuple[T, ...], tuple[T, ...]]]:
        """What is done, one after the other, each with its own of the operands given."""

    @abstractmethod
    def made_by(self, read: int) -> int | None:
        """The result that a link before has put where this operand is read."""

    @abstractmethod
    def over(self, write: int) -> dict[int, Sequence[int]]:
        """Results that are written where this one is read for the last time, element by element if it lies in the same
        way there as where it was made. By result, the operands that it is read as, unless it is read as it was made."""
