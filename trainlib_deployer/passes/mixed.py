"""Mixed precision: activations and gradients lie in memory as halves, products multiply halves, everything else is
float.

Master weights, states of optimizers, statistics, losses and results of the step stay float, and so does all arithmetic
of loops. Gradients of parameters are floats, too: what makes them adds up floats, and their update uses them up. For a
kernel that reads floats alone, they are made just before it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from golden.wide import is_wide
from trainlib_deployer.formats import LOADS, STORES
from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.ops.pool import MaxPool
from trainlib_deployer.ops.recurrent import Scan
from trainlib_deployer.passes.coalesce import coalesced
from trainlib_deployer.passes.compared import alike
from trainlib_deployer.passes.half_saved import HALF, converting, rounding
from trainlib_deployer.passes.products_of_halves import (
    has_vector,
    is_product,
    of_halves,
    only_whole,
    packable,
    stored_as_halves,
    vector_at,
    widening,
)
from trainlib_deployer.passes.prune_loops import pruned
from trainlib_deployer.program.expr import Instr
from trainlib_deployer.program.ir import DType, Op, Program, Role, Tensor, View, fresh, readers, writers
from trainlib_deployer.program.loop import Loop

FLOAT = HALF.calculated
LOSS = "loss"  # the layer of what the loss function does
PASSES = {"forward", "backward"}  # updates are float throughout


def mixed(program: Program, keep: Sequence[str] = (), weights: Collection[str] = (), half: DType = HALF) -> Program:
    """All but the layers in `keep`, and what lies in them; of parameters, these. `half`: the type that halves have."""
    kept = {layer for layer in layers_of(program) if any(f"{layer}.".startswith(f"{k}.") for k in keep)}
    halves = alike(program, halves_of(program) - floats_of(program, kept)).union(weights)
    stored = (v.tensor for op in program.ops if op.layer not in kept for v in stored_as_halves(op, halves))
    passed = passed_on(program).difference(stored)
    tensors = {n: replace(t, dtype=half) if n in halves - passed else t for n, t in program.tensors.items()}
    made = Made(tensors, halves & passed, kept, half)
    for op in program.ops:
        made.add(op)
    return replace(program, tensors=made.tensors).with_ops(made.ops)


def floats_of(program: Program, kept: set[str]) -> set[str]:
    """What these layers make, and what the loss passes back to nobody else."""
    users = {n: {program.ops[i].layer for i in read} for n, read in readers(program).items()}
    alone = {n for n, t in program.tensors.items() if t.layer == LOSS and users.get(n, {""}) <= kept}
    return alone | {n for n, t in program.tensors.items() if t.layer in kept}


def layers_of(program: Program) -> set[str]:
    return {t.layer for t in program.tensors.values()} | {op.layer for op in program.ops}


def halves_of(program: Program) -> set[str]:
    """Tensors whose elements are halves, wherever they lie."""
    read, written = readers(program), writers(program)
    late = {v.tensor for op in program.ops if op.phase not in PASSES for v in op.reads}  # gradients, new statistics
    late |= {t for _, t in program.gradients}
    late -= of_scans(program) | factors(program)
    late |= begun_with(program)
    floats = {*program.shown, *of_losses(program), *late, *positions(program)}
    floats |= of_frozen_norms(program) | of_alignments(program) | of_weight_norms(program)
    floats |= of_wide_functions(program) | of_scans(program, "carry") | of_single_units(program)
    few = statistics(program)
    out = set()
    for name, tensor in program.tensors.items():
        if tensor.dtype is not FLOAT or tensor.role not in (Role.ACTIVATION, Role.GRADIENT):
            continue
        multiplied = any(is_product(program.ops[i].kind) for i in read.get(name, []))
        passes = {program.ops[i].phase for i in written.get(name, [])}
        if tensor.numel < 2 or not passes or not passes <= PASSES or name in floats:
            continue
        if multiplied or name not in few:
            out.add(name)
    return out


def factors(program: Program) -> set[str]:
    """Activations and their gradients that an update makes the gradient of a weight of, at batch 1. One of them is the
    gradient of a bias, too."""
    loops = (op for op in program.ops if op.phase == "update" and isinstance(op.kind, Loop) and op.kind.terms)
    return {v.tensor for op in loops for v in op.reads if repeats(v)}


def begun_with(program: Program) -> set[str]:
    """What sums of the backward pass go on from: parts of the gradient of a weight."""
    products = (op for op in program.ops if op.phase == "backward" and isinstance(op.kind, MatMul))
    return {v.tensor for op in products for v in op.reads[2:]}


def positions(program: Program) -> set[str]:
    """What an operation makes on its way to integers, and of that alone. A half holds whole numbers up to 2,048: an
    image may have more pixels, and of a place between two of them little would be left; integers that are put in
    places are floats there. A small weight of a pixel is a polynomial of large terms."""
    made = writers(program)
    found: set[str] = set()
    users = [op for op in program.ops if any(program.tensors[v.tensor].dtype is DType.I32 for v in op.writes)]
    while users:
        op = users.pop()
        for name in {v.tensor for v in op.reads} - found:
            makers = [program.ops[i] for i in made.get(name, [])]
            if makers and all(is_part(m, op) and not is_product(m.kind) for m in makers):
                found.add(name)
                users += makers
    for op in program.ops:
        if isinstance(op.kind, Loop) and op.reads and all(v.tensor in found for v in op.reads):
            makers = [program.ops[i] for v in op.reads for i in made[v.tensor]]
            if all(is_part(m, op) for m in makers):
                found.update(v.tensor for v in op.writes)
    return found


def of_frozen_norms(program: Program) -> set[str]:
    """What a norm makes of its buffers and parameters alone: the inverse of a deviation, which each element is
    multiplied by, and copies for each example. A variance may be larger than any half."""
    found = {name for name, t in program.tensors.items() if t.role in (Role.BUFFER, Role.PARAMETER)}
    for op in program.ops:
        if op.function in ("batch_norm", "instance_norm") and all(v.tensor in found for v in op.reads):
            found.update(v.tensor for v in op.writes)
    return found


def of_alignments(program: Program) -> set[str]:
    """What CTC makes, also where forward returns the loss: it has no path as a number below that of any half."""
    return {v.tensor for op in program.ops if op.function == "ctc_loss" for v in op.writes}


def of_weight_norms(program: Program) -> set[str]:
    """What their gradients are made of. The sum over a vector of one element is no sum any more, and less is left of
    the difference that it is part of than of any half: the gradient of a length of one is zero."""
    made = program.tensors.values()
    return {t.name for t in made if t.role is Role.GRADIENT and t.function in ("weight_norm", "weight_norm_interface")}


def of_scans(program: Program, name: str = "hs") -> set[str]:
    """An operand that they write: states, also where an update makes a gradient of the last one; or what one tile hands
    to the next."""
    scans = ((op.kind.writes, op.writes) for op in program.ops if isinstance(op.kind, Scan))
    return {v.tensor for names, views in scans for n, v in zip(names, views, strict=True) if n == name}


def of_single_units(program: Program) -> set[str]:
    """What a scan reads and writes whose state is one number, as single numbers are floats. Next to 1 nothing would be
    left of its slope."""
    scans = ((op, op.kind) for op in program.ops if isinstance(op.kind, Scan))
    return {v.tensor for op, kind in scans if kind.batch * kind.hidden == 1 for v in (*op.reads, *op.writes)}


def of_wide_functions(program: Program) -> set[str]:
    """What the forward pass goes on with. A product rounds it anyway, and to the backward pass a factor that is rounded
    once makes no difference. Also what is next to 1 and one of them is of: the slope of a tanh is 1 - t^2 of the same
    t."""
    wide = {n for n, t in program.tensors.items() if t.role is Role.ACTIVATION and is_wide(t.function)}
    made = writers(program)
    users = (op for op in program.ops if op.phase == "forward" and not isinstance(op.kind, MatMul | Conv))
    read = ((op, v.tensor) for op in users for v in op.reads if v.tensor in wide)
    found = {name for op, name in read if not any(is_part(program.ops[i], op) for i in made[name])}
    return found | {n for n, t in program.tensors.items() if t.wide}


def is_part(one: Op, other: Op) -> bool:
    """Both come from the same operation of the user's."""
    return (one.function, one.layer, one.source) == (other.function, other.layer, other.source)


