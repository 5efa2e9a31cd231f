"""Every element type that PyTorch has, as input, target, buffer and constant, of any value: deployed, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.errors import DeployError, UsageError
from trainlib_deployer.run.host import Host

torch.set_num_threads(1)
INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
SHAPES: tuple[tuple[int, ...], ...] = ((), (3,), (3, 5), (2, 3, 5), (2, 1, 3, 5))
EDGES = [0.0, -0.0, 1e-45, -1e-39, 3.4028234e38, -1.17549435e-38, 1.0, -2.5]


def values(dtype: torch.dtype, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """The extremes of the type among others."""
    g = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=g).bool()
    if dtype is torch.float32:
        made = torch.randn(shape, generator=g)
        flat = made.reshape(-1)
        flat[: len(EDGES)] = torch.tensor(EDGES[: flat.numel()])
        return made
    info = torch.iinfo(torch.int32 if dtype is torch.int64 else dtype)
    made = torch.randint(-3 if info.min else 0, 4, shape, generator=g, dtype=dtype)
    if made.numel() > 2:
        made.reshape(-1)[:2] = torch.tensor([info.min, info.max], dtype=dtype)
    return made


def label(t: torch.Tensor) -> str:
    name = "float" if t.is_floating_point() else str(t.dtype).removeprefix("torch.")
    return f"{name}_{t.dim()}d"


class Net(nn.Module):
    """Reads tensors of any type and shape as inputs, buffers and constants: where they are positive, and as numbers."""

    def __init__(self, given: list[torch.Tensor]) -> None:
        super().__init__()
        self.fc = nn.Linear(5, 4)
        self.constants = [values(t.dtype, tuple(t.shape), 50 + i) for i, t in enumerate(given)]
        for i, t in enumerate(given):
            self.register_buffer(f"b{i}", values(t.dtype, tuple(t.shape), 90 + i))

    def forward(self, x: torch.Tensor, *given: torch.Tensor) -> Any:
        y = self.fc(x)
        results = {"y": y}
        for i, t in enumerate(given):
            places = {"input": t, "buffer": self.get_buffer(f"b{i}"), "constant": self.constants[i]}
            for place, v in places.items():
                results[f"{place}_{label(v)}"] = torch.tanh(v.float() * 0.01).mean() + 0.2 * (v > 0).float().mean()
        return results if given else y


def project(model: nn.Module, inputs: Any, target: Any, out: Path, loss: Any = None) -> Deployment:
    torch.manual_seed(3)
    return deploy(model, inputs, target, loss=loss or nn.MSELoss(), cores=2, l1="64k", steps=2, out=out)


def test_every_type_in_every_place(tmp_path: Path) -> None:
    """Fault: `True` is no C, and a byte was not told from a bool."""
    given = [values(d, s, i) for d in (*INTEGERS, torch.float32) for i, s in enumerate(SHAPES)]
    targets = [values(t.dtype, tuple(t.shape), 200 + i) for i, t in enumerate(given)]
    torch.manual_seed(3)

    def loss(results: dict[str, torch.Tensor], wanted: list[torch.Tensor]) -> torch.Tensor:
        return (results["y"] - sum(torch.tanh(t.float() * 0.01).mean() for t in wanted)).square().mean()

    made = project(Net(given), (torch.randn(3, 5), *given), targets, tmp_path / "out", loss)
    result = made.verify()
    result.raise_if_failed()
    assert sum(k[1] == "output" for k in result.computed) == 2 * (1 + 3 * len(given))


class Logic(nn.Module):
    """Truth, bits, choice and movement of integers."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(5, 4)

    def forward(self, x: torch.Tensor, u: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        both, either = torch.logical_and(u, i), torch.logical_or(u, i)
        odd = torch.logical_xor(u, i), torch.logical_not(i), u.bool(), u.any(1), i.all(1)
        bits = i & 6, i | 1, i ^ u.int(), ~i, ~both
        moved = torch.where(both, u, u.flip(1)), torch.roll(u, 1, 1), torch.maximum(u, u.flip(0)), u[:, [2, 0, 1, 3, 4]]
        return self.fc(x + u.float()), either, *odd, *bits, *(m.int() for m in moved)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int64], ids=str)
def test_integers_are_neither_bools_nor_floats(dtype: torch.dtype, tmp_path: Path) -> None:
    """Faults: 2 and 1 is false, ~2 is false, and a byte of 5 was true when it was gathered."""
    g = torch.Generator().manual_seed(5)
    low = 0 if dtype is torch.uint8 else -7
    u, i = torch.randint(low, 8, (3, 5), generator=g, dtype=dtype), torch.randint(-3, 4, (3, 5), generator=g)
    torch.manual_seed(3)

    def loss(y: tuple[torch.Tensor, ...], t: torch.Tensor) -> torch.Tensor:
        return (y[0] - t).square().mean()

    made = project(Logic(), (torch.randn(3, 5), u, i), torch.randn(3, 4), tmp_path / "out", loss)
    made.verify().raise_if_failed()


