"""Where each traced operation comes from: its layer, the user's function, the user's line, forward or backward."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.fx.traceback as annotations_of_nodes
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from trainlib_deployer.capture import remedies
from trainlib_deployer.capture.known import Known
from trainlib_deployer.capture.rewrites import REWRITES
from trainlib_deployer.capture.rewrites_sequence import IMPOSSIBLE
from trainlib_deployer.capture.selected import Selected
from trainlib_deployer.capture.user_line import user_line
from trainlib_deployer.errors import Unsupported
from trainlib_deployer.program.ir import Source

TAG = "trainlib"


@dataclass(frozen=True)
class Origin:
    """Where a node comes from: phase, layer path, the user's function, which call of the layer, the user's line."""

    phase: str  # forward, backward
    layer: str
    function: str
    call: int
    source: Source | None

    @property
    def words(self) -> str:
        """`'conv3d' in layer 'stem.0'`."""
        return f"'{self.function}'" + (f" in layer '{self.layer}'" if self.layer else "")


class WithLoss(nn.Module):
    """The network and its loss as one module, so that one functional call reaches the tensors of both."""

    def __init__(self, net: nn.Module, loss: Any) -> None:
        super().__init__()
        self.net = net
        self.loss = loss

    def forward(self, run: Callable[[], Any]) -> Any:
        """Everything runs inside this call, so that recomputation in the backward meets the same tensors."""
        return run()


class Namer(TorchFunctionMode):
    """Tags what is traced with its origin."""

    def __init__(self, whole: WithLoss, known: Known) -> None:
        super().__init__()
        self.known = known
        self.paths = {id(m): n for n, m in whole.net.named_modules()}
        if isinstance(whole.loss, nn.Module):
            self.paths |= {id(m): f"loss.{n}".rstrip(".") for n, m in whole.loss.named_modules()}
        self.stack: list[tuple[str, int]] = [("", 0)]
        self.calls: Counter[str] = Counter()
        self.made: dict[Any, Origin] = {}

    @contextlib.contextmanager
    def layers(self) -> Iterator[None]:
        """Keeps the current layer path while modules run."""

        def enter(module: nn.Module, _args: Any) -> None:
            path = self.paths.get(id(module), self.stack[-1][0])
            self.stack.append((path, self.calls[path]))
            self.calls[path] += 1

        def leave(_module: nn.Module, _args: Any, _result: Any) -> None:
            self.stack.pop()

        def register(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
            if module._parameters.get(name) is not None:
                path = f"{self.paths.get(id(module), '')}.{name}".strip(".")
                raise Unsupported(
                    f"forward replaces the parameter '{path}' by another one",
                    source=user_line(sys._getframe(1)),
                    remedy=remedies.REPLACED,
                )

        hooks = [
            nn.modules.module.register_module_parameter_registration_hook(register),
            nn.modules.module.register_module_forward_pre_hook(enter),
            nn.modules.module.register_module_forward_hook(leave),
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    @contextlib.contextmanager
    def layer(self, path: str) -> Iterator[None]:
        self.stack.append((path, 0))
        yield
        self.stack.pop()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        layer, call = self.stack[-1]
        name = function_name(func)
        origin = Origin("forward", layer, name, call, user_line(sys._getframe(1)))
        with annotations_of_nodes.annotate({TAG: origin}):
            result = self.known.call(func, args, kwargs, rewritten(func))
        if name not in ("get", "backward"):
            self.claim(result, origin)
        return result

    def claim(self, result: Any, origin: Origin) -> None:
        """Every autograd node that the call created belongs to it."""
        for t in pytree.tree_leaves(result):
            if isinstance(t, Selected):
                t.origin = t.origin or origin
        made = [t.whole if isinstance(t, Selected) else t for t in pytree.tree_leaves(result)]
        todo: list[Any] = [t.grad_fn for t in made if isinstance(t, torch.Tensor)]
        while todo:
            node = todo.pop()
            if node is None or node in self.made or node.name().endswith("AccumulateGrad"):
                continue
            self.made[node] = origin
            todo += [n for n, _ in node.next_functions]

    def arm(self) -> None:
        """Make each autograd node set its own origin while it runs."""
        running: list[Any] = []

        def on(node: Any, origin: Origin) -> None:
            def before(_grads: Any) -> None:
                context = annotations_of_nodes.annotate({TAG: origin})
                context.__enter__()
                running.append(context)

            def after(_inputs: Any, _outputs: Any) -> None:
                running.pop().__exit__(None, None, None)

            node.register_prehook(before)
            node.register_hook(after)

        for node, origin in self.made.items():
            on(node, replace(origin, phase="backward"))


def rewritten(func: Any) -> Callable[..., Any]:
    """In the form that it is captured in."""
    key = getattr(func, "_qualified_op_name", func)  # packages' operations by their names
    rewrite = REWRITES.get(key) or IMPOSSIBLE.get(key)

    def form(*args: Any, **kwargs: Any) -> Any:
        result = NotImplemented if rewrite is None else rewrite(*args, **kwargs)
        return func(*args, **kwargs) if result is NotImplemented else result

    return form


def function_name(func: Any) -> str:
    """`conv2d`, `relu`, `add`: as the user would say it."""
    name = getattr(func, "__name__", str(func))
    if name == "__get__":
        return "get"
    return name.strip("_").removesuffix(".default") or name
