"""python -m tests.suites.run: PyTorch's tables and networks of packages, deployed, verified and held against eager
PyTorch. What is done already is not done again; docs/coverage.md is written from what is known."""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tests.suites import networks, tables
from tests.suites.forked import in_process
from tests.suites.report import coverage
from tests.suites.trial import CRASHED, FAILURES, SLOW, Outcome, attempt, attempt_all, through

ALL = ("modules", "operators", "networks", "emulated")
GIGABYTES = 12
RESULTS = {"fp32": "results.jsonl", "mixed": "results-mixed.jsonl"}


@dataclass(frozen=True)
class Item:
    """What runs in one process."""

    suite: str
    name: str
    work: Callable[[Path], list[Outcome]]


def items(suites: set[str], dtype: str = "fp32", most: int = tables.MOST_SAMPLES) -> Iterator[Item]:
    for suite, table in (("modules", tables.modules), ("operators", tables.operators)):
        if suite in suites:
            for name, samples in table(most).items():
                yield Item(suite, name, lambda folder, n=name, s=samples: attempt_all(n, list(s()), folder, dtype))
    if "networks" in suites:
        for name, make in networks.all_networks().items():
            yield Item("networks", name, lambda folder, n=name, m=make: [network(n, m, dtype, folder)])
    if "emulated" in suites:
        made = networks.all_networks()
        for name in networks.EMULATED:
            ran = lambda folder, n=name, m=made[name]: [network(n, m, dtype, folder, "qemu")]  # noqa: E731
            yield Item("emulated", f"{name}, emulated", ran)


def network(name: str, make: networks.Make, dtype: str, folder: Path, on: str = "host") -> Outcome:
    subject = replace(networks.subject(name, make), dtype=dtype)
    found = attempt(subject, folder, partial(through, on=on))
    return found if on == "host" else replace(found, name=f"{name}, emulated")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.suites.run", description=__doc__)
    parser.add_argument("--suites", default=",".join(ALL), help="which, with commas")
    parser.add_argument("--dtype", default="fp32", choices=RESULTS, help="the precision to deploy in")
    parser.add_argument("--samples", type=int, default=tables.MOST_SAMPLES, help="of one module or operator, at most")
    parser.add_argument("--only", default="", help="items whose name contains one of these, also if done already")
    parser.add_argument("--again", action="store_true", help="do again what failed")
    parser.add_argument("--fresh", action="store_true", help="do everything again, whatever is known")
    parser.add_argument("--part", default="1/1", help="of all items the K-th of N shares, such as 2/8")
    parser.add_argument("--seconds", type=int, default=300, help="the time limit of one")
    parser.add_argument("--work", type=Path, default=Path("build/suites"), help="results and projects that failed")
    parser.add_argument("--write", type=Path, help="the document to write")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    given.work.mkdir(parents=True, exist_ok=True)
    store = given.work / RESULTS[given.dtype]
    todo = list(items(set(given.suites.split(",")), given.dtype, given.samples))
    suites = {item.name: item.suite for item in items(set(ALL))}
    known = read_known(store, suites)
    share, shares = map(int, given.part.split("/"))
    if {"networks", "emulated"} & set(given.suites.split(",")):
        networks.preload()
    for item in todo[share - 1 :: shares]:
        before = None if given.fresh else known.get(item.name)
        if given.only and not any(word in item.name for word in given.only.split(",")):
            continue
        failed = before is not None and any(o["kind"] in FAILURES for o in before["outcomes"])
        if before is not None and not given.only and not (given.again and failed):
            continue
        known[item.name] = done(item, given.work, given.seconds)
        with store.open("a") as out:
            out.write(json.dumps(known[item.name]) + "\n")
        say(known[item.name])
    if given.write:
        entries = {dtype: list(read_known(given.work / name, suites).values()) for dtype, name in RESULTS.items()}
        given.write.write_text(coverage(entries["fp32"], Counter(suites.values()), entries["mixed"]))
    return int(any(o["kind"] in FAILURES for entry in known.values() for o in entry["outcomes"]))


def read_known(store: Path, every: Collection[str]) -> dict[str, Any]:
    """The last entry of each item that there is."""
    entries = map(json.loads, store.read_text().splitlines()) if store.exists() else ()
    return {entry["name"]: entry for entry in entries if entry["name"] in every}


def done(item: Item, work: Path, seconds: int) -> dict[str, Any]:
    label = "".join(c if c.isalnum() else "_" for c in item.name)
    start = time.monotonic()

    def outcomes() -> Iterator[dict[str, Any]]:
        for outcome in item.work(work / label):
            yield asdict(outcome)

    found, end = in_process(outcomes, seconds, GIGABYTES, work / f"{label}.log")
    errors = [r["error"] for r in found if "error" in r]
    found = [r for r in found if "error" not in r]
    if end != "done":
        kind = SLOW if end == "slow" else CRASHED
        found.append(asdict(Outcome(item.name, kind, (errors or [end])[0])))
    else:
        (work / f"{label}.log").unlink(missing_ok=True)
    took = round(time.monotonic() - start, 1)
    return {"name": item.name, "suite": item.suite, "seconds": took, "outcomes": found}


def say(entry: dict[str, Any]) -> None:
    for o in entry["outcomes"]:
        print(f"{o['kind']:15s} {o['name']}  {o['detail']}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
