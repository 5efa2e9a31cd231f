"""python -m tests.fuzz.damage --count 10000: damaged files for every command and function that reads what we wrote.

Each ends well or in one of our messages, without a traceback, and leaves nothing half-written. Four kinds: files for
`--weights`, dumps and files for `weights`, states for net_load under the address sanitizer, project folders for
`verify`, `explain` and `report`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import struct
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from click.testing import CliRunner
from torch import nn

from trainlib_deployer.api import deploy
from trainlib_deployer.cli.main import cli
from trainlib_deployer.errors import UsageError
from trainlib_deployer.folder import note_written
from trainlib_deployer.report.runs import VERDICT
from trainlib_deployer.run.host import Host
from trainlib_deployer.run.result import RunResult
from trainlib_deployer.user import safetensors
from trainlib_deployer.user.weights import load_weights

CODES = range(7)  # the tool's own
DRIVER = Path(__file__).resolve().parents[1] / "c" / "damaged_states.c"
SANITIZERS = "address,undefined"
OTHERS = (b"{}", b"[]", b"null", b"3", b'{"tool": {"name": "trainlib-deploy"}}', b"[" * 9999)  # that JSON may be
PROGRAMS = (".c", ".h", ".S", ".mk", "Makefile")  # which anybody may edit: what they do then is the compiler's matter


class Net(nn.Module):
    """Small, with buffers, a counter and something beside its tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(2, 5, 3), nn.BatchNorm1d(5), nn.Tanh(), nn.Flatten())
        self.head = nn.Linear(25, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))  # type: ignore[no-any-return]


def damaged(data: bytes, dice: random.Random) -> bytes:
    """Cut off, with some bytes replaced, or with a piece moved."""
    out = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        at, what = dice.randrange(len(out) + 1), dice.randrange(4)
        if what == 0:
            del out[at:]
        elif what == 1 and out:
            out[at % len(out)] = dice.randrange(256)
        elif what == 2:
            out[at:at] = dice.randbytes(dice.randint(1, 9))
        else:
            del out[at : at + dice.randint(1, 40)]
    return bytes(out)


def deployed(folder: Path) -> Path:
    torch.manual_seed(3)
    data = [((torch.randn(2, 2, 7),), torch.randint(3, (2,))) for _ in range(2)]
    made = deploy(Net(), *data[0], data=data, optimizer=torch.optim.Adam, out=folder, steps=2, say=lambda line: None)
    return made.folder


