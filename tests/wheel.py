"""Builds the wheel and tries it where nothing of the checkout is: `python -m tests.wheel --out dist`.

An empty environment gets the wheel and what it asks for (PyTorch in the CPU build that constraints.txt names), and its
`trainlib-deploy` deploys, builds and verifies an example from a directory elsewhere.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = (".venv*", ".git", "out", "generated", "build", "dist", "*.egg-info", ".*_cache", "__pycache__")


def built(out: Path) -> Path:
    """The wheel of this checkout, made from a copy: building leaves traces."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work) / "copy"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(out), str(copy)]
        subprocess.run(command, check=True)
    return max(out.glob("*.whl"), key=lambda path: path.stat().st_mtime)


def tried(wheel: Path, place: Path) -> str:
    """What it prints of an example, in an environment of its own."""
    venv.create(place / "venv", with_pip=True)
    pip = [str(place / "venv/bin/pip"), "install", "-q", "-c", str(ROOT / "constraints.txt")]
    subprocess.run([*pip, "torch==2.13.0"], check=True, cwd=place)
    subprocess.run([*pip, str(wheel.resolve())], check=True, cwd=place)
    shutil.copyfile(ROOT / "examples" / "trainlib_default.py", place / "trainlib_default.py")
    alone = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    command = [str(place / "venv/bin/trainlib-deploy"), "--model", "trainlib_default.py", "--cores", "8", "--l1", "64k"]
    done = subprocess.run([*command, "--run", "host"], check=True, cwd=place, env=alone, capture_output=True, text=True)
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("dist"))
    wheel = built(parser.parse_args().out)
    with tempfile.TemporaryDirectory() as place:
        printed = tried(wheel, Path(place))
    last = printed.splitlines()[-1]
    print(f"{wheel}: {last}")
    sys.exit(not last.startswith("PASS on host"))


if __name__ == "__main__":
    main()
