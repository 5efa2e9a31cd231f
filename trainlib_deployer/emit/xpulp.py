"""The rows of short loops by PULP's own instructions: a hardware loop over a few elements at a time, whose loads and
stores go on by themselves. The operations, and so the bits, are those of the C beside them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from trainlib_deployer.emit.xpulp_body import Body, Ref
from trainlib_deployer.program.ir import DType

LOADS = {DType.F32: "TL_LOAD", DType.F16: "TL_LOAD_HALF"}
STORES = {DType.F32: "TL_STORE_ON", DType.F16: "TL_STORE_HALF"}
BOTH = "0x3c003c00u"  # 1 twice
LEAST = "0xfc00fc00u"  # minus infinity twice: as whole numbers without a sign, above it are NaNs alone
MOST_NAMES = 24  # registers that a statement may ask for, of 31: the compiler keeps what is around it in others
MOST_OPERANDS = 30  # of an assembler statement; what it reads and writes counts twice


@dataclass(frozen=True)
class Both:
    """What two lanes store together: floats that are rounded at once or, as they were loaded, halves."""

    value: int
    pointer: str
    rounded: bool = True
    word: bool = False  # by one instruction
    above: int | None = None  # 0 where this half, which was loaded, is not above zero


@dataclass(frozen=True)
class Statement:
    """Loads by number of the value, with the C name of the pointer; what is done with the values of each lane: stored
    behind a pointer, or added up to a sum. All by their types."""

    loads: Mapping[int, str]
    body: Body
    stores: Sequence[tuple[int, str]]
    sums: Sequence[tuple[int, str]]
    types: Callable[[int], DType]
    even: Collection[str] = ()  # pointers to halves that are words: each row begins at an even place
    both: Sequence[Both] = ()
    widened: Sequence[tuple[int, str]] = ()  # halves that are added up as they lie
    products: Sequence[tuple[int, Sequence[str]]] = ()  # each added to the sum of its lane
    words: frozenset[int] = frozenset()  # halves that are loaded two at once, for what takes both

    @property
    def alone(self) -> list[int]:
        """What each lane leaves for itself."""
        return [v for v, _ in (*self.stores, *self.sums, *self.products)]

    def text(self, count: str, lanes: int) -> list[str] | None:
        """Of a statement that does `count` times `lanes` elements, at least once; None where registers are lacking."""
        plain = replace(self, body=self.body.needed({*self.alone}))
        by_pairs = plain.by_pairs(lanes)
        tried = (s.lines(count, lanes) for s in (by_pairs.by_words(), by_pairs, plain))
        return next((lines for lines in tried if lines is not None), None)

    def by_pairs(self, lanes: int) -> Statement:
        """With fewer operations of the float unit, by those that take two halves."""
        results = self.alone
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
            both=[Both(floats[v], p) for v, p in self.stores if v in floats],
            widened=[(halves[v], t) for v, t in self.sums if v in halves],
        )

    def by_words(self) -> Statement:
        """Two halves loaded and stored at once where nothing needs one of them alone."""
        found = replace(self, both=[replace(b, word=b.pointer in self.even) for b in self.both])
        for b in found.both:
            if b.word and (chosen := found.body.above_zero(b.value)) and isinstance(chosen[0], int):
                other = replace(b, value=chosen[0], above=chosen[1])
                found = found.instead([o if o is not b else other for o in found.both], found.stores, {chosen[1]})
        for value, pointer in self.stores:
            if pointer not in self.even or self.types(value) is not DType.F16:
                continue
            kept, above = found.body.above_zero(value) or (value, None)
            if isinstance(kept, int):
                other = Both(kept, pointer, False, True, above)
                stores = [s for s in found.stores if s != (value, pointer)]
                found = found.instead([*found.both, other], stores, {kept} | ({above} if above is not None else set()))
        for value, _ in self.widened:
            found = found.instead(found.both, found.stores, {value})
        return found

    def instead(self, both: Sequence[Both], stores: Sequence[tuple[int, str]], words: set[int]) -> Statement:
        """With these, if such halves lie in words that nothing else reads."""
        other = replace(self, both=both, stores=stores, words=self.words | words)
        body = self.body.needed({*other.alone, *(b.value for b in both)})
        one_by_one = {a for s in body.steps for a in s.reads} | {*other.alone, *(b.value for b in both if b.rounded)}
        fits = all(self.loads.get(w) in self.even for w in words) and not other.words & one_by_one
        return replace(other, body=body) if fits else self

    def lines(self, count: str, lanes: int) -> list[str] | None:
        kept: set[Ref] = {*(v for v, _ in (*self.stores, *self.sums, *self.widened)), *(b.value for b in self.both)}
        apart, columns = replace(self, body=self.body.kept_apart(kept)), list[Lane]()
        for lane in range(lanes):
            columns.append(Lane(apart, lane, columns[-1] if lane % 2 else None))
        lines = staggered([lane.lines for lane in columns])
        for value, total in self.sums:
            lines += tree([lane.names[value] for lane in columns], f"%[{total}]")
        for value, total in self.widened:
            lines += pairs(columns, value, f"%[{total}]", self.body.named(BOTH))
        pointers = [*self.loads.values()]
        pointers += [name for _, name in (*self.stores, *self.sums, *self.widened)]
        pointers += [b.pointer for b in self.both]
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
        kept = {*(value for value, _ in (*statement.sums, *statement.widened)), *(b.value for b in statement.both)}
        last = {a: k for k, s in enumerate(statement.body.steps) for a in s.reads if isinstance(a, int)}
        last |= dict.fromkeys((v for v, _ in statement.stores), len(statement.body.steps))
        for value, pointer in statement.loads.items():
            if value in statement.words and before is not None:
                self.lines.append("")  # what follows is a step behind the same of the lane before
                continue
            self.names[value] = self.taken()
            load = "TL_LOAD" if value in statement.words else LOADS[types(value)]
            self.lines.append(f'{load}("{self.names[value]}", "%[{pointer}]")')
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
        if before is not None:
            for both in statement.both:
                self.store(both, before, statement.body)

    def store(self, both: Both, before: Lane, body: Body) -> None:
        value, pointer = before.names[both.value], f'"%[{both.pointer}]"'
        if both.rounded:
            value = self.names[both.value]
            self.lines.append(instruction("TL_PACK", (before.names[both.value], value), value))
        if both.above is not None:
            half, mask, no_number = before.names[both.above], self.taken(), self.taken()
            self.lines += [
                instruction("TL_ABOVE", (half, "zero"), mask),
                instruction("TL_HIGHER", (half, body.named(LEAST)), no_number),
                instruction("or {d}, {0}, {1}", (mask, no_number), mask),
                instruction("and {d}, {0}, {1}", (value, mask), mask),
            ]
            value = mask
        if both.word:
            self.lines.append(f'TL_STORE_ON("{value}", {pointer})')
        else:
            store = f'TL_STORE_HALF("{value}", {pointer})'
            self.lines += [store, f'"srli {value}, {value}, 16\\n"', store]

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
    return [lane[t - k] for t in steps for k, lane in enumerate(lanes) if 0 <= t - k < len(lane) and lane[t - k]]


def tree(names: list[str], total: str) -> list[str]:
    """Added up as the portable C does, in the first one's register, and to the sum."""

    def added(some: list[str]) -> list[str]:
        if len(some) == 1:
            return []
        half = (len(some) + 1) // 2
        own = f'"fadd.s {some[0]}, {some[0]}, {some[half]}\\n"'
        return [*added(some[:half]), *added(some[half:]), own]

    return [*added(names), f'"fadd.s {total}, {total}, {names[0]}\\n"']


def pairs(lanes: Sequence[Lane], value: int, total: str, ones: str) -> list[str]:
    """Four halves added up as the tree is, by two sums of pairs."""
    names, joined = [lane.names[value] for lane in lanes if value in lane.names], list[str]()
    if len(names) == len(lanes):
        joined = [instruction("TL_PAIR_OF", names[k : k + 2], names[k]) for k in (0, 2)]
        start, names = names[1], names[::2]
    else:
        start = lanes[0].taken()
    dots = [instruction("TL_DOT", (pair, ones), start) for pair in names]
    return [*joined, f'"li {start}, 0\\n"', *dots, f'"fadd.s {total}, {total}, {start}\\n"']
