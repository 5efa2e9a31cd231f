"""Recurrent layers and cells against PyTorch: every output, every gradient, the same bits on any number of cores."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.utils import rnn
from torch.utils import _pytree as pytree

from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.folder import read_plan
from trainlib_deployer.ops.recurrent import Scan, Scans
from trainlib_deployer.program.ir import Kind
from trainlib_deployer.run.host import Host
from trainlib_deployer.run.record import read_record

torch.set_num_threads(1)
KINDS: dict[str, Any] = {
    "rnn_tanh": nn.RNN,
    "rnn_relu": lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k),
    "lstm": nn.LSTM,
    "gru": nn.GRU,
}
CELLS: dict[str, Any] = {
    "rnn_tanh": nn.RNNCell,
    "rnn_relu": lambda *a, **k: nn.RNNCell(*a, nonlinearity="relu", **k),
    "lstm": nn.LSTMCell,
    "gru": nn.GRUCell,
}


@dataclass(frozen=True)
class Variant:
    kind: str
    seed: int
    layers: int = 1
    bidirectional: bool = False
    batch_first: bool = False
    bias: bool = True
    given: bool = True  # initial states are parameters
    batched: bool = True
    used: str = "yhc"  # which results the loss sees
    hidden: int = 0  # 0: random
    trained: bool = True  # False: the input and the states only
    dropout: float = 0.0  # between layers

    @property
    def name(self) -> str:
        flags = [n for n in ("bidirectional", "batch_first", "bias", "given", "batched", "trained") if getattr(self, n)]
        return f"{self.kind}_{self.layers}_{'_'.join(flags)}_{self.used}_{self.seed}"


class Recurrent(nn.Module):
    """A layer on a sequence of its own, which is a parameter too, so that its gradient is compared."""

    def __init__(self, v: Variant) -> None:
        super().__init__()
        rng = random.Random(v.seed)
        steps, batch, features = rng.randint(2, 9), rng.randint(1, 5), rng.randint(1, 11)
        hidden = v.hidden or rng.randint(1, 13)
        self.used = v.used
        options = {"bias": v.bias, "batch_first": v.batch_first, "bidirectional": v.bidirectional}
        self.net = KINDS[v.kind](features, hidden, v.layers, dropout=v.dropout, **options)
        self.net.requires_grad_(v.trained)
        shape = (batch, steps) if v.batch_first else (steps, batch)
        self.x = nn.Parameter(torch.randn(*shape, features) if v.batched else torch.randn(steps, features))
        state = [(1 + v.bidirectional) * v.layers, batch, hidden]
        count = (2 if v.kind == "lstm" else 1) if v.given else 0
        self.states = nn.ParameterList(torch.randn(state if v.batched else [state[0], hidden]) for _ in range(count))

    def forward(self) -> list[torch.Tensor]:
        states = tuple(self.states)
        results = self.net(self.x, (states if len(states) == 2 else states[0]) if states else None)
        return [t for t, name in zip(pytree.tree_leaves(results), "yhc", strict=False) if name in self.used]


class Cell(nn.Module):
    """Two steps by hand."""

    def __init__(self, kind: str, bias: bool, given: bool) -> None:
        super().__init__()
        self.cell = CELLS[kind](5, 7, bias=bias)
        self.x = nn.Parameter(torch.randn(2, 3, 5))
        self.states = nn.ParameterList(torch.randn(3, 7) for _ in range(given * (2 if kind == "lstm" else 1)))

    def forward(self) -> list[torch.Tensor]:
        states: Any = tuple(self.states)
        states = (states if len(states) == 2 else states[0]) if states else None
        for x in self.x:
            states = self.cell(x, states)
        return list(pytree.tree_leaves(states))


class SideBySide(nn.Module):
    """Independent layers; the input only scales one more output."""

    def __init__(self, parts: dict[str, nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleDict(parts)
        self.scale = nn.Parameter(torch.tensor([0.5, -1.5, 2.0]))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        found = {"input": x * self.scale}
        for name, part in self.parts.items():
            found |= {f"{name}.{i}": v for i, v in enumerate(part())}
        return found


def weighted(outputs: dict[str, torch.Tensor], weights: torch.Tensor) -> torch.Tensor:
    """Every element of every output has another slope."""
    pieces = weights.split([v.numel() for v in outputs.values()])
    return torch.stack([(v.flatten() * w).sum() for v, w in zip(outputs.values(), pieces, strict=True)]).sum()


def deployed(parts: dict[str, nn.Module], folder: Path, steps: int = 2, l1: str = "128M") -> Deployment:
    model = SideBySide(parts)
    size = sum(prod(v.shape) for v in model(torch.ones(3)).values())
    g = torch.Generator().manual_seed(6)
    data = [((torch.randn(3, generator=g),), torch.randn(size, generator=g)) for _ in range(steps)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    options: dict[str, Any] = {"cores": 8, "l1": l1, "l2": "8M", "loss": weighted, "optimizer": optimizer}
    return deploy(model, *data[0], data=data, out=folder, steps=steps, **options)


def check(made: Deployment, parts: dict[str, nn.Module], steps: int = 2) -> None:
    """As PyTorch on one core, bit for bit the same on 3 and 8; nothing that has a gradient is missing."""
    result = made.verify(cores=1)
    result.raise_if_failed()
    compared = {t.name for t in result.verdict.tensors if t.kind == "gradient"}
    wanted = {f"parts.{n}.{p}" for n, m in parts.items() for p, v in m.named_parameters() if v.requires_grad}
    assert compared >= wanted, wanted - compared
    for cores in (3, 8):
        record = made.folder / f"record{cores}.bin"
        Host().run(made.folder, steps, cores, record)
        computed = read_record(record, read_plan(made.folder)["trace"])
        assert computed.keys() == result.computed.keys()
        other = [k for k, v in computed.items() if v.tobytes() != result.computed[k].tobytes()]
        assert not other, f"{cores} cores give other bits"


def scans_of(made: Deployment) -> list[Scan]:
    """Also those that go two at a time."""
    return [scan for op in made.plan.program.ops for scan in scans_in(op.kind)]


def scans_in(kind: Kind) -> tuple[Scan, ...]:
    return kind.scans if isinstance(kind, Scans) else (kind,) if isinstance(kind, Scan) else ()


# Layers, bidirectional, batch_first, bias, given: any two of them meet in all four ways.
SETTINGS = (
    (2, True, True, True, True),
    (1, False, False, False, False),
    (3, False, True, False, True),
    (1, True, False, True, False),
    (2, True, False, False, True),
    (1, False, True, True, True),
    (1, True, True, False, False),
    (2, False, False, True, False),
)
VARIANTS = (
    Variant("lstm", 21, *SETTINGS[0]),
    Variant("lstm", 22, *SETTINGS[7], used="y"),
    Variant("lstm", 23, *SETTINGS[6], hidden=67),
    Variant("lstm", 24, *SETTINGS[1], used="c"),
    Variant("gru", 25, *SETTINGS[4], dropout=0.4),
    Variant("gru", 26, *SETTINGS[3], hidden=70, used="h"),
    Variant("gru", 27, *SETTINGS[5], trained=False),
    Variant("gru", 28, *SETTINGS[1]),
    Variant("rnn_tanh", 29, *SETTINGS[2]),
    Variant("rnn_tanh", 30, *SETTINGS[3], batched=False),
    Variant("rnn_relu", 31, *SETTINGS[6], used="y"),
    Variant("rnn_relu", 32, *SETTINGS[5]),
)


def test_recurrent_layers_train_like_pytorch(project: Path) -> None:
    torch.manual_seed(3)
    parts: dict[str, nn.Module] = {v.name: Recurrent(v) for v in VARIANTS}
    parts |= {f"{kind}_cell": Cell(kind, kind != "gru", kind != "lstm") for kind in CELLS}
    made = deployed(parts, project)
    check(made, parts)
    scans = scans_of(made)
    expected = sum(v.layers * (1 + v.bidirectional) for v in VARIANTS) + 2 * len(CELLS)
    assert sum(s.direction == "fw" for s in scans) == expected, (
        "one scan for each layer and direction, one for each step of a cell"
    )
    assert len({(s.steps, s.batch, s.hidden) for s in scans}) >= 10
    both = {op.kind.name for op in made.plan.program.ops if isinstance(op.kind, Scans)}
    assert both >= {f"{kind}_{direction}_both" for kind in ("rnn", "lstm", "gru") for direction in ("fw", "bw")}


class Long(nn.Module):
    """A sequence that does not fit the small memory, in both directions."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.net = KINDS[kind](4, 19, bidirectional=True)
        self.x = nn.Parameter(torch.randn(67, 2, 4))

    def forward(self) -> list[torch.Tensor]:
        return list(pytree.tree_leaves(self.net(self.x)))