class Scored(nn.Module):
    """A mask of minus infinities as input; a NaN in what is not chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(5, 5)

    def forward(self, x: torch.Tensor, mask: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self.fc(x) + mask
        return scores.softmax(1) + torch.where(labels.isnan(), 0.0, labels), scores


def test_infinities_and_nans_are_values_too(tmp_path: Path) -> None:
    mask = torch.zeros(3, 5)
    mask[0, 2] = mask[2, 4] = -torch.inf
    labels = torch.randn(3, 5)
    labels[1, 1] = torch.nan
    torch.manual_seed(3)

    def loss(y: tuple[torch.Tensor, ...], t: torch.Tensor) -> torch.Tensor:
        return (y[0] - t).square().mean()

    made = project(Scored(), (torch.randn(3, 5), mask, labels), torch.randn(3, 5), tmp_path / "out", loss)
    result = made.verify()
    result.raise_if_failed()
    assert not result.verdict.divergence
    assert any((v == -torch.inf).any() for k, v in result.computed.items() if k[1] == "output")


OTHERS = ("float16", "bfloat16", "float64", "complex64", "complex128", "float8_e4m3fn", "uint16", "uint32", "uint64")


PLACES = [(p, n) for p in ("input", "target", "buffer") for n in OTHERS if hasattr(torch, n)]


@pytest.mark.parametrize(("place", "name"), [p for p in PLACES if p != ("buffer", "complex64")])
def test_other_types_are_refused_with_what_to_write(place: str, name: str, tmp_path: Path) -> None:
    odd = torch.ones(3, 5).to(getattr(torch, name))
    x, t = torch.randn(3, 5), torch.randn(3, 4)
    model = Net([])
    if place == "buffer":
        model.register_buffer("odd", odd)
    with pytest.raises(UsageError, match=name) as caught:
        project(model, (x, odd) if place == "input" else x, odd if place == "target" else t, tmp_path / "out")
    assert caught.value.remedy and ("." in caught.value.remedy)


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        ("(u + u).float() + x", "'add' calculates in uint8, which wraps around"),
        ("(-i8).float() + x", "'neg' calculates in int8"),
        ("i64.short().float() + x", "'short' calculates in int16"),
        ("i64.masked_fill(u > 3, 2**31).float() + x", "uses 2147483648: integers are kept in 32 bits"),
        ("(i64 + torch.tensor([2**40, 1, 2, 3, 4])).float() + x", "holds 1099511627776: integers are kept in 32 bits"),
        ("((i64 + 46) * 73856093 % 1000).float() + x", "'mul' makes integers outside of -2147483648 to 2147483647"),
        ("F.conv1d(i64[None], i64[None, :, :1]).float().sum() + x", "'conv1d' of integers cannot be deployed"),
        ("F.avg_pool1d(i64, 1).float() + x", "'avg_pool1d' of integers cannot be deployed"),
        ("torch.zeros(3, 5).bool().index_add(0, i64[0, :3], u > 0) + x", "truths cannot be added up in places"),
        ("((i64 * 9) << 28 >> 20).float() + x", "'lshift' makes integers outside of -2147483648 to 2147483647"),
    ],
)
def test_what_would_wrap_around_is_refused(forward: str, words: str, tmp_path: Path) -> None:
    source = (
        "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n\n\n"
        "class Net(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.fc = nn.Linear(5, 4)\n\n    def forward(self, x, u, i8, i64):\n"
        f"        return self.fc({forward})\n"
    )
    names: dict[str, Any] = {}
    exec(source, names)
    inputs = (torch.randn(3, 5), torch.ones(3, 5, dtype=torch.uint8), torch.ones(3, 5, dtype=torch.int8))
    with pytest.raises(DeployError, match=words):
        project(names["Net"](), (*inputs, torch.ones(3, 5, dtype=torch.int64)), torch.randn(3, 4), tmp_path / "out")


class Whole(nn.Module):
    """Integers that leave 32 bits, as those of PyTorch's int32 do, and are added up in places."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(5, 4)

    def forward(self, x: torch.Tensor, v: torch.Tensor, at: torch.Tensor) -> tuple[torch.Tensor, ...]:
        by = at[:, None].int()
        wrapped = v + v, v - 7 * v.flip(0), v * v, -v, v.abs(), v << by * 20, v >> by * 12
        folded = v.sum(dtype=torch.int32), v.sum(1, dtype=torch.int32), v.prod(0, dtype=torch.int32)
        rounded = v // 3, v % 5, torch.div(v, 7, rounding_mode="trunc"), torch.fmod(v, -5)
        far = (x * 1e12).long().clamp(-9, 9), (x * 3e9).long().clamp(-(2**30), 2**30)
        places = at[:, None].expand(v.shape)
        put = (
            v[:4].index_add(0, at, v, alpha=-2),
            torch.zeros(4, 7, dtype=torch.int32).index_add(0, at, v),
            v.index_put((at, at + 1), v[:, 0], accumulate=True),
            v.scatter_add(0, places, v.flip(1)),
            v.scatter_reduce(0, places, v, "sum", include_self=False),
            v.index_put((torch.tensor([3, 0]),), v[5:7]),
            v.index_copy(1, torch.tensor([6, 2]), v[:, 3:5]),
            v.scatter(0, torch.arange(7)[None] % 4, v[4:5]),
            (v >> 9).cummax(0)[0],
        )
        return self.fc(x), *wrapped, *folded, *rounded, *far, *put


