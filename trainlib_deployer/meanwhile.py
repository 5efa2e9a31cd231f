"""Work that a copy of this process does while this one goes on."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn, TypeVar

import torch

T = TypeVar("T")
STILL = 10.0  # seconds without any of a processor: such a copy waits for something that nobody will ever do
STREAMS = 3  # for input, output, and errors


@contextlib.contextmanager
def meanwhile(work: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """Gives a function that waits for the result. It does the work itself, with all that this may raise and change,
    where there is no copy or the copy has none to give."""
    copy = Copy.made(work) if may_be_copied() else None
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

    def __init__(self, pid: int, pipe: int) -> None:
        self.pid, self.pipe = pid, pipe

    @classmethod
    def made(cls, work: Callable[[], object]) -> Copy | None:
        """None where the system has no room for one."""
        here, there = pipe()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):  # none, or closed
                stream.flush()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which may_be_copied knows of
                pid = os.fork()
        except OSError:
            os.close(here)
            os.close(there)
            return None
        if not pid:
            os.close(here)  # so that writing fails when nobody is there to read
            work_and_leave(work, there)
        os.close(there)
        return cls(pid, here)

    def result(self, work: Callable[[], T]) -> T:
        """Of the copy, or of the work done here."""
        try:
            found: T = pickle.loads(self.written())
        except (EOFError, pickle.UnpicklingError):  # nothing, or no more than a part
            return work()
        return found

    def written(self) -> bytes:
        """Nothing where it fails, or stands still."""
        parts, spent, ready = [], self.spent(), select.poll()  # which takes numbers of files as large as they come
        ready.register(self.pipe)
        while True:
            if ready.poll(1000 * STILL):
                parts.append(os.read(self.pipe, 1 << 20))
                if not parts[-1]:
                    return b"".join(parts)
            elif spent == (spent := self.spent()):
                return b""

    def spent(self) -> list[str]:
        """Of a processor; nothing is known of it where it is gone and nobody was to be told."""
        with contextlib.suppress(OSError):
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return []

    def end(self) -> None:
        """Whether it is done or not."""
        os.close(self.pipe)
        with contextlib.suppress(ProcessLookupError, ChildProcessError):  # a user may have asked for no word of these
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def pipe() -> tuple[int, int]:
    """Its ends, to read and to write, beyond the three streams of a process: where a daemon has closed these, words
    would get into it."""
    import fcntl  # which Windows does not have

    ends = os.pipe()
    here, there = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, STREAMS) for end in ends)
    for end in ends:
        os.close(end)
    return here, there


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
