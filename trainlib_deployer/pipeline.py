"""The stages of a deployment, one line each: the table of contents of the product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trainlib_deployer import passes
from trainlib_deployer.capture import capture, check_against_eager
from trainlib_deployer.emit.model_files import write_model_files
from trainlib_deployer.emit.project import Project
from trainlib_deployer.folder import replaced_folder
from trainlib_deployer.lower import lower
from trainlib_deployer.options import Options
from trainlib_deployer.plan.build import plan
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.user_model import UserModel

Say = Callable[[str], None]


@dataclass(frozen=True)
class Deployed:
    """What a deployment leaves: the plan in memory and the folder on disk."""

    plan: Plan
    folder: Path


def deploy_user_model(user: UserModel, options: Options, say: Say = lambda line: None) -> Deployed:
    """net.py is loaded already; from here on everything is ours."""
    say("capturing the training step")
    captured = capture(user)
    check_against_eager(user, captured)
    say("lowering")
    program = passes.run(lower(user, captured))
    say("planning memory")
    planned = plan(program, options.target)
    say("writing the project")
    with replaced_folder(options.out, force=options.force) as folder:
        Project(user, planned, options.steps).write(folder)
        write_model_files(user, folder / "model", options.steps)
    return Deployed(planned, options.out)
