"""The bytes that a compiler makes of a word of generated code: trainlib_deployer/image/measured/*.words.

    python -m benchmarks.measure_words [--keep FOLDER] BUILD ...

All examples are deployed and built, for all BUILDs in turn: a step is captured once for them. What is in FOLDER, of
bench_linker or of a run of this that was ended, is not built again.
A function's bytes are fitted by those of its words, none of them negative. Then all of a firmware's are multiplied by
one number, and each project gets so many bytes more, that none comes out too small, and they are the least too large
on the average; what only a verification run has makes up for what is then too large.
Words that no example has keep the bytes that they had, as long as there is what they name.
"""

from __future__ import annotations

import argparse
import itertools
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import bench_linker
from benchmarks.deployments import all_examples, deploy, folder_of
from benchmarks.measure_code import BUILDS, MEASURED, STEP, Build
from benchmarks.objects import Elf
from trainlib_deployer.emit.library import WORD, Library
from trainlib_deployer.emit.resources import c_lib_dir
from trainlib_deployer.folder import PLAN, read_plan
from trainlib_deployer.image.words import STORED, STRUCT, apart, compiled, counted
from trainlib_deployer.kernels.table import ROWS
from trainlib_deployer.machine.targets import TARGETS

FUNCTION = re.compile(r"^[\w() ]+?[ *](\w+)\([^;{}()]*\)\n\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
PARTS = ("forward", "loss", "backward", "update")
COPIED = ".rodata..L__const."  # a struct of constants that a function begins with
CONSTANT = (".rodata", ".srodata")
NAMED = re.compile(r"(?!\$|\.L).")
OTHERS = ("main", "state")
OF_STEP = re.compile(f"op_.*|{'|'.join(PARTS)}")
ROUNDS = 600
SHORT = {"xf16auxvec": re.compile(r"\btl_(?:from|to)_half\b")}  # words that an instruction set makes an instruction
IN = "__in_"  # between such a word and that set
KIN = {  # what only a firmware has; compiled apart, 1.2 to 1.41 times as much, and, with what shares columns out, 2.5
    "tl_add_rows": ("tl_add_scaled", 2.6),
}
TURNS = (0, 800)  # words of all turns of a loop that is unrolled: what some compilers do, and others do not
Text = tuple[str | Counter[str], int]
Sample = tuple[Counter[str], int]
Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Object:
    """Bytes of a source's functions, of the structs that these begin with as (function, variable), and of its texts."""

    code: Mapping[str, int]
    structs: Mapping[tuple[str, str], int]
    texts: int

    @staticmethod
    def of(path: Path) -> Object:
        elf = Elf.of(path)
        code, structs, texts = Counter[str](), dict[tuple[str, str], int](), 0
        for i, s in enumerate(elf.sections):
            if s.loaded and s.kind == "code":
                code[next(x.name for x in elf.symbols if x.section == i and NAMED.match(x.name))] += elf.linked(i)
            elif s.loaded and s.name.startswith(COPIED):
                function, variable = s.name.removeprefix(COPIED).split(".")[:2]
                structs[function, variable] = s.size
            elif s.loaded and s.name.startswith(CONSTANT) and not s.name.endswith(".pieces"):
                texts += s.size
        return Object(code, structs, texts)


@dataclass(frozen=True)
class Project:
    """What is measured of one: samples of its functions' words by part, and of constants the bytes by what has them."""

    parts: Mapping[str, Sequence[Text]]
    constants: Mapping[str, int]

    @staticmethod
    def of(folder: Path, objects: str) -> Project:
        """Under `step` and `loop` a sample a function; under the others one."""
        net, loops, main, state = (Object.of(next(folder.glob(objects % name))) for name in ("net", "loops", *OTHERS))
        plan = read_plan(folder)
        step, loop = (functions((folder / f"{name}.c").read_text()) for name in ("net", "loops"))
        of_step = {name: size for name, size in net.code.items() if OF_STEP.fullmatch(name)}
        calls = plan["interface"]
        interface = Counter(function=1, argument=len(calls["arguments"]), output=len(calls["outputs"]))
        kept = sum(t["kind"] in ("parameter", "state") for t in plan["trace"])
        texts = ((lambda text: text), apart)[bool(net.structs)]
        sets = TARGETS[plan["target"]["name"]].team.instruction_sets
        parts = {
            "step": [(texts(step.get(name, "")), size) for name, size in of_step.items()],
            "loop": [(with_sets(compiled(loop.get(name, ""), True), sets), size) for name, size in loops.code.items()],
            "interface": [(interface, sum(net.code.values()) - sum(of_step.values()))],
            "state": [(Counter(function=1), sum(state.code.values()))],
            "main": [(Counter(function=1, trace=kept), sum(main.code.values()))],
        }
        structs = {type_of(step[name], variable): size for (name, variable), size in net.structs.items()}
        return Project(parts, {"main": main.texts, "state": state.texts, **structs})


def functions(text: str) -> dict[str, str]:
    return {m[1]: m[2] for m in FUNCTION.finditer(COMMENT.sub("", text))}


def with_sets(text: str, sets: Iterable[str]) -> str:
    """The same with words of their own for what is shorter by these instruction sets."""
    for name in SHORT.keys() & set(sets):
        text = SHORT[name].sub(rf"\g<0>{IN}{name}", text)
    return text


def type_of(text: str, variable: str) -> str:
    return next(m[1] for m in STRUCT.finditer(text) if m[2] == variable)


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


def lines(projects: list[Project]) -> Iterator[str]:
    fits = {where: fit([p.parts[where] for p in projects]) for where in projects[0].parts}
    main = fits.pop("main")
    brought = [sum(made, start=Made()) for made in zip(*(f.made for f in fits.values()), strict=True)]
    scale, spare = raised(brought)
    lacking = max(
        b.size + m.size - (scale * b.guess + spare + m.guess) for b, m in zip(brought, main.made, strict=True)
    )
    main.weights["function"] += max(lacking, -main.weights["function"])
    print(f"a firmware's estimates times {scale:.3f}, and {spare:.0f} bytes more, then {lacking:.0f} for the run")
    for where, f in fits.items():
        yield from f.lines(where, scale)
    yield from main.lines("main", 1)
    yield f"spare project {spare:.3f}"
    constants = {what: max(p.constants.get(what, 0) for p in projects) for p in projects for what in p.constants}
    yield from (f"constants {what} {size}" for what, size in sorted(constants.items()))


def with_former(new: Iterable[str], former: Iterable[str]) -> list[str]:
    """Behind each part's words those that had bytes in it before, and have none now."""
    measured = list(new)
    known = {tuple(line.split()[:2]) for line in measured}
    kept = [line for line in former if tuple(line.split()[:2]) not in known and is_there(line.split()[1])]
    order = {where: at for at, where in reversed([*enumerate(map(part_of, measured))])}
    return sorted([*measured, *kept], key=lambda line: order.get(part_of(line), len(order)))


def part_of(line: str) -> str:
    return line.split(maxsplit=1)[0].partition(".")[0]


def is_there(word: str) -> bool:
    """Does the C library have it, if it is one of its names?"""
    name = word.removeprefix(STORED)
    return not name.startswith("tl_") or name in names()


@cache
def names() -> frozenset[str]:
    """Of the library, those that kernels have for halves among them."""
    library = Library.at(c_lib_dir())
    texts = (*library.sources.values(), *(path.read_text() for path in library.headers.values()))
    written = {name for text in texts for name in WORD.findall(COMMENT.sub("", text))}
    return frozenset({*written, *library.inline, *(row.symbol for row in ROWS)})


@dataclass(frozen=True)
class Made:
    """Of a project or a part of it: what a compiler made, and what it is guessed to make."""

    size: int = 0
    guess: float = 0

    def __add__(self, other: Made) -> Made:
        return Made(self.size + other.size, self.guess + other.guess)


@dataclass(frozen=True)
class Fit:
    """Bytes of the words of a part, and what they say of each project."""

    weights: dict[str, float]
    unrolled: int
    made: tuple[Made, ...]

    @property
    def spread(self) -> float:
        """All estimates in terms of what is, once none is too small."""
        scale, spare = raised(self.made)
        return sum(scale * m.guess + spare for m in self.made) / sum(m.size for m in self.made)

    def lines(self, where: str, scale: float) -> Iterator[str]:
        scaled = {word: size * scale for word, size in self.weights.items()}
        scaled |= {word: scaled[kin] * times for word, (kin, times) in KIN.items() if kin in scaled}
        named = [size for word, size in scaled.items() if word.startswith("tl_")]
        more = {"unknown": max(named), "unrolled": self.unrolled} if named else {}
        for word, size in {**scaled, **more}.items():
            plain, _, name = word.partition(IN)
            yield f"{where}.{name} {plain} {size:.3f}" if name else f"{where} {word} {size:.3f}"


def fit(projects: list[Sequence[Text]]) -> Fit:
    """With the loops unrolled or not, whichever is nearer."""
    return min((fit_with(projects, unrolled) for unrolled in TURNS), key=lambda f: f.spread)


def fit_with(projects: list[Sequence[Text]], unrolled: int) -> Fit:
    samples = [[(f if isinstance(f, Counter) else counted(f, unrolled), n) for f, n in p] for p in projects]
    weights = fitted([s for p in samples for s in p])
    return Fit(weights, unrolled, tuple(Made(sum(n for _, n in p), estimate(weights, p)) for p in samples))


def raised(made: Sequence[Made]) -> tuple[float, float]:
    """What estimates are multiplied by, and what is added to each, so that none is below its size."""
    pairs = itertools.combinations(made, 2)
    slopes = [(b.size - a.size) / (b.guess - a.guess) for a, b in pairs if b.guess != a.guess]
    found = [(s, max(0.0, *(m.size - s * m.guess for m in made))) for s in (1.0, *slopes) if s >= 1]
    return min(found, key=lambda f: sum((f[0] * m.guess + f[1]) / max(m.size, 1) for m in made))


def built(example: Path, dtype: str, build: Build, work: Path) -> Iterator[Project]:
    """As the compiler's targets have it."""
    for target in (build.target, *build.others):
        folder = folder_of(work, target, example, dtype)
        if not all(list(folder.glob(build.step_objects % source)) for source in STEP):
            deploy_and_make(example, dtype, build, target, folder)
        yield Project.of(folder, build.step_objects)


def deploy_and_make(example: Path, dtype: str, build: Build, target: str, folder: Path) -> None:
    if not (folder / PLAN).is_file():
        deploy(example, target, folder, dtype)
    goals = [goal.format(folder) for goal in build.step_goal]
    if bench_linker.of_sdk(target):
        bench_linker.under_sdk(target, folder, *goals)
    else:
        bench_linker.make(["make", "-s", "-C", str(folder), *goals], folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("builds", nargs="+", choices=BUILDS)
    given = parser.parse_args()
    projects: dict[str, list[Project]] = {name: [] for name in given.builds}
    for example, dtype in itertools.product(all_examples(), ("fp32", "mixed")):
        with tempfile.TemporaryDirectory() as work:
            for name, found in projects.items():
                found += built(example, dtype, BUILDS[name], given.keep or Path(work))
    for name, found in projects.items():
        print(f"{name}: ", end="")
        path = MEASURED / f"{name}.words"
        path.write_text("\n".join((*with_former(lines(found), path.read_text().splitlines()), "")))


if __name__ == "__main__":
    main()
