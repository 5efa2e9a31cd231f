"""What is known of a compiler's sizes of the library as it is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import sha256

from trainlib_deployer.emit import resources
from trainlib_deployer.emit.library import Library, bare
from trainlib_deployer.image.measured import Measured
from trainlib_deployer.image.today import Text, of_today
from trainlib_deployer.machine.build import Build

LENGTH = 12


@cache
def sizes(build: Build, sets: frozenset[str]) -> Measured:
    """Measured ones, on cores with these instruction sets; estimates of what is not as it was measured."""
    return of_today(Measured.by(build.compiler, sets), texts())


def texts() -> Iterator[Text]:
    """The library's sources, each with what headers make of its words."""
    library = Library.at(resources.c_lib_dir())
    defines: dict[str, list[str]] = {}
    for name, path in library.defines.items():
        defines.setdefault(path.stem, []).append(name)
    for path, text in library.sources.items():
        mentions = library.mentioned([text])
        whole = "\0".join(
            bare(t) for t in (text, *(library.inline[name] for name in sorted(mentions & library.inline.keys())))
        )
        content = sha256(whole.encode()).hexdigest()[:LENGTH]
        yield Text(path.stem, path.parent.name, content, tuple(defines.get(path.stem, ())), tuple(sorted(mentions)))
