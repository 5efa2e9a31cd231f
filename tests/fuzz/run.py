"""python -m tests.fuzz.run --seeds 0:500: random networks, deployed and verified; what fails is made small and kept."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import torch

from tests.fuzz.modules import FEATURES, MOST_STEPS, Recipe, source
from tests.fuzz.trial import SECONDS, Outcome, Setting, attempt, setting
from trainlib_deployer.options import DTYPES

REGRESSIONS = Path(__file__).parent / "regressions"
MOST_TRIES = 40


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    parser.add_argument("--seeds", default="0:20", help="FIRST:END, or one seed")
    parser.add_argument("--target", help="a preset instead of random cores and L1")
    parser.add_argument("--sanitize", default="", help="address,undefined or thread")
    parser.add_argument("--dtype", choices=DTYPES, default="fp32")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="a network's time; on a busy machine more")
    parser.add_argument("--keep", type=Path, help="keep every net.py and project here")
    parser.add_argument("--no-shrink", action="store_true", help="only report failures")
    given = parser.parse_args()
    torch.set_num_threads(1)
    first, _, end = given.seeds.partition(":")
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        base = given.keep or Path(scratch)
        found: dict[int, Outcome] = {}
        for seed in range(int(first), int(end or int(first) + 1)):
            where = replace(setting(seed, given.target, given.sanitize), dtype=given.dtype)
            found[seed] = one(Recipe(seed), where, base, given.seconds)
            report(seed, where, found[seed])
            if found[seed].bad and not given.no_shrink:
                keep(seed, where, found[seed], base)
            if given.keep is None:
                shutil.rmtree(base / str(seed), ignore_errors=True)
    return summary(found)


def one(recipe: Recipe, where: Setting, base: Path, seconds: int = SECONDS) -> Outcome:
    folder = base / str(recipe.seed)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    net = folder / "net.py"
    net.write_text(source(recipe))
    return attempt(net, where, folder / "project", base / "objects", seconds)


def report(seed: int, where: Setting, found: Outcome) -> None:
    words = " | ".join(w for w in (found.facts, found.detail.replace("\n", " ")[:400]) if w)
    print(f"{seed:5d} {found.kind:12s} {found.seconds:5.1f} s  {where} | {words}", flush=True)


def summary(found: dict[int, Outcome]) -> int:
    print()
    for kind, count in Counter(o.kind for o in found.values()).most_common():
        seeds = [s for s, o in found.items() if o.kind == kind]
        print(f"{kind:12s} {count:5d}" + ("" if kind == "passed" else f"  seeds {' '.join(map(str, seeds))}"))
    return int(any(o.bad for o in found.values()))


# ---- making failures small


def shrunk(recipe: Recipe, where: Setting, failure: Outcome, base: Path) -> tuple[Recipe, Setting]:
    """Steps and features are left out one after the other, as long as it fails in the same way."""
    tries = 0

    def fails(candidate: Recipe, at: Setting) -> bool:
        nonlocal tries
        tries += 1
        if tries > MOST_TRIES:
            return False
        return one(candidate, at, base).signature == failure.signature

    for plainer in (replace(where, accumulate=1), replace(where, poison=False), replace(where, l1="128M")):
        if plainer != where and fails(recipe, plainer):
            where = plainer
    half = frozenset(range(MOST_STEPS // 2, MOST_STEPS + 1))
    for several in (half, frozenset(range(1, MOST_STEPS // 2))):
        candidate = replace(recipe, dropped=recipe.dropped | several)
        recipe = candidate if fails(candidate, where) else recipe
    for feature in FEATURES:
        candidate = replace(recipe, plain=recipe.plain | {feature})
        if source(candidate) != source(recipe) and fails(candidate, where):
            recipe = candidate
    for number in range(MOST_STEPS, 0, -1):
        candidate = replace(recipe, dropped=recipe.dropped | {number})
        if source(candidate) != source(recipe) and fails(candidate, where):
            recipe = candidate
    return recipe, where


def keep(seed: int, where: Setting, failure: Outcome, base: Path) -> None:
    """The smallest network that still fails, with its setting in the first line."""
    small, where = shrunk(Recipe(seed), where, failure, base)
    again = one(small, where, base)
    report(seed, where, again)
    REGRESSIONS.mkdir(exist_ok=True)
    kind = failure.kind.lower()
    path = REGRESSIONS / f"{kind}_{seed}.py"
    path.write_text(f"# {fields(where)}\n{source(small)}")
    print(f"      kept as {path.name}", flush=True)


def fields(where: Setting) -> str:
    """The setting as the first line of a kept file tells it."""
    return " ".join(f"{k}={v}" for k, v in vars(where).items() if v != getattr(Setting(), k))


def setting_of(net: Path) -> Setting:
    """Reads what `fields` wrote."""
    words = dict(w.split("=", 1) for w in net.read_text().partition("\n")[0].removeprefix("#").split() if "=" in w)
    plain = Setting()
    return Setting(
        int(words.get("cores", plain.cores)),
        words.get("l1", plain.l1),
        words.get("l2", plain.l2),
        words.get("target"),
        int(words.get("accumulate", 1)),
        words.get("poison") == "True",
        words.get("sanitize", ""),
        words.get("dtype", plain.dtype),
    )


if __name__ == "__main__":
    sys.exit(main())
