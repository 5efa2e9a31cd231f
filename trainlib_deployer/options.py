"""What one deployment was asked for, apart from the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from golden.loss_scale import LEAST, MOST, LossScale
from trainlib_deployer.arguments import quoted
from trainlib_deployer.errors import UsageError
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.tune.asked import Tune

DTYPES = ("fp32", "mixed", "fp16")
BF16 = "bf16"  # mixed, with bfloat16; where a machine has it
SAVED = ("fp32", "fp16")
ARITHMETICS = ("fastest", "direct")


@dataclass(frozen=True)
class Options:
    target: Machine
    out: Path
    steps: int = 5  # training steps of a verification run
    accumulate: int = 1  # samples an update: their gradients are averaged
    dtype: str = "fp32"  # mixed, bf16: activations, gradients and what products multiply are halves; fp16: weights, too
    saved: str = "fp32"  # how tensors lie in memory that the forward pass keeps for the backward pass
    arithmetic: str = "fastest"  # direct: no convolution by Winograd's algorithm
    loss_scale: LossScale | None = None  # of mixed precision
    force: bool = False  # write even where the graph and eager PyTorch disagree
    keep: tuple[str, ...] = ()  # of mixed precision: layers that stay fp32, as the user names them
    tune: Tune | None = None  # measure tiles
    command: tuple[str, ...] = ()  # the words on the command line that deploy this again


def loss_scale_of(text: str | None, inference: bool = False) -> LossScale | None:
    """A number, `dynamic`, or `dynamic:START:EVERY`."""
    if text is None:
        return None
    if inference:
        raise UsageError("inference has no gradients to scale", remedy="leave out the loss scale")
    kind, *numbers = text.split(":")
    try:
        if kind == "dynamic":
            start, every = numbers or ("65536", "2000")
            found = LossScale(float(start), int(every))
        else:
            found = LossScale(float(text))
    except ValueError:
        remedy = "a number, dynamic, or dynamic:START:UPDATES, as in dynamic:65536:2000"
        raise UsageError(f"{quoted(text)} is not a loss scale", remedy=remedy) from None
    if not LEAST <= found.start < MOST or found.every < (kind == "dynamic"):
        raise UsageError(
            f"the loss scale {quoted(text)} is out of range", remedy="a factor from 1e-37 to 1e38, updates from 1"
        )
    return found


def kept_of(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """The names in `fp32=head,norm*`, where the type may be left out, or in a list."""
    if not given:
        return ()
    kind, names = "", given
    if not isinstance(given, list | tuple):
        kind, _, text = str(given).rpartition("=")
        names = text.split(",")
    found = tuple(str(n).strip() for n in names)
    if kind not in ("", "fp32") or not all(found):
        raise UsageError(f"'{given}' does not say which layers are kept", remedy="for instance fp32=head,norm*")
    return found


def check_mixed(options: Options) -> None:
    """What goes with mixed precision alone; the user's own code may ask for that."""
    if options.dtype == "fp32" and options.loss_scale is not None:
        raise UsageError(
            "a loss scale goes with mixed precision", remedy="add --dtype mixed, or leave out the loss scale"
        )
    if options.dtype == "fp32" and options.keep:
        raise UsageError("what stays fp32 goes with mixed precision", remedy="add --dtype mixed, or leave out keep")


def dtypes_of(text: str) -> tuple[str, ...]:
    """The types in `fp32,mixed`, each once."""
    found = tuple(dict.fromkeys(dtype.strip() for dtype in text.split(",")))
    for dtype in found:
        check_types(dtype, "fp32")
    return found


def check_types(dtype: str, saved: str, machine: Machine | None = None) -> None:
    """Without a machine, types that all of them have."""
    if dtype == BF16 and machine is not None and not machine.bf16:
        remedy = "--target generic does it in software; or --dtype mixed, with IEEE halves"
        raise UsageError(f"{machine.name}: its record does not say that it adds up products of bf16", remedy=remedy)
    known = DTYPES if machine is None else (*DTYPES, BF16)
    if dtype not in known:
        raise UsageError(f"dtype is {dtype!r}; it must be one of {', '.join(known)}")
    if saved not in SAVED:
        raise UsageError(f"saved is {saved!r}; it must be one of {', '.join(SAVED)}")
    if dtype != "fp32" and saved != "fp32":
        raise UsageError(f"{dtype} keeps all activations in half precision", remedy="leave out saved")


def check_inference(inference: bool, evaluate: bool, batch: int | None, accumulate: int, saved: str) -> None:
    """What goes with a forward pass alone, and what does not."""
    if not inference and not evaluate and batch is not None:
        raise UsageError(
            "a batch of its own goes with inference or an evaluation",
            remedy="give --evaluate too; or --input SHAPE, batch first",
        )
    if inference and accumulate > 1:
        raise UsageError("inference accumulates no gradients", remedy="leave out accumulate")
    if inference and saved != "fp32":
        raise UsageError("inference keeps nothing for a backward pass", remedy="leave out saved")
