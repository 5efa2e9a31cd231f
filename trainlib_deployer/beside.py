"""A plan beside everything else that its build puts into the outer memory, which is known once there is a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from trainlib_deployer.advice.fit import Far
from trainlib_deployer.emit.brought import brought
from trainlib_deployer.emit.project import Project
from trainlib_deployer.errors import DoesNotFit, Shortage
from trainlib_deployer.image.image import Image
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.machine.sizes import ADDRESS_SPACE
from trainlib_deployer.options import Options
from trainlib_deployer.passes.half_saved import half_saved, halves
from trainlib_deployer.plan.build import Say, bytes_less, fitted
from trainlib_deployer.plan.layout import OUTER, fits
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.smaller import Saved
from trainlib_deployer.program.ir import Program
from trainlib_deployer.user.model import UserModel

MORE = 8  # one part in so many, for gaps
STEP, STEPS = 32, 4  # one part in so many, to be kept less, and how often
SLOW = 8  # one part in so many of the cycles that another plan would be worth


@dataclass(frozen=True)
class Trial:
    """A plan beside so many bytes of the outer memory, what its build brings, and what was said of it."""

    kept: int
    wanted: int  # bytes that would have been right
    over: int  # bytes of the outer memory that are missing; none where it fits
    cycles: float  # of a step
    image: Image
    project: Project | None  # None where it does not fit: nobody needs what is as large as this
    said: tuple[str, ...] = ()

    @staticmethod
    def of(kept: int, project: Project, image: Image, said: tuple[str, ...]) -> Trial:
        plan = project.plan.beside(image)
        over = 0 if fits(plan) else max(-plan.outer.headroom, 1)
        wanted = image.beside(plan.outer.used)
        return Trial(kept, wanted, over, plan.cycles, image, None if over else project, said)


def beside_build(
    program: Program, user: UserModel, options: Options, say: Say, patient: bool = True
) -> tuple[Project, Image | None]:
    """The plan, where there is room left for everything else that a build brings; the patient look for a faster one
    with a third memory. Only what is taken in the end is said."""
    target, build = options.target, options.target.build
    far = partial(far_beside_build, user=user, options=options)
    if build is None:
        return Project(user, with_saved(program, options, say, far), options.steps, options.accumulate), None

    def tried(kept: int, size: int = target.outer.size) -> Trial:
        said: list[str] = []
        chosen = replace(options, target=target.with_memory(OUTER, size, reserved=kept))
        project = Project(user, with_saved(program, chosen, said.append, far), options.steps, options.accumulate)
        return Trial.of(kept, project, brought(project, build), tuple(said))

    found = enough(first_trial(Image(build, ()).beside(0), target, tried), tried, target.far is not None, patient)
    demand_flash(found.image, target)
    for line in found.said:
        say(line)
    assert found.project is not None, "it fits"
    return found.project, found.image


def first_trial(least: int, target: Machine, tried: Callable[..., Trial]) -> Trial:
    """With as little kept as any build takes. What does not even fit so is refused with the bytes of its code."""
    try:
        return tried(least)
    except DoesNotFit as refused:
        try:
            beyond = tried(least, roomy(target, refused))
        except DoesNotFit:  # another memory is too small
            raise refused from None
        return tried(beyond.image.beside(0))


def enough(here: Trial, tried: Callable[[int], Trial], far: bool, patient: bool = True) -> Trial:
    """The first that fits. A build wants other bytes than the last one took: what each took is kept for the next, as
    long as that comes nearer, as it does at once where code hardly depends on the room.

    Beside a third memory, less room makes more pieces, and what they take may be more than it makes room for. Where
    more comes no nearer, or not near, less is tried; then more, until a plan is refused. The patient try less, too,
    where a plan is much slower than the one with the most room."""
    fastest, least, turned = here.cycles, here.wanted, not far
    while here.over:
        least = min(least, here.wanted)
        after = attempt(tried, max(here.kept + 1, here.wanted))
        if not turned and (isinstance(after, DoesNotFit) or after.over >= min(here.over, after.kept // STEP)):
            turned, after = True, with_less(least, tried) or after
        if isinstance(after, DoesNotFit):
            raise after
        here = after
    slow = patient and not turned and here.cycles > fastest * (1 + SLOW) / SLOW
    return faster(here, tried) if slow else here


def with_less(kept: int, tried: Callable[[int], Trial]) -> Trial | None:
    """The one with the most room that fits."""
    trials = (attempt(tried, kept - k * kept // STEP) for k in range(STEPS, 0, -1))
    return next((t for t in trials if not isinstance(t, DoesNotFit) and not t.over), None)


def faster(here: Trial, tried: Callable[[int], Trial]) -> Trial:
    """With less kept, if that fits: in two trials, as each of a large network takes as long as the rest of its
    deployment."""
    best = here
    for middle in (True, False):
        k = STEPS // 2 if middle else STEPS if best is not here else 1
        trial = attempt(tried, here.kept - k * here.kept // STEP)
        if not isinstance(trial, DoesNotFit) and not trial.over and trial.cycles < best.cycles:
            best = trial
    return best


def attempt(tried: Callable[[int], Trial], kept: int) -> Trial | DoesNotFit:
    """A refusal without its traceback, which would keep all that was planned."""
    try:
        return tried(kept)
    except DoesNotFit as refused:
        return refused.with_traceback(None)


def roomy(target: Machine, refused: DoesNotFit) -> int:
    """Bytes of the outer memory that a plan fits; beside a third memory not many more than it takes."""
    if target.far is None:
        return ADDRESS_SPACE
    return target.outer.size + refused.over.get(target.outer.name, 0) * (1 + MORE) // MORE


def far_beside_build(program: Program, target: Machine, user: UserModel, options: Options) -> Plan | None:
    """A plan with a third memory, if one fits with all that its build brings."""
    chosen = replace(options, target=target, saved="fp32")  # what is kept in halves is in the program
    try:
        return beside_build(program, user, chosen, lambda line: None, patient=False)[0].plan
    except DoesNotFit:
        return None


def with_build(program: Program, user: UserModel, target: Machine, accumulate: int) -> Machine:
    """With so much of its outer memory taken as the build of this step brings there."""
    ample = target.with_memory(OUTER, ADDRESS_SPACE)
    try:
        project, image = beside_build(program, user, Options(ample, Path(), 1, accumulate), lambda line: None)
    except DoesNotFit:  # another memory is too small, as its plan will say
        return target
    return (
        target if image is None else target.with_memory(OUTER, target.outer.size, image.beside(project.plan.outer.used))
    )


def demand_flash(image: Image, target: Machine) -> None:
    size = image.build.flash_size
    if size and image.flash > size:
        over = image.flash - size
        words = (
            f"code, constants and initial contents do not fit the flash of {target.name}: "
            f"{image.flash:,} bytes of {size:,}, {over:,} over"
        )
        remedy = "train fewer layers, or give a chip with more flash"
        raise DoesNotFit(find=lambda: Shortage(words, {"flash": over}), remedy=remedy)


def with_saved(program: Program, options: Options, say: Say, far: Far | None = None) -> Plan:
    """The plan, with what the forward pass keeps for the backward pass in memory as the options say."""
    if options.saved == "fp32":
        return replace(fitted(program, options.target, say, far), dtype=options.dtype)
    kept = half_saved(program)
    done = Saved(
        options.saved, len(halves(kept)), len(kept.ops) - len(program.ops), bytes_less(program, kept, options.target)
    )
    say(done.sentence)
    return replace(fitted(kept, options.target, say, far), saved=done)
