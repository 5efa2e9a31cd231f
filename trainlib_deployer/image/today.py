"""Sizes of code as they may be by now: estimates of sources that were not measured as they are, or not at all.

They are meant to be no less than what a compiler makes. Of 341 functions that had changed when they were measured again
20 had grown by more than half; those of one measurement together never by as much.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from trainlib_deployer.image.measured import Measured, Section, Source
from trainlib_deployer.machine.build import CODE

GROWN = 3, 2  # what the sections of a source that has changed are multiplied by


@dataclass(frozen=True)
class Text:
    """A source of the library as it is: functions that others may call, and what it mentions."""

    name: str
    folder: str
    content: str
    defines: tuple[str, ...]
    mentions: tuple[str, ...]


def of_today(known: Measured, texts: Iterable[Text]) -> Measured:
    """With estimates of what is not as it was measured."""
    texts = list(texts)
    largest = largest_by_folder(known, texts)
    found: dict[str, Section] = {}
    for text in texts:
        source = known.sources.get(text.name)
        if source is None:
            found |= new(text, largest.get(text.folder, max(largest.values(), default=0)))
        elif source.content != text.content:
            found |= changed(text, source, known)
    return replace(known, sections={**known.sections, **found})


def largest_by_folder(known: Measured, texts: Iterable[Text]) -> dict[str, int]:
    """Code of the largest source of each folder of the library."""
    found: dict[str, int] = {}
    for text in texts:
        if text.name in known.sources:
            own = (known.sections[name] for name in known.sources[text.name].sections)
            found[text.folder] = max(found.get(text.folder, 0), sum(s.size for s in own if s.kind == CODE))
    return found


def new(text: Text, size: int) -> dict[str, Section]:
    """As large as the largest of its folder, whichever of its functions are called."""
    whole = f"{text.name}:"
    calls = {name: Section(CODE, 0, (whole,)) for name in text.defines}
    return {**calls, whole: Section(CODE, size, text.mentions, estimated=True)}


def changed(text: Text, source: Source, known: Measured) -> dict[str, Section]:
    """Half as large again, each; what was not there as large as the largest of them."""
    grown = {name: larger(known.sections[name], text.mentions) for name in source.sections}
    most = max((s.size for s in grown.values() if s.kind == CODE), default=0)
    fresh = (name for name in text.defines if name not in source.sections)
    return {**{name: Section(CODE, most, text.mentions, estimated=True) for name in fresh}, **grown}


def larger(section: Section, mentions: tuple[str, ...]) -> Section:
    more, of = GROWN
    size = -(-section.size * more // of)
    return replace(section, size=size, needs=(*section.needs, *mentions), estimated=True)
