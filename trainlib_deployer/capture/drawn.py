"""Random numbers that forward draws from Python's or NumPy's generators, which a deployed step does not: what they
decide, the first steps need not show."""

from __future__ import annotations

import contextlib
import pickle
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np

from trainlib_deployer.capture.watched import Decisions, kind_of, watched

OF_ALL: tuple[Any, ...] = tuple(
    vars(module)[name].__self__ for module, name in ((random, "random"), (np.random, "rand"))
)
KINDS = (random.Random, np.random.RandomState, np.random.Generator)
DRAWS = (
    *("random", "uniform", "randint", "randrange", "getrandbits", "gauss", "normalvariate", "betavariate", "choice"),
    *("rand", "randn", "normal", "binomial", "beta", "random_sample", "standard_normal"),
)
EVEN = ("random", "rand", "random_sample", "uniform")  # between zero and one, or two given bounds


def generators(things: Iterable[Any]) -> list[Any]:
    """Those among these things, and everybody's."""
    return [*OF_ALL, *(t for t in things if isinstance(t, KINDS) and not any(t is g for g in OF_ALL))]


def states(of: Sequence[Any]) -> list[bytes]:
    return [pickle.dumps(state(g)) for g in of]


def state(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    return generator.get_state() if isinstance(generator, np.random.RandomState) else generator.bit_generator.state


def seed(generator: Any, number: int) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = type(generator.bit_generator)(number).state
    else:
        generator.seed(number)


@contextlib.contextmanager
def draws_watched(things: Iterable[Any], spaces: Iterable[dict[str, Any]], decisions: Decisions) -> Iterator[None]:
    """Have the numbers tell where they are compared, also where files call a function by a name of their own."""

    def watching(draw: Callable[..., Any]) -> Callable[..., Any]:
        def watched_draw(*given: Any, **more: Any) -> Any:
            drawn = watched(draw(*given, **more), decisions)
            if kind_of(drawn) is float and draw.__name__ in EVEN and len(given) in (0, 2) and not more:
                drawn.within = given or (0, 1)
            return drawn

        return watched_draw

    of_all = {(module, n): getattr(module, n) for module in (random, np.random) for n in DRAWS if hasattr(module, n)}
    own = [(g, n) for g in generators(things) if isinstance(g, random.Random) for n in DRAWS if hasattr(g, n)]
    made = {id(draw): watching(draw) for draw in of_all.values()}
    with contextlib.ExitStack() as stack:
        for space in spaces:
            names = {n: made[id(f)] for n, f in space.items() if id(f) in made}
            stack.enter_context(mock.patch.dict(space, names))
        for place, draw in of_all.items():
            stack.enter_context(mock.patch.object(*place, made[id(draw)]))
        for generator, name in own:
            stack.enter_context(mock.patch.object(generator, name, watching(getattr(generator, name))))
        yield
