"""A function in a process of its own, under limits of time and memory."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def in_process(work: Callable[[], Iterator[dict[str, Any]]], seconds: int, gigabytes: int, log: Path) -> Any:
    """The records that `work` yields, and a word on how it ended: "done", "slow", "died of signal N" or "stopped".

    A fork of this process, so that what is imported already is not imported again."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(reader)
        run_child(work, writer, gigabytes, log)
    os.close(writer)
    text, timely = read_all(reader, time.monotonic() + seconds)
    if not timely:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # its compilers and programs, too
    _, status = os.waitpid(child, 0)
    records = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
    if not timely:
        return records, "slow"
    if os.WIFSIGNALED(status):
        return records, f"died of signal {os.WTERMSIG(status)}"
    return records, "done" if os.WEXITSTATUS(status) == 0 else "stopped"


def run_child(work: Callable[[], Iterator[dict[str, Any]]], writer: int, gigabytes: int, log: Path) -> None:
    code = 1
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30, gigabytes << 30))
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        for record in work():
            os.write(writer, (json.dumps(record) + "\n").encode())
        code = 0
    except BaseException as err:  # whatever it is, this process must not go on as its parent
        os.write(writer, (json.dumps({"error": f"{type(err).__name__}: {err}"[:300]}) + "\n").encode())
    finally:
        os._exit(code)


def read_all(reader: int, deadline: float) -> tuple[str, bool]:
    """All until the other end closes, and whether that was in time."""
    parts: list[bytes] = []
    with os.fdopen(reader, "rb", buffering=0) as stream:
        while (left := deadline - time.monotonic()) > 0:
            if select.select([stream], [], [], left)[0]:
                data = stream.read(65536)
                if not data:
                    return b"".join(parts).decode(), True
                parts.append(data)
    return b"".join(parts).decode(), False
