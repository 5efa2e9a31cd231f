"""Work that a copy of this process does while this one goes on."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import BinaryIO, NoReturn, TypeVar

import torch

T = TypeVar("T")


@contextlib.contextmanager
def meanwhile(work: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """Gives a function that waits for the result. It does the work itself, with all that this may raise and change,
    where there is no copy or the copy has none to give."""
    copy = Copy(work) if may_be_copied() else None
    try:
        yield work if copy is None else lambda: copy.result(work)
    finally:
        if copy is not None:
            copy.end()


def may_be_copied() -> bool:
    """On Linux, where that is cheap, with another processor to work on. A thread may hold a lock that nobody in the
    copy would ever release; the timers of what is shown as progress hold none that the copy asks for."""
    if sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2 or torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    return all(t is threading.current_thread() or isinstance(t, threading.Timer) for t in threading.enumerate())


class Copy:
    """A process that does the work and writes its result into a pipe."""

    def __init__(self, work: Callable[[], object]) -> None:
        here, there = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which may_be_copied knows of
            self.pid = os.fork()
        if not self.pid:
            work_and_leave(work, there)
        os.close(there)
        self.pipe: BinaryIO = os.fdopen(here, "rb")

    def result(self, work: Callable[[], T]) -> T:
        """Of the copy, or of the work done here."""
        written = self.pipe.read()
        if not written:
            return work()
        found: T = pickle.loads(written)
        return found

    def end(self) -> None:
        """Whether it is done or not."""
        self.pipe.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def work_and_leave(work: Callable[[], object], pipe: int) -> NoReturn:
    """By one thread, as the others of the process have not been copied; without anything that a process does at its
    end, as this is the other one's to do. What fails gives nothing."""
    try:
        torch.set_num_threads(1)
        told = os.fdopen(os.dup(2), "w", buffering=1)
        with told, contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            written = pickle.dumps(work())
        with os.fdopen(pipe, "wb") as there:
            there.write(written)
    finally:
        os._exit(0)