def passed_on(program: Program) -> set[str]:
    """Results of kernels that the next loop uses up: gone before they would take less memory."""
    read = readers(program)
    found = set()
    for name, made in writers(program).items():
        makers = [program.ops[i] for i in made]
        users = [program.ops[i] for i in read.get(name, [])]
        near = len(makers) == len(users) == 1 and makers[0].phase == users[0].phase
        if near and not isinstance(makers[0].kind, Loop) and isinstance(users[0].kind, Loop):
            found.add(name)
    return found


def statistics(program: Program) -> set[str]:
    """Results of reductions, and what loops over no more elements make of them."""
    found: set[str] = set()
    for op in program.ops:
        kind = op.kind
        if not isinstance(kind, Loop):
            continue
        if kind.reductions or any(v.tensor in found and not repeats(v) for v in op.reads):
            found.update(v.tensor for v in op.writes)
    return found


def repeats(view: View) -> bool:
    return any(s == 0 and e > 1 for s, e in zip(view.strides, view.shape, strict=True))


def of_losses(program: Program) -> set[str]:
    """What the forward pass makes of the outputs, up to the next product, and what the loss passes back inside of it:
    losses are made of floats."""
    found = {t for _, t in program.outputs}
    inside = {v.tensor for op in program.ops if op.layer == LOSS for v in op.writes}
    found |= inside - {v.tensor for op in program.ops if op.layer != LOSS for v in op.reads}
    for op in program.ops:
        if op.phase == "forward" and not is_product(op.kind) and any(v.tensor in found for v in op.reads):
            found.update(v.tensor for v in op.writes)
    return found


