"""What a trace leaves alone."""

from __future__ import annotations

import logging

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from trainlib_deployer.capture.trace import log_off


class Heard(logging.Handler):
    """All that is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def test_pytorch_prints_no_traceback_where_a_fake_tensor_is_not_taken() -> None:
    log, heard = logging.getLogger("torch._subclasses.fake_tensor"), Heard()
    log.addHandler(heard)
    try:
        with FakeTensorMode() as mode:
            x = mode.from_tensor(torch.zeros(3, dtype=torch.long))
            with log_off(), pytest.raises(OverflowError):
                x.masked_fill(x > 1, float("-inf"))
            assert not heard.lines
            with pytest.raises(OverflowError):
                x.masked_fill(x > 1, float("-inf"))
            assert heard.lines
    finally:
        log.removeHandler(heard)
