"""Every example: ten steps at once against k steps, a save in two slots, another life and the rest, for every k; then
saves that are cut off, at some places loaded and at every byte decided; then the emulated cluster, which goes on from
a state of this machine.

    python -m benchmarks.bench_resume [examples/mlp.py ...]

Prints the table of docs/benchmarks.md.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from click.testing import CliRunner

from benchmarks.deployments import all_examples
from trainlib_deployer.cli.main import cli

ROOT = Path(__file__).resolve().parents[1]
DRIVER = ROOT / "tests" / "e2e" / "resume_driver.c"
CUTS = ROOT / "tests" / "e2e" / "cut_driver.c"
FLAGS = ["-std=gnu99", "-O1", "-ffp-contract=off", "-fno-pie", "-no-pie", "-DPLAN_CORES=1"]


def driven(folder: Path, driver: Path, without: str = "main.o") -> str:
    """What a driver says that is linked with a project's program, without one of its objects."""
    call = re.search(r"net_train_step\((.*?)\);", (folder / "main.c").read_text(), re.DOTALL)
    assert call
    step = re.sub(r"NET_LEARNING_RATES\[.*\]", "NET_LEARNING_RATE", " ".join(call[1].split()))
    make = ["make", "-s", "-C", str(folder), "build/host/train", "TRACE=0", "CORES=1"]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
    host = folder / "build" / "host"
    objects = [str(p) for p in host.rglob("*.o") if str(p.relative_to(host)) not in ("main.o", without)]
    includes = [f"-I{folder}", f"-I{folder / 'kernels'}", f"-DSTEP(sample)=net_train_step({step})"]
    program = str(folder / "build" / driver.stem)
    subprocess.run(["cc", *FLAGS, *includes, str(driver), *objects, "-pthread", "-lm", "-o", program], check=True)
    return subprocess.run([program], capture_output=True, text=True, check=False).stdout


def resumed(example: Path, folder: Path) -> str:
    """What the drivers say of an example."""
    options = ["--model", str(example), "--cores", "8", "--l1", "64k", "--l2", "8M", "--out", str(folder)]
    deployed = CliRunner().invoke(cli, options)
    if deployed.exit_code:
        return deployed.output
    return driven(folder, DRIVER) + driven(folder, CUTS, without="kernels/state.o")


def emulated(folder: Path) -> str:
    """Two steps here; one here and the second there; one there and the second here: the same three states."""
    here, there = ("host", "TRACE=0"), ("qemu", "TRACE=0")
    for name, (machine, *words) in {
        "both": (*here, "STEPS=2"),
        "first": (*here, "STEPS=1"),
        "then there": (*there, "STEPS=2", f"LOAD={folder / 'first'}"),
        "there": (*there, "STEPS=1"),
        "then here": (*here, "STEPS=2", f"LOAD={folder / 'there'}"),
    }.items():
        make = ["make", "-s", "-C", str(folder), machine, *words, f"SAVE={folder / name.replace(' ', '_')}"]
        subprocess.run(make, capture_output=True, check=False)
    states = [(folder / name).read_bytes() for name in ("both", "then_there", "then_here")]
    alike = states[0] == states[1] == states[2] and (folder / "first").read_bytes() == (folder / "there").read_bytes()
    return "the same bits" if alike else "OTHER BITS"


def main() -> None:
    print("| network | bytes of the state | k from 0 to 10 | cut, loaded | cut at every byte | emulated cluster |")
    print("|---|---|---|---|---|---|")
    for example in [Path(a) for a in sys.argv[1:]] or all_examples():
        with tempfile.TemporaryDirectory() as place:
            said = resumed(example, Path(place, "p"))
            found = re.fullmatch(r"fine: 10 steps, (\d+) bytes, (\d+) cuts\nfine: (\d+) cuts\n", said)
            if found:
                bytes_of_state, loaded, decided = (f"{int(number):,}" for number in found.groups())
                told = f"{bytes_of_state} | the same bits | {loaded} | {decided} | {emulated(Path(place, 'p'))}"
            else:
                told = f"| {said} | | |"
        print(f"| {example.stem} | {told} |", flush=True)


if __name__ == "__main__":
    main()
