"""The stages of a deployment, one line each: the table of contents of the product."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from golden.snapshot import Snapshot
from golden.task import Task
from trainlib_deployer import passes
from trainlib_deployer.advice.beyond import reasons
from trainlib_deployer.advice.fit import Far
from trainlib_deployer.advice.what_if import at_peak, what_if
from trainlib_deployer.capture.agreement import captured_and_checked, check_golden_model
from trainlib_deployer.capture.eager import REMEDY, counters
from trainlib_deployer.capture.slots import Captured
from trainlib_deployer.capture.stored import stored
from trainlib_deployer.check.certificate import check_folder
from trainlib_deployer.check.verify import reference_sketches, task_of
from trainlib_deployer.emit.brought import brought
from trainlib_deployer.emit.model_files import write_golden_model, write_model_files
from trainlib_deployer.emit.project import Project
from trainlib_deployer.errors import DoesNotFit
from trainlib_deployer.folder import replaced_folder
from trainlib_deployer.image.image import Image
from trainlib_deployer.machine.machine import Machine, Memory
from trainlib_deployer.machine.sizes import ADDRESS_SPACE
from trainlib_deployer.ops.lower import lower
from trainlib_deployer.options import Options, check_mixed, check_types
from trainlib_deployer.passes.choose_winograd import by_winograd
from trainlib_deployer.passes.half_saved import half_saved, halves
from trainlib_deployer.plan.build import Say, bytes_less, fitted
from trainlib_deployer.plan.layout import OUTER, fits
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.smaller import Saved
from trainlib_deployer.program.ir import Program
from trainlib_deployer.program.join import joined
from trainlib_deployer.tune.shipped import told, with_measurements
from trainlib_deployer.tune.table import Table
from trainlib_deployer.tune.tuning import Tuner
from trainlib_deployer.user.code import user_code
from trainlib_deployer.user.kept import precision_of
from trainlib_deployer.user.model import UserModel

MORE = 8  # one part in so many, for gaps
TENTH = 10  # of what a build brings where there is much room, to be tried without


@dataclass(frozen=True)
class Deployed:
    """What a deployment leaves: the plan in memory and the folder on disk."""

    plan: Plan
    folder: Path
    task: Task  # what the program does, in PyTorch


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Nearly everything that a deployment makes lives to its end, and looking for garbage in it takes long. Afterwards
    it counts as old, so that this is not made up for at once."""
    on, frozen = gc.isenabled(), gc.get_freeze_count()
    gc.disable()
    try:
        yield
    finally:
        if not frozen:
            gc.freeze()
            gc.unfreeze()
        if on:
            gc.enable()


@contextlib.contextmanager
def at_start(user: UserModel) -> Iterator[None]:
    """The model as its runs begin, of inference in eval mode; then as it is now."""
    with Snapshot(user.module, like=user.start).undone():
        user.start.restore()
        yield


def deploy_user_model(user: UserModel, options: Options, say: Say = lambda line: None) -> Deployed:
    """net.py is loaded already; from here on everything is ours."""
    with uncollected(), at_start(user):
        return deployed(user, options, say)


def deployed(user: UserModel, options: Options, say: Say) -> Deployed:
    step = "the training step" if user.trains else "the forward pass"
    say(f"capturing {step}")
    captured, eager = captured_and_checked(user)
    options = as_asked(options, captured, say)
    precision = precision_of(user.module, options.dtype, options.keep, options.loss_scale)
    say("lowering")
    pipeline = passes.chosen(precision, options.arithmetic)
    program = passes.run(lower(user, captured, options.accumulate, precision=precision), pipeline)
    if user.evaluation is not None:
        say("capturing the evaluation")
        beside = evaluation_of(user.evaluation, captured.written)
        program = joined(program, passes.run(beside, pipeline))
    say("planning memory")
    options = replace(options, target=with_measurements(options.target))
    project, image = beside_build(program, user, options, say)
    project = replace(project, plan=told(project.plan))
    planned = project.plan.beside(image)
    say(f"{'training' if user.trains else 'running'} in PyTorch, for the program's own check")
    check_golden_model(task_of(replace(user, evaluation=None), options.accumulate), eager)
    batches = counters(eager[-1])
    del eager  # as large as the network, several times
    winograd, tiles = by_winograd(program)
    task = task_of(user, options.accumulate, planned.saved.used, winograd, options.dtype, options.loss_scale)
    task = replace(task, keep=precision.keep, tiles=tiles)
    with user_code(f"{step} in PyTorch fails", REMEDY):
        references = reference_sketches(task, options.steps * options.accumulate)
    if options.tune is not None:

        def written(target: Machine) -> tuple[Project, Image | None]:
            return beside_build(program, user, replace(options, target=target), lambda line: None)

        kept = options.tune.table
        table = Table.of(options.target, options.tune.on) if kept is None else Table.at(kept)
        project, image = Tuner(written, options.target, references, options.tune, say, table).best()
        planned = project.plan.beside(image)
    say("writing the project")
    with replaced_folder(options.out, force=options.force) as folder:
        project.write(folder, references, image, what_if(program, options.target), least(planned, user, options))
        check_folder(folder, project.listing)
        write_model_files(user, folder / "model", task, batches, tuple(planned.program.fixed), options.command)
        write_golden_model(folder / "golden")
    return Deployed(planned, options.out, task)


