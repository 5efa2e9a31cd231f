"""What a project's build brings into memory beside the planned tensors: an image, for compilers that were measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set

from trainlib_deployer.emit import resources
from trainlib_deployer.emit.initial import SKETCH
from trainlib_deployer.emit.interface import given
from trainlib_deployer.emit.library import Library
from trainlib_deployer.emit.project import Project
from trainlib_deployer.emit.sizes import sizes
from trainlib_deployer.image.image import FIRMWARE, RUN, Image, Share
from trainlib_deployer.image.measured import Measured
from trainlib_deployer.image.words import compiled
from trainlib_deployer.machine.build import CODE, CONSTANTS, CONTENTS, TABLES, ZEROS, Build
from trainlib_deployer.machine.sizes import aligned
from trainlib_deployer.program.ir import Role
from trainlib_deployer.state.layout import Layout

POINTER = 4
ELEMENT = 1  # how large an element of a tensor is (data.c)
TABLE = 16  # where tables of data.bin begin (tl_binary.h)
ESTIMATED = ", estimated"  # behind what is not as it was when its code was measured
STREAM = 4 * POINTER  # tl_stream (tl_stream.h)
TEAM = ("tl_cluster_run", "memcpy", "memset")  # what every step needs
STATE = ("tl_state_to_memory", "tl_state_from_memory", "tl_state_save", "tl_state_load")
CHECK = ("tl_agrees", "tl_record_open", "tl_record", "tl_puts", "tl_exit")


def brought(project: Project, build: Build) -> Image:
    known, texts = sizes(build, frozenset(project.plan.target.team.instruction_sets)), step_texts(project)
    needs = roots(project, texts)
    driver = Share("the driver of the third memory", CODE, build.driver if project.plan.far else 0)
    step = of_step(project, known, texts, needs)
    return Image(build, (driver, *step, *of_firmware(project, known, needs), *of_run(project, known, needs)))


def of_step(project: Project, known: Measured, texts: Sequence[str], needs: Set[str]) -> Iterator[Share]:
    """What every build has."""
    yield from linked("kernels", known, needs)
    calls = {"argument": len(given(project.plan.program)), "output": len(project.plan.program.outputs)}
    yield Share("the step", CODE, known.estimated("step", texts))
    yield Share("the step", CONSTANTS, known.stored(texts))
    for only in (FIRMWARE, RUN):
        loops = [compiled(text, records=only == RUN) for text in loop_texts(project)]
        yield Share("generated loops", CODE, known.estimated("loop", loops), only)
    yield Share("the interface", CODE, known.counted("interface", calls))
    yield Share("what estimates may lack", CODE, known.spare)
    yield Share("tables of tiles", TABLES, table_bytes(project))
    yield Share("initial contents", CONTENTS, copied(project))


def of_firmware(project: Project, known: Measured, needs: Set[str]) -> Iterator[Share]:
    """What saves and loads."""
    yield from linked("saving and loading", known, STATE, needs, FIRMWARE)
    yield Share("saving and loading", CODE, known.counted("state", {}), FIRMWARE)
    yield Share("saving and loading", CONSTANTS, known.constants("state"), FIRMWARE)
    layout = Layout.of_program(project.plan.program)
    words = (3 if project.plan.far else 2) * len(layout.pieces) + len(layout.demands)
    yield Share("saving and loading", TABLES, POINTER * words, FIRMWARE)


def of_run(project: Project, known: Measured, needs: Set[str]) -> Iterator[Share]:
    yield from linked("the check", known, CHECK, needs, RUN)
    traces = project.recorded.traces
    kept = project.recorded.after.get(None, ())
    recorded = [f"TRACE({t['tag']}, {t['pointer']}, {t['bytes']});" for op in project.operations for t in op["traces"]]
    yield Share("the check", CODE, known.estimated("step", ["\n".join(recorded)]), RUN)
    yield Share("the check", CODE, known.counted("main", {"trace": len(kept)}), RUN)
    yield Share("the check", CONSTANTS, known.constants("main"), RUN)
    titles = (*(t.title for t in traces), *(op.name for op in project.plan.program.ops), "the end of the step")
    names = sum(-(-(len(n.encode()) + 1) // POINTER) * POINTER for n in titles)
    yield Share("names of tensors", CONSTANTS, names + (POINTER + ELEMENT) * len(traces), RUN)
    rates = sum(len(s["values"]) for s in project.schedules)
    yield Share("learning rates", CONSTANTS, POINTER * rates, RUN)
    largest = max((t.nbytes for t in project.plan.program.of_role(Role.RECORDED)), default=0)
    yield Share("gradients that a firmware never keeps", ZEROS, largest, RUN)
    each = (t.nbytes * len(project.user.samples) for t in given(project.plan.program))
    yield Share("samples", TABLES, sum(aligned(size, TABLE) for size in each), RUN)
    sketches = project.steps * project.accumulate * len(traces)
    yield Share("references", TABLES, sketches * SKETCH.itemsize, RUN)


def linked(
    what: str, known: Measured, names: Iterable[str], there: Iterable[str] = (), only: str = ""
) -> Iterator[Share]:
    """Sections of the library, but for those that are there already."""
    there = list(there)
    more = known.linked([*there, *names]) - known.linked(there)
    for (kind, estimated), size in sorted(more.items()):
        yield Share(what + ESTIMATED * estimated, kind, size, only)


def roots(project: Project, step: Sequence[str]) -> set[str]:
    """What the step and the interface mention of the library."""
    library = Library.at(resources.c_lib_dir())
    tiles = (f"tl_tiles_{what}{two}" for two in project.ahead for what in ("open", "next"))
    early = ("tl_tiles_early",) if project.ahead else ()
    left = ("tl_tiles_left",) if any(o.left for o in project.listing.operations) else ()
    texts = (*step, *loop_texts(project), *TEAM, *tiles, *early, *left)
    return library.mentioned(texts)


def step_texts(project: Project) -> list[str]:
    """The functions of net.c, but for the interface."""
    parts = ("\n".join(part["lines"]) for part in project.functions)
    own = (op["lines"] for op in project.operations if not op["ordered"])
    shared = {s.function: s.general.lines for s in project.shared.values()}
    return [*("\n".join(lines) for lines in (*own, *shared.values())), *parts]


def loop_texts(project: Project) -> list[str]:
    _ = project.listing  # which writes the loops
    return [text.partition("{\n")[2] for _, text in project.library.source()]


def table_bytes(project: Project) -> int:
    streams = sum(len(project.listing.tiles_of(name).streams) for name in {*project.streams.values()})
    _ = project.operations  # which write the tables
    return project.tables.nbytes + STREAM * streams + project.orders.nbytes


def copied(project: Project) -> int:
    """Bytes that lie elsewhere until they are copied to where they are planned."""
    plan, build = project.plan, project.plan.target.build
    outer = plan.outer.persistent if build is not None and build.flash else 0
    return plan.inner.persistent + outer
