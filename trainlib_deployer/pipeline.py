"""The stages of a deployment, one line each: the table of contents of the product."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from golden.reference import Key
from golden.sketch import Sketch
from golden.snapshot import Snapshot
from golden.task import Task
from trainlib_deployer import passes
from trainlib_deployer.advice.beyond import reasons
from trainlib_deployer.advice.what_if import at_peak, what_if
from trainlib_deployer.beside import beside_build
from trainlib_deployer.capture.agreement import captured_and_checked, check_golden_model
from trainlib_deployer.capture.eager import REMEDY, EagerStep, counters
from trainlib_deployer.capture.slots import Captured
from trainlib_deployer.capture.stored import stored
from trainlib_deployer.check.certificate import check_folder
from trainlib_deployer.check.verify import reference_sketches, task_of
from trainlib_deployer.emit.model_files import write_golden_model, write_model_files
from trainlib_deployer.emit.project import Project
from trainlib_deployer.folder import replaced_folder
from trainlib_deployer.image.image import Image
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.meanwhile import meanwhile
from trainlib_deployer.ops.lower import lower
from trainlib_deployer.options import Options, check_mixed, check_types
from trainlib_deployer.passes.choose_winograd import by_winograd
from trainlib_deployer.plan.build import Say, offer_halves
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.program.ir import Program
from trainlib_deployer.program.join import joined
from trainlib_deployer.tune.shipped import told, with_measurements
from trainlib_deployer.tune.table import Table
from trainlib_deployer.tune.tuning import Tuner
from trainlib_deployer.user.code import user_code
from trainlib_deployer.user.kept import precision_of
from trainlib_deployer.user.model import UserModel


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
    check_types(options.dtype, options.saved, options.target)
    step = "the training step" if user.trains else "the forward pass"
    say(f"capturing {step}")
    captured, eager = captured_and_checked(user, options.dtype)
    options = as_asked(options, captured, say)
    precision = precision_of(user.module, options.dtype, options.keep, options.loss_scale)
    say("lowering")
    pipeline = passes.chosen(precision, options.arithmetic)
    program = passes.run(lower(user, captured, options.accumulate, precision=precision), pipeline)
    if user.evaluation is not None:
        say("capturing the evaluation")
        beside = evaluation_of(user.evaluation, captured.written, options.dtype)
        program = joined(program, passes.run(beside, pipeline))
    winograd, tiles = by_winograd(program)
    task = task_of(user, options.accumulate, options.saved, winograd, options.dtype, options.loss_scale)
    task = replace(task, keep=precision.keep, tiles=tiles)
    options = replace(options, target=with_measurements(options.target))
    golden = task_of(replace(user, evaluation=None), options.accumulate)
    with meanwhile(partial(judged_by, task, golden, eager, options)) as found:
        say("planning memory")
        project, image = beside_build(program, user, options, say)
        offer_halves(program, project.plan, say)
        project = replace(project, plan=told(project.plan))
        planned = project.plan.beside(image)
        say(f"{'training' if user.trains else 'running'} in PyTorch, for the program's own check")
        task = replace(task, saved=planned.saved.used)
        with user_code(f"{step} in PyTorch fails", REMEDY):
            references = found() if task.saved == options.saved else judged_by(task, golden, eager, options)
        batches = counters(eager[-1])
    del eager, found  # as large as the network, several times
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


def judged_by(task: Task, golden: Task, eager: Sequence[EagerStep], options: Options) -> dict[Key, Sketch]:
    """What a program that does this computes, by a golden model that does what PyTorch does with the untouched one."""
    check_golden_model(golden, eager)
    return reference_sketches(task, options.steps * options.accumulate)


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


def evaluation_of(user: UserModel, written: frozenset[str], dtype: str) -> Program:
    """What runs beside the training, which writes these."""
    with at_start(user):
        captured, _ = captured_and_checked(user, dtype)
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
