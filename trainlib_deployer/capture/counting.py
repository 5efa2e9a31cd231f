"""Numbers in attributes and the like that go on from step to step, which a deployed step does not carry along: what a
count of steps will decide, only later steps would show. So a third step is run with such numbers as others, and each
comparison with them the other way round."""

from __future__ import annotations

import contextlib
import dis
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isnan
from typing import Any

import torch

from golden.borrow import uncompiled
from golden.containers import LENGTH, Count, is_iterator, is_plain, unlike_any
from golden.precision import InOrder, one_thread
from golden.snapshot import LIBRARIES, Snapshot
from trainlib_deployer.capture import remedies
from trainlib_deployer.capture.drawn import draws_watched, generators, seed
from trainlib_deployer.capture.eager import REMEDY, EagerStep, advance, differ, held, plain_values, step
from trainlib_deployer.capture.line_that_sets import line_that_sets
from trainlib_deployer.capture.other_values import constants, far, near, resize
from trainlib_deployer.capture.trace import mkldnn_off
from trainlib_deployer.capture.watched import Counting, Decided, Decisions, Line, Turned, followed, unwatched, watched
from trainlib_deployer.errors import Unsupported
from trainlib_deployer.program.ir import Source
from trainlib_deployer.user.code import user_code
from trainlib_deployer.user.model import UserModel, trainable
from trainlib_deployer.user.trial import quiet

RAISE = dis.opmap["RAISE_VARARGS"]
LOSS = "(1)."  # what the paths of its attributes begin with


@dataclass(frozen=True)
class Way:
    """How numbers are watched, which some networks notice."""

    floats: bool = False  # in place of integers: one on the left asks no integer, whatever its class, what to do
    calls: bool = False  # through `int`, `float` and `len`


WATCHED = Way()
ALSO = (Way(floats=True), Way(calls=True))
SEEDS = 8
MOST, MOST_OF_LARGE, LARGE = 64, 12, 1 << 20  # values that are tried; of networks with so many parameters


Tensors = Mapping[Any, torch.Tensor]
Kinds = Mapping[tuple[int, Any], Any]  # of what containers hold, by their ids and keys


@dataclass(frozen=True)
class Run:
    """What a step computed and left, and the comparisons on its way."""

    tensors: Tensors
    plain: Mapping[str, Any]
    decisions: Decisions
    kinds: Kinds
    then: Tensors | None = None  # of the step after, where that tells more

    def agrees(self, other: Run, resized: Collection[str] = ()) -> bool:
        """What lies in a `resized` container is elsewhere in it, and counts by what is made of it."""
        later = self.then is None or other.then is None or alike(self.then, other.then)
        return later and alike(outside(self.tensors, resized), outside(other.tensors, resized))


@dataclass(frozen=True)
class Variant:
    """A step with other values of attributes, with the comparisons on a line the other way round, or with other numbers
    looked up and written out."""

    names: tuple[str, ...]
    values: Mapping[str, Any] = field(default_factory=dict)
    turned: Turned | None = None
    told: int | float | None = None
    seed: int | None = None  # of generators of random numbers
    source: Source | None = None
    way: Way = WATCHED
    possible: bool = True  # else what fails tells nothing: values that do not go together, or that are never met
    nearer: Variant | None = None  # for where forward gives up at such a value

    def refusal(self, things: Iterable[Any]) -> Unsupported:
        if not self.names:
            return Unsupported(
                "forward or loss draws random numbers from Python's or NumPy's generators, and results depend on them",
                source=self.source,
                remedy=remedies.DRAWN,
            )
        what = ", ".join(f"'{n.removeprefix(LOSS)}'" for n in sorted(self.names))
        return Unsupported(
            f"forward or loss changes {what} from step to step, and results depend on it: "
            "a deployed step carries tensors along, no numbers of Python",
            source=self.source or line_that_sets(things, self.names),
            remedy=remedies.COUNTED,
        )


Ways = Mapping[str, tuple[Any, Any]]  # on which values go, by their names: from what, to what


def changing(steps: Sequence[EagerStep]) -> dict[str, tuple[Any, Any]]:
    """Numbers and the like that the second step leaves otherwise than the first one."""
    first, second = steps[0].plain, steps[1].plain
    return {
        n: (first[n], now) for n, now in second.items() if n in first and (apart(first[n], now) or is_iterator(now))
    }


