"""Templates compiled once, as Python's own modules are."""

from __future__ import annotations

import contextlib
import sys
from importlib.util import cache_from_source
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket


class Compiled(jinja2.FileSystemBytecodeCache):
    """What comes of templates, where Python keeps what comes of a module; nowhere if it shall not, or cannot, write
    there."""

    def __init__(self, module: str) -> None:
        super().__init__(str(Path(cache_from_source(module)).parent))

    def load_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        if not sys.dont_write_bytecode:
            with contextlib.suppress(OSError):
                Path(self.directory).mkdir(parents=True, exist_ok=True)
                super().dump_bytecode(bucket)
