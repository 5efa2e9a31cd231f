"""The plan for machines. Keys are a contract: more may be added, none removed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from trainlib_deployer.emit.addresses import Addresses
from trainlib_deployer.emit.trace import Trace
from trainlib_deployer.emit.words import title
from trainlib_deployer.image.image import Image
from trainlib_deployer.image.measured import Measured
from trainlib_deployer.ops.carry import Carry
from trainlib_deployer.plan.figures import Figures, Traffic
from trainlib_deployer.plan.plan import Buffer, Plan
from trainlib_deployer.plan.tiles import Tiling
from trainlib_deployer.plan.tuning import Tuning
from trainlib_deployer.program.ir import Source
from trainlib_deployer.user.model import UserModel
from trainlib_deployer.version import __version__


def plan_json(user: UserModel, plan: Plan, traces: list[Trace], steps: int, accumulate: int = 1) -> dict[str, Any]:
    target, account = plan.target, plan.account
    assert len(account.figures) == len(plan.program.ops), "the account is of the plan that was taken"
    return {
        "tool": {"name": "trainlib-deploy", "version": __version__},
        "model": {
            "name": plan.program.name,
            "steps": steps,
            "accumulate": accumulate,
            "scheduled": bool(user.schedule.rates),
            "inference": not user.trains,
            "evaluates": user.evaluation is not None,
            "parameters": parameters(plan),
        },
        "target": {
            "name": target.name,
            "cores": target.cores + target.idle,
            "working": target.cores,
            "l1": target.inner.size,
            "l2": target.outer.size,
            "alignment": target.alignment,
        },
        "levels": {
            level.name: {
                "size": level.size,
                "used": level.used,
                "peak_live": level.peak_live,
                "lower_bound": level.lower_bound,
                "stacks": level.stacks,
                "headroom": level.headroom,
                "reserved": level.reserved,
                "persistent": level.persistent,
                "arena": level.arena,
                "peak_at": level.peak_position,
                "live_at_peak": list(level.live_at_peak),
                "proved": level.proved,
                "method": level.method,
            }
            for level in plan.levels.values()
        },
        "buffers": [buffer_json(b) for b in plan.buffers],
        "tensors": tensors_json(plan),
        "ops": [op_json(plan, i, figures) for i, figures in enumerate(account.figures)],
        "certificate": {
            "peak": plan.peak,
            "lower_bound": plan.lower_bound,
            "gap": plan.peak - plan.lower_bound,
            "proved_optimal": all(level.proved for level in plan.levels.values()),
            "checked": False,  # until plan/certificate.py has read what was written
        },
        "recomputed": asdict(plan.recomputed),
        "saved": asdict(plan.saved),
        "dtype": plan.dtype,
        "traffic": traffic_json(account.traffic),
        "carried": asdict(account.carried) if plan.program.far else None,
        "trace": [trace_json(t, plan) for t in traces],
        "tuned": None if plan.tuned is None else tuned_json(plan.tuned, plan),
    }


def tuned_json(tuning: Tuning, plan: Plan) -> dict[str, Any]:
    """What measurements have changed, and what they have left as it was."""
    operations = [
        {
            "name": plan.program.ops[c.position].name,
            "chosen": c.chosen,
            "taken": c.taken[c.chosen],
            "default": c.default,
            "of_default": c.taken[c.default],
            "runner_up": c.runner_up,
            "of_runner_up": c.taken[c.runner_up] if c.runner_up else None,
        }
        for c in tuning.choices
    ]
    whole = {"on": tuning.on, "unit": tuning.unit, "before": tuning.before, "after": tuning.after}
    return {**whole, "operations": operations}


def image_json(plan: Plan, image: Image | None) -> dict[str, Any] | None:
    """Everything that lies in the outer memory: what a firmware takes of it, what the verification run."""
    if image is None:
        return None
    known = Measured.by(image.build.compiler)
    used = plan.outer.used
    return {
        "level": plan.outer.name,
        "size": plan.outer.size,
        "simulated": image.build.simulated,
        "firmware": image.of_firmware(used),
        "run": image.of_run(used),
        "flash": {
            "size": image.build.flash_size,
            "firmware": image.flash,
            "run": image.flash_of_run,
            "shares": image.rows(image.build.flash, 0),
        },
        "shares": image.rows(image.build.outer, used),
        "compiler": f"{known.compiler}; {known.flags}",
        "source": image.build.source,
    }


def parameters(plan: Plan) -> dict[str, int]:
    trained = {name for name, _ in plan.program.gradients}
    sizes = {t.name: t.numel for t in plan.program.tensors.values() if t.role.value == "parameter"}
    return {"total": sum(sizes.values()), "trained": sum(n for name, n in sizes.items() if name in trained)}


def source_text(source: Source | None) -> str:
    return f"{Path(source.file).name}:{source.line}: {source.text}" if source else ""


def buffer_json(b: Buffer) -> dict[str, Any]:
    return {
        "name": b.name,
        "level": b.level,
        "offset": b.offset,
        "size": b.size,
        "birth": b.birth,
        "death": b.death,
        "role": b.role,
        "layer": b.layer,
        "aliases": list(b.aliases),
    }


def tensors_json(plan: Plan) -> dict[str, dict[str, Any]]:
    names, copies = Addresses.of(plan).names, copies_of(plan)
    return {
        t.name: {
            "c_name": names[t.name],
            "shape": list(t.shape),
            "dtype": t.dtype.name,
            "bytes": t.nbytes,
            "role": t.role.value,
            "persistent": t.role.persistent,
            "layer": t.layer,
            "source": source_text(t.source),
            **({"fixed": plan.program.fixed[t.name]} if t.name in plan.program.fixed else {}),
            **({"copy_of": copies[t.name]} if t.name in copies else {}),
        }
        for t in plan.program.tensors.values()
    }


def copies_of(plan: Plan) -> dict[str, dict[str, Any]]:
    """Under what is near a copy of a far tensor: which part of which one."""
    found = {}
    for op in plan.program.ops:
        if isinstance(op.kind, Carry):
            near, far = (op.writes[0], op.reads[0]) if op.kind.inward else (op.reads[0], op.writes[0])
            rows = {"row_bytes": op.kind.row_bytes, "rows": op.kind.rows, "pitch": op.kind.pitch}
            found[near.tensor] = {"tensor": far.tensor, "offset": op.kind.offset, **rows}
    return found


def traffic_json(traffic: Traffic) -> dict[str, float]:
    return {"bytes": traffic.moved, "lower_bound": traffic.least, "hidden_estimate": traffic.hidden}


def op_json(plan: Plan, index: int, figures: Figures) -> dict[str, Any]:
    op, tiling = plan.program.ops[index], plan.tilings.get(index)
    kernels = [r.symbol for r in figures.rows]
    return {
        "index": index,
        "name": op.name,
        "title": title(op),
        "kind": op.kind.name,
        "phase": op.phase,
        "layer": op.layer,
        "source": source_text(op.source),
        "kernel": kernels[0] if kernels else "loop",
        "kernels": kernels,
        "arithmetic": figures.rows[0].arithmetic if kernels else "",
        "cycles": round(figures.cycles),
        "macs": op.kind.macs(),
        "tiles": tiling.count if tiling else 1,
        "moved": figures.moved,
        "early": early_json(tiling) if tiling and tiling.host is not None else None,
        "streams": [s.tensor for s in tiling.streams] if tiling else [],  # those of `tile INDEX.0`, `tile INDEX.1` ...
        "direct": asdict(figures.direct) if figures.direct else None,
        "reads": [v.tensor for v in op.reads],
        "writes": [v.tensor for v in op.writes],
        "fused": list(op.fused),
    }


def early_json(tiling: Tiling) -> dict[str, Any]:
    """The operation that starts the first transfers of this one, what it brings, and the bytes, counted there."""
    return {
        "host": tiling.host,
        "tensors": [s.tensor for s in tiling.streams if s.early],
        "moved": tiling.early_moved,
    }


def trace_json(t: Trace, plan: Plan) -> dict[str, Any]:
    tensor = plan.program.tensors[t.tensor]
    return {
        "id": t.id,
        "name": t.name,
        "kind": t.kind,
        "layer": t.layer,
        "shape": list(t.shape),
        "dtype": tensor.dtype.name,
    }