def check_counting(user: UserModel, steps: Sequence[EagerStep]) -> None:
    """Refuse what numbers that go on will change in the results, in some later step."""
    ways: Ways = changing(steps)
    drawn = any(s.drawn for s in steps)
    if not ways and not drawn:
        return
    with user.start.undone():
        advance(user, 2, update=False)
        third = Third(user, Snapshot(user.module, user.loss, like=user.start), drawn)
        ways = third.depends_on(ways)
        while ways:
            ways = third.depends_on(ways)


@dataclass
class Third:
    """The third step from the same beginning, as often as one likes."""

    user: UserModel
    start: Snapshot
    drawn: bool  # random numbers, which are watched, too
    seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.first = dict(entries(self.start))

    @cached_property
    def constants(self) -> list[Any]:
        return constants(self.start)

    @cached_property
    def most(self) -> int:
        large = sum(p.numel() for p in self.user.module.parameters()) > LARGE
        return MOST_OF_LARGE if large else MOST

    def depends_on(self, ways: Ways) -> Ways:
        """Refuse if results depend on numbers that change; else what else they decide about."""
        places = self.start.plain
        self.seen |= set(ways)
        with user_code("training fails in step 3", REMEDY):
            usual = self.run(Variant(()))
        self.differing(usual, [Variant((), seed=n) for n in range(SEEDS if self.drawn else 0)])
        numbers = tuple(n for n in ways if not is_iterator(places[n].value))
        found = self.differing(usual, [*turned(usual.decisions.lines, numbers), *self.further(ways)])
        for way in ALSO:
            if (more := self.alike(usual, way)) is not None:
                lines = {k: v for k, v in more.decisions.lines.items() if k not in usual.decisions.lines}
                found |= self.differing(more, [*turned(lines, numbers, way), *self.longer(more.decisions.wanted)])
        found |= self.differing(usual, [*self.told(usual.decisions, numbers), *self.tried(ways)])
        return {n: v for n, v in found.items() if n in places and n not in self.seen}

    def further(self, ways: Ways) -> Iterator[Variant]:
        """Each on its way, but far on."""
        for name, (before, now) in ways.items():
            place = self.start.plain[name]
            variant: Variant | None = None
            for other in reversed(far(before, now, place.key)):
                variant = Variant((name,), {name: other}, nearer=variant)
            yield from (v for v in (variant,) if v is not None)
            if apart(now, place.value) and not is_iterator(now):
                yield Variant((name,), {name: now})

    def longer(self, wanted: Mapping[int, set[int]]) -> Iterator[Variant]:
        """Containers as long as they would have to be to equal what their length is compared with, or nearly so."""
        lengths = {id(p.container): (n, p.value) for n, p in self.start.plain.items() if p.key is LENGTH}
        for name, length in (lengths[i] for i in wanted):
            around = sorted({m + d for m in wanted[id(self.start.plain[name].container)] for d in (-1, 0, 1)})
            yield from (Variant((name,), {name: length + m}, possible=False) for m in around if m)

    def told(self, decisions: Decisions, names: tuple[str, ...]) -> Iterator[Variant]:
        """Other numbers, where numbers are looked up or written out."""
        source = next((s for s in decisions.asked.values() if s is not None), None)
        told = [c for c in (*self.constants, unlike_any(0)) if not isinstance(c, str)] if decisions.asked else ()
        yield from (Variant(names, told=n, source=source, possible=False) for n in told[: self.most])

    def tried(self, ways: Ways) -> Iterator[Variant]:
        """All of them at what stands in the code, for what no number can tell of: np.int64(n), torch.tensor(n)."""
        count = 0
        for constant in self.constants:
            near_it = {n: near(*way, constant, self.start.plain[n].key) for n, way in ways.items()}
            values = {n: v for n, v in near_it.items() if v is not None}
            if values and count < self.most:
                count += 1
                yield Variant(tuple(values), values, possible=False)

    def alike(self, usual: Run, way: Way) -> Run | None:
        """The step with numbers watched in this way, where nothing hangs on that."""
        with contextlib.suppress(Exception):
            run = self.run(Variant((), way=way), usual)
            return run if run.agrees(usual) else None
        return None

    def differing(self, usual: Run, variants: Iterable[Variant]) -> dict[str, tuple[Any, Any]]:
        """Attributes that a variant leaves otherwise; nothing else may be different."""
        found: dict[str, tuple[Any, Any]] = {}
        for variant in variants:
            run = self.tried_out(variant, usual)
            if run is None:
                continue
            if not run.agrees(usual, [n[4:-1] for n in variant.values if self.start.plain[n].key is LENGTH]):
                raise variant.refusal(self.start.things.values())
            pairs = ((n, (usual.plain[n], v)) for n, v in run.plain.items() if n in usual.plain)
            found |= {n: pair for n, pair in pairs if apart(*pair)}
        return found

    def tried_out(self, variant: Variant | None, usual: Run) -> Run | None:
        """Where the user's code ends, no results are other ones."""
        while variant is not None:
            try:
                return self.run(variant, usual)
            except Exception as err:  # what does not work with another value depends on it
                if variant.possible and not given_up(err):
                    raise variant.refusal(self.start.things.values()) from None
                variant = variant.nearer
        return None

    def run(self, variant: Variant, usual: Run | None = None) -> Run:
        user, decisions, way = self.user, Decisions(variant.turned, variant.told), variant.way
        with self.start.undone(), quiet(), one_thread(), uncompiled(), mkldnn_off(), InOrder(), torch.enable_grad():
            user.module.zero_grad(set_to_none=True)
            things = self.start.things.values() if self.drawn else ()
            for generator in generators(things) if variant.seed is not None else ():
                seed(generator, variant.seed or 0)
            for name in sorted(self.seen, key=lambda n: self.start.plain[n].key is LENGTH):
                self.put(name, variant, decisions)
            spaces = self.start.spaces.values()
            with (
                followed(spaces if way.calls else (), decisions),
                draws_watched(things, spaces, decisions) if self.drawn else contextlib.nullcontext(),
            ):
                results = step(user, 2, trainable(user.module) if user.trains else {})
                after, now = held(user, self.start)
                plain = {n: unwatched(v) for n, v in plain_values(user, now).items()}
                kinds = self.kinds()
                decisions.turned = decisions.told = None
                then = self.step_after() if usual is None or kinds != usual.kinds else None
        return Run({**results, **after}, plain, decisions, kinds, then)

    def kinds(self) -> Kinds:
        """What else than numbers and the like is not what it was shows in later steps alone, if anywhere."""
        now = entries(self.start)
        return {at: is_plain(thing) or (type(thing), thing is self.first.get(at)) for at, thing in now}

    def step_after(self) -> Tensors | None:
        with contextlib.suppress(Exception):
            self.user.module.zero_grad(set_to_none=True)
            return step(self.user, 3, trainable(self.user.module) if self.user.trains else {})
        return None

    def put(self, name: str, variant: Variant, decisions: Decisions) -> None:
        """The value in its place, watched."""
        place = self.start.plain[name]
        value = variant.values.get(name, place.value)
        if place.key is LENGTH:
            decisions.lengths.add(id(place.container))
            if name in variant.values:
                resize(place.container, value)
        elif isinstance(value, Count):
            place.container[place.key] = Counting(watched(value.next, decisions), value.step)
        else:
            value = float(value) if variant.way.floats and type(value) is int else value
            place.container[place.key] = watched(value, decisions)


