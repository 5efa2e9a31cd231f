"""docs/coverage.md from what was found: counts, every failure, every refusal with its reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from tests.suites.trial import CRASHED, FAILURES, NOT_APPLICABLE, REFUSED, SLOW, UNFIT, VERIFIED, WRONG

TITLES = {
    "modules": "PyTorch's table of modules",
    "operators": "PyTorch's table of operators",
    "networks": "Networks of packages",
    "emulated": "Networks on the emulated cluster",
}
KINDS = (VERIFIED, REFUSED, WRONG, CRASHED, SLOW, UNFIT, NOT_APPLICABLE)
HEAD = """# Coverage

Written by `make suites`. Each sample and network is deployed for 8 cores, 64 kB of L1 and 64 MB of L2, built for the
host, and trained for two steps. *Verified* says that every loss, output, gradient, parameter and state agrees with the
golden model, and that the losses, the first gradients and the last parameters and buffers agree with plain PyTorch on a
copy that was made before the deployment. What *does not apply* has no gradient in PyTorch, or one that is not finite.
The first column counts modules, operators and networks, the others samples.
"""
IN_MIXED = """
## In mixed precision

With `--dtype mixed`, fewer samples of each. What a function of the tables gets and what it gives are activations
then, not parameters and outputs, which would be floats; what *does not apply* may also be numbers above 32,752, half of
the largest that halves have.
"""
LONGEST = 170
Entries = list[dict[str, Any]]


def coverage(entries: Entries, totals: Mapping[str, int], mixed: Entries) -> str:
    """`totals` counts the modules, operators and networks that there are; the rest was not run yet."""
    lines = [HEAD, *counts_of(entries, totals)]
    for suite, title in TITLES.items():
        lines += ["", f"## {title}", *section([e for e in entries if e["suite"] == suite])]
    if mixed:
        there = {suite: n for suite, n in totals.items() if any(e["suite"] == suite for e in mixed)}
        lines += [IN_MIXED, *counts_of(mixed, there), *faults([o for e in mixed for o in e["outcomes"]])]
    return "\n".join(lines) + "\n"


def counts_of(entries: Entries, totals: Mapping[str, int]) -> Iterator[str]:
    yield from ("| | run | " + " | ".join(KINDS) + " |", "|---" * (len(KINDS) + 2) + "|")
    for suite, title in ((s, t) for s, t in TITLES.items() if s in totals):
        mine = [e for e in entries if e["suite"] == suite]
        counts = Counter(o["kind"] for e in mine for o in e["outcomes"])
        yield f"| {title} | {len(mine)} of {totals[suite]} | " + " | ".join(str(counts[k]) for k in KINDS) + " |"


def section(entries: Entries) -> Iterator[str]:
    outcomes = [o for e in entries for o in e["outcomes"]]
    good = {e["name"] for e in entries if all(o["kind"] in (VERIFIED, NOT_APPLICABLE) for o in e["outcomes"])}
    named = sorted(plain(e["name"]) for e in entries if e["name"] in good and has(e, VERIFIED))
    yield from ("", f"Verified whole ({len(named)}): " + ", ".join(named) + ".")
    yield from faults(outcomes)


def faults(outcomes: Entries) -> Iterator[str]:
    """What failed and what is refused."""
    for title, kinds in (("Failures", (*FAILURES, UNFIT)), ("Refused", (REFUSED,))):
        rows = [o for o in outcomes if o["kind"] in kinds]
        if rows:
            yield from ("", f"### {title}", "", "| what | why |", "|---|---|")
            yield from grouped(rows)


def has(entry: dict[str, Any], kind: str) -> bool:
    return any(o["kind"] == kind for o in entry["outcomes"])


def grouped(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Samples of one operator with one reason share a row."""
    found: dict[tuple[str, str], int] = {}
    for o in rows:
        word = "" if o["kind"] == REFUSED else f"{o['kind']}: "
        key = (plain(re.sub(r" \d+$", "", o["name"])), reason(word + o["detail"]))
        found[key] = found.get(key, 0) + 1
    for (name, why), count in sorted(found.items()):
        yield f"| {name}{f' ({count} samples)' if count > 1 else ''} | {why} |"


def plain(name: str) -> str:
    return name.removeprefix("module ").removeprefix("op ")


def reason(words: str) -> str:
    """On one line of a table, without the names that the suite itself gave."""
    words = re.sub(r" in layer '(branches|net)[^']*'", "", words)
    words = " ".join(words.split()).replace("|", "\\|").replace("*", "\\*")
    return words if len(words) <= LONGEST else words[: LONGEST - 3] + "..."
