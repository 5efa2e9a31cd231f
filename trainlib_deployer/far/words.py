"""What lies far away, and what that takes, in words."""

from __future__ import annotations

from trainlib_deployer.plan.figures import Carried
from trainlib_deployer.plan.plan import Plan


def far_words(plan: Plan) -> str:
    found, name = Carried.of(plan.program), plan.target.memories[2].name
    return (
        f"{found.tensors:,} tensors, {found.bytes:,} bytes, in {name}: {found.moved:,} bytes move in {found.copies:,} "
        f"copies a step, for which the cores wait some {found.waited:,} cycles"
    )
