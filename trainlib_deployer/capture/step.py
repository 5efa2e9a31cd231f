"""UserModel to one torch.fx graph of the whole training step. The only file that knows PyTorch's capture interfaces.

make_fx traces loss and torch.autograd.grad over a functional call of the module, on fake tensors. Three taps
name the nodes:
module hooks keep the current layer path; a TorchFunctionMode sees every torch call and the user's line that
made it; the
autograd nodes which that call created carry the same origin into the backward pass. Functionalization then removes
mutation: what was written to a buffer becomes an output of the graph.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch
import torch.fx.traceback as annotations_of_nodes
from torch import fx, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from golden.masks import Masks, keep
from golden.precision import InOrder
from trainlib_deployer.capture import remedies
from trainlib_deployer.capture.batch_counts import batch_counts, counted_by
from trainlib_deployer.capture.fold_constants import fold_constants
from trainlib_deployer.capture.masks import tidy_masks
from trainlib_deployer.capture.rewrites import DECOMPOSED, REWRITES
from trainlib_deployer.capture.user_line import user_line, user_line_of_error
from trainlib_deployer.errors import DeployError, Unsupported
from trainlib_deployer.ops.dropout import keep as keep_op
from trainlib_deployer.program.ir import STEP, Source
from trainlib_deployer.user.model import UserModel
from trainlib_deployer.user.samples import cloned

aten = torch.ops.aten
TAG = "trainlib"


@dataclass(frozen=True)
class Origin:
    """Where a node comes from: phase, layer path, the user's function, which call of the layer, the user's line."""

    phase: str  # forward, backward
    layer: str
    function: str
    call: int
    source: Source | None


@dataclass(frozen=True)
class Slot:
    """A placeholder of the graph."""

    kind: str  # parameter, buffer, input, target, constant, scalar
    name: str
    trainable: bool
    value: torch.Tensor


@dataclass(frozen=True)
class Out:
    """A result of the graph."""

    kind: str  # loss, output, gradient, buffer
    name: str


@dataclass(frozen=True)
class Captured:
    """The training step: every call_function node has an Origin in meta["origin"] and a fake value in meta["val"]."""

    graph: fx.GraphModule
    inputs: tuple[Slot, ...]
    outputs: tuple[Out, ...]


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

    def __init__(self, whole: WithLoss) -> None:
        super().__init__()
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

        hooks = [
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
            rewrite = REWRITES.get(func)
            result = rewrite(*args, **kwargs) if rewrite is not None else NotImplemented
            if result is NotImplemented:
                result = func(*args, **kwargs)
        if name not in ("get", "backward"):
            self.claim(result, origin)
        return result

    def claim(self, result: Any, origin: Origin) -> None:
        """Every autograd node that the call created belongs to it."""
        todo: list[Any] = [t.grad_fn for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
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


def function_name(func: Any) -> str:
    """`conv2d`, `relu`, `add`: as the user would say it."""
    name = getattr(func, "__name__", str(func))
    if name == "__get__":
        return "get"
    return name.strip("_").removesuffix(".default") or name


def capture(user: UserModel) -> Captured:
    """Trace one training step of the user's model."""
    whole = WithLoss(user.module, user.loss)
    slots = slots_of(user, whole)
    trained = [s.name for s in slots if s.trainable]
    step = Step(user, whole, slots, trained, batch_counts(whole.net))
    try:
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
            warnings.simplefilter("ignore")
            graph = trace(step, [s.value for s in slots])
            outputs = step.outputs
            graph = functional(graph, [s.value for s in slots])
    except DeployError:
        raise
    except Exception as error:
        raise explained(error) from error
    outputs = (*outputs, *take_buffer_writes(graph, slots))
    tidy(graph)
    tidy_masks(graph, TAG)
    name_untagged(graph)
    return Captured(graph, tuple(slots), outputs)


def slots_of(user: UserModel, whole: WithLoss) -> list[Slot]:
    """One for each placeholder, in order. Tensors of the loss are constants: nobody trains them."""
    slots = []
    for name, p in whole.named_parameters():
        short = name.removeprefix("net.")
        own = name.startswith("net.")
        slots.append(Slot("parameter" if own else "constant", short, own and p.requires_grad, p.detach()))
    for name, b in whole.named_buffers():
        own = name.startswith("net.")
        slots.append(Slot("buffer" if own else "constant", name.removeprefix("net."), False, b.detach()))
    slots += [Slot("input", n, False, v) for n, v in numbered("input", tensors_in(user.inputs))]
    slots += [Slot("target", n, False, v) for n, v in numbered("target", tensors_in(user.target))]
    slots.append(Slot("scalar", STEP, False, torch.zeros((), dtype=torch.int32)))
    return slots


