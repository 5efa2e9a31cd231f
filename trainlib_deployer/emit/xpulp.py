"""The rows of short loops by PULP's own instructions: a hardware loop over a few elements at a time, whose loads and
stores go on by themselves. The operations, and so the bits, are those of the C beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trainlib_deployer.emit.loop_text import constant
from trainlib_deployer.program.expr import Const, Instr
from trainlib_deployer.program.ir import DType

ONE = {  # instructions that are one of the processor's
    "add": "fadd.s {d}, {0}, {1}",
    "sub": "fsub.s {d}, {0}, {1}",
    "mul": "fmul.s {d}, {0}, {1}",
    "fma": "fmadd.s {d}, {0}, {1}, {2}",
    "neg": "fneg.s {d}, {0}",
    "lt": "flt.s {d}, {0}, {1}",
    "le": "fle.s {d}, {0}, {1}",
    "gt": "flt.s {d}, {1}, {0}",
    "ge": "fle.s {d}, {1}, {0}",
    "eq": "feq.s {d}, {0}, {1}",
    "and": "and {d}, {0}, {1}",
    "or": "or {d}, {0}, {1}",
    "from_half": "TL_FROM_HALF",
    "to_half": "TL_TO_HALF",
}
LOADS = {DType.F32: "TL_LOAD", DType.F16: "TL_LOAD_HALF"}
STORES = {DType.F32: "TL_STORE_ON", DType.F16: "TL_STORE_HALF"}
ARITHMETIC = ("fadd", "fsub", "fmul", "fmadd")
ADDED, TAKEN, BOTH = "0x80003c00u", "0x8000bc00u", "0x3c003c00u"  # pairs: 1 and -0; -1 and -0; 1 and 1
MOST_NAMES = 24  # registers that a statement may ask for, of 31: the compiler keeps what is around it in others
MOST_OPERANDS = 30  # of an assembler statement; what it reads and writes counts twice
Ref = int | str  # a value of the row, or the text of what does not move


@dataclass(frozen=True)
class Micro:
    """One instruction: its text, what it reads, and the value that it makes."""

    text: str
    args: tuple[Ref, ...]
    made: int
    onto: Ref | None = None  # what it adds to, which nothing reads any more: in its register

    @property
    def reads(self) -> tuple[Ref, ...]:
        return self.args if self.onto is None else (*self.args, self.onto)


@dataclass
class Body:
    """What one element takes, in steps of one instruction."""

    steps: list[Micro] = field(default_factory=list)
    fixed: dict[str, str] = field(default_factory=dict)  # by their names in the assembler: what they are in C
    extra: int = -1

    def ref(self, arg: int | Const, moving: set[int], dtype: DType) -> Ref:
        if isinstance(arg, int) and arg in moving:
            return arg
        text = constant(arg.value, dtype) if isinstance(arg, Const) else f"v{arg}"
        return "zero" if text in ("0.0f", "0") else self.named(text)

    def named(self, text: str) -> str:
        """What does not move, by the name that it has in the assembler."""
        found = next((name for name, known in self.fixed.items() if known == text), None)
        name = found or f"k{len(self.fixed)}"
        self.fixed[name] = text
        return f"%[{name}]"

    def add(self, text: str, args: Sequence[Ref], made: int | None = None) -> int:
        if made is None:
            self.extra -= 1
            made = self.extra
        self.steps.append(Micro(text, tuple(args), made))
        return made

    def select(self, args: Sequence[Ref], made: int) -> None:
        """As whole numbers, with a condition that is 0 or 1: there is no instruction that chooses, but one that adds a
        product. Where what is not above 0 becomes 0, that is the larger of two: arithmetic makes no NaN with a sign."""
        condition, yes, no = args
        not_above = any(s.made == condition and (s.text, s.args) == (ONE["le"], (no, "zero")) for s in self.steps)
        if yes == "zero" and not_above and self.calculated(no):
            self.add("TL_MAX", (no, "zero"), made)
            return
        if yes == "zero":
            self.steps.append(Micro("TL_TAKE_PRODUCT", (condition, no), made, no))
        elif no == "zero":
            self.add("mul {d}, {0}, {1}", (condition, yes), made)
        else:
            difference = self.add("sub {d}, {0}, {1}", (yes, no))
            self.steps.append(Micro("TL_ADD_PRODUCT", (condition, difference), made, no))

    def calculated(self, value: Ref) -> bool:
        return any(s.made == value and s.text.startswith(ARITHMETIC) for s in self.steps)

    def needed(self, results: set[Ref]) -> Body:
        """Without what nobody reads."""
        kept: list[Micro] = []
        for step in reversed(self.steps):
            if step.made in results:
                kept.insert(0, step)
                results |= {*step.reads}
        return replace(self, steps=kept)

    def added_up(self, results: set[Ref]) -> Body:
        """A half that is widened only to be added: a product of pairs, (it, 0) by (1, -0), with the sum, one operation
        of the float unit. These are the same bits: the product is exact, and a zero keeps its sign."""
        lean = replace(self, steps=list(self.steps), fixed=dict(self.fixed))
        for wide in [s for s in self.steps if s.text == ONE["from_half"]]:
            readers = [s for s in lean.steps if wide.made in s.reads]
            if len(readers) != 1 or wide.made in results:
                continue
            (total,) = readers
            sign_asked = any(s.text == "TL_MAX" and total.made in s.args for s in lean.steps)
            parts = () if sign_asked else lean.parts(total, wide.made)
            if not parts:
                continue
            start, by = parts
            lean.steps[lean.steps.index(total)] = Micro("TL_DOT", (wide.args[0], lean.named(by)), total.made, start)
            lean.steps.remove(wide)
        return lean

    def kept_apart(self, results: set[Ref]) -> Body:
        """What an instruction adds to is copied where something else reads it later, or it does not move."""
        apart = replace(self, steps=[])
        for at, step in enumerate(self.steps):
            again = any(step.onto in s.reads for s in self.steps[at + 1 :]) or step.onto in results
            if step.onto is not None and (again or isinstance(step.onto, str)):
                copy = apart.add("mv {d}, {0}", (step.onto,))
                step = replace(step, onto=copy)
            apart.steps.append(step)
        return apart

    def alone(self, text: str, value: int, results: Sequence[Ref]) -> int | None:
        """What a conversion that makes one result and nothing else is of, if that is of use nowhere else."""
        step = next((s for s in self.steps if s.made == value and s.text == text), None)
        if step is None or results.count(value) != 1 or any(value in s.reads for s in self.steps):
            return None
        (of,) = step.args
        again = any(s.onto == of or (s.text == text and of in s.args and s != step) for s in self.steps)
        return of if isinstance(of, int) and of not in results and not again else None

    def parts(self, total: Micro, wide: Ref) -> tuple[Ref, str] | tuple[()]:
        """What a widened half is added to, or taken from, and the pair that says so; nothing where it is not."""
        if len(total.args) != 2 or total.args[0] == total.args[1]:
            return ()
        first, second = total.args
        if total.text == ONE["add"]:
            return (second if first == wide else first), ADDED
        if total.text == ONE["sub"] and second == wide:
            return first, TAKEN
        if total.text == ONE["sub"] and isinstance(second, str) and second != "zero":
            return self.named(f"-({self.fixed[second[2:-1]]})"), ADDED
        return ()


def body_of(instrs: Sequence[tuple[int, Instr]], moving: set[int], types: Callable[[int], DType]) -> Body | None:
    """None where an instruction has no counterpart."""
    body, made, selects = Body(), {value for value, _ in instrs}, dict[Ref, Sequence[Ref]]()
    for value, step in instrs:
        operands = [types(a) for a in step.args if isinstance(a, int)]
        widened = step.op == "from_half"
        halves = {*operands} if widened else {step.dtype} if step.op == "to_half" else set()
        if not {step.dtype, *operands} - halves <= {DType.F32, DType.U8}:
            return None
        if widened and made & {*step.args}:
            return None  # above a half that was made lies something else than above one that was loaded
        args = [body.ref(a, moving, operand_type(step, operands)) for a in step.args]
        if step.op == "select" and step.dtype is DType.F32:
            body.select(args, value)
            selects[value] = args
        elif step.op in ("max", "min") and isinstance(step.args[1], Const) and step.args[1].value == step.args[1].value:
            test = ONE["le" if step.op == "max" else "ge"]
            body.select((body.add(test, args[:2]), args[1], args[0]), value)
        elif step.op == "to_half" and (chosen := as_it_lies(body, args[0], selects)):
            body.select(chosen, value)
        elif step.op in ONE:
            body.add(ONE[step.op], args, value)
        else:
            return None
    return body


def as_it_lies(body: Body, chosen: Ref, selects: Mapping[Ref, Sequence[Ref]]) -> Sequence[Ref] | None:
    """Of a half that is chosen, or zero: the same without a conversion on the way in and back."""
    loaded = {s.made: s.args[0] for s in body.steps if s.text == ONE["from_half"]} | {"zero": "zero"}
    condition, *either = selects.get(chosen, (0, 0, 0))
    return (condition, *(loaded[e] for e in either)) if {*either} <= loaded.keys() else None


def operand_type(step: Instr, operands: Sequence[DType]) -> DType:
    return DType.F32 if DType.F32 in operands or not operands else step.dtype


@dataclass(frozen=True)
class Statement:
    """Loads by number of the value, with the C name of the pointer; what is done with the values of each lane: stored
    behind a pointer, or added up to a sum. All by their types."""

    loads: Mapping[int, str]
    body: Body
    stores: Sequence[tuple[int, str]]
    sums: Sequence[tuple[int, str]]
    types: Callable[[int], DType]
    rounded: Sequence[tuple[int, str]] = ()  # floats that are stored as halves, two of them rounded at once
    widened: Sequence[tuple[int, str]] = ()  # halves that are added up as they lie
    products: Sequence[tuple[int, Sequence[str]]] = ()  # each added to the sum of its lane

    def text(self, count: str, lanes: int) -> list[str] | None:
        """Of a statement that does `count` times `lanes` elements, at least once; None where registers are lacking."""
        body = self.body.needed({v for v, _ in (*self.stores, *self.sums, *self.products)})
        plain = replace(self, body=body)
        return plain.by_pairs(lanes).lines(count, lanes) or plain.lines(count, lanes)

    def by_pairs(self, lanes: int) -> Statement:
        """With fewer operations of the float unit, by those that take two halves."""
        results = [v for v, _ in (*self.stores, *self.sums, *self.products)]
        body = self.body.added_up({*results})
        halves = {
            v: h for v, _ in self.sums if lanes == 4 and (h := body.alone("TL_FROM_HALF", v, results)) is not None
        }
        floats = {v: f for v, _ in self.stores if (f := body.alone("TL_TO_HALF", v, results)) is not None}
        kept = [step for step in body.steps if step.made not in {*halves, *floats}]
        return replace(
            self,
            body=replace(body, steps=kept),
            stores=[(v, p) for v, p in self.stores if v not in floats],
            sums=[(v, t) for v, t in self.sums if v not in halves],
            rounded=[(floats[v], p) for v, p in self.stores if v in floats],
            widened=[(halves[v], t) for v, t in self.sums if v in halves],
        )

    def lines(self, count: str, lanes: int) -> list[str] | None:
        kept = {v for v, _ in (*self.stores, *self.rounded, *self.sums, *self.widened)}
        apart, columns = replace(self, body=self.body.kept_apart({*kept})), list[Lane]()
        for lane in range(lanes):
            columns.append(Lane(apart, lane, columns[-1] if lane % 2 else None))
        lines = staggered([lane.lines for lane in columns])
        for value, total in self.sums:
            lines += tree([lane.names[value] for lane in columns], f"%[{total}]")
        for value, total in self.widened:
            lines += pairs([lane.names[value] for lane in columns], f"%[{total}]", self.body.named(BOTH))
        pointers = [*self.loads.values()]
        pointers += [name for _, name in (*self.stores, *self.rounded, *self.sums, *self.widened)]
        pointers += [name for _, lanes_of in self.products for name in lanes_of]
        temporaries = sorted({name for lane in columns for name in lane.used})
        fixed = {name: text for name, text in self.body.fixed.items() if any(f"%[{name}]" in line for line in lines)}
        names = len(pointers) + len(temporaries) + len(fixed) + 1
        if names > MOST_NAMES or names + len(pointers) > MOST_OPERANDS:
            return None
        outputs = [f'[{p}] "+r"({p})' for p in pointers] + [f'[{t}] "=&r"({t})' for t in temporaries]
        inputs = [f'[n] "r"({count})'] + [f'[{name}] "r"({text})' for name, text in fixed.items()]
        declared = [f"float {', '.join(temporaries)};"] if temporaries else []
        loop = [f'__asm__ volatile(TL_ROW_BEGIN("{2 * len(lines)}")', *(f"    {line}" for line in lines)]
        ends = [f"    TL_ROW_END : {', '.join(outputs)}", f'    : {", ".join(inputs)} : "memory");']
        return [*declared, *loop, *ends]


class Lane:
    """The instructions of one element, and the registers that its values have."""

    def __init__(self, statement: Statement, number: int, before: Lane | None) -> None:
        self.number, self.free, self.used, types = number, list[str](), list[str](), statement.types
        self.names: dict[Ref, str] = {}
        self.lines: list[str] = []
        products = dict(statement.products)
        kept = {value for value, _ in (*statement.sums, *statement.widened, *statement.rounded)}
        last = {a: k for k, s in enumerate(statement.body.steps) for a in s.reads if isinstance(a, int)}
        last |= dict.fromkeys((v for v, _ in statement.stores), len(statement.body.steps))
        for value, pointer in statement.loads.items():
            self.names[value] = self.taken()
            self.lines.append(f'{LOADS[types(value)]}("{self.names[value]}", "%[{pointer}]")')
        for k, step in enumerate(statement.body.steps):
            operands = [self.names[a] if isinstance(a, int) else a for a in step.args]
            for a in dict.fromkeys(step.args):
                if isinstance(a, int) and last[a] == k and a not in (*kept, step.onto):
                    self.free.append(self.names[a])
            if step.made in products:
                lane = f"%[{products[step.made][number]}]"
                self.lines.append(instruction("fmadd.s {d}, {0}, {1}, {d}", operands, lane))
                continue
            self.names[step.made] = self.taken() if step.onto is None else self.names[step.onto]
            self.lines.append(instruction(step.text, operands, self.names[step.made]))
        for value, pointer in statement.stores:
            self.lines.append(f'{STORES[types(value)]}("{self.names[value]}", "%[{pointer}]")')
        for value, pointer in statement.rounded if before else ():
            both, store = self.names[value], f'TL_STORE_HALF("{self.names[value]}", "%[{pointer}]")'
            self.lines.append(instruction("TL_PACK", (before.names[value] if before else "", both), both))
            self.lines += [store, f'"srli {both}, {both}, 16\\n"', store]

    def taken(self) -> str:
        if not self.free:
            name = f"t{self.number}{len(self.used)}"
            self.used.append(name)
            return f"%[{name}]"
        return self.free.pop()


def instruction(text: str, operands: Sequence[str], made: str) -> str:
    """In assembler, or one of PULP's own by its macro."""
    if text.startswith("TL_"):
        names = ", ".join('"' + name + '"' for name in (made, *operands))
        return f"{text}({names})"
    return '"' + text.format(*operands, d=made) + '\\n"'


