"""What a training step must store, by PyTorch's own account: nothing here knows of the program or of its plan."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.graph import Node

from golden.borrow import uncompiled
from golden.drawing import Drawing
from golden.mode import Mode, address
from golden.precision import InOrder, one_thread
from golden.random_numbers import Numbers
from trainlib_deployer.capture.eager import optimizer_of
from trainlib_deployer.capture.slots import tensors_in
from trainlib_deployer.capture.trace import mkldnn_off
from trainlib_deployer.user.model import UserModel, trainable
from trainlib_deployer.user.samples import cloned

Gradients = Sequence[torch.Tensor | None]
WORD = 4  # bytes of a number: wider ones are narrowed on the way


@dataclass(frozen=True)
class Stored:
    """Bytes of what lives from step to step, of a sample, and, at the moment at which they are most, of what autograd
    keeps, each storage once, and of what is in flight: operands and results in forward, gradients in backward."""

    parameters: int
    state: int
    sample: int
    saved: int
    flight: int

    @property
    def total(self) -> int:
        return self.parameters + self.state + self.sample + self.saved + self.flight


@dataclass
class Tape:
    """What autograd keeps, as long as it does, and the gradients that operations of backward have not taken yet.
    Those of parameters are used up one by one, as soon as they are made."""

    elsewhere: frozenset[int]  # storages that are counted as something else
    kept: dict[int, list[int]] = field(default_factory=dict)  # of a storage: sizes of what is kept of it
    waiting: dict[tuple[Node, int], int] = field(default_factory=dict)
    fullest: tuple[int, int] = 0, 0  # kept, in flight
    saved: int = 0  # bytes that are kept now, and nowhere else

    def put_aside(self, at: int, size: int) -> None:
        sizes = self.kept.setdefault(at, [])
        if at not in self.elsewhere:
            self.saved += max(size - max(sizes, default=0), 0)
        sizes.append(size)

    def let_go(self, at: int, size: int) -> None:
        sizes = self.kept[at]
        sizes.remove(size)
        if at not in self.elsewhere:
            self.saved -= max(size - max(sizes, default=0), 0)
        if not sizes:
            del self.kept[at]

    def has(self, t: torch.Tensor) -> bool:
        at = address(t)
        return at in self.kept or at in self.elsewhere

    def computed(self, given: Sequence[torch.Tensor], made: Sequence[torch.Tensor]) -> None:
        """An operation of forward: its results are there beside its operands, but for those that may replace one."""
        free = [t for t in given if not self.has(t)]
        fresh = [t for t in made if not self.has(t) and not any(replaces(t, old) for old in free)]
        flying: dict[int, int] = {}
        for t in (*free, *fresh):
            flying[address(t)] = max(stored_bytes(t), flying.get(address(t), 0))
        self.fullest = max(self.fullest, (self.saved, sum(flying.values())), key=sum)

    def keep(self, t: torch.Tensor) -> Kept:
        return Kept(self, t)

    def follow(self, root: Node) -> None:
        """Looks at every operation of backward as it ends."""
        for node in nodes(root):
            node.register_hook(lambda made, given, node=node: self.ran(node, made, given))

    def ran(self, node: Node, made: Gradients, given: Gradients) -> None:
        for number in range(len(given)):
            self.waiting.pop((node, number), None)
        if of_parameter(node):  # its transpose, its sum with another
            return
        others, taken = sum(self.waiting.values()), sum(stored_bytes(g) for g in given if g is not None)
        passed_on, used_up = 0, 0
        for g, (after, number) in zip(made, node.next_functions, strict=True):
            if g is None or after is None:
                continue
            fresh = 0 if any(replaces(g, old) for old in given) else stored_bytes(g)
            if of_parameter(after):
                used_up = max(used_up, fresh)
            else:
                passed_on += fresh
                self.waiting[after, number] = stored_bytes(g)
        flying = others + taken + max(passed_on, used_up)
        self.fullest = max(self.fullest, (self.saved, flying), key=sum)


class Forward(Mode):
    """Looks at every operation of forward as it ends."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self.tape = tape

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        self.tape.computed(list(tensors_in((args, kwargs))), list(tensors_in(made)))
        return made


class Kept:
    """A tensor that autograd has put aside: it lets go of this, and so of its bytes."""

    def __init__(self, tape: Tape, t: torch.Tensor) -> None:
        self.tensor, self.tape, self.at, self.size = t, tape, address(t), nbytes(t)
        tape.put_aside(self.at, self.size)

    def __del__(self) -> None:
        self.tape.let_go(self.at, self.size)


def nodes(root: Node) -> Iterator[Node]:
    todo, seen = [root], {root}
    while todo:
        node = todo.pop()
        yield node
        fresh = {after for after, _ in node.next_functions if after is not None} - seen
        seen |= fresh
        todo += fresh


def of_parameter(node: Node) -> bool:
    """Does what is given to it end in a parameter's gradient, and nowhere else?"""
    while len(node.next_functions) == 1 and node.next_functions[0][0] is not None:
        node = node.next_functions[0][0]
    return not node.next_functions and hasattr(node, "variable")


def stored(user: UserModel, accumulate: int) -> Stored:
    """Of one step of the untouched model, which is then as it was."""
    module, parameters = user.module, trainable(user.module)
    given, target = user.samples[0]
    with user.start.undone(), one_thread(), uncompiled(), mkldnn_off(), InOrder(), torch.enable_grad():
        module.zero_grad(set_to_none=True)
        lasting = [t for t in (*module.parameters(), *module.buffers()) if t.is_floating_point() or t.is_complex()]
        inputs, wanted = cloned(given), cloned(target)
        sample = [*tensors_in(inputs), *tensors_in(wanted)]
        tape = Tape(frozenset(address(t) for t in (*lasting, *sample)))
        with (
            Drawing(Numbers(0)),
            torch.autograd.graph.saved_tensors_hooks(tape.keep, lambda kept: kept.tensor),
            Forward(tape),
        ):
            output = module(*inputs)
            loss = user.loss(output, wanted)
        results = [tape.keep(t) for t in tensors_in(output)]
        tape.follow(loss.grad_fn)
        loss.backward()
        del results
        optimizer = optimizer_of(user, dict(module.named_parameters()))
        assert optimizer is not None, "a step that trains has one"
        with contextlib.suppress(Exception):  # what is wrong with it was said when it was traced
            optimizer.step()
        state = [t for of in optimizer.state.values() for t in tensors_in(of) if t.numel() > 1]
        sums = parameters.values() if accumulate > 1 else ()
    return Stored(total(lasting), total(state) + total(sums), total(sample), *tape.fullest)


def total(tensors: Iterable[Any]) -> int:
    return sum(nbytes(t) for t in tensors)


def nbytes(t: torch.Tensor) -> int:
    parts = 2 if t.is_complex() else 1
    return t.numel() * parts * min(t.element_size() // parts, WORD)


def replaces(new: torch.Tensor, old: torch.Tensor | None) -> bool:
    """A gradient of the same shape may take the place of the one it is made of; a view of it lies there."""
    if old is None:
        return False
    same = address(new) == address(old)
    return same or (new.shape == old.shape and stored_bytes(old) >= nbytes(new))


def stored_bytes(t: torch.Tensor) -> int:
    """Of a tensor that may be one number seen as many."""
    return min(nbytes(t), t.untyped_storage().nbytes())
