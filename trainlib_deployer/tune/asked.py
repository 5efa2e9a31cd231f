"""What a person asks the tuner for."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from trainlib_deployer.arguments import digits, natural, quoted
from trainlib_deployer.errors import UsageError
from trainlib_deployer.run import backend

ROUNDS = 4


@dataclass(frozen=True)
class Tune:
    """Where tiles are measured, how many ways to cut each operation, who runs the projects, if not this computer: any
    executor of concurrent.futures, and the file that keeps what was measured, if not one in the user's cache."""

    on: str
    rounds: int = ROUNDS
    executor: Executor | None = None
    table: Path | None = None

    def __post_init__(self) -> None:
        backend(self.on)
        natural(self.rounds, "rounds")

    @staticmethod
    def parse(text: str | None) -> Tune | None:
        """PLACE or PLACE:ROUNDS."""
        if text is None:
            return None
        on, given, rounds = text.partition(":")
        number = digits(rounds) if given else ROUNDS
        if number is None:
            raise UsageError(f"{quoted(text)} does not say where to measure", remedy="for instance host, or host:6")
        return Tune(on, number)