def tensors_in(value: Any) -> list[torch.Tensor]:
    return [v.detach() for v in pytree.tree_leaves(value) if isinstance(v, torch.Tensor)]


def numbered(kind: str, values: list[torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
    return [(kind if i == 0 else f"{kind}{i}", v) for i, v in enumerate(values)]


def rebuilt(example: Any, tensors: Iterator[torch.Tensor]) -> Any:
    """The example's structure around other tensors."""
    return pytree.tree_map(lambda v: next(tensors) if isinstance(v, torch.Tensor) else v, example)


@dataclass
class Step:
    """The function that is traced: all tensors in, (loss, outputs, gradients) out."""

    user: UserModel
    whole: WithLoss
    slots: list[Slot]
    trained: list[str]
    counts: dict[_BatchNorm, int]
    outputs: tuple[Out, ...] = ()

    def __call__(self, *values: torch.Tensor) -> list[torch.Tensor]:
        leaves: dict[str, torch.Tensor] = {}
        state: dict[str, torch.Tensor] = {}
        for (name, _), slot, value in zip(self.named_state(), self.slots, values, strict=False):
            if slot.kind == "parameter" or isinstance(value, nn.Parameter):
                value = value.detach().requires_grad_() if slot.trainable else value.detach()
                leaves[slot.name] = value
            state[name] = value
        given = dict(zip([s.kind + s.name for s in self.slots], values, strict=True))
        inputs = rebuilt(self.user.inputs, iter([v for k, v in given.items() if k.startswith("inputinput")]))
        target = rebuilt(self.user.target, iter([v for k, v in given.items() if k.startswith("targettarget")]))

        def run() -> list[torch.Tensor]:
            masks = Masks(lambda shape, q, call: keep_op(values[-1], list(shape), q, call, 1.0))
            with masks, counted_by(values[-1], self.counts):
                return self.run(inputs, target, leaves)

        result: list[torch.Tensor] = torch.func.functional_call(self.whole, state, (run,), tie_weights=True)
        return result

    def named_state(self) -> list[tuple[str, torch.Tensor]]:
        return [*self.whole.named_parameters(), *self.whole.named_buffers()]

    def run(self, inputs: Any, target: Any, leaves: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        namer = Namer(self.whole)
        with namer.layers():
            with namer:
                output = self.whole.net(*inputs)
                with namer.layer("loss"):
                    loss = self.whole.loss(output, target)
            namer.arm()
            with annotations_of_nodes.annotate({TAG: Origin("backward", "loss", "seed", 0, None)}):
                seed = torch.ones_like(loss)
            wanted = [leaves[n] for n in self.trained]
            found = torch.autograd.grad(loss, wanted, seed, allow_unused=True)
        gradients = [(n, g) for n, g in zip(self.trained, found, strict=True) if g is not None]
        shown = named_outputs(output)
        self.outputs = (
            Out("loss", "loss"),
            *(Out("output", n) for n, _ in shown),
            *(Out("gradient", n) for n, _ in gradients),
        )
        return [loss.detach(), *(v.detach() for _, v in shown), *(g for _, g in gradients)]


def named_outputs(output: Any) -> list[tuple[str, torch.Tensor]]:
    """One tensor is 'output'; several are numbered in the order of the tree, or take their keys."""
    if isinstance(output, torch.Tensor):
        return [("output", output)]
    if isinstance(output, dict):
        return [(str(k), v) for k, v in output.items() if isinstance(v, torch.Tensor)]
    leaves = [v for v in pytree.tree_leaves(output) if isinstance(v, torch.Tensor)]
    return [(f"output{i}", v) for i, v in enumerate(leaves)]


def trace(function: Callable[..., Any], values: list[torch.Tensor], table: Any = None) -> fx.GraphModule:
    with annotations_of_nodes.preserve_node_meta(), mkldnn_off(), masks_unread(), sdpa_kernel([SDPBackend.MATH]):
        return make_fx(function, table, tracing_mode="fake", _allow_non_fake_inputs=True)(*values)


@contextlib.contextmanager
def mkldnn_off() -> Iterator[None]:
    """Plain ATen kernels; the switch itself warns about hardware that is not there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.backends.mkldnn.flags(enabled=False):
            yield


@contextlib.contextmanager
def masks_unread() -> Iterator[None]:
    """nn.Transformer reads its masks to find out whether they are causal: a hint, without which they are just added."""
    with mock.patch.object(nn.modules.transformer, "_detect_is_causal_mask", lambda mask, is_causal, size: False):
        yield


VIEWS = (aten.view.default, aten._unsafe_view.default)


def functional(graph: fx.GraphModule, values: list[torch.Tensor]) -> fx.GraphModule:
    """The same graph without mutation inside and without rare operations; writes to placeholders remain as copy_ at
    the end."""
    if not any(needs_rewriting(n.target) for n in graph.graph.nodes if n.op == "call_function"):
        return graph
    for node in graph.graph.nodes:
        if node.target in VIEWS:
            node.target = aten.reshape.default  # the first trace may have had other strides than the second
    graph.recompile()

    def again(*args: torch.Tensor) -> Any:
        return fx.Interpreter(graph).run(*args)

    return trace(torch.func.functionalize(again, remove="mutations"), values, DECOMPOSED)


def needs_rewriting(target: Any) -> bool:
    return target in DECOMPOSED or (isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable)


SAMPLE = ("input", "target")


def take_buffer_writes(graph: fx.GraphModule, slots: list[Slot]) -> tuple[Out, ...]:
    """copy_(buffer, value) becomes a result (buffer, value). Batch counters are bookkeeping that nothing here reads; an
    input that the forward changes is a sample, which comes as it was the next time."""
    nodes = list(graph.graph.nodes)
    slot_of = dict(zip([n for n in nodes if n.op == "placeholder"], slots, strict=True))
    written: dict[str, fx.Node] = {}
    for node in nodes:
        if node.target is not aten.copy_.default:
            continue
        slot = slot_of.get(node.args[0])
        if slot is not None and slot.kind not in SAMPLE and not slot.name.endswith("num_batches_tracked"):
            if slot.kind != "buffer":
                raise Unsupported(
                    f"the forward changes {slot.kind} '{slot.name}' in place",
                    source=source_of(node.args[1]),
                    remedy=remedies.IN_PLACE,
                )
            written[slot.name] = node.args[1]
        node.replace_all_uses_with(node.args[1])
        graph.graph.erase_node(node)
    output = next(n for n in nodes if n.op == "output")
    output.args = ([*output.args[0], *written.values()],)
    return tuple(Out("buffer", name) for name in written)


def source_of(node: Any) -> Source | None:
    origin = (node.meta.get("custom") or {}).get(TAG) if isinstance(node, fx.Node) else None
    return origin.source if origin is not None else None


TRANSPARENT = {aten.detach.default, aten.alias.default, aten.lift_fresh_copy.default}


def tidy(graph: fx.GraphModule) -> None:
    """Remove what has no effect: detach, transposed transposes, dead nodes; compute what depends on nothing."""
    for node in list(graph.graph.nodes):
        if node.target in TRANSPARENT:
            node.replace_all_uses_with(node.args[0])
        elif node.target is aten.t.default and node.args[0].target is aten.t.default:
            node.replace_all_uses_with(node.args[0].args[0])
        elif node.target is aten.clone.default and same_layout(node, node.args[0]):
            node.replace_all_uses_with(node.args[0])  # it kept a value from what was written in place
        elif node.target in VIEWS:
            node.target = aten.reshape.default  # strides are an accident of tracing: real tensors may have others
        elif node.target is aten.copy.default and same_kind(node, node.args[1]):
            node.replace_all_uses_with(node.args[1])
    fold_constants(graph)
    graph.recompile()


def same_kind(a: fx.Node, b: Any) -> bool:
    x, y = a.meta["val"], b.meta["val"]
    return bool(x.shape == y.shape and x.dtype == y.dtype)


def same_layout(a: fx.Node, b: fx.Node) -> bool:
    return bool(b.op != "placeholder" and same_kind(a, b) and a.meta["val"].stride() == b.meta["val"].stride())


def name_untagged(graph: fx.GraphModule) -> None:
    """Sums of gradients run outside of any hook: they belong to the layer that reads them."""
    for node in reversed(graph.graph.nodes):
        if node.op != "call_function":
            continue
        origin = (node.meta.get("custom") or {}).get(TAG)
        if origin is None:
            readers = [u.meta.get("origin") for u in node.users if u.op != "output"]
            known = next((r for r in readers if r is not None), None)
            origin = replace(known, function="sum") if known else Origin("backward", "", "sum", 0, None)
        node.meta["origin"] = origin


def explained(error: Exception) -> DeployError:
    """What tracing could not follow, in the user's terms."""
    source = user_line_of_error(error)
    kind = type(error).__name__
    if kind in ("DataDependentOutputException", "GuardOnDataDependentSymNode") or "_local_scalar_dense" in str(error):
        return Unsupported(remedies.ON_VALUES, source=source, remedy=remedies.VALUES)
    if kind == "DynamicOutputShapeException":
        operation = str(error).removeprefix("aten.").rpartition(".")[0]
        return Unsupported(
            f"'{operation}': {remedies.ON_SHAPES}",
            source=source,
            remedy=remedies.REMEDIES.get(operation, remedies.SHAPES),
        )
    first = str(error).strip().splitlines()[0] if str(error).strip() else kind
    message = f"the training step cannot be captured: {kind}: {first}"
    return Unsupported(message, source=source, remedy=remedies.remedy_for_exception(first))


TINY = 1e-6  # what float32 may differ by in a step of ordinary size
AGREEMENT = 1e-3  # of the largest gradient: both are float32, in another order of summation


class Dense(fx.Interpreter):  # type: ignore[misc]
    """Runs a graph without mutation on tensors that lie in order: kernels that ask for a common order of their operands
    got it when the graph was traced, but real operations leave other strides than the traced ones."""

    def run_node(self, n: fx.Node) -> Any:
        return pytree.tree_map(lambda v: v.contiguous() if isinstance(v, torch.Tensor) else v, super().run_node(n))


def check_against_eager(user: UserModel, captured: Captured) -> None:
    """Run the graph on the example and compare with eager autograd: catches whatever tracing lost."""
    module, loss_function = user.module, user.loss
    saved = {n: b.detach().clone() for n, b in module.named_buffers()}
    with torch.random.fork_rng(), mkldnn_off(), InOrder():
        results = Dense(captured.graph).run(*[s.value.clone() for s in captured.inputs])
        parameters = trainable_parameters(module)
        with Masks(lambda shape, q, call: keep(shape, q, call, 0)):
            output = module(*cloned(user.inputs))
            loss = loss_function(output, cloned(user.target))
            gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    expected = {("loss", "loss"): loss, **{("output", n): v for n, v in named_outputs(output)}}
    expected |= {("gradient", n): g for n, g in zip(parameters, gradients, strict=True) if g is not None}
    expected |= {("buffer", n): b.detach().clone() for n, b in module.named_buffers()}
    restore(module, saved)
    largest: dict[str, float] = {}
    for (kind, _), value in expected.items():
        largest[kind] = max(largest.get(kind, 0.0), size(value))
    for out, found in zip(captured.outputs, results, strict=True):
        error = apart(found, expected[out.kind, out.name])
        if not error <= AGREEMENT * largest[out.kind] + TINY:
            raise Unsupported(
                f"the captured graph and eager PyTorch disagree on {out.kind} '{out.name}' (by {error:.3g}); "
                "is there randomness or hidden state in forward?",
                remedy=remedies.STATE,
            )


def size(value: torch.Tensor) -> float:
    """The largest finite element."""
    return float(value.detach().double().abs().nan_to_num(0.0, 0.0).max()) if value.numel() else 0.0


def apart(found: torch.Tensor, reference: torch.Tensor) -> float:
    """The largest difference; the same infinity, or NaN in both, is none."""
    x, y = found.detach().double(), reference.detach().double()
    different = ~((x == y) | (x.isnan() & y.isnan()))
    return float((x - y)[different].abs().max()) if different.any() else 0.0


def trainable_parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    return {n: p for n, p in module.named_parameters() if p.requires_grad}


def restore(module: nn.Module, saved: dict[str, torch.Tensor]) -> None:
    with torch.no_grad():
        for name, buffer in module.named_buffers():
            buffer.copy_(saved[name])