def as_asked(options: Options, captured: Captured, say: Say) -> Options:
    """Mixed precision, if the user's own code asks for it."""
    dtype = dtype_of(options.dtype, captured)
    if dtype != options.dtype:
        say(f"note: torch.autocast or .half(): all layers as with --dtype {dtype}; --keep fp32=LAYER leaves some out")
        check_types(dtype, options.saved)
    asked = replace(options, dtype=dtype)
    check_mixed(asked)
    return asked


def dtype_of(given: str, captured: Captured) -> str:
    return "mixed" if given == "fp32" and captured.autocast else given


def evaluation_of(user: UserModel, written: frozenset[str]) -> Program:
    """What runs beside the training, which writes these."""
    with at_start(user):
        captured, _ = captured_and_checked(user)
        return lower(user, captured, beside=written)


def least(planned: Plan, user: UserModel, options: Options) -> dict[str, object] | None:
    """What a step must store by PyTorch's account, and how the plan's tensors compare at their fullest moment."""
    if not user.trains:
        return None
    try:
        found = stored(user, options.accumulate)
    except RuntimeError:  # torch.func's transforms do not let anybody see what is kept
        return None
    program, target = planned.program, planned.target
    tensors = at_peak(program, target)
    why = [asdict(reason) for reason in reasons(program, target, found)]
    ratio = round(tensors / found.total, 4)
    return {**asdict(found), "total": found.total, "tensors": tensors, "ratio": ratio, "why": why}


def beside_build(program: Program, user: UserModel, options: Options, say: Say) -> tuple[Project, Image | None]:
    """The plan, where there is room left for everything else that a build brings: known once there is a plan. Only what
    is taken in the end is said."""
    build, far = options.target.build, partial(far_beside_build, user=user, options=options)
    if build is None:
        return Project(user, with_saved(program, options, say, far), options.steps, options.accumulate), None

    said: list[str] = []

    def planned(outer: Memory) -> tuple[Project, Image]:
        said.clear()
        memories = (options.target.inner, outer, *options.target.memories[OUTER + 1 :])
        chosen = replace(options, target=replace(options.target, memories=memories))
        project = Project(user, with_saved(program, chosen, said.append, far), options.steps, options.accumulate)
        return project, brought(project, build)

    outer = replace(options.target.outer, reserved=Image(build, ()).beside(0))
    try:
        project, image = planned(outer)
    except DoesNotFit as refused:
        try:
            _, image = planned(replace(outer, size=roomy(outer, refused, options.target)))  # by how much, with its code
        except DoesNotFit:  # another memory is too small
            raise refused from None
        project, image = planned(replace(outer, reserved=image.beside(0)))
    while not fits(project.plan.beside(image)):
        wanted = max(outer.reserved + 1, image.beside(project.plan.outer.used))
        less = max(outer.reserved + 1, wanted - wanted // TENTH)
        outer = replace(outer, reserved=wanted)
        try:
            project, image = planned(outer)
        except DoesNotFit as refused:
            if options.target.far is None or less == wanted:
                raise
            outer = replace(outer, reserved=less)  # with less room more operations are alike, and their code is less
            try:
                project, image = planned(outer)
            except DoesNotFit:
                raise refused from None
    demand_flash(image, options.target)
    for line in said:
        say(line)
    return project, image


def roomy(outer: Memory, refused: DoesNotFit, target: Machine) -> int:
    """Bytes of the outer memory that a plan fits; beside a third memory not many more than it takes."""
    if target.far is None:
        return ADDRESS_SPACE
    return outer.size + refused.over.get(outer.name, 0) * (1 + MORE) // MORE


def far_beside_build(program: Program, target: Machine, user: UserModel, options: Options) -> Plan | None:
    """The plan with a third memory, if it fits with all that its build brings."""
    chosen = replace(options, target=target, saved="fp32")  # what is kept in halves is in the program
    try:
        return beside_build(program, user, chosen, lambda line: None)[0].plan
    except DoesNotFit:
        return None


def with_build(program: Program, user: UserModel, target: Machine, accumulate: int) -> Machine:
    """With so much of its outer memory taken as the build of this step brings there."""
    roomy = target.with_memory(OUTER, ADDRESS_SPACE)
    try:
        project, image = beside_build(program, user, Options(roomy, Path(), 1, accumulate), lambda line: None)
    except DoesNotFit:  # another memory is too small, as its plan will say
        return target
    return (
        target if image is None else target.with_memory(OUTER, target.outer.size, image.beside(project.plan.outer.used))
    )


def demand_flash(image: Image, target: Machine) -> None:
    size = image.build.flash_size
    if size and image.flash > size:
        raise DoesNotFit(
            f"code, constants and initial contents do not fit the flash of {target.name}: "
            f"{image.flash:,} bytes of {size:,}, {image.flash - size:,} over",
            remedy="train fewer layers, or give a chip with more flash",
            over={"flash": image.flash - size},
        )


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