@dataclass
class Made:
    """The operations so far, and the tensors that they need."""

    tensors: dict[str, Tensor]
    passed: set[str]  # floats that count as halves: rounded by the loop that reads them
    kept: set[str]  # layers that calculate with floats
    half: DType
    ops: list[Op] = field(default_factory=list)

    def add(self, op: Op) -> None:
        if isinstance(op.kind, Loop):
            self.ops.append(self.of_loop(op))
        else:
            self.of_kernel(op)

    def is_half(self, name: str) -> bool:
        return self.tensors[name].dtype is self.half

    def of_loop(self, op: Op) -> Op:
        """It widens what it reads and rounds what it writes; what it only moves stays as it is."""
        for name in dict.fromkeys(v.tensor for v in op.reads):
            if self.is_half(name) or name in self.passed:
                op = converting(op, name, name, self.half, FLOAT)
            if name in self.passed:
                op = converting(op, name, name, FLOAT, self.half)
        for name in dict.fromkeys(v.tensor for v in op.writes if self.is_half(v.tensor)):
            op = rounding(op, name, name, self.half)
        return moved_as_it_is(op)

    def of_kernel(self, op: Op) -> None:
        """By a kernel of halves, if there is a good one; else between conversions."""
        kind, multiplied = op.kind, 2 if self.multiplies(op) else 0
        if isinstance(kind, MaxPool) and all(self.is_half(v.tensor) for v in (op.reads[0], op.writes[0])):
            self.ops.append(replace(op, kind=replace(kind, storage=self.half)))
            return
        packed, stored = set[int](), set[View]()
        there = {v.tensor for v in (*op.reads, *op.writes) if self.is_half(v.tensor)}
        whole = there.issuperset(v.tensor for v in op.writes) and stored_as_halves(op, there) == op.writes
        if multiplied and isinstance(kind, MatMul | Conv) and (whole or not only_whole(kind)):
            packed = {at for at in packable(kind) if self.tensors[op.reads[at].tensor].dtype is FLOAT}
            kind = of_halves(kind, packed, self.half, self.half if whole else FLOAT)
            stored = set(op.writes if whole else ())
        elif isinstance(kind, MatMul) and has_vector(op, there):
            packed, kind = {vector_at(kind)}, widening(kind, self.half, self.half if whole else FLOAT)
            stored = set(op.writes if whole else ())
        elif isinstance(kind, Scan):
            operands = dict(zip((*kind.reads, *kind.writes), (*op.reads, *op.writes), strict=True))
            kind = kind.of_halves(self.half, {n for n, v in operands.items() if self.is_half(v.tensor)})
            packed = {at for at, name in enumerate(kind.reads) if name in kind.halves}
            stored = {operands[name] for name in kind.writes if name in kind.halves}
        reads = tuple(
            v if at in packed else self.operand(v, op, at < multiplied, kind.storage) for at, v in enumerate(op.reads)
        )
        late = (v for v in op.writes if v not in stored and self.is_half(v.tensor))
        halves = {v: self.beside(v, "sum", FLOAT) for v in late}
        self.ops.append(replace(op, kind=kind, reads=reads, writes=tuple(halves.get(v, v) for v in op.writes)))
        self.ops += [converted(op, made, half, FLOAT, self.half) for half, made in halves.items()]

    def multiplies(self, op: Op) -> bool:
        """As halves. A matrix of halves is used as it is, also with one vector."""
        there = isinstance(op.kind, MatMul) and any(
            self.tensors[v.tensor].role is Role.PARAMETER and self.is_half(v.tensor) for v in op.reads[:2]
        )
        return (is_product(op.kind) or there) and op.layer not in self.kept

    def operand(self, view: View, op: Op, multiplied: bool, storage: DType) -> View:
        """What is multiplied as halves or, for a kernel that multiplies floats, as what halves keep of it; all else as
        floats. What is rounded is rounded anew for each product: kept from the forward pass to the backward
        pass, copies would take what halves of activations save."""
        dtype, half = self.tensors[view.tensor].dtype, self.half
        types: tuple[DType, ...] = (dtype,)
        if dtype is half:
            types = (half,) if multiplied and storage is half else (half, FLOAT)
        elif dtype is FLOAT and multiplied:
            types = (FLOAT, half) if storage is half else (FLOAT, half, FLOAT)
        if len(types) == 1:
            return view
        made = self.beside(view, "half" if types[-1] is half else "float", types[-1])
        source, target = (view, made) if is_compact(view) else (self.whole(view), self.whole(made))
        self.ops.append(converted(op, source, target, *types))
        return made

    def whole(self, view: View) -> View:
        return View.whole(self.tensors[view.tensor])

    def beside(self, view: View, what: str, dtype: DType) -> View:
        """The same elements in a tensor of this type, in the same order but without gaps; where they repeat, in one of
        the same shape."""
        source = self.tensors[view.tensor]
        role = Role.ACTIVATION if source.role.persistent else source.role
        made = replace(source, name=fresh(self.tensors, f"{source.name}.{what}"), dtype=dtype, role=role)
        if not is_compact(view):
            self.tensors[made.name] = made
            return view._replace(tensor=made.name)
        order = sorted(range(len(view.shape)), key=lambda d: (-view.strides[d], d))
        made = self.tensors[made.name] = replace(made, shape=tuple(view.shape[d] for d in order))
        return View.whole(made).permuted(tuple(order.index(d) for d in range(len(order))))


