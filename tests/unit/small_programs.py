"""Programs of small networks, for tests of what is done with programs: nothing is planned or written."""

from __future__ import annotations

import torch
from torch import nn

from trainlib_deployer import passes
from trainlib_deployer.capture.step import capture
from trainlib_deployer.ops.lower import lower
from trainlib_deployer.passes import Pass
from trainlib_deployer.passes.store_updates import store_updates
from trainlib_deployer.program.ir import Program
from trainlib_deployer.user.assemble import Parts, assemble

FLOATS = tuple(step for step in passes.DEFAULT if step is not store_updates)  # which comes behind changes of types


def program_of(module: nn.Module, shape: tuple[int, ...], steps: tuple[Pass, ...] = passes.DEFAULT) -> Program:
    """A training step of a module that is to give numbers."""
    x = torch.randn(shape)
    y = torch.randn_like(module(x))
    user = assemble(Parts("net", module, x, y, nn.MSELoss(), None, None, None, 1, "the test"))
    return passes.run(lower(user, capture(user)), steps)
