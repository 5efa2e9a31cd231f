"""The model and its loss run once, as they are, before anything is made of them."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from golden.examples import leaves
from golden.metrics import Metrics, functions_of
from golden.reference import named_outputs
from golden.snapshot import Snapshot
from trainlib_deployer.capture import remedies
from trainlib_deployer.errors import UsageError
from trainlib_deployer.user import samples as sampling
from trainlib_deployer.user.code import source_in_stack, user_code
from trainlib_deployer.user.model import trainable
from trainlib_deployer.user.samples import describe, type_name

Shown = dict[str, torch.Tensor]
SPARSE = "make its layer without sparse=True, and train it with an optimizer that takes dense gradients: Adam, SGD, ..."


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """But for rounding."""
    if a.shape != b.shape or not a.numel():
        return a.shape == b.shape
    a, b = a.detach().to(torch.complex128), b.detach().to(torch.complex128)
    return torch.allclose(a, b, rtol=0, atol=1e-4 * float(a.abs().nan_to_num().max()), equal_nan=True)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(action="ignore"):
        yield


def by_name(module: nn.Module, inputs: tuple[Any, ...]) -> str:
    """What to write where a dict is meant as arguments by name, as in model(**batch)."""
    if len(inputs) != 1 or not isinstance(inputs[0], Mapping):
        return ""
    takes = inspect.signature(module.forward).parameters
    if all(name in takes for name in inputs[0]):
        given = ", ".join(f'batch["{name}"]' for name in takes if name in inputs[0])
        return f"; a dict is one argument, a tuple gives several: example_input = ({given})"
    if any(p.kind is p.VAR_KEYWORD for p in takes.values()):
        return "; a dict is one argument: forward(self, batch) takes it, forward(self, **batch) does not"
    return ""


@dataclass(frozen=True)
class Trial:
    """Runs of the model, each from its start and without a trace."""

    module: nn.Module
    loss: Any
    start: Snapshot

    def run(self, inputs: tuple[Any, ...], target: Any) -> bool:
        """Forward, loss and gradients of the example, in the module's own mode; whether forward changes parameters."""
        with self.start.undone(), torch.enable_grad():
            output = self.forward(inputs)
            changes = any(not torch.equal(p, self.start.value(p)) for p in trainable(self.module).values())
            odd = [n for n, v in (("example_input", inputs), ("example_target", target)) if not sampling.all_finite(v)]
            found = f" ({' and '.join(odd)} has values that are NaN or infinite)" if odd else ""
            value = loss_value(self.loss, output, target, f"example_target{found}")

            def again() -> torch.Tensor:
                self.start.restore()
                return self.loss(self.module(*sampling.cloned(inputs)), target)  # type: ignore[no-any-return]

            check_gradients(self.module, value, again)
        return changes

    def forward(self, inputs: tuple[Any, ...]) -> Any:
        shapes = ", ".join(describe(x) for x in inputs)
        with user_code(
            "the model fails on example_input", remedy=f"forward was called with {shapes}{by_name(self.module, inputs)}"
        ):
            output = self.module(*sampling.cloned(inputs))
        if not leaves(output):
            raise UsageError(f"forward returns {describe(output)}, not a tensor")
        return output

    def takes_rows(self, inputs: tuple[Any, ...]) -> bool:
        """Whether rows of the inputs are examples: in another order they have the same outputs, so far as seen."""
        extents = {t.shape[0] if t.dim() else 1 for t in leaves(inputs)}
        count = extents.pop() if len(extents) == 1 else 1
        if count < 2:
            return True
        order = [*range(1, count, 2), *range(0, count, 2)]
        mixed = pytree.tree_map(lambda t: t[order] if isinstance(t, torch.Tensor) else t, inputs)
        with kept_modes(self.module), self.start.undone(), torch.no_grad(), quiet():
            self.module.eval()
            try:
                once, again, other = (leaves(self.module(*sampling.cloned(x))) for x in (inputs, inputs, mixed))
            except Exception:  # as of sequences that must come sorted by their lengths
                return True
        if not all(map(same, once, again)):  # it draws random numbers, or counts
            return True
        return all(same(a[order], b) for a, b in zip(once, other, strict=True) if a.dim() and len(a) == count)

    def shown(self, inputs: tuple[Any, ...]) -> Shown:
        """What it returns, by name."""
        with kept_modes(self.module), self.start.undone(), torch.no_grad(), quiet():
            self.start.restore()
            return dict(named_outputs(self.module(*sampling.cloned(inputs))))

    def differs_in_eval(self, inputs: tuple[Any, ...]) -> bool:
        """Whether the mode of the module shows in what it returns; where it draws random numbers, it does."""
        with kept_modes(self.module), self.start.undone(), torch.enable_grad(), quiet():
            now = leaves(self.module(*sampling.cloned(inputs)))
            self.start.restore()
            self.module.eval()
            evaluated = leaves(self.module(*sampling.cloned(inputs)))
        return len(now) != len(evaluated) or not all(map(same, now, evaluated))

    def measured(self, given: Any, inputs: tuple[Any, ...], target: Any) -> Metrics:
        """The user's metrics, each called once."""
        metrics = functions_of(given)
        with self.start.undone(), torch.no_grad():
            output = self.forward(inputs) if metrics else None
            for name, function in metrics.items():
                if not name.isprintable() or not name.strip():
                    raise UsageError(f"the metric {name!r} has a name that no line can show")
                with user_code(f"the metric '{name}' fails on example_target"):
                    value = function(output, sampling.cloned(target))
                if not isinstance(value, torch.Tensor) or value.numel() != 1:
                    raise UsageError(
                        f"the metric '{name}' returns {describe(value)}, not a scalar tensor",
                        remedy="for instance: (output.argmax(1) == target).float().mean()",
                    )
        return metrics

    def check_sample(self, inputs: tuple[Any, ...], target: Any, what: str) -> None:
        with self.start.undone():
            with user_code(f"the model fails on {what}"):
                output = self.module(*sampling.cloned(inputs))
            loss_value(self.loss, output, target, what)

    def output_or_none(self, inputs: tuple[Any, ...]) -> Any:
        """Of a made-up input, without a word; None if the model does not take it."""
        with self.start.undone(), quiet(), contextlib.suppress(Exception):
            return self.module(*sampling.cloned(inputs))
        return None

    def accepts(self, output: Any, target: Any) -> bool:
        """Whether a made-up target is one that the loss takes."""
        try:
            with self.start.undone():
                loss_value(self.loss, output, target, "a random target")
        except UsageError:
            return False
        return True