def is_compact(view: View) -> bool:
    """No element of it is another one of it as well."""
    dims = sorted((s, e) for s, e in zip(view.strides, view.shape, strict=True) if e > 1)
    return all(s > 0 for s, _ in dims) and all(s * e <= t for (s, e), (t, _) in pairwise(dims))


def converted(origin: Op, source: View, target: View, *types: DType) -> Op:
    """All elements of `source`, converted one way or there and back, as `target` has them."""
    names = [given.load if given.is_half else made.store for given, made in pairwise(types)]
    steps = tuple(Instr(n, (at,), made) for at, (n, made) in enumerate(zip(names, types[1:], strict=True)))
    kind = Loop(source.shape, 0, types[:1], steps, (), (), (len(steps),), types[-1:])
    op = replace(origin, name=target.tensor, kind=kind, reads=(source,), writes=(target,))
    return coalesced(replace(op, function=names[0], fused=()))


def moved_as_it_is(op: Op) -> Op:
    """Without rounding where a half has been widened just before."""
    kind = op.kind
    assert isinstance(kind, Loop)
    steps = [*kind.body, *kind.post]
    numbers = [*range(kind.at_body, kind.at_reductions), *range(kind.at_post, kind.values)]
    widened = {n: s.args[0] for n, s in zip(numbers, steps, strict=True) if s.op in LOADS}
    same = {n: widened.get(s.args[0]) for n, s in zip(numbers, steps, strict=True) if s.op in STORES}
    move = {n: n for n in range(kind.values)} | {n: v for n, v in same.items() if isinstance(v, int)}
    return pruned(replace(op, kind=kind.moved(move)))
