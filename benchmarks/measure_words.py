"""The bytes that a compiler makes of a word of generated code: trainlib_deployer/image/measured/*.words.

    python -m benchmarks.measure_words BUILD [OBJECTS FOLDER ...]

FOLDERs are deployed projects that were built with their checks (TRACE=1), OBJECTS is a pattern of their objects;
without them all examples are deployed and built.
A function's bytes are fitted by those of its words, none of them negative; then all are made larger, and every project
by so many bytes more, that none comes out too small, and all together the least too large. What all parts of every
project are too large by is taken off again.
"""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_linker import EXAMPLES, deploy
from benchmarks.measure_code import BUILDS, MEASURED, Build
from benchmarks.objects import Elf
from trainlib_deployer.folder import read_plan
from trainlib_deployer.image.words import counted

FUNCTION = re.compile(r"^[\w() ]+?[ *](\w+)\([^;{}()]*\)\n\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
PARTS = ("forward", "loss", "backward", "update")
COPIED = ".rodata..L__const."  # the constants that a function begins with
OF_STEP = re.compile(f"op_.*|{'|'.join(PARTS)}")
ROUNDS = 600
TURNS = (0, 800)  # words of all turns of a loop that is unrolled: what some compilers do, and others do not
Text = tuple[str | Counter[str], int]
Sample = tuple[Counter[str], int]
Array = np.ndarray[Any, np.dtype[np.float64]]


def sizes(path: Path) -> dict[str, int]:
    """Bytes of each function, with the constants that it begins with: which of the two they are is the compiler's."""
    elf = Elf.of(path)
    found: dict[str, int] = {}
    for i, s in enumerate(elf.sections):
        if s.loaded and s.kind == "code":
            name = next(x.name for x in elf.symbols if x.section == i and x.name and not x.name.startswith(("$", ".L")))
        elif s.loaded and s.name.startswith(COPIED):
            name = s.name.removeprefix(COPIED).split(".")[0]
        else:
            continue
        found[name] = found.get(name, 0) + elf.linked(i)
    return found


def functions(text: str) -> dict[str, str]:
    return {m[1]: m[2] for m in FUNCTION.finditer(COMMENT.sub("", text))}


def of_project(folder: Path, objects: str) -> dict[str, list[Text]]:
    """Under `step` and `loop` a sample a function; under the others one."""
    net, loops, main, state = (next(folder.glob(objects % name)) for name in ("net", "loops", "main", "state"))
    plan = read_plan(folder)
    bodies, of_net = functions((folder / "net.c").read_text()), sizes(net)
    of_loops, loop_bodies = sizes(loops), functions((folder / "loops.c").read_text())
    other = sum(size for name, size in of_net.items() if not OF_STEP.fullmatch(name))
    kept = sum(t["kind"] in ("parameter", "state") for t in plan["trace"])
    calls = plan["interface"]
    interface = Counter(function=1, argument=len(calls["arguments"]), output=len(calls["outputs"]))
    return {
        "step": [(bodies.get(n, ""), size) for n, size in of_net.items() if OF_STEP.fullmatch(n)],
        "loop": [(loop_bodies.get(n, ""), size) for n, size in of_loops.items()],
        "interface": [(interface, other)],
        "state": [(Counter(function=1), code_of(state))],
        "main": [(Counter(function=1, trace=kept), code_of(main))],
    }


def code_of(path: Path) -> int:
    """All of a source, but for what is a table or a tensor."""
    kinds = (".text", ".rodata", ".srodata")
    elf = Elf.of(path)
    found = (i for i, s in enumerate(elf.sections) if s.loaded and s.name.startswith(kinds))
    return sum(elf.linked(i) for i in found if not elf.sections[i].name.endswith(".pieces"))


def fitted(samples: list[Sample]) -> dict[str, float]:
    """Least squares, one word after the other, none below zero."""
    words = ["function", *sorted({w for found, _ in samples for w in found} - {"function"})]
    terms = np.array([[1.0, *(float(found[w]) for w in words[1:])] for found, _ in samples])
    bytes_of = np.array([float(size) for _, size in samples])
    weight = 1 / np.sqrt(np.maximum(bytes_of, 32))
    a, b = terms * weight[:, None], bytes_of * weight
    square, right = a.T @ a, a.T @ b
    found: Array = np.zeros(len(words))
    for _ in range(ROUNDS):
        for j in range(len(words)):
            if square[j, j]:
                found[j] = max(0.0, found[j] + (right[j] - square[j] @ found) / square[j, j])
    return dict(zip(words, found.tolist(), strict=True))


def estimate(weights: dict[str, float], samples: Iterable[Sample]) -> float:
    return sum(weights["function"] + sum(weights[w] * n for w, n in f.items() if w != "function") for f, _ in samples)


def lines(projects: list[dict[str, list[Text]]]) -> Iterator[str]:
    found: dict[str, dict[str, float]] = {}
    for where in projects[0]:
        texts = [p[where] for p in projects]
        spread, found[where] = min((fit(texts, unrolled) for unrolled in TURNS), key=lambda found: found[0])
        print(f"{where}: all estimates are then {spread:.3f} of what is")
    spare = min(sum(beyond(found[where], texts) for where, texts in p.items()) for p in projects)
    spare = min(spare, found["main"]["function"])  # which is of no firmware: that stays on the safe side
    found["main"]["project"] -= spare
    print(f"all together are then too large by {spare:.0f} at least, which is taken off")
    for where, weights in found.items():
        yield from (f"{where} {word} {size:.3f}" for word, size in weights.items())


def beyond(weights: dict[str, float], texts: list[Text]) -> float:
    """What a part of a project is estimated too large by."""
    samples = sampled(texts, int(weights.get("unrolled", 0)))
    return estimate(weights, samples) + weights["project"] - sum(size for _, size in samples)


def sampled(texts: list[Text], unrolled: int) -> list[Sample]:
    return [(f if isinstance(f, Counter) else counted(f, unrolled), size) for f, size in texts]


def fit(projects: list[list[Text]], unrolled: int) -> tuple[float, dict[str, float]]:
    """Weights that make no project too small, and how much too large they make all."""
    samples = [sampled(p, unrolled) for p in projects]
    weights = fitted([s for p in samples for s in p])
    made = [(sum(size for _, size in p), estimate(weights, p)) for p in samples]
    scale, constant = raised(made)
    scaled = {word: size * scale for word, size in weights.items()} | {"project": constant}
    named = [size for word, size in scaled.items() if word.startswith("tl_")]
    more = {"unknown": max(named), "unrolled": unrolled} if named else {}
    return sum(scale * guess + constant for _, guess in made) / sum(size for size, _ in made), scaled | more


def raised(made: list[tuple[int, float]]) -> tuple[float, float]:
    """What estimates are multiplied by, and what is added to each, so that none is below its size."""
    pairs = itertools.combinations(made, 2)
    slopes = [(z - y) / (h - g) for (y, g), (z, h) in pairs if h != g]
    found = [(s, max(0.0, *(size - s * guess for size, guess in made))) for s in (1.0, *slopes) if s >= 1]
    return min(found, key=lambda f: sum(f[0] * guess + f[1] for _, guess in made))


def built(build: Build, work: Path) -> Iterator[Path]:
    """Every example, as the compiler's own target has it."""
    for example in sorted(EXAMPLES.glob("*.py")):
        folder = work / example.stem
        deploy(example, build.target, folder)
        subprocess.run(["make", "-s", "-C", str(folder), *build.step_goal], check=True, stdout=subprocess.DEVNULL)
        yield folder


def main(name: str, objects: str = "", *folders: str) -> None:
    build = BUILDS[name]
    with tempfile.TemporaryDirectory() as work:
        there = [Path(folder) for folder in folders] or list(built(build, Path(work)))
        projects = [of_project(folder, objects or build.step_objects) for folder in there]
        (MEASURED / f"{name}.words").write_text("\n".join((*lines(projects), "")))


if __name__ == "__main__":
    main(*sys.argv[1:])