def loss_value(loss: Any, output: Any, target: Any, what: str) -> torch.Tensor:
    """The loss as a finite scalar, or what is wrong with it."""
    remedy = f"the loss was called with output {describe(output)} and target {describe(target)}"
    if isinstance(loss, nn.CrossEntropyLoss):
        check_classes(loss, output, target, what)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with user_code(f"the loss fails on {what}", remedy=remedy):
            value = loss(output, sampling.cloned(target))
    for warning in caught:
        if "target size" in str(warning.message):
            raise UsageError(f"the loss broadcasts on {what}: output and target differ in shape", remedy=remedy)
    if not isinstance(value, torch.Tensor):
        raise UsageError(f"the loss returns {describe(value)}, not a scalar tensor", remedy=remedy)
    if value.numel() != 1:  # of one element, in any shape, PyTorch goes backward
        raise UsageError(
            f"the loss is not a scalar: it returns {describe(value)}", remedy="reduce it: loss(...).mean()"
        )
    if value.dtype is not torch.float32:
        raise UsageError(f"the loss is {type_name(value)}; float32 is needed", remedy=remedy)
    if not bool(torch.isfinite(value)):
        raise UsageError(f"the loss is {float(value.detach())} on {what}", remedy=remedy)
    return value


def check_classes(loss: nn.CrossEntropyLoss, output: Any, target: Any, what: str) -> None:
    """Class indices: PyTorch says only 'out of bounds'."""
    if not isinstance(output, torch.Tensor) or not isinstance(target, torch.Tensor) or target.is_floating_point():
        return
    if output.dim() == 0 or target.numel() == 0:
        return
    classes = output.shape[1 if output.dim() > 1 else 0]
    check_labels(target, classes, loss.ignore_index, what, f"output is {describe(output)}, target {describe(target)}")


def check_labels(target: torch.Tensor, classes: int, ignored: int, what: str, remedy: str = "") -> None:
    used = target[target != ignored]
    outside = used[(used < 0) | (used >= classes)]
    if outside.numel():
        raise UsageError(
            f"class index {int(outside[0])} in {what} is out of range: the model's output has {classes} classes, "
            f"0 to {classes - 1}",
            remedy=remedy,
        )


def check_gradients(module: nn.Module, value: torch.Tensor, again: Callable[[], torch.Tensor]) -> None:
    """`again` computes `value` once more, to find the line behind an error."""
    parameters = trainable(module)
    gradients: tuple[torch.Tensor | None, ...] = (None,)
    if value.requires_grad:
        leaves = list(parameters.values())
        with (
            user_code("the backward pass fails"),
            with_line(lambda: torch.autograd.grad(again(), leaves, allow_unused=True)),
        ):
            gradients = torch.autograd.grad(value, leaves, allow_unused=True)
    if all(g is None for g in gradients):
        raise UsageError(
            "the loss does not depend on any trainable parameter: there is nothing to train",
            remedy="look for detach(), no_grad() or argmax between the model and the loss",
        )
    for name, gradient in zip(parameters, gradients, strict=True):
        if gradient is None:
            continue
        if gradient.layout is not torch.strided:
            raise UsageError(f"the gradient of parameter '{name}' is sparse", remedy=SPARSE)
        if not bool(torch.isfinite(gradient).all()):
            raise UsageError(f"the gradient of parameter '{name}' is NaN or infinite on the example")


@contextlib.contextmanager
def with_line(again: Callable[[], object]) -> Iterator[None]:
    """PyTorch names no line of the user's where a backward pass fails, as a tensor has changed since it was saved or an
    operation has no gradient; done again under its anomaly detection, it does."""
    try:
        yield
    except RuntimeError as error:
        with warnings.catch_warnings(record=True) as said, torch.autograd.set_detect_anomaly(True, check_nan=False):
            warnings.simplefilter("always")
            with contextlib.suppress(RuntimeError):
                again()
        source = source_in_stack("\n".join(str(w.message) for w in said))
        what, remedy = explained(str(error))
        raise UsageError(f"the backward pass fails: {what}", source=source, remedy=remedy) from error


def explained(words: str) -> tuple[str, str]:
    """What PyTorch says, and what to do."""
    if "modified by an inplace operation" in words:
        return "a tensor that the gradient of a line needs is changed in place later", remedies.IN_PLACE
    missing = re.search(r"derivative for '?(?:aten::)?(\w+)", words)
    if missing:
        return f"PyTorch has no gradient for '{missing[1]}'", f"give it what needs none: {missing[1]}(x.detach(), ...)"
    return words.strip().partition("\n")[0], ""


@contextlib.contextmanager
def kept_modes(module: nn.Module) -> Iterator[None]:
    """The start of an inference is in eval mode; the user's module need not be."""
    modes = [(m, m.training) for m in module.modules()]
    try:
        yield
    finally:
        for m, training in modes:
            m.training = training