@pytest.mark.parametrize("dtype", ["fp32", "mixed"])
@pytest.mark.parametrize("rows", [9, 300])
def test_int32_wraps_around_as_in_pytorch(rows: int, dtype: str, tmp_path: Path) -> None:
    """Faults: C does not define what integers with a sign do beyond 32 bits, nor floats beyond them as integers; and
    integers were not added up in places. More than 255 of them are added up in bytes. In mixed precision what they
    became on their way, in places that an index names, were halves."""
    g = torch.Generator().manual_seed(5)
    v = torch.randint(-(2**31), 2**31, (rows, 7), generator=g, dtype=torch.int32)
    v[0, :3] = torch.tensor([2**31 - 1, -(2**31), -1])
    given = torch.randn(2, 5, generator=g), v, torch.randint(0, 4, (rows,), generator=g)
    target = torch.randn(2, 4, generator=g)
    torch.manual_seed(3)
    out, settings = tmp_path / "out", {"cores": 3, "l1": "64k", "steps": 1, "dtype": dtype}
    made = deploy(Whole(), given, target, loss=lambda y, t: (y[0] - t).square().mean(), out=out, **settings)
    made.verify().raise_if_failed()
    if dtype == "fp32" and rows < 255:
        Host("undefined").run(out, 1, 3, tmp_path / "record.bin")


def test_a_hash_that_keeps_its_lower_bits_is_verified(tmp_path: Path) -> None:
    class Hashed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(64, 4)

        def forward(self, places: torch.Tensor) -> torch.Tensor:
            x, y = places.unbind(-1)
            return self.table((x ^ y * 2654435 ^ (x & y) * 805459861) & 63)

    places = torch.randint(10_000, (7, 2), generator=torch.Generator().manual_seed(3))
    project(Hashed(), places, torch.randn(7, 4), tmp_path / "out").verify().raise_if_failed()


def test_an_integer_beyond_32_bits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds -9223372036854775808: integers are kept in 32 bits"):
        project(Net([]), torch.randn(3, 5), torch.tensor([[-(2**63)] * 4] * 3), tmp_path / "out")


def test_an_input_that_spoils_the_loss_is_named(tmp_path: Path) -> None:
    x = torch.randn(3, 5)
    x[1, 2] = torch.nan
    with pytest.raises(UsageError, match=r"the loss is nan on example_target \(example_input has values that are NaN"):
        project(Net([]), x, torch.randn(3, 4), tmp_path / "out")


class Kept(nn.Module):
    """Bytes that no step touches, bytes that it reads, and bytes that it changes."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(7, 3)
        for name, seed in (("carried", 1), ("table", 2), ("counter", 3)):
            self.register_buffer(name, values(torch.uint8, (5, 7), seed))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.fc(x * self.table.float() * 0.01)
        self.counter.copy_(self.table)
        return y


def test_bytes_that_no_step_changes_stay_bytes(tmp_path: Path) -> None:
    torch.manual_seed(1)
    found = deploy(Kept(), torch.randn(5, 7), torch.tensor([0, 2, 1, 1, 0]), out=tmp_path / "p", steps=2)
    found.verify().raise_if_failed()
    tensors = found.plan.program.tensors
    sizes = {n: t.nbytes for n, t in tensors.items() if n in ("carried", "table", "counter")}
    assert sizes == {"carried": 35, "table": 35, "counter": 140}
    assert not any(v.tensor == "carried" for op in found.plan.program.ops for v in (*op.reads, *op.writes))
    state = found.state_dict()
    assert all(state[n].dtype is torch.uint8 for n in sizes)
    assert torch.equal(state["carried"], values(torch.uint8, (5, 7), 1))
    found.load_state_dict({**state, "carried": state["table"]})
    assert torch.equal(found.state_dict()["carried"], state["table"])
