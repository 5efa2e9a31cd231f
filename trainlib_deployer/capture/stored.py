"""What a training step must store, by PyTorch's own account: nothing here knows of the program or of its plan."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from golden.borrow import uncompiled
from golden.drawing import Drawing
from golden.precision import InOrder, one_thread
from golden.random_numbers import Numbers
from trainlib_deployer.capture.eager import optimizer_of
from trainlib_deployer.capture.slots import tensors_in
from trainlib_deployer.capture.trace import mkldnn_off
from trainlib_deployer.user.model import UserModel, trainable
from trainlib_deployer.user.samples import cloned

WORD = 4  # bytes of a number: wider ones are narrowed on the way


@dataclass(frozen=True)
class Stored:
    """Bytes of what lives from step to step, of a sample, and of what autograd keeps of forward for backward, each
    storage once; `flight` is the gradient that backward begins with."""

    parameters: int
    state: int
    sample: int
    saved: int
    flight: int

    @property
    def total(self) -> int:
        return self.parameters + self.state + self.sample + self.saved + self.flight


def stored(user: UserModel, accumulate: int) -> Stored:
    """Of one step of the untouched model, which is then as it was."""
    module, parameters = user.module, trainable(user.module)
    given, target = user.samples[0]
    kept: dict[int, tuple[torch.Tensor, int]] = {}  # by where a storage lies; the tensor keeps it there

    def keep(t: torch.Tensor) -> torch.Tensor:
        at = t.untyped_storage().data_ptr()
        kept[at] = (t, max(nbytes(t), kept[at][1] if at in kept else 0))
        return t

    with user.start.undone(), one_thread(), uncompiled(), mkldnn_off(), InOrder(), torch.enable_grad():
        module.zero_grad(set_to_none=True)
        lasting = [t for t in (*module.parameters(), *module.buffers()) if t.is_floating_point() or t.is_complex()]
        inputs, wanted = cloned(given), cloned(target)
        sample = [*tensors_in(inputs), *tensors_in(wanted)]
        with Drawing(Numbers(0)), torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
            output = module(*inputs)
            loss = user.loss(output, wanted)
        loss.backward()
        optimizer = optimizer_of(user, dict(module.named_parameters()))
        assert optimizer is not None, "a step that trains has one"
        with contextlib.suppress(Exception):  # what is wrong with it was said when it was traced
            optimizer.step()
        state = [t for of in optimizer.state.values() for t in tensors_in(of) if t.numel() > 1]
        there = {t.untyped_storage().data_ptr() for t in (*lasting, *sample)}
        saved = sum(size for at, (_, size) in kept.items() if at not in there)
        sums = parameters.values() if accumulate > 1 else ()
        flight = total(tensors_in(output))
    return Stored(total(lasting), total(state) + total(sums), total(sample), saved, flight)


def total(tensors: Iterable[Any]) -> int:
    return sum(nbytes(t) for t in tensors)


def nbytes(t: torch.Tensor) -> int:
    parts = 2 if t.is_complex() else 1
    return t.numel() * parts * min(t.element_size() // parts, WORD)
