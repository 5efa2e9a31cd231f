"""Tensors in a third memory: the same bits as in two, on the host and the emulated cluster, for any number of cores."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.e2e.simulators import needs
from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.check.certificate import CertificateError, Emitted, check
from trainlib_deployer.check.verify import verify
from trainlib_deployer.emit.addresses import Addresses
from trainlib_deployer.emit.listed import listed
from trainlib_deployer.emit.listing import ARRIVAL, CARRY, Call, Listing, Operation
from trainlib_deployer.emit.loop_library import LoopLibrary
from trainlib_deployer.errors import UsageError
from trainlib_deployer.far import choose
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.ops.carry import Transfer
from trainlib_deployer.state.replace import put_weights


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 13, 3, padding=1), nn.BatchNorm2d(13)
        self.deep = nn.Conv2d(13, 29, 3, stride=2)
        self.head = nn.Linear(29, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps = torch.relu(self.deep(torch.relu(self.norm(self.conv(x)))))
        out: torch.Tensor = self.head(maps.mean((2, 3)))
        return out


def wide() -> nn.Module:
    return nn.Sequential(nn.Linear(37, 83), nn.Tanh(), nn.Linear(83, 131), nn.Tanh(), nn.Linear(131, 7))


NETS: dict[str, tuple[Any, tuple[int, ...], str]] = {
    "convolutions": (Mixed, (3, 3, 17, 13), "112k"),
    "in pieces": (wide, (5, 37), "56k"),  # all that an update of the middle layer uses takes twice as much
}


def deployed(folder: Path, name: str, **memory: str) -> Deployment:
    make, shape, _ = NETS[name]
    torch.manual_seed(3)
    net = make()
    data = [(torch.randn(*shape), torch.randn(shape[0], 7)) for _ in range(2)]
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    return deploy(net, *data[0], data=data, loss=nn.MSELoss(), optimizer=optimizer, steps=2, out=folder, **memory)  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=sorted(NETS))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Deployment, Deployment]:
    """With all in L2, and with as little of it as will do."""
    folder = tmp_path_factory.mktemp("far")
    roomy = deployed(folder / "roomy", request.param, cores=8, l1="24k", l2="1M")  # type: ignore[arg-type]
    small = NETS[request.param][2]
    return roomy, deployed(folder / "far", request.param, cores=8, l1="24k", l2=small, l3="1M")  # type: ignore[arg-type]


in_pieces = pytest.mark.parametrize("pair", ["in pieces"], indirect=True)


def same(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


def test_the_same_bits_for_any_number_of_cores(pair: tuple[Deployment, Deployment]) -> None:
    roomy, far = pair
    assert not roomy.plan.program.far and len(roomy.plan.levels) == 2
    level = far.plan.far
    assert far.plan.program.far and level is not None and level.used > far.plan.outer.size
    wanted = roomy.verify()
    for cores in (1, 3):
        found = far.verify(cores=cores)
        assert found.passed and same(wanted.computed, found.computed)


def test_the_same_bits_where_no_core_reaches_them(pair: tuple[Deployment, Deployment]) -> None:
    needs("qemu")
    roomy, far = pair
    found = far.verify(on="qemu", steps=1)
    assert found.passed
    first = {k: v for k, v in roomy.verify().computed.items() if k[0] == 0}
    assert same(first, found.computed)


@in_pieces
def test_a_core_that_reaches_for_them_faults(pair: tuple[Deployment, Deployment], tmp_path: Path) -> None:
    """Even the one that copies, between two copies."""
    needs("qemu")
    folder = tmp_path / "reaching"
    shutil.copytree(pair[1].folder, folder)
    source = (folder / "net.c").read_text()
    start = "        tl_carry_start(&copy);\n"
    reach = "    if (tl_core_id() == 0)\n        (void)*(volatile char *)tl_rv32_l3;\n"
    assert start in source
    planted = source.replace(start, start + reach).replace(
        '#include "net.h"', '#include "net.h"\nextern char tl_rv32_l3[];'
    )
    (folder / "net.c").write_text(planted)
    done = subprocess.run(["make", "-s", "-C", folder, "qemu"], capture_output=True, text=True, check=False)
    assert done.returncode and "FAULT: load from 0x" in done.stdout, done.stdout + done.stderr


@in_pieces
def test_nothing_is_used_while_the_plan_says_it_is_not(pair: tuple[Deployment, Deployment]) -> None:
    done = subprocess.run(
        ["make", "-s", "-C", pair[1].folder, "host", "POISON=1"], capture_output=True, text=True, check=False
    )
    assert "PASS" in done.stdout, done.stdout + done.stderr


@in_pieces
def test_new_weights(pair: tuple[Deployment, Deployment], tmp_path: Path) -> None:
    """Of those that lie far away, too; the same bits as where they lie in L2."""
    torch.manual_seed(5)
    torch.save(wide().state_dict(), tmp_path / "new.pt")
    found = []
    for number, made in enumerate(pair):
        shutil.copytree(made.folder, tmp_path / str(number))
        put_weights(tmp_path / str(number), tmp_path / "new.pt")
        result = verify(tmp_path / str(number))
        assert result.passed
        found.append(result.computed)
    assert same(*found) and not same(found[0], pair[0].verify().computed)


@in_pieces
def test_new_weights_that_are_the_old_ones(pair: tuple[Deployment, Deployment], tmp_path: Path) -> None:
    """Change no byte."""
    folder = tmp_path / "p"
    shutil.copytree(pair[1].folder, folder)
    put_weights(folder, folder / "model" / "weights.pt")
    for name in ("far.c", "far.bin", "weights.c", "weights.bin", "plan.json"):
        assert (folder / name).read_bytes() == (pair[1].folder / name).read_bytes(), name


@in_pieces
def test_states_are_saved_loaded_and_stepped_from_python(pair: tuple[Deployment, Deployment]) -> None:
    roomy, far = pair
    x, y = torch.randn(input_shape(far)), torch.randn(input_shape(far)[0], 7)
    assert [roomy.step(x, y) for _ in range(2)] == [far.step(x, y) for _ in range(2)]
    image = far.session.image()
    assert image == roomy.session.image()
    far.reset()
    assert far.session.image() != image
    far.session.load_image(image)
    assert far.step(x, y) == roomy.step(x, y)
    roomy.reset()
    far.reset()


def input_shape(made: Deployment) -> tuple[int, ...]:
    (shape,) = {t.shape for t in made.plan.program.tensors.values() if t.role.value == "input"}
    return shape


# ---- functions that need not follow the ones before them

APART: dict[str, dict[str, Any]] = {
    "evaluation": {"evaluate": True, "l2": "148k"},
    "update of several steps": {"accumulate": 2, "l2": "118k"},
}
apart = pytest.mark.parametrize("asked", APART.values(), ids=list(APART))


@apart
def test_what_lasts_is_far_where_a_function_begins(tmp_path: Path, asked: dict[str, Any]) -> None:
    made = deployed(tmp_path / "far", "convolutions", cores=3, l1="24k", l3="1M", **asked)
    assert made.plan.program.far and made.verify().passed


@apart
def test_what_lasts_in_a_copy_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]) -> None:
    monkeypatch.setattr(choose, "entered_alone", lambda program: [])
    with pytest.raises(CertificateError, match=r"has not gone back before operation \d+, which need not follow"):
        deployed(tmp_path / "far", "convolutions", cores=3, l1="24k", l3="1M", **asked)


# ---- networks of millions of parameters

LARGE = Path(__file__).parents[2] / "examples" / "large"


@pytest.mark.parametrize(("name", "count"), [("vit", 3_138_442), ("mobilenet_v2", 2_236_682)])
def test_large_examples(name: str, count: int) -> None:
    found = run_path(str(LARGE / f"{name}.py"))
    assert sum(p.numel() for p in found["model"].parameters()) == count
    assert found["model"](found["example_input"]).shape == (1, 10)


def test_pieces_and_equal_layers_are_one_function(tmp_path: Path) -> None:
    """Of a block of the ViT on the chip as it is."""
    found = run_path(str(LARGE / "vit.py"))
    net = found["ViT"](depth=1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    given = {"loss": nn.CrossEntropyLoss(), "optimizer": optimizer, "steps": 1, "out": tmp_path / "vit"}
    made = deploy(net, *found["data"][0], target="pulp-open", l3="16M", **given)
    working = [op for op in made.plan.program.ops if not isinstance(op.kind, Transfer)]
    functions = (made.folder / "net.c").read_text().count("\nstatic __attribute__((noinline)) void like_")
    assert 10 < functions < len(working) // 2


def test_halves_of_an_odd_number(tmp_path: Path) -> None:
    """Copies are of whole words."""
    made = deployed(tmp_path / "far", "convolutions", cores=3, l1="24k", l2="80k", l3="1M", dtype="mixed")
    tensors = made.plan.program.tensors
    assert any(tensors[name].nbytes % 4 for name in made.plan.program.far)
    assert made.verify().passed


# ---- the certificate


@pytest.fixture
def emitted(pair: tuple[Deployment, Deployment]) -> Emitted:
    far = pair[1]
    return Emitted.read(far.folder, listed(far.plan, Addresses.of(far.plan), LoopLibrary()))


def struct(operation: Operation) -> str:
    return operation.calls[0][0].struct


def exchanged(listing: Listing, at: int, operation: Operation) -> Listing:
    return replace(listing, operations=(*listing.operations[:at], operation, *listing.operations[at + 1 :]))


def with_field(operation: Operation, name: str, change: Any) -> Operation:
    call = operation.calls[0][0]
    fields = tuple((n, change(v) if n == name else v) for n, v in call.arguments)
    return replace(operation, calls=((replace(call, arguments=fields),),))


NOTHING = Call("tl_nothing", "tl_nothing", ())


def copies(listing: Listing, inward: bool) -> list[int]:
    found = ((at, o) for at, o in enumerate(listing.operations) if struct(o) == CARRY)
    return [at for at, o in found if dict(o.calls[0][0].arguments)["inward"] == inward]


def words(emitted: Emitted, listing: Listing) -> str:
    return "\n".join(check(replace(emitted, listing=listing))[1])


@in_pieces
def test_the_certificate_finds_nothing(emitted: Emitted) -> None:
    assert check(emitted)[1] == []


@in_pieces
def test_a_copy_left_out(emitted: Emitted) -> None:
    listing = emitted.listing
    for inward, said in ((True, "which nothing has started"), (False, "goes nowhere")):
        at = copies(listing, inward)[-1]
        assert said in words(emitted, exchanged(listing, at, replace(listing.operations[at], calls=((NOTHING,),))))


@in_pieces
def test_a_copy_into_a_wrong_place(emitted: Emitted) -> None:
    listing = emitted.listing
    for at in (copies(listing, True)[0], copies(listing, False)[0]):
        moved = with_field(listing.operations[at], "offset", lambda offset: offset + 4)
        assert "is no copy of bytes" in words(emitted, exchanged(listing, at, moved))


@in_pieces
def test_a_copy_that_nobody_awaits(emitted: Emitted) -> None:
    listing = emitted.listing
    at = next(i for i, o in enumerate(listing.operations) if struct(o) == ARRIVAL)
    said = words(emitted, exchanged(listing, at, replace(listing.operations[at], calls=((NOTHING,),))))
    assert "under way" in said


@in_pieces
def test_a_copy_started_too_late(emitted: Emitted) -> None:
    """Behind the operation that uses it."""
    listing = emitted.listing
    at = copies(listing, True)[-1]
    arrival = next(p for p, begun in listing.awaited.items() if begun == at)
    operations, ops = list(listing.operations), list(emitted.plan["ops"])
    for row in (operations, ops):
        moved = [row[at], row[arrival]]
        del row[arrival], row[at]
        row[arrival:arrival] = moved
    late = replace(emitted, plan={**emitted.plan, "ops": ops})
    assert "before anything is in it" in words(late, replace(listing, operations=tuple(operations)))


# ---- what is refused


@pytest.mark.parametrize("name", ["generic", "cortex-m4f"])
def test_a_chip_without_room_for_it(name: str) -> None:
    with pytest.raises(UsageError, match=f"^{name} has nothing to connect a third memory to") as found:
        resolve(name, l3="8M")
    assert found.value.exit_code == 2


def test_sizes_of_it() -> None:
    far = resolve("pulp-open", l3="4M").far
    assert far is not None and far.size == 4 << 20 and resolve("pulp-open").far is None
    with pytest.raises(UsageError, match="--l3 'much' is not a size"):
        resolve("pulp-open", l3="much")
