"""Work of a copy of the process: the same result, or the work itself, whatever becomes of the copy."""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from trainlib_deployer import meanwhile as module
from trainlib_deployer.meanwhile import Copy, may_be_copied, meanwhile

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="copies are cheap on Linux alone")
LONG = 600.0


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by the threads of what hands out tests: they hold no lock that these copies ask for."""
    monkeypatch.setattr(module, "may_be_copied", lambda: True)


@pytest.mark.usefixtures("copied")
def test_the_copy_works_while_this_process_goes_on() -> None:
    with meanwhile(lambda: (os.getpid(), torch.arange(70_001).sum().item())) as found:
        here = os.getpid()
        pid, total = found()
    assert pid != here
    assert total == 70_000 * 70_001 // 2


@pytest.mark.usefixtures("copied")
def test_a_result_longer_than_a_pipe_holds() -> None:
    with meanwhile(lambda: os.urandom(1) * 3_000_017) as found:
        assert len(found()) == 3_000_017


@pytest.mark.usefixtures("copied")
def test_what_fails_in_the_copy_is_done_here_and_raises_here(capfd: pytest.CaptureFixture[str]) -> None:
    pids = []

    def fails() -> None:
        pids.append(os.getpid())
        raise KeyError("wanted")

    with meanwhile(fails) as found, pytest.raises(KeyError, match="wanted"):
        found()
    assert pids == [os.getpid()]
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("copied")
def test_a_result_that_cannot_be_sent_is_made_here() -> None:
    with meanwhile(lambda: (os.getpid(), threading.Lock())) as found:
        assert found()[0] == os.getpid()


@pytest.mark.usefixtures("copied")
def test_prints_go_to_where_errors_go(capfd: pytest.CaptureFixture[str]) -> None:
    with meanwhile(lambda: print("from forward")) as found:
        found()
    assert capfd.readouterr() == ("", "from forward\n")


@pytest.mark.usefixtures("copied")
def test_a_copy_that_nobody_waits_for_ends(tmp_path: Path) -> None:
    def leaves_its_number() -> None:
        (tmp_path / "pid").write_text(str(os.getpid()))
        (tmp_path / "pid").rename(tmp_path / "done")
        time.sleep(LONG)

    def refused() -> None:
        with meanwhile(leaves_its_number):
            while not (tmp_path / "done").exists():
                time.sleep(0.01)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        refused()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "done").read_text()), 0)


@pytest.mark.usefixtures("copied")
def test_a_copy_that_stands_still_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STILL", 0.3)
    here = os.getpid()

    def waits_in_the_copy() -> int:
        if os.getpid() != here:
            time.sleep(LONG)
        return os.getpid()

    with meanwhile(waits_in_the_copy) as found:
        assert found() == here


@pytest.mark.usefixtures("copied")
def test_a_copy_that_works_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STILL", 0.3)

    def works() -> int:
        began = time.process_time()
        while time.process_time() < began + 1.0:
            pass
        return os.getpid()

    with meanwhile(works) as found:
        assert found() != os.getpid()


@pytest.mark.usefixtures("copied")
def test_a_copy_ends_with_who_would_read_of_it() -> None:
    """Fault: it held the other end of its pipe, and waited for ever for someone to read."""
    read, write = os.pipe()

    def longer_than_a_pipe_holds() -> bytes:
        os.write(write, b"there")
        return b"0" * 3_000_017

    copy = Copy.made(longer_than_a_pipe_holds)
    assert copy is not None and os.read(read, 5) == b"there"
    os.close(copy.pipe)
    assert os.waitpid(copy.pid, 0)[0] == copy.pid
    os.close(read)
    os.close(write)


@pytest.mark.usefixtures("copied")
def test_a_copy_of_a_process_without_streams() -> None:
    """Fault: an end of the pipe was where errors go, and what was printed was taken for the result."""
    here, kept = os.getpid(), [os.dup(stream) for stream in (1, 2)]
    os.closerange(1, 3)

    def says_where() -> int:
        with contextlib.suppress(OSError):
            os.write(2, b"words")
        return os.getpid()

    try:
        with meanwhile(says_where) as found:
            pid = found()
    finally:
        for stream, at in enumerate(kept, 1):
            os.dup2(at, stream)
            os.close(at)
    assert pid == here  # the copy has nowhere to print to


@pytest.mark.usefixtures("copied")
def test_a_copy_of_a_process_with_many_files() -> None:
    """Fault: of a file beyond the first 1024, select knows nothing."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, limits[1]), limits[1]))
    many = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with meanwhile(os.getpid) as found:
            assert found() != os.getpid()
    finally:
        for file in many:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.usefixtures("copied")
def test_a_part_of_a_result_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    part = pickle.dumps(list(range(1000)))[:100]
    monkeypatch.setattr(Copy, "written", lambda copy: part)
    with meanwhile(os.getpid) as found:
        assert found() == os.getpid()


@pytest.mark.usefixtures("copied")
def test_where_there_is_no_room_for_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise BlockingIOError

    open_before = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(os, "fork", refused)
    with meanwhile(os.getpid) as found:
        assert found() == os.getpid()
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before


@pytest.mark.usefixtures("copied")
def test_a_copy_of_whose_end_nobody_is_told() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with meanwhile(os.getpid) as found:
            time.sleep(0.1)
            assert found() != os.getpid()
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_no_copy_beside_another_thread() -> None:
    go_on = threading.Event()
    other = threading.Thread(target=go_on.wait)
    other.start()
    try:
        assert not may_be_copied()
        with meanwhile(os.getpid) as found:
            assert found() == os.getpid()
    finally:
        go_on.set()
        other.join()


def test_a_copy_beside_a_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    alone = [threading.current_thread(), timer := threading.Timer(LONG, print)]
    monkeypatch.setattr(threading, "enumerate", lambda: alone)
    assert may_be_copied()
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    assert not may_be_copied()
    assert not timer.is_alive()
