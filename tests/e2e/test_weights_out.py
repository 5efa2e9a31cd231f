"""What the program has learned, in PyTorch: the module's and the optimizer's own, with the same bits; from any dump."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

from tests.fuzz.damage import damaged
from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.cli.main import cli
from trainlib_deployer.errors import UsageError
from trainlib_deployer.state.dumps import read_dump
from trainlib_deployer.state.trained import Known, module_state, optimizer_state
from trainlib_deployer.user import safetensors

torch.set_num_threads(1)
STEPS, DAMAGED = 3, 500  # ten thousand were tried once


class Net(nn.Module):
    """Tied weights, statistics that count, a buffer that no state dict has, one in integers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 7, bias=False)  # a bias in front of a norm is made of rounding
        self.norm = nn.BatchNorm1d(7)
        self.second = nn.Linear(7, 5, bias=False)
        self.again = nn.Linear(5, 7, bias=False)
        self.again.weight = self.first.weight
        self.register_buffer("order", torch.tensor([3, 1, 0, 2, 4]))
        self.register_buffer("scale", torch.rand(5), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(torch.tanh(self.norm(self.first(x))))[:, self.order] * self.scale
        return self.norm(self.again(y))  # type: ignore[no-any-return]


class Own(torch.optim.Optimizer):
    """Two states a parameter, of which one is a number."""

    def __init__(self, params: Any, lr: float = 0.05) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["trace"], state["scale"] = torch.zeros_like(p), torch.ones(())
                state["trace"].mul_(0.5).add_(p.grad)
                state["scale"].mul_(0.9)
                p.sub_(group["lr"] * state["scale"] * state["trace"])


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "ASGD": lambda p: torch.optim.ASGD(p, lr=0.01),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "Own": Own,
}


def deployed(out: Path, optimizer: str, accumulate: int = 1) -> tuple[Deployment, Net, list[Any]]:
    torch.manual_seed(8)
    net = Net()
    data = [(torch.randn(6, 5), torch.randint(7, (6,))) for _ in range(STEPS * accumulate)]
    named = dict(net.named_parameters())
    groups = [{"params": [named["second.weight"]]}, {"params": [p for n, p in named.items() if n != "second.weight"]}]
    made = OPTIMIZERS[optimizer](groups)
    settings: dict[str, Any] = {"cores": 2, "l1": "64k", "l2": "1M", "steps": STEPS, "accumulate": accumulate}
    return deploy(net, *data[0], optimizer=made, data=data, out=out, **settings), net, data


def ran(folder: Path, *variables: str) -> str:
    command = ["make", "-s", "-C", str(folder), "host", "TRACE=0", *variables]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False).stdout