def turned(lines: Mapping[Line, Decided], names: Iterable[str], way: Way = WATCHED) -> list[Variant]:
    return [
        Variant(tuple(names), turned=(line, which), source=decided.source, way=way)
        for line, decided in lines.items()
        for which in decided.others
    ]


def given_up(err: Exception) -> bool:
    """By a statement of the user's code, `raise` or `assert`; what else fails may lack what an earlier step would have
    made, which PyTorch's own statements say too."""
    *_, (frame, _) = traceback.walk_tb(err.__traceback__)
    library = str(frame.f_globals.get("__name__")).partition(".")[0] in LIBRARIES
    return not library and frame.f_code.co_code[frame.f_lasti] == RAISE


def entries(start: Snapshot) -> Iterator[tuple[tuple[int, Any], Any]]:
    """What dicts and lists hold now, attributes among it."""
    for number, thing in start.things.items():
        if isinstance(thing, dict | list):
            pairs = thing.items() if isinstance(thing, dict) else enumerate(thing)
            yield from (((number, unwatched(key)), held) for key, held in pairs)


def outside(tensors: Tensors, containers: Collection[str]) -> Tensors:
    inside = tuple(f"{path}." for path in containers)
    return {n: t for n, t in tensors.items() if not str(n).startswith(inside)} if inside else tensors


def alike(a: Tensors, b: Tensors) -> bool:
    return a.keys() == b.keys() and not any(differ(t, b[key]) for key, t in a.items())


def apart(a: Any, b: Any) -> bool:
    nowhere = isinstance(a, float) and isnan(a)
    return type(a) is not type(b) or not (a == b or nowhere)
