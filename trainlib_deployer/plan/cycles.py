"""Estimates: what an operation, a tile and a transfer take on a machine."""

from __future__ import annotations

from trainlib_deployer.formats import DType
from trainlib_deployer.machine.costs import TileCosts
from trainlib_deployer.machine.machine import Link, Machine
from trainlib_deployer.plan.loop_cycles import loop_cycles
from trainlib_deployer.plan.window import Window
from trainlib_deployer.program.brought import brought, comes_by_itself
from trainlib_deployer.program.cuts import working
from trainlib_deployer.program.ir import Frugal, Kind, Op, Part, Priced, View
from trainlib_deployer.program.linked import Linked
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.series import Series
from trainlib_deployer.program.together import Together


def direct_cycles(part: Part, streamed: list[View], machine: Machine) -> float:
    """Reading L2 element by element; packing kernels touch each operand a few times."""
    kind, reads, writes = part
    if isinstance(kind, Together):
        return sum(direct_cycles(one, streamed, machine) for one in kind.parts(reads, writes))
    return sum(reading_cycles(part, streamed, machine)) + work_cycles(part, machine)


def reading_cycles(part: Part, streamed: list[View], machine: Machine) -> tuple[float, float]:
    """Of L2: each element, and one for every fourth multiply-add, as kernels of 4 x 4 results have it."""
    kind, reads, writes = part
    far = ((i, v) for i, v in enumerate((*reads, *writes)) if v in streamed and not comes_by_itself(kind, i))
    touched = sum(kind.touched(i, v) for i, v in far)
    again = 0 if brought(kind) else kind.macs() / 4
    wait = machine.outer.load / busy_cores(part, machine.cores)
    return wait * touched, wait * again


def untiled_cycles(op: Op, far: list[View], machine: Machine) -> float:
    """Without tiles; `far` are the operands that live in L2."""
    part = Part(op.kind, op.reads, op.writes)
    return direct_cycles(part, far, machine) if far else work_cycles(part, machine)


def transfer_cycles(w: Window, link: Link) -> float:
    """Each plane is a transfer of its own, or several where it is larger than one may be."""
    scattered = w.rows * w.planes * (link.short_row if w.row_bytes < link.short else link.row)
    pieces = w.planes * max(-(-w.rows * w.row_bytes // link.largest), 1)
    return w.nbytes / link.bytes_per_cycle + link.issue * pieces + scattered


def work_cycles(part: Part, machine: Machine) -> float:
    """As the family says, or some instructions an element; no faster than the float units."""
    cores, costs = machine.cores, machine.costs
    if isinstance(part.kind, Loop):
        return loop_cycles(part.kind, part.reads, part.writes, cores, costs.loop)
    if isinstance(part.kind, Linked):
        links = [Part(*link) for link in part.kind.links(part.reads, part.writes)]
        between = costs.tile.turn if isinstance(part.kind, Series) else costs.tile.link
        return sum(work_cycles(link, machine) for link in links) + between * (len(links) - 1)
    if isinstance(part.kind, Together):
        return sum(work_cycles(one, machine) for one in part.kind.parts(part.reads, part.writes))
    if isinstance(part.kind, Priced):
        at_once = DType.F32.size // part.kind.storage.size
        work = max(part.kind.cycles(cores, costs), part.kind.multiplied() / (machine.float_units() * at_once))
        return beside_transfers(work, part.kind, machine.link)
    elements, c = max(v.numel for v in (*part.reads, *part.writes)), costs.unpriced
    return (part.kind.macs() * c.mac + c.element * elements) / busy_cores(part, cores) + c.start


def beside_transfers(work: float, kind: Kind, link: Link) -> float:
    """With what the kernel brings itself while it works, but for the first block."""
    found = brought(kind)
    if found is None or not found.transfers:
        return work
    every = found.nbytes / link.bytes_per_cycle + link.issue * found.transfers
    return max(work, every) + every / found.transfers


def fetched_once(kind: Kind, c: TileCosts) -> float:
    """For code that is not at hand when an operation begins; later tiles find it."""
    if isinstance(kind, Priced):
        return c.kernel
    return c.loop if isinstance(kind, Loop | Together) else 0.0


def busy_cores(part: Part, cores: int) -> float:
    """Work is split over results: single ones of a fold, fours of a loop, tiles of 16 of a kernel."""
    if isinstance(part.kind, Frugal):
        cores = working(part.kind.team, cores)
    units = sum(v.numel for v in part.writes) / part.kind.grain
    rounds = -(-units // cores) if units > cores else 1
    return max(1.0, min(units / rounds, cores))