def trained_in_pytorch(net: Net, optimizer: torch.optim.Optimizer, data: list[Any], accumulate: int) -> None:
    for i, (x, y) in enumerate(data):
        (nn.functional.cross_entropy(net(x), y) / accumulate).backward()
        if (i + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()


def over(optimizer: str, net: Net) -> torch.optim.Optimizer:
    others = [p for n, p in net.named_parameters() if n != "second.weight"]
    return OPTIMIZERS[optimizer]([{"params": [net.second.weight]}, {"params": others}])


@pytest.mark.parametrize(("optimizer", "accumulate"), [*((o, 1) for o in OPTIMIZERS), ("Adam", 2)])
def test_module_and_optimizer_go_on_in_pytorch(optimizer: str, accumulate: int, tmp_path: Path) -> None:
    """What was learned loads, is what PyTorch has learned, and goes on as there."""
    made, net, data = deployed(tmp_path / "p", optimizer, accumulate)
    dump = tmp_path / "end.state"
    ran(made.folder, f"SAVE={dump}")
    known = Known(made.folder, type(over(optimizer, Net())))
    values = read_dump(known.layout, dump)
    back = Net()
    back.scale.copy_(net.scale)
    back.load_state_dict(module_state(known, values))
    again = over(optimizer, back)
    again.load_state_dict(optimizer_state(known, values))
    reference = over(optimizer, net)
    trained_in_pytorch(net, reference, data, accumulate)
    assert back.norm.num_batches_tracked == net.norm.num_batches_tracked == 2 * STEPS * accumulate
    near(dict(back.state_dict()), dict(net.state_dict()))
    near(flat(again.state_dict()), flat(reference.state_dict()))
    for module, mine in ((net, reference), (back, again)):
        trained_in_pytorch(module, mine, data[:accumulate], accumulate)
    near(dict(back.state_dict()), dict(net.state_dict()))


def flat(state: dict[str, Any]) -> dict[str, Any]:
    groups = {f"{i}.{k}": v for i, g in enumerate(state["param_groups"]) for k, v in g.items()}
    return groups | {f"{i}.{k}": v for i, s in state["state"].items() for k, v in s.items()}


def near(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert a.keys() == b.keys()
    for name, x in a.items():
        if isinstance(x, torch.Tensor):
            assert x.dtype is b[name].dtype and torch.allclose(x, b[name], rtol=1e-4, atol=1e-5), name
        else:
            assert x == b[name], name


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A project, and what its program has saved."""
    folder = tmp_path_factory.mktemp("weights")
    made, _, _ = deployed(folder / "p", "Adam")
    ran(made.folder, f"SAVE={folder / 'end.state'}")
    return made.folder, folder / "end.state"


def weights(*arguments: object) -> str:
    done = CliRunner().invoke(cli, ["weights", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


def test_new_weights_where_the_class_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of the script that has deployed it: all but the program's own check, which says so."""
    made, net, _ = deployed(tmp_path / "p", "Adam")
    with torch.no_grad():
        net.norm.bias.add_(1)
    torch.save(net.state_dict(), tmp_path / "new.pt")
    monkeypatch.delattr(f"{__name__}.Net")
    said = weights(made.folder, "--in", tmp_path / "new.pt")
    assert "own check is left out" in said and "attribute 'Net'" in said
    assert torch.equal(made.state_dict()["norm.bias"], net.norm.bias)


SENDING = """\
#include "net.h"
#include <stdio.h>

static int send(const tl_store *line, int slot, uint32_t at, const void *page)
{
    (void)slot;
    (void)at;
    return fwrite(page, line->page, 1, stdout) != 1;
}

static int erase(const tl_store *line, int slot)
{
    (void)line;
    return slot;
}

int main(void)
{
    static uint32_t page[16];
    const tl_store line = {.erase = erase, .write = send, .page = sizeof page, .buffer = page};
    net_init();
    puts("boot");
    tl_state_send(&net_state, &line); /* what it began with */
    puts("learned");
    if (tl_state_from_file(&net_state, TL_LOAD_FILE) || tl_state_send(&net_state, &line))
        return 1;
    puts("ready");
    return 0;
}
"""


def test_a_state_in_binary_over_a_serial_line(project: tuple[Path, Path], tmp_path: Path) -> None:
    folder, saved = project
    (tmp_path / "sending.c").write_text(SENDING)
    command = ["make", "-s", "-C", str(folder), "host", f"MAIN={tmp_path / 'sending.c'}", f"LOAD={saved}"]
    said = subprocess.run(command, capture_output=True, check=True).stdout
    assert said.count(b"TLST") == said.count(b"TEND") == 2 and said.endswith(b"ready\n")
    (tmp_path / "capture").write_bytes(said)
    for dump, out in ((tmp_path / "capture", "a.pt"), (saved, "b.pt")):
        weights(folder, dump, "--out", tmp_path / out)
    found, wanted = (torch.load(tmp_path / out, weights_only=True) for out in ("a.pt", "b.pt"))
    assert found.keys() == wanted.keys() and all(torch.equal(found[n], v) for n, v in wanted.items())


def test_every_dump_gives_the_same_weights(project: tuple[Path, Path], tmp_path: Path) -> None:
    """A file, a log with other lines between, a flash with two slots, the images of the memories."""
    folder, saved = project
    assert weights(folder, saved, "--out", tmp_path / "a.pt") == "9 tensors after 3 updates\n"
    wanted = torch.load(tmp_path / "a.pt", weights_only=True)
    log = tmp_path / "log"
    log.write_text("boot\n" + ran(folder, "STEPS=1", "SAVE=-") + ran(folder, "SAVE=-").replace("\n", "\r\n[12] "))
    older = tmp_path / "older"
    ran(folder, "STEPS=2", f"SAVE={older}")
    newer = bytearray(saved.read_bytes())
    flash = tmp_path / "flash"
    flash.write_bytes(
        b"\xff" * 77 + renumbered(bytes(newer), 0) + b"\xff" * 5 + renumbered(older.read_bytes(), 2**32 - 1)
    )
    for dump in (log, flash):
        weights(folder, dump, "--out", tmp_path / "b.safetensors")
        found = safetensors.read(tmp_path / "b.safetensors")
        assert found.keys() == wanted.keys() and all(torch.equal(found[n], v) for n, v in wanted.items()), dump
    known = Known(folder)
    images = {level: bytearray(v["persistent"]) for level, v in known.plan["levels"].items()}
    homes = {b["name"]: b for b in known.plan["buffers"]}
    for name, value in read_dump(known.layout, saved).items():
        at = homes[name]["offset"]
        images[homes[name]["level"]][at : at + value.nbytes] = value.tobytes()
    options = []
    for level, content in images.items():
        if content:
            (tmp_path / level).write_bytes(content)
            options += ["--memory", f"net_{level.lower()}={tmp_path / level}"]
    weights(folder, *options, "--out", tmp_path / "c.npz")
    arrays = np.load(tmp_path / "c.npz")
    assert all(np.array_equal(arrays[n], v.numpy()) for n, v in wanted.items())


def renumbered(image: bytes, sequence: int) -> bytes:
    """The same state under another sequence number."""
    from zlib import crc32

    end = 36 + int.from_bytes(image[24:28], "little")
    head = image[:28] + sequence.to_bytes(4, "little")
    body = head + crc32(head).to_bytes(4, "little") + image[36:end]
    return body + crc32(body).to_bytes(4, "little") + image[end + 4 :]


def test_damaged_dumps_are_refused(project: tuple[Path, Path], tmp_path: Path) -> None:
    folder, saved = project
    layout, whole, dice = Known(folder).layout, saved.read_bytes(), random.Random(3)
    before = read_dump(layout, saved)
    log = tmp_path / "log"
    log.write_text(ran(folder, "SAVE=-"))
    text, refused = log.read_bytes(), 0
    for i in range(DAMAGED):
        broken = tmp_path / "broken"
        broken.write_bytes(damaged(text if i % 5 == 0 else whole, dice))
        try:
            found = read_dump(layout, broken)
        except UsageError as err:
            refused += 1
            assert err.message.startswith(str(broken)) and "\n" not in err.message
        else:  # what was changed lies behind the state
            assert all(np.array_equal(found[n], v) for n, v in before.items())
    assert refused > DAMAGED * 3 // 4


MISTAKES = {
    "nothing to write": (["DUMP"], "give --out FILE"),
    "there is no directory": (["DUMP", "--out", "nowhere/x.pt"], ""),
    "not known": (["DUMP", "--out", "x.bin"], "endings"),
    "one of DUMP and --memory": (["--out", "x.pt"], "make host SAVE=FILE"),
    "must be net_l1=FILE": (["--memory", "l1=x", "--out", "x.pt"], ""),
    "cannot read": (["gone", "--out", "x.pt"], ""),
    "is missing": (["--memory", "net_l2=DUMP", "--out", "x.pt"], ""),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes(words: str, project: tuple[Path, Path]) -> None:
    folder, saved = project
    given, remedy = MISTAKES[words]
    done = CliRunner().invoke(cli, ["weights", str(folder), *(g.replace("DUMP", str(saved)) for g in given)])
    assert done.exit_code == 2 and words in done.output and remedy in done.output, done.output


def test_another_network(project: tuple[Path, Path], tmp_path: Path) -> None:
    other, _, _ = deployed(tmp_path / "other", "SGD")
    done = CliRunner().invoke(cli, ["weights", str(other.folder), str(project[1]), "--out", str(tmp_path / "x.pt")])
    assert done.exit_code == 2 and "the state of another network" in done.output
    assert not (tmp_path / "x.pt").exists()


def test_new_weights_in_an_old_project(tmp_path: Path) -> None:
    """As if it had been deployed with them: the program, its own check, and verify."""
    source = "import torch\nfrom torch import nn\ntorch.manual_seed({seed})\n{net}"
    net = (
        "model = nn.Sequential(nn.Linear(5, 7, bias=False), nn.BatchNorm1d(7), nn.ReLU(), nn.Linear(7, 3))\n"
        "g = torch.Generator().manual_seed(0)\n"
        "data = [(torch.randn(4, 5, generator=g), torch.randint(3, (4,), generator=g)) for _ in range(3)]\n"
    )
    other: dict[str, Any] = {}
    exec(source.format(seed=2, net=net), other)
    model = other["model"]
    with torch.no_grad():
        model[1].bias.uniform_()  # zeros before: they had no room in the file
        model[3].bias.zero_()  # and these need none now
    torch.save({"state_dict": {f"module.{n}": v for n, v in model.state_dict().items()}}, tmp_path / "new.pt")
    (tmp_path / "net.py").write_text(source.format(seed=1, net=net))
    deploy_it = ["--model", tmp_path / "net.py", "--cores", 2, "--steps", 3]
    runner = CliRunner()
    for out, more in (("old", []), ("anew", ["--weights", tmp_path / "new.pt"])):
        assert runner.invoke(cli, [*map(str, (*deploy_it, "--out", tmp_path / out, *more))]).exit_code == 0
    before = ran(tmp_path / "old")
    done = runner.invoke(cli, ["weights", str(tmp_path / "old"), "--in", str(tmp_path / "new.pt")])
    assert done.exit_code == 0 and "the prefix 'module.' taken off" in done.output, done.output
    for name in ("weights.c", "weights.bin", "data.bin"):
        assert (tmp_path / "old" / name).read_bytes() == (tmp_path / "anew" / name).read_bytes(), name
    assert "PASS" in before and ran(tmp_path / "old") == ran(tmp_path / "anew")
    assert runner.invoke(cli, ["verify", str(tmp_path / "old")]).exit_code == 0
    again = runner.invoke(cli, [*map(str, (*deploy_it, "--out", tmp_path / "old"))])
    assert again.exit_code == 0, "all files are still ours"
    torch.save({"0.weight": torch.zeros(3, 3)}, tmp_path / "wrong.pt")
    done = runner.invoke(cli, ["weights", str(tmp_path / "old"), "--in", str(tmp_path / "wrong.pt")])
    assert done.exit_code == 2 and "does not fit the model" in done.output
    assert ran(tmp_path / "old") == before