def test_tiles_of_time_change_no_bit(project: Path) -> None:
    torch.manual_seed(5)
    parts: dict[str, nn.Module] = {kind: Long(kind) for kind in ("rnn_tanh", "lstm", "gru")}
    whole, tiled = (deployed(parts, project / l1, 1, l1) for l1 in ("128M", "48k"))
    result = tiled.verify(cores=3)
    result.raise_if_failed()
    record = project / "record.bin"
    Host().run(whole.folder, 1, 8, record)
    computed = read_record(record, read_plan(whole.folder)["trace"])
    assert {k: v.tobytes() for k, v in computed.items()} == {k: v.tobytes() for k, v in result.computed.items()}
    parts_of_all = [part for tiling in tiled.plan.tilings.values() for part in tiling.parts]
    resumed = {scan.name for part in parts_of_all for scan in scans_in(part.kind) if scan.resume}
    assert resumed == {f"{kind}_{direction}" for kind in ("rnn", "lstm", "gru") for direction in ("fw", "bw")}


class Packed(nn.Module):
    """Layers over sequences of lengths that are known: in a list, a tensor, a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.ModuleDict(
            {
                "lstm": nn.LSTM(5, 7, bidirectional=True),
                "gru": nn.GRU(5, 3, bidirectional=True),
                "rnn": nn.RNN(5, 2, 2),
                "proj": nn.LSTM(5, 4, bidirectional=True, proj_size=2),
            }
        )
        self.register_buffer("lengths", torch.tensor([3, 1, 5, 3]))
        self.states = nn.ParameterList(torch.randn(2, 4, 7) for _ in range(2))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        given: dict[str, Any] = {"lstm": tuple(self.states)}
        lengths = {"lstm": self.lengths, "gru": [2, 6, 2, 6], "rnn": torch.tensor([6, 4, 4, 4])}
        lengths["proj"] = [1, 3, 6, 2]
        found: list[torch.Tensor] = []
        for kind, layer in self.net.items():
            packed = rnn.pack_padded_sequence(x, lengths[kind], enforce_sorted=kind == "rnn")
            y, last = layer(packed, given.get(kind))
            padded, many = rnn.pad_packed_sequence(y, kind == "gru", 0.5, 8 if kind == "rnn" else None)
            found += [padded, padded.sum() * many, *pytree.tree_leaves(last)]
        return found


def test_packed_sequences_of_known_lengths(tmp_path: Path) -> None:
    torch.manual_seed(3)
    net, x = Packed(), torch.randn(6, 4, 5)
    targets = [torch.randn_like(t) for t in net(x)]

    def loss(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> torch.Tensor:
        return sum((((y - t) ** 2).mean() for y, t in zip(found, wanted, strict=True)), torch.zeros(()))

    assert deploy(net, x, targets, loss=loss, steps=2, out=tmp_path / "net").verify().passed
