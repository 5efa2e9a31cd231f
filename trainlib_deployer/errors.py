"""What can go wrong for a user: one exception a kind, each with its exit code. Anything else is a bug of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from trainlib_deployer.program.ir import Source


class DeployError(Exception):
    """A mistake or a limit that the user can do something about."""

    exit_code = 1

    def __init__(self, message: str, *, source: Source | None = None, remedy: str = "") -> None:
        super().__init__(message)
        self.said = message
        self.source = source
        self.known = remedy

    @property
    def message(self) -> str:
        return self.said

    @property
    def remedy(self) -> str:
        return self.known

    def __str__(self) -> str:
        return self.render()

    def _render_traceback_(self) -> list[str]:
        """In notebooks: what matters, without the way there."""
        return [f"{type(self).__name__}: {self.render()}"]

    def render(self) -> str:
        return "\n".join(self.parts())

    def parts(self) -> Iterator[str]:
        """The message, the user's own line, what to do; without such a line, in one."""
        if self.remedy and self.source is None and "\n" not in self.message + self.remedy:
            yield f"{self.message}; {self.remedy}"
            return
        yield self.message
        if self.source is not None:
            yield f"  at {self.source}:  {self.source.text}"
        if self.remedy:
            yield f"  {self.remedy}"


class UsageError(DeployError):
    """Bad usage, bad file, bad value."""

    exit_code = 2


@dataclass(frozen=True)
class Advice:
    """What to do, in words, and what `helps`, each by itself."""

    words: str
    helps: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shortage:
    """What is missing: in words, bytes `over` by memory, and what to do about it."""

    words: str
    over: Mapping[str, int] = field(default_factory=dict)
    advise: Callable[[], Advice] | None = None


class DoesNotFit(DeployError):
    """The plan needs more memory than the target has. By how much takes long to find out, and what would help takes
    longer: nobody does before somebody asks, as many refusals are nobody's last word."""

    exit_code = 3

    def __init__(self, message: str = "", *, remedy: str = "", find: Callable[[], Shortage] | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.find = find

    @cached_property
    def shortage(self) -> Shortage:
        return Shortage(self.said) if self.find is None else self.find()

    @property
    def message(self) -> str:
        return self.shortage.words

    @property
    def over(self) -> Mapping[str, int]:
        return self.shortage.over

    def parts(self) -> Iterator[str]:
        """By how much comes before anybody looks for what would help."""
        if self.shortage.advise is None:
            yield from super().parts()
            return
        yield self.message
        yield f"  {self.remedy}"

    @cached_property
    def advice(self) -> Advice:
        advise = self.shortage.advise
        return Advice(self.known) if advise is None else advise()

    @property
    def remedy(self) -> str:
        return self.advice.words

    @property
    def helps(self) -> tuple[str, ...]:
        return self.advice.helps


class Unsupported(DeployError):
    """The model uses something that cannot be deployed."""

    exit_code = 4


class VerificationFailed(DeployError):
    """The program ran and did not compute what PyTorch computes."""

    exit_code = 5


class ToolMissing(DeployError):
    """A compiler, emulator or SDK that the run needs is not there."""

    exit_code = 6
