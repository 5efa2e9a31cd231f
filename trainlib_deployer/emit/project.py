"""Plan to project folder: gathers what each template needs, renders, and copies what is copied as it is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from golden.sketch import Key, Sketch
from trainlib_deployer.advice.what_if import WhatIf
from trainlib_deployer.emit.addresses import Addresses
from trainlib_deployer.emit.files import CALLING, templates
from trainlib_deployer.emit.fit import evaluation_context, fit_context
from trainlib_deployer.emit.functions import Functions
from trainlib_deployer.emit.initial import Binary, Kept, string_lines
from trainlib_deployer.emit.interface import learning_rate
from trainlib_deployer.emit.levels import c_alignment, level_context, piece
from trainlib_deployer.emit.library import copy_library
from trainlib_deployer.emit.listed import PASS_ON, listed
from trainlib_deployer.emit.listing import Listing
from trainlib_deployer.emit.loop_library import LoopLibrary
from trainlib_deployer.emit.names import comment, literal
from trainlib_deployer.emit.orders import Orders
from trainlib_deployer.emit.plan_json import image_json, plan_json
from trainlib_deployer.emit.poison import poison_context
from trainlib_deployer.emit.recorded import Recorded
from trainlib_deployer.emit.render import rendered
from trainlib_deployer.emit.shared import Shared, shared, streams_shared
from trainlib_deployer.emit.signature import Signature
from trainlib_deployer.emit.tables import Tables
from trainlib_deployer.emit.words import describe, title
from trainlib_deployer.folder import PLAN
from trainlib_deployer.image.image import Image
from trainlib_deployer.kernels.row import Row
from trainlib_deployer.ops.carry import JOB_BYTES, ORDER_BYTES, ORDERS
from trainlib_deployer.ops.random import KEY
from trainlib_deployer.ops.scaling import SCALE, SKIPPED
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.tiles import LANE_BYTES
from trainlib_deployer.program.ir import LEARNING_RATE, MOMENTUM, STEP, DType, Kind, Role, View
from trainlib_deployer.program.precision import HALVES
from trainlib_deployer.program.segments import segments
from trainlib_deployer.report.page import report
from trainlib_deployer.state.image import image_bytes
from trainlib_deployer.state.layout import Layout
from trainlib_deployer.user.model import UserModel
from trainlib_deployer.version import __version__


@dataclass(frozen=True)
class Project:
    """One project about to be written."""

    user: UserModel
    plan: Plan
    steps: int
    accumulate: int = 1

    @cached_property
    def at(self) -> Addresses:
        return Addresses.of(self.plan)

    @cached_property
    def weights(self) -> Binary:
        """What a firmware needs."""
        return Binary("weights.bin")

    @cached_property
    def far(self) -> Binary:
        """What lies behind the outer memory before the first step."""
        return Binary("far.bin")

    @cached_property
    def data(self) -> Binary:
        """What the verification run needs."""
        return Binary("data.bin")

    @cached_property
    def library(self) -> LoopLibrary:
        return LoopLibrary()

    @cached_property
    def listing(self) -> Listing:
        return listed(self.plan, self.at, self.library)

    @cached_property
    def functions(self) -> list[dict[str, Any]]:
        """The parts of a step, and of an evaluation."""
        parts = segments(self.plan.program).items()
        return [{"name": name, "lines": list(self.orders.lines(found))} for name, found in parts]

    @cached_property
    def orders(self) -> Orders:
        alone = {at for at in self.recorded.after if at is not None}
        return Orders(self.listing, alone, self.shared, self.plan.outer.persistent)

    @property
    def given_orders(self) -> list[Kept]:
        """What the third memory holds of them."""
        return [Kept(ORDERS, self.plan.home[ORDERS].offset, self.orders.data)] if self.orders.orders else []

    @cached_property
    def shared(self) -> dict[int, Shared]:
        return shared(self.listing, self.streams, self.tables) if self.plan.program.far else {}

    @cached_property
    def streams(self) -> dict[str, str]:
        """Under each operation in tiles the one whose table of streams is its own, too."""
        if self.plan.program.far:
            return streams_shared(self.listing)
        return {o.name: o.name for o in self.listing.operations if o.tiles is not None}

    @property
    def moves(self) -> bool:
        """Whether an operation moves what it works on."""
        calls = (call for operation in self.listing.operations for tile in operation.calls for call in tile)
        return bool(self.plan.tilings) or any(call.function == PASS_ON for call in calls)

    @cached_property
    def recorded(self) -> Recorded:
        return Recorded(self.at)

    @cached_property
    def signature(self) -> Signature:
        return Signature(self.user, self.at, self.data)

    @cached_property
    def rows(self) -> list[Row[Kind]]:
        return self.plan.account.rows

    def write(
        self,
        folder: Path,
        found: Mapping[Key, Sketch],
        image: Image | None = None,
        what_if: Sequence[WhatIf] = (),
        least: Mapping[str, Any] | None = None,
    ) -> None:
        """All files, into an existing empty folder: `found` is what PyTorch computes, `image` what a build brings
        besides the plan, `what_if` what other choices would take, `least` what PyTorch stores."""
        plan, program = self.plan.beside(image), self.plan.program
        context = {**self.context(found), "image": image, "built": image_json(plan, image)}
        wanted = templates(program.trains, bool(context["evaluation"]), bool(program.far))
        texts = {name: rendered(template, context) for name, template in wanted.items()}
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        self.weights.write(folder)
        self.data.write(folder)
        if plan.far is not None:
            self.far.write(folder)
        copy_library(
            folder / "kernels",
            [r.source for r in self.rows],
            [texts[n] for n in CALLING if n in texts],
            HALVES.get(plan.dtype, DType.F16),
        )
        said = plan_json(self.user, plan, self.recorded.traces, self.steps, self.accumulate)
        said["what_if"] = [asdict(w) for w in what_if]
        said["image"] = context["built"]
        said["least"] = least
        said["interface"] = self.signature.as_json()
        said["samples"] = self.signature.samples()
        said["stored"] = {binary.name: binary.places for binary in (self.weights, self.far, self.data)}
        (folder / PLAN).write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
        (folder / "report.html").write_text(report(said), encoding="utf-8")

    def context(self, found: Mapping[Key, Sketch]) -> dict[str, Any]:
        program = self.plan.program
        operations, tables = self.operations, self.tables
        signature = self.signature
        levels = [level_context(self.at, level, self.weights) for level in self.plan.near_levels]
        far = [level_context(self.at, self.plan.far, self.far, self.given_orders)] if self.plan.far is not None else []
        return {
            "version": __version__,
            "model": program.name,
            "target": self.plan.target,
            "levels": levels,
            "far": far[0] if far else None,
            "planned": [*levels, *far],
            "ahead": self.ahead,
            "near": self.plan.stacks.level,
            "lane_bytes": LANE_BYTES,
            "outer": self.plan.outer.name,
            "job_bytes": JOB_BYTES,
            "order_bytes": ORDER_BYTES,
            "c_alignment": c_alignment(self.plan.target),
            "offsets": self.offsets(),
            **signature.context(),
            "recorded": max((t.numel for t in program.of_role(Role.RECORDED)), default=0),
            "headers": sorted({r.header for r in self.rows} | ({"tl_stream.h"} if self.moves else set())),
            "prototypes": sorted(r.prototype for r in self.rows),
            "operations": operations,
            "functions": self.functions,
            "orders": self.orders,
            "tables": tables.text(),
            "loops": [loop_entry(*entry) for entry in self.library.source()],
            "step_counter": self.scalar_at(STEP),
            "trains": program.trains,
            "tells": bool(program.loss),
            "evaluated": "evaluated_" if program.evaluated else "",
            "learns_otherwise": self.user.differs_in_eval and not program.evaluated,
            **(self.telling() if program.loss else {}),
            "evaluation": evaluation_context(self.user, self.at, signature.outputs),
            **(self.training() if program.trains else {}),
            **self.state(),
            "steps": self.steps,
            "accumulate": self.accumulate,
            "update_if": self.update_if(),
            "skipped_at": self.scalar_at(SKIPPED),
            "loss_scale_at": self.scalar_at(SCALE),
            "draws": KEY in program.tensors,
            "schedules": self.schedules,
            "step_settings": self.step_settings(),
            "momentum_at": self.scalar_at(MOMENTUM),
            **self.recorded.context(signature.functions, found, self.data),
            "plan": self.plan,
            **poison_context(self.plan, self.at),
        }

    @property
    def ahead(self) -> list[str]:
        """Ends of the names of functions for tiles: those that come one by one or one ahead, and two ahead."""
        return sorted({"_two" if t.ahead > 1 else "" for t in self.plan.tilings.values()})

    def update_if(self) -> str:
        """In C, where the updates do not run in every step."""
        ends = f"({self.scalar_at(STEP)} + 1) % NET_ACCUMULATE == 0" if self.accumulate > 1 else ""
        finite = f"!{self.scalar_at(SKIPPED)}" if SKIPPED in self.plan.program.tensors else ""
        return " && ".join(c for c in (ends, finite) if c)

    def scalar_at(self, name: str) -> str:
        """Where the caller of a step sets it; nowhere, if the program has none."""
        if name not in self.plan.program.tensors:
            return ""
        return f"net_{self.plan.home[name].level.lower()}.{self.at.names[name]}"

    @cached_property
    def schedules(self) -> list[dict[str, Any]]:
        """Tables of what the verification run gives to each update."""
        known = self.user.schedule
        named = {"NET_LEARNING_RATES": known.rates, "NET_MOMENTA": known.momenta}
        return [{"name": n, "values": [literal(v, DType.F32) for v in row]} for n, row in named.items() if row]

    def step_settings(self) -> str:
        """What the verification run gives to a step besides its sample."""
        update = "step / NET_ACCUMULATE" if self.accumulate > 1 else "step"
        return ", ".join(f"{s['name']}[{update}]" for s in self.schedules) or "NET_LEARNING_RATE"

    def training(self) -> dict[str, Any]:
        program = self.plan.program
        settings = ["learning_rate"] + ["momentum"] * (MOMENTUM in program.tensors)
        return {
            "setting_parameters": ", ".join(f"float {name}" for name in settings),
            "settings": ", ".join(settings),
            "learning_rate_at": self.scalar_at(LEARNING_RATE),
            "learning_rate": literal(learning_rate(self.user), DType.F32),
        }

    def telling(self) -> dict[str, Any]:
        """What is known with a loss."""
        return {
            "fit": fit_context(self.user, self.at, self.signature.arguments, self.signature.outputs),
            "loss_pointer": self.at.pointer(View.whole(self.plan.program.tensors[self.plan.program.loss])),
        }

    def state(self) -> dict[str, Any]:
        layout = Layout.of_program(self.plan.program)
        pieces = [piece(self.at, p.name) for p in layout.pieces]
        return {"state": layout, "state_pieces": pieces, "state_bytes": image_bytes(layout)}

    def offsets(self) -> list[dict[str, Any]]:
        return [{"name": name, **asdict(place)} for name, place in self.listing.places.items()]

    @cached_property
    def tables(self) -> Tables:
        """What `operations` share."""
        return Tables()

    @cached_property
    def operations(self) -> list[dict[str, Any]]:
        functions, out = Functions(self.listing, self.streams, self.shared, self.tables), []
        for position, (op, listed_op) in enumerate(zip(self.plan.program.ops, self.listing.operations, strict=True)):
            out.append(
                {
                    "name": listed_op.name,
                    "ordered": position in self.orders.positions,
                    "title": string_lines(op.name),
                    "comment": comment(describe(op)),
                    "label": title(op),
                    "macs": op.kind.macs() or 0,
                    "tables": functions.before(position),
                    "shared": functions.function(position),
                    "lines": functions.lines(position),
                    "traces": [self.recorded.entry(t) for t in self.recorded.after.get(position, ())],
                }
            )
        return out


def loop_entry(name: str, text: str) -> dict[str, str]:
    return {"name": name, "text": text, "prototype": text.split("\n{", 1)[0]}
