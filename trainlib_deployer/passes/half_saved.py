"""Keep what the forward pass leaves for the backward pass in half precision: storage only, arithmetic stays float.

An activation is rounded to a float16 twin behind its last use in the forward pass. Loops of the backward pass read the
twin and widen each element; before kernels a float copy is made again. Done only where that lowers the peak. It is what
torch.autograd.graph.saved_tensors_hooks does that packs to float16 and unpacks to float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from trainlib_deployer.passes.compared import exact
from trainlib_deployer.passes.reorder import Fullness, Scale, reorder
from trainlib_deployer.program.expr import Instr
from trainlib_deployer.program.ir import DType, Op, Program, Tensor, View, fresh, readers, renamed, writers
from trainlib_deployer.program.loop import Loop

HALF = DType.F16
ROUNDS = 200
LEAST_BYTES = 1024  # of a float tensor that is worth an operation more
LATE = ("backward", "accumulate", "update")


def half_saved(program: Program) -> Program:
    """Another order may be fullest where other tensors lie: again until that helps no more."""
    while (smaller := descended(program)) is not program:
        program = reorder(smaller)
    return program


def descended(program: Program) -> Program:
    best, full = program, Scale.of(program).weigh(program.ops)
    for _ in range(ROUNDS):
        found = next(improvements(best, full), None)
        if found is None:
            break
        best, full = found
    return best


def halves(program: Program) -> list[Tensor]:
    """What is kept in half precision."""
    return [t for t in program.tensors.values() if t.dtype.is_half]


def improvements(program: Program, full: Fullness) -> Iterator[tuple[Program, Fullness]]:
    """With one tensor more in half precision, in the best order for it: the largest at the fullest operation first."""
    lives = lives_of(program)
    for name in sorted(full.live, key=lambda n: (-program.tensors[n].nbytes, n)):
        if name not in lives:
            continue
        weighed = [(v, Scale.of(v).weigh(v.ops)) for v in variants(program, lives[name])]
        best = min(weighed, key=lambda w: (w[1].peak, w[1].count))
        if best[1].better(full):
            yield best


@dataclass(frozen=True)
class Life:
    """Positions of the operations that use a tensor which may be kept in half precision."""

    tensor: Tensor
    made: int
    early: list[int]  # readers of the forward pass
    late: list[int]  # readers of the backward pass


def lives_of(program: Program) -> dict[str, Life]:
    """Made once by the forward pass, read by the backward pass, no result, not looked for, large enough."""
    read, written = readers(program), writers(program)
    results = {*program.shown, *(t for _, t in program.gradients), *exact(program)}
    out = {}
    for name, made in written.items():
        tensor = program.tensors[name]
        late = [i for i in read.get(name, []) if program.ops[i].phase in LATE]
        early = [i for i in read.get(name, []) if program.ops[i].phase not in LATE]
        if (
            tensor.role.persistent
            or name in results
            or tensor.dtype is not HALF.calculated
            or tensor.nbytes < LEAST_BYTES
        ):
            continue
        once = len(made) == 1 and program.ops[made[0]].phase not in LATE
        if once and late and max(early, default=made[0]) < late[0]:
            out[name] = Life(tensor, made[0], early, late)
    return out


def variants(program: Program, life: Life) -> Iterator[Program]:
    """Rounded at once, or before or behind the last early reader; widened once for all kernels, or for each anew."""
    kernels = [i for i in life.late if not isinstance(program.ops[i].kind, Loop)]
    for each in (False, True) if len(kernels) > 1 else (False,):
        restored = kernels if each else kernels[:1]
        if not life.early and isinstance(program.ops[life.made].kind, Loop):
            yield kept_as_half(program, life, None, restored)
            continue
        last = max(life.early, default=life.made)
        yield kept_as_half(program, life, last + 1, restored)
        if life.early:
            yield kept_as_half(program, life, last, restored)


def kept_as_half(program: Program, life: Life, rounded: int | None, restored: list[int]) -> Program:
    """Rounded before operation `rounded` (None: by the operation that makes it), widened before those of `restored`."""
    twin = replace(life.tensor, name=fresh(program.tensors, f"{life.tensor.name}.half"), dtype=HALF)
    tensors = {**program.tensors, twin.name: twin}
    ops: list[Op] = []
    current = life.tensor
    for at, op in enumerate(program.ops):
        if at == rounded:
            ops.append(conversion(program.ops[life.made], life.tensor, twin, "forward"))
        if at in restored:
            current = replace(life.tensor, name=f"{life.tensor.name}.restored{restored.index(at) + 1}")
            tensors[current.name] = current
            ops.append(conversion(op, twin, current, op.phase))
        if at == life.made and rounded is None:
            ops.append(rounding(op, life.tensor.name, twin.name))
        elif at in life.late and isinstance(op.kind, Loop):
            ops.append(widening(op, life.tensor.name, twin.name))
        elif at in life.late:
            ops.append(replace(op, reads=renamed(op.reads, {life.tensor.name: current.name})))
        else:
            ops.append(op)
    return replace(program, tensors=tensors).with_ops(ops)


def conversion(origin: Op, source: Tensor, target: Tensor, phase: str) -> Op:
    """A loop over all elements."""
    size = (source.numel,)
    name = HALF.store if target.dtype is HALF else HALF.load
    step = Instr(name, (0,), target.dtype)
    kind = Loop.pointwise(source.numel, (source.dtype,), step)
    reads, writes = (View(source.name, size, (1,)),), (View(target.name, size, (1,)),)
    return Op(target.name, kind, reads, writes, phase, source.layer, name, origin.source)


def rounding(op: Op, name: str, twin: str, half: DType = HALF) -> Op:
    """The same loop, rounding its results for `name` to halves."""
    kind = op.kind
    assert isinstance(kind, Loop)
    chosen = [i for i, v in enumerate(op.writes) if v.tensor == name]
    steps = tuple(Instr(half.store, (kind.results[i],), half) for i in chosen)
    number = {i: kind.values + k for k, i in enumerate(chosen)}
    changed = replace(
        kind,
        body=kind.body if kind.reductions else (*kind.body, *steps),
        post=(*kind.post, *steps) if kind.reductions else kind.post,
        results=tuple(number.get(i, r) for i, r in enumerate(kind.results)),
        outputs=tuple(half if i in number else d for i, d in enumerate(kind.outputs)),
    )
    return replace(op, kind=changed, writes=renamed(op.writes, {name: twin}))


def widening(op: Op, name: str, twin: str) -> Op:
    """The same loop, reading halves where it read `name`."""
    return converting(op, name, twin, HALF, HALF.calculated)


def converting(op: Op, name: str, twin: str, given: DType, made: DType) -> Op:
    """The same loop, with a conversion of each element of `twin` where it read one of `name`."""
    how = given.load if given.is_half else made.store
    kind = op.kind
    assert isinstance(kind, Loop)
    chosen = [i for i, v in enumerate(op.reads) if v.tensor == name]
    move = {i: i if i < kind.at_body else i + len(chosen) for i in range(kind.values)}
    move |= {i: kind.at_body + k for k, i in enumerate(chosen)}
    moved = kind.moved(move)
    changed = replace(
        moved,
        inputs=tuple(given if i in chosen else d for i, d in enumerate(kind.inputs)),
        body=(*(Instr(how, (i,), made) for i in chosen), *moved.body),
    )
    return replace(op, kind=changed, reads=renamed(op.reads, {name: twin}))
