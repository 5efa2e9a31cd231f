"""What one element of a row takes by the processor's own instructions."""

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
ARITHMETIC = ("fadd", "fsub", "fmul", "fmadd")
Ref = int | str  # a value of the row, or the text of what does not move
ADDED, TAKEN = "0x80003c00u", "0x8000bc00u"  # pairs: 1 and -0; -1 and -0


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
    finite: str | None = None  # what has to be finite in C, or this is not what the C does

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

    def clip(self, args: Sequence[Ref], witness: str, made: int) -> bool:
        """Bits of what is calculated, as whole numbers, between 0 and a limit, if that is asked for; not of a NaN."""
        value, limit = args
        lower = next((s for s in self.steps if s.made == value and s.text == "TL_MAX"), None)
        if lower is None or self.finite not in (None, witness):
            return False
        self.add("TL_CLIP", (lower.args[0], limit), made)
        self.finite = witness
        return True

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

    def above_zero(self, chosen: Ref) -> tuple[Ref, int] | None:
        """What is chosen where a half that was loaded is above zero or no number, 0 elsewhere: that, and the half."""
        made = {s.made: s for s in self.steps}
        choice = made.get(chosen) if isinstance(chosen, int) else None
        if choice is None or choice.text != "TL_TAKE_PRODUCT" or any(chosen in s.reads for s in self.steps):
            return None
        condition, kept = choice.args
        test = made.get(condition) if isinstance(condition, int) else None
        if test is None or test.text != ONE["le"] or test.args[1] != "zero" or not isinstance(test.args[0], int):
            return None
        wide = made.get(test.args[0])
        half = wide.args[0] if wide is not None and wide.text == ONE["from_half"] else None
        return (kept, half) if isinstance(half, int) else None

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


def body_of(
    instrs: Sequence[tuple[int, Instr]], moving: set[int], types: Callable[[int], DType], asks: bool = False
) -> Body | None:
    """None where an instruction has no counterpart. `asks`: the caller does so for what has to be finite."""
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
        elif step.op == "min" and len(args) > 2 and asks and body.clip(args[:2], f"v{step.args[2]}", value):
            continue
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
