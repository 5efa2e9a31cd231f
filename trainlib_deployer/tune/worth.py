"""What it is worth to run operations otherwise: what the whole step takes more or less for each of them.

An operation starts transfers of those behind it and waits for some of the one before. So what the operations around it
take more or less counts as well, with the nearest of those that run otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

Taken = Sequence[tuple[str, int]]  # the operations of a step: a name, and what it takes


def changes(before: Taken, after: Taken, changed: Mapping[int, str]) -> dict[str, int]:
    """What the step takes more by each thing that is run otherwise, of those at positions of the step afterwards."""
    found = Counter(dict.fromkeys(changed.values(), 0))
    if [name for name, _ in before] != [name for name, _ in after]:
        former = dict(before)  # arranged otherwise: each operation by itself
        for at, work in changed.items():
            name, took = after[at]
            found[work] += took - former.get(name, 0)
        return dict(found)
    for at, ((_, old), (_, new)) in enumerate(zip(before, after, strict=True)):
        nearest = min(changed, key=lambda other: (abs(other - at), other), default=None)
        if nearest is not None:
            found[changed[nearest]] += new - old
    return dict(found)