def contents(folder: Path) -> dict[str, str]:
    """What is in every file."""
    files = (p for p in sorted(folder.rglob("*")) if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def command(*words: object) -> int:
    """The exit code; a failure has one message, and no other exception gets out."""
    done = CliRunner().invoke(cli, [str(w) for w in words])
    known = done.exception is None or isinstance(done.exception, SystemExit)
    assert known and done.exit_code in CODES, (words, done.exception, done.output)
    if done.exit_code:
        lines = [line for line in done.stderr.splitlines() if not line.startswith(("note: ", "["))]
        assert lines and lines[0].startswith("error: "), (words, done.output)
        assert not any(line.startswith(("error: ", "Traceback")) for line in lines[1:]), (words, done.output)
    return done.exit_code


# ---- weights

WRITERS: dict[str, Callable[[Any, Path], Any]] = {
    "w.pt": torch.save,
    "old.pth": lambda state, path: torch.save(state, path, _use_new_zipfile_serialization=False),
    "w.npz": lambda state, path: np.savez(path, **{n: v.numpy() for n, v in state.items()}),
    "w.safetensors": lambda state, path: safetensors.write(path, state),
    "checkpoint.ckpt": lambda state, path: torch.save({"state_dict": state, "epoch": 3, "hyper": {"lr": 0.1}}, path),
}


def files_of_weights(folder: Path) -> list[tuple[str, bytes]]:
    state = Net().state_dict()
    for name, write in WRITERS.items():
        write(state, folder / name)
    return [(name, (folder / name).read_bytes()) for name in WRITERS]


def weights(count: int, seed: int, scratch: Path) -> Counter[str]:
    """`--weights FILE`: a refusal leaves the module as it was."""
    dice, found = random.Random(seed), Counter[str]()
    wholes = files_of_weights(scratch)
    net, untouched = Net(), {}
    for i in range(count):
        if not untouched:
            net = Net()
            untouched = {n: v.clone() for n, v in net.state_dict().items()}
        name, whole = wholes[i % len(wholes)]
        path = scratch / name
        path.write_bytes(damaged(whole, dice))
        try:
            load_weights(net, path)
            found["loaded"] += 1
            untouched = {}
        except UsageError as refused:
            found["refused"] += 1
            assert str(path) in refused.message and "\n" not in refused.message, refused.message
            assert all(torch.equal(v, untouched[n]) for n, v in net.state_dict().items()), name
    return found


def dumps(count: int, seed: int, scratch: Path) -> Counter[str]:
    """`weights DIR DUMP --out FILE`, and every tenth `weights DIR --in FILE`: a refusal writes nothing."""
    dice, found = random.Random(seed), Counter[str]()
    folder = deployed(scratch / "p")
    subprocess.run(["make", "-s", "-C", folder, "host", f"SAVE={scratch / 'saved'}"], check=True, capture_output=True)
    log = subprocess.run(["make", "-s", "-C", folder, "host", "SAVE=-"], check=True, capture_output=True).stdout
    wholes, states = [log, *[(scratch / "saved").read_bytes()] * 4], files_of_weights(scratch)
    before, broken = contents(folder), scratch / "broken"
    kept = {name: (folder / name).read_bytes() for name in before}
    with mock.patch("trainlib_deployer.state.replace.data_with", lambda known, task: kept["data.bin"]):
        for i in range(count):
            given = i % 10 == 0
            broken.write_bytes(damaged(dice.choice(states)[1] if given else wholes[i % len(wholes)], dice))
            out = scratch / f"out{dice.choice(['.pt', '.npz', '.safetensors'])}"
            code = command("weights", folder, *(("--in", broken) if given else (broken, "--out", out)))
            found["refused" if code else "taken"] += 1
            if given and not code:
                restore(folder, kept)
            else:
                assert given or out.exists() == (code == 0)
                assert not given or contents(folder) == before
            out.unlink(missing_ok=True)
    return found


# ---- states


def states(count: int, seed: int, scratch: Path) -> Counter[str]:
    """net_load of a program with sanitizers: it returns what is wrong, and then nothing has changed."""
    dice = random.Random(seed)
    folder = deployed(scratch / "p")
    build = ["make", "-s", "-C", folder, "build/host/train", f"MAIN={DRIVER}", f"SANITIZE={SANITIZERS}"]
    subprocess.run(build, check=True, capture_output=True)
    program = [str(folder / "build" / "host" / "train")]
    whole = subprocess.run([*program, "-"], check=True, capture_output=True).stdout
    images = [damaged(whole, dice) for _ in range(count)]
    stream = b"".join(struct.pack("<I", len(image)) + image for image in images)
    done = subprocess.run(program, input=stream, check=False, capture_output=True)
    assert done.returncode == 0 and not done.stderr, done.stderr.decode(errors="replace")
    words = done.stdout.decode().split()
    assert len(words) == count, "a verdict on each"
    return Counter("loaded" if w == "0" else "refused" for w in words)


# ---- projects


def projects(count: int, seed: int, scratch: Path) -> Counter[str]:
    """`verify`, `explain` and `report` of folders of which one or two files are damaged, lost or something else, or
    whose plan another version may have written. Nothing is built: runs leave the record that the whole project left."""
    dice, found = random.Random(seed), Counter[str]()
    whole = deployed(scratch / "p")
    assert command("verify", whole) == 0
    recorded, verdict = ((whole / "build" / name).read_bytes() for name in ("record-host.bin", "verdict.json"))
    shutil.rmtree(whole / "build")
    kept = {**{name: (whole / name).read_bytes() for name in contents(whole)}, VERDICT: verdict}
    data = [n for n in kept if not n.endswith(PROGRAMS) and not n.startswith("golden")]
    questions = [
        ["verify"],
        ["explain"],
        ["report"],
        ["explain", "body.0"],
        ["explain", "--all"],
        ["explain", "--tensor", "head.weight"],
    ]
    plan = json.loads(kept["plan.json"])

    def ran(self: Host, folder: Path, steps: int, cores: int | None, record: Path) -> RunResult:
        record.write_bytes(recorded)
        return RunResult({}, "")

    with mock.patch.object(Host, "run", ran):
        for i in range(count):
            restore(whole, kept)
            if i % 4 == 1:
                (whole / "plan.json").write_text(json.dumps(another_versions(plan, dice)))
                note_written(whole, ["plan.json"])
            else:
                for name in ["plan.json"] if i % 4 == 3 else dice.sample(data, dice.randint(1, 2)):
                    damage(whole / name, kept[name], dice)
            name, *more = dice.choice(questions)
            code = command(name, whole, *more)
            found[f"{name} {'refused' if code else 'done'}"] += 1
    return found


def another_versions(plan: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    """A plan of which up to three things are not there, or are something else."""
    changed = json.loads(json.dumps(plan))
    changed["tool"]["version"] = "0.1.0"
    for _ in range(dice.randint(1, 3)):
        place, depth = changed, dice.randint(0, 5)
        while True:
            keys = [k for k in (place if isinstance(place, dict) else range(len(place))) if k != "tool"]
            if not keys:
                break
            key = dice.choice(keys)
            if depth and isinstance(place[key], dict | list):
                place, depth = place[key], depth - 1
                continue
            if dice.randrange(2):
                del place[key]
            else:
                place[key] = dice.choice([None, 3, -1, 2.5, "x", "", [], [1], {}, {"a": 1}, True])
            break
    return changed  # type: ignore[no-any-return]


def damage(path: Path, content: bytes, dice: random.Random) -> None:
    what = dice.randrange(8)
    if what == 0:
        path.unlink()
    elif what == 1:
        path.unlink()
        path.mkdir()
    elif what == 2:
        path.write_bytes(b"")
    elif what == 3:
        path.write_bytes(dice.randbytes(dice.randint(1, 400)))
    elif what == 4:
        path.write_bytes(dice.choice(OTHERS))
    else:
        path.write_bytes(damaged(content, dice))


def restore(folder: Path, kept: dict[str, bytes]) -> None:
    shutil.rmtree(folder / "build", ignore_errors=True)
    for path in [p for p in folder.rglob("*") if p.is_dir() and str(p.relative_to(folder)) in kept]:
        path.rmdir()
    for name, content in kept.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != len(content) or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


KINDS = {"weights": weights, "dumps": dumps, "states": states, "projects": projects}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.damage", description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=KINDS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name, campaign in KINDS.items():
        if given.only in (None, name):
            with tempfile.TemporaryDirectory(prefix="damage-") as scratch:
                started = time.monotonic()
                found = campaign(given.count, given.seed, Path(scratch))
            words = ", ".join(f"{n:,} {what}" for what, n in sorted(found.items()))
            print(f"{name}: {words}; {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