def staggered(lanes: Sequence[Sequence[str]]) -> list[str]:
    """Each a step behind the one before: cores that share a float unit then find it free."""
    steps = range(max(map(len, lanes)) + len(lanes) - 1)
    return [lane[t - k] for t in steps for k, lane in enumerate(lanes) if 0 <= t - k < len(lane)]


def tree(names: list[str], total: str) -> list[str]:
    """Added up as the portable C does, in the first one's register, and to the sum."""

    def added(some: list[str]) -> list[str]:
        if len(some) == 1:
            return []
        half = (len(some) + 1) // 2
        own = f'"fadd.s {some[0]}, {some[0]}, {some[half]}\\n"'
        return [*added(some[:half]), *added(some[half:]), own]

    return [*added(names), f'"fadd.s {total}, {total}, {names[0]}\\n"']


def pairs(names: list[str], total: str, ones: str) -> list[str]:
    """Four halves added up as the tree is, by two sums of pairs."""
    first, start, second, _ = names
    joined = [instruction("TL_PAIR_OF", names[k : k + 2], names[k]) for k in (0, 2)]
    dots = [instruction("TL_DOT", (pair, ones), start) for pair in (first, second)]
    return [*joined, f'"li {start}, 0\\n"', *dots, f'"fadd.s {total}, {total}, {start}\\n"']
