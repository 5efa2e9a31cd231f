"""What commands say on stderr while they work: stages with times, notes; more with -v, nothing with -q."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

PATIENCE = 2.0  # seconds without a word
AGAIN = 10.0  # seconds until a stage is said once more
QUIET, VERBOSE = "trainlib-deploy quiet", "trainlib-deploy verbose"
Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def spoken(function: Decorated) -> Decorated:
    """The options -q and -v of a command."""

    def remember(key: str) -> Callable[..., None]:
        def kept(ctx: click.Context, option: click.Parameter, given: bool) -> None:
            ctx.meta[key] = given or ctx.meta.get(key, False)

        return kept

    quiet = click.option(
        "-q", "--quiet", is_flag=True, expose_value=False, callback=remember(QUIET), help="Only results and errors."
    )
    verbose = click.option(
        "-v", "--verbose", is_flag=True, expose_value=False, callback=remember(VERBOSE), help="Say every stage at once."
    )
    return quiet(verbose(function))


def examples(*lines: str) -> str:
    """Of a command, below its options."""
    return "\n".join(["\b", "Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)])


def asked_for(key: str) -> bool:
    """Of the command that runs."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(key))


def note(line: str) -> None:
    if not asked_for(QUIET):
        print(f"note: {line}", file=sys.stderr)


@contextlib.contextmanager
def each_warning_once() -> Iterator[None]:
    """The user's code runs many times, in copies, too: Python would tell each time, as of a new place."""
    plain, told = warnings.showwarning, set()

    def show(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
        if (category, str(message)) not in told:
            told.add((category, str(message)))
            plain(message, category, *place, **more)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = plain


class Progress:
    """Stages with the seconds until they began. A person who watches sees each; a file, or a pipe, what there is to be
    seen of a command that has taken over two seconds."""

    def __init__(self) -> None:
        self.quiet = asked_for(QUIET)
        self.at_once = asked_for(VERBOSE) or sys.stderr.isatty()
        self.started = time.monotonic()
        self.stage = ""
        self.spoke = False
        self.timer: threading.Timer | None = None
        ctx = click.get_current_context(silent=True)
        if ctx is not None:
            ctx.call_on_close(self.stop)

    def __call__(self, line: str) -> None:
        self.stop()
        self.stage = line
        elapsed = time.monotonic() - self.started
        if self.at_once or elapsed >= PATIENCE:
            self.say(line)
        if not self.quiet:
            self.wait(AGAIN if self.spoke else PATIENCE - elapsed)

    def say(self, line: str) -> None:
        if not self.quiet:
            self.spoke = True
            print(f"[{time.monotonic() - self.started:6.1f} s] {line}", file=sys.stderr, flush=True)

    def wait(self, seconds: float) -> None:
        self.timer = threading.Timer(seconds, self.still)
        self.timer.daemon = True
        self.timer.start()

    def still(self) -> None:
        self.say(f"{self.stage} ...")
        self.wait(AGAIN)

    def stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
