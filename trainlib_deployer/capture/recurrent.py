"""torch.rnn_tanh, rnn_relu, lstm, gru and their cells as few operations: a product for all time steps, then a scan.

For each layer and direction, gates = x Wi^T + biases is an ordinary linear layer on [time, batch, features]. What
remains, h[t] = cell(gates[t] + h[t-1] Wh^T), is the operation trainlib::rnn_scan, and its reverse
trainlib::rnn_scan_backward leaves the gradients of the gates at all times, from which ordinary products make those
of weights, biases and x. Nothing is unrolled, nothing is computed twice.

States h and c lie in the order of time with the initial one at the end where the scan starts, so that both "what came
before" and "what came out" are windows on one tensor:
    forward  [h0, h(0), ..., h(T-1)]        reverse  [h(0), ..., h(T-1), h0]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

Tensor = torch.Tensor
PACKED = "the shape of a packed sequence depends on the lengths in it"
GATES = {"rnn_tanh": 1, "rnn_relu": 1, "lstm": 4, "gru": 3}
SAVED = 4  # of the LSTM: i, f, g, o; of the GRU: r, z, n and the hidden side of n

SCAN = "(str kind, Tensor gates, Tensor h0, Tensor? c0, Tensor w, Tensor? bias, bool reverse, bool save) -> Tensor[]"
SCAN_BACKWARD = (
    "(str kind, Tensor? gy, Tensor? gh, Tensor? gc, Tensor w, Tensor[] tape, bool reverse, bool initial) -> Tensor[]"
)


@torch.library.custom_op("trainlib::rnn_scan", mutates_args=(), schema=SCAN)
def rnn_scan(
    kind: str, gates: Tensor, h0: Tensor, c0: Tensor | None, w: Tensor, bias: Tensor | None, reverse: bool, save: bool
) -> list[Tensor]:
    """gates [time, batch, gates*hidden] -> h, (lstm: c), (lstm, gru, if save: the gates' values). `bias` is that of the
    hidden side, where it cannot join the gates."""
    h, c, hs, cs, saved = h0, c0, [h0], [c0], []
    for t in times(len(gates), reverse):
        h, c, kept = cell(kind, gates[t], h, c, F.linear(h, w, bias))
        hs.append(h)
        cs.append(c)
        saved.append(kept)
    tape = [in_time(hs, reverse)]
    if c0 is not None:
        tape.append(in_time(cs, reverse))
    return [*tape, in_time(saved, reverse)] if save and GATES[kind] > 1 else tape


def times(steps: int, reverse: bool) -> range:
    return range(steps - 1, -1, -1) if reverse else range(steps)


def in_time(values: list[Any], reverse: bool) -> Tensor:
    return torch.stack(values[::-1] if reverse else values)


def cell(kind: str, gates: Tensor, h: Tensor, c: Tensor | None, hidden: Tensor) -> tuple[Tensor, Any, Tensor]:
    """One step: the new h and c, and what the gradient needs."""
    if kind == "lstm":
        i, f, g, o = (gates + hidden).chunk(4, 1)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        assert c is not None
        c = f * c + i * g
        return o * c.tanh(), c, torch.cat([i, f, g, o], 1)
    if kind == "gru":
        (rx, zx, nx), (rh, zh, nh) = gates.chunk(3, 1), hidden.chunk(3, 1)
        r, z = (rx + rh).sigmoid(), (zx + zh).sigmoid()
        n = (nx + r * nh).tanh()
        return n + z * (h - n), c, torch.cat([r, z, n, nh], 1)
    h = (gates + hidden).tanh() if kind == "rnn_tanh" else (gates + hidden).relu()
    return h, c, h


@rnn_scan.register_fake
def _(
    kind: str, gates: Tensor, h0: Tensor, c0: Tensor | None, w: Tensor, bias: Tensor | None, reverse: bool, save: bool
) -> list[Tensor]:
    steps, (batch, hidden) = gates.shape[0], h0.shape
    states = [gates.new_empty(steps + 1, batch, hidden) for _ in range(1 if c0 is None else 2)]
    return states + [gates.new_empty(steps, batch, SAVED * hidden)] * (save and GATES[kind] > 1)


@torch.library.custom_op("trainlib::rnn_scan_backward", mutates_args=(), schema=SCAN_BACKWARD)
def rnn_scan_backward(
    kind: str,
    gy: Tensor | None,
    gh: Tensor | None,
    gc: Tensor | None,
    w: Tensor,
    tape: list[Tensor],
    reverse: bool,
    initial: bool,
) -> list[Tensor]:
    """Gradients of all outputs, of the last h and c -> of the gates, (gru: of the hidden side's gates), of h0,
    (lstm: of c0). That of h0 is left unfinished unless `initial`."""
    before, after = states(tape[0], reverse)
    dh = torch.zeros_like(before[0]) if gh is None else gh
    dc = torch.zeros_like(before[0]) if gc is None else gc
    gates, hidden = [], []
    for t in times(len(before), not reverse):
        if gy is not None:
            dh = dh + gy[t]
        if kind == "lstm":
            c_before, c_after = states(tape[1], reverse)
            d, dc, dh = lstm_backward(dh, dc, c_before[t], c_after[t], tape[2][t])
        elif kind == "gru":
            dx, d, dh = gru_backward(dh, before[t], tape[1][t])
            gates.append(dx)
        else:
            d = dh * (1 - after[t] * after[t]) if kind == "rnn_tanh" else dh * (after[t] > 0)
            dh = torch.zeros_like(dh)
        hidden.append(d)
        dh = dh + d @ w
    found = [in_time(v, not reverse) for v in (gates, hidden) if v]
    return [*found, dh.clone(), *([dc.clone()] if kind == "lstm" else [])]


def lstm_backward(dh: Tensor, dc: Tensor, before: Tensor, after: Tensor, saved: Tensor) -> tuple[Tensor, ...]:
    """Gradients of the gates and of the cell before; nothing reaches the h before but through the gates."""
    i, f, g, o = saved.chunk(4, 1)
    tc = after.tanh()
    dc = dc + dh * o * (1 - tc * tc)
    slopes = [dc * g * i * (1 - i), dc * before * f * (1 - f), dc * i * (1 - g * g), dh * tc * o * (1 - o)]
    return torch.cat(slopes, 1), dc * f, torch.zeros_like(dh)


def gru_backward(dh: Tensor, before: Tensor, saved: Tensor) -> tuple[Tensor, ...]:
    """Gradients of the gates, of their hidden side, and of the h before (directly)."""
    r, z, n, nh = saved.chunk(4, 1)
    dn = dh * (1 - z) * (1 - n * n)
    dr, dz = dn * nh * r * (1 - r), dh * (before - n) * z * (1 - z)
    return torch.cat([dr, dz, dn], 1), torch.cat([dr, dz, dn * r], 1), dh * z


@rnn_scan_backward.register_fake
def _(
    kind: str,
    gy: Tensor | None,
    gh: Tensor | None,
    gc: Tensor | None,
    w: Tensor,
    tape: list[Tensor],
    reverse: bool,
    initial: bool,
) -> list[Tensor]:
    steps, batch, hidden = tape[0].shape[0] - 1, *tape[0].shape[1:]
    gates = [w.new_empty(steps, batch, w.shape[0]) for _ in range(2 if kind == "gru" else 1)]
    return gates + [w.new_empty(batch, hidden) for _ in range(2 if kind == "lstm" else 1)]


def states(values: Tensor, reverse: bool) -> tuple[Tensor, Tensor]:
    """What each step started from and what it made, at each time."""
    return (values[1:], values[:-1]) if reverse else (values[:-1], values[1:])


class Scan(torch.autograd.Function):
    """(kind, reverse, gates, h0, c0, w, bias) -> y, last h, last c."""

    @staticmethod
    def forward(
        ctx: Any, kind: str, reverse: bool, gates: Tensor, h0: Tensor, c0: Tensor | None, w: Tensor, bias: Tensor | None
    ) -> Any:
        ctx.kind, ctx.reverse = kind, reverse
        ctx.set_materialize_grads(False)
        trains = any(ctx.needs_input_grad)
        tape = torch.ops.trainlib.rnn_scan(kind, gates, h0, c0, w, bias, reverse, trains)
        ctx.save_for_backward(w, *tape)
        last = 0 if reverse else -1
        y, h = states(tape[0], reverse)[1], tape[0][last]
        # copies: a caller may write to them as to any result, and the backward pass reads the tape
        return y.clone(), h.clone(), None if c0 is None else tape[1][last].clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        w, *tape = ctx.saved_tensors
        gy, gh, gc = grads
        needs_gates, needs_h0, needs_c0, needs_w, needs_bias = ctx.needs_input_grad[2:]
        found = torch.ops.trainlib.rnn_scan_backward(ctx.kind, gy, gh, gc, w, tape, ctx.reverse, needs_h0)
        gates, hidden, dh0 = found[0], found[ctx.kind == "gru"], found[2 if ctx.kind == "gru" else 1]
        before = states(tape[0], ctx.reverse)[0]
        dw = hidden.flatten(0, 1).t() @ before.flatten(0, 1) if needs_w else None
        dbias = hidden.sum((0, 1)) if needs_bias else None
        dc0 = found[2] if needs_c0 else None
        return None, None, gates if needs_gates else None, dh0 if needs_h0 else None, dc0, dw, dbias


def apply(function: type[torch.autograd.Function], *args: Any) -> Any:
    return function.apply(*args)  # type: ignore[no-untyped-call]


def direction(
    kind: str, x: Tensor, h0: Tensor, c0: Tensor | None, weights: list[Tensor], reverse: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """One layer in one direction of time; x [time, batch, features]."""
    if len(weights) % 2:
        return projected(kind, x, h0, c0, weights, reverse)
    wi, wh, *biases = weights
    hidden_bias = biases[1] if kind == "gru" and biases else None
    # r * (Wh h + bias): only the GRU keeps the hidden side's bias apart
    bias = biases[0] if hidden_bias is not None else biases[0] + biases[1] if biases else None
    results: tuple[Tensor, Tensor, Tensor | None]
    results = apply(Scan, kind, reverse, F.linear(x, wi, bias), h0, c0, wh, hidden_bias)
    return results


def projected(
    kind: str, x: Tensor, h0: Tensor, c0: Tensor | None, weights: list[Tensor], reverse: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """With the last weight between a cell and its h, which no scan has: step by step."""
    wi, wh, *biases, wr = weights
    gates, h, c, hs = F.linear(x, wi, biases[0] + biases[1] if biases else None), h0, c0, []
    for t in times(len(x), reverse):
        h, c, _ = cell(kind, gates[t], h, c, F.linear(h, wh))
        h = F.linear(h, wr)
        hs.append(h)
    return in_time(hs, reverse), h, c


def together(values: list[Tensor]) -> Tensor:
    return torch.stack(values) if len(values) > 1 else values[0].unsqueeze(0)


def recurrent(kind: str) -> Callable[..., Any]:
    """The replacement of torch.<kind>."""

    def layers(
        x: Tensor,
        state: Any,
        weights: Any,
        has_biases: Any,
        num_layers: int,
        dropout: float,
        training: bool,
        bidirectional: bool,
        batch_first: bool | None = None,
    ) -> Any:
        if batch_first is None or not isinstance(has_biases, bool):
            raise NotImplementedError(PACKED)
        in_time = x.transpose(0, 1).contiguous() if batch_first else x
        found = stacked(
            direction, kind, in_time, state, weights, has_biases, num_layers, dropout, training, bidirectional
        )
        return (found[0].transpose(0, 1), *found[1:]) if batch_first else found

    return layers


def stacked(
    run: Callable[..., tuple[Tensor, Tensor, Tensor | None]],
    kind: str,
    x: Tensor,
    state: Any,
    weights: Any,
    _: bool,
    num_layers: int,
    dropout: float,
    training: bool,
    bidirectional: bool,
) -> Any:
    """All layers, of which `run` computes one in one direction."""
    directions = 2 if bidirectional else 1
    per = len(weights) // (num_layers * directions)
    h0, c0 = state if kind == "lstm" else (state, None)
    out, last = x, []
    for layer in range(num_layers):
        if layer and dropout and training:
            out = F.dropout(out, dropout, True)
        results = []
        for reverse in range(directions):
            k = layer * directions + reverse
            c = None if c0 is None else c0[k]
            results.append(run(kind, out, h0[k], c, weights[per * k : per * (k + 1)], bool(reverse)))
        out = torch.cat([y for y, _, _ in results], -1) if bidirectional else results[0][0]
        last += results
    h = together([h for _, h, _ in last])
    return (out, h, together([c for _, _, c in last if c is not None])) if kind == "lstm" else (out, h)


def recurrent_cell(kind: str) -> Callable[..., Any]:
    """The replacement of torch.<kind>_cell: a scan of one step."""

    def step(x: Tensor, state: Any, wi: Tensor, wh: Tensor, *biases: Tensor | None) -> Any:
        h0, c0 = state if kind == "lstm" else (state, None)
        weights = [wi, wh, *(b for b in biases if b is not None)]
        _, h, c = direction(kind, x.unsqueeze(0), h0, c0, weights, False)
        return h if c is None else (h, c)

    return step


REWRITES: dict[Any, Callable[..., Any]] = {
    torch.rnn_tanh: recurrent("rnn_tanh"),
    torch.rnn_relu: recurrent("rnn_relu"),
    torch.lstm: recurrent("lstm"),
    torch.gru: recurrent("gru"),
    torch.rnn_tanh_cell: recurrent_cell("rnn_tanh"),
    torch.rnn_relu_cell: recurrent_cell("rnn_relu"),
    torch.lstm_cell: recurrent_cell("lstm"),
    torch.gru_cell: recurrent_cell("gru"),
}
