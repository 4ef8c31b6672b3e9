"""Loops in wide registers: WIDE turns of a counted loop at once, their sums kept in one register.

For one lane on x86-64, in functions that ask for it (`@vectorizable`). Which loops can be is a
question of their shape, answered here and nowhere guessed: no cost model of LLVM decides. A turn
beyond the end of the loop is made like the others, on zeros, and counted for nothing, so there is
no second loop for the rest. All sums are of integers or truths, where order is of no account; the
bits are those of the loop as written.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from quantdsl.codegen import scalar, simd_ops
from quantdsl.codegen.places import Local
from quantdsl.codegen.simd_text import Value as LaneValue
from quantdsl.codegen.simd_text import VectorText
from quantdsl.codegen.target import WIDE, Target, masked_load
from quantdsl.ir.ops import (
    BINARY,
    BOOL_T,
    F64_T,
    UNARY,
    Assign,
    Binary,
    Call,
    Const,
    Elem,
    Expr,
    Field,
    Fma,
    For,
    Func,
    Let,
    ScalarType,
    Select,
    Stmt,
    Unary,
    Var,
    While,
)
from quantdsl.ir.walk import expressions, operands, statements

if TYPE_CHECKING:
    from quantdsl.codegen.function import FunctionEmitter

LEAST, MOST = -(1 << 63), (1 << 63) - 1
NOTHING = {"iadd": 0, "isub": 0, "ior": 0, "ixor": 0, "iand": -1, "imin": MOST, "imax": LEAST}
"""Ways to sum up -> what changes no sum."""
TRUTHS = {"or": 0, "xor": 0, "and": 1}
DIVISIONS = frozenset({"idiv", "imod"})


def loops(func: Func) -> Iterator[For | While]:
    """The loops of a function that hold no other, in the order of its text."""
    for stmt in statements(func.body):
        if isinstance(stmt, For | While) and not _has_loop(stmt.body):
            yield stmt


def _has_loop(body: tuple[Stmt, ...]) -> bool:
    return any(isinstance(inner, For | While) for inner in statements(body))


def obstacle(loop: For | While) -> str:
    """What keeps a loop out of wide registers, as a sentence's end; empty: nothing does."""
    if isinstance(loop, While):
        return "how often it turns is not known before it begins"
    local = {stmt.name for stmt in loop.body if isinstance(stmt, Let)}
    for stmt in loop.body:
        if found := _odd(stmt) or _not_alone(loop, stmt, local):
            return found
    return _odd_expression(loop)


def _odd(stmt: Stmt) -> str:
    """What a statement is beside a value of its turn or a sum."""
    if isinstance(stmt, Let):
        return "" if isinstance(stmt.type, str) else "it makes a struct or an array in each turn"
    if not isinstance(stmt, Assign):
        return "a turn may go another way than the next: choose by 'a if condition else b'"
    if not isinstance(stmt.place, Var):
        return "it writes to memory"
    return "" if _summand(stmt) else "it sums up in an order that its result depends on"


def _summand(stmt: Assign) -> Expr | None:
    """What `stmt` adds to the sum that it assigns to; None: it is no sum."""
    match stmt.value:
        case Binary(op, x, y) if op in NOTHING or op in TRUTHS:
            if x == stmt.place:
                return y
            if y == stmt.place and op != "isub":
                return x
    return None


def _not_alone(loop: For, stmt: Stmt, local: set[str]) -> str:
    """Whether a sum is read before the loop ends, or is summed up in two ways."""
    if not isinstance(stmt, Assign):
        return ""
    assert isinstance(stmt.place, Var)
    summand = _summand(stmt)
    reads = sum(node == stmt.place for node in expressions(loop.body))
    if stmt.place.name in local or reads != 2 or summand is None:  # as a place, and in its own sum
        return "a turn needs what the one before it made"
    return ""


def _odd_expression(loop: For) -> str:
    for node in expressions(loop.body):
        if isinstance(node, Call):
            return "it calls a function"
        if isinstance(node, Binary) and node.op in DIVISIONS and not _same(node, loop):
            return "it divides"
    return ""


def _same(expr: Expr, loop: For) -> bool:
    """Whether an expression is the same in all turns."""
    made = {loop.name, *(stmt.name for stmt in loop.body if isinstance(stmt, Let))}
    return not made & _names(expr)


def _names(expr: Expr) -> set[str]:
    if isinstance(expr, Var):
        return {expr.name}
    return set().union(*map(_names, operands(expr)))


def text_of(target: Target) -> VectorText | None:
    """Where a function with wide loops is written; None on a target that has none for one lane."""
    if target.lanes != 1 or masked_load(WIDE) not in target.intrinsics:
        return None
    return VectorText(msgspec.structs.replace(target, lanes=WIDE))


class WideLoop:
    """Emits one loop that has no `obstacle`."""

    def __init__(self, emitter: "FunctionEmitter", text: VectorText, loop: For) -> None:
        self.emitter, self.text, self.loop = emitter, text, loop
        self.index = self.end = ""
        self.mask: str | None = None
        self.lanes: dict[str, LaneValue] = {}
        """The values of the turn, by name."""

    def emit(self) -> None:
        """The whole loop and its sums."""
        emitter, text = self.emitter, self.text
        sums = [stmt for stmt in self.loop.body if isinstance(stmt, Assign)]
        places = [self.begun(stmt) for stmt in sums]
        lo, self.end = (emitter.value(x).text for x in (self.loop.lo, self.loop.hi))
        head, body, after = (text.label() for _ in range(3))
        before, self.index, following = text.block, f"%i{head[1:]}", f"%n{head[1:]}"
        emitter.held.state = {}
        text.jump(head)
        text.start(head)
        text.do(f"{self.index} = phi i64 [ {lo}, %{before} ], [ {following}, %{body} ]")
        text.branch(text.value(f"icmp slt i64 {self.index}, {self.end}"), body, after)
        text.start(body)
        with text.scope():
            self.turns(dict(zip(map(id, sums), places, strict=True)))
        text.do(f"{following} = add i64 {self.index}, {WIDE}")
        text.jump(head)
        emitter.held.state = {}
        text.start(after)
        for stmt, place in zip(sums, places, strict=True):
            self.finish(stmt, place)

    def begun(self, stmt: Assign) -> str:
        """Memory for a sum in each lane, which LLVM keeps in a register."""
        op, type_ = self.op(stmt)
        place = self.text.alloca(type_)
        zero = NOTHING[op] if op in NOTHING else TRUTHS[op]
        scalar_type = "i64" if op in NOTHING else "i1"
        self.text.do(f"store {type_} splat ({scalar_type} {zero}), ptr {place}, align 8")
        return place

    def op(self, stmt: Assign) -> tuple[str, str]:
        """How a sum is made, and the type of its lanes."""
        assert isinstance(stmt.value, Binary)
        op = stmt.value.op
        return op, self.text.words if op in NOTHING else self.text.masks

    def turns(self, places: dict[int, str]) -> None:
        """WIDE turns; those beyond the end change no sum."""
        text = self.text
        numbers = text.pure(
            f"add {text.words} {text.spread('i64', self.index)}, {text.per_lane(0, 1)}"
        )
        self.lanes[self.loop.name] = LaneValue(numbers, "i64", True)
        if not self.whole():
            end = text.spread("i64", self.end)
            self.mask = text.pure(f"icmp slt {text.words} {numbers}, {end}")
        for stmt in self.loop.body:
            if isinstance(stmt, Let):
                self.lanes[stmt.name] = self.let(stmt)
                continue
            assert isinstance(stmt, Assign)
            op, type_ = self.op(stmt)
            summand = _summand(stmt)
            assert summand is not None
            old = text.value(f"load {type_}, ptr {places[id(stmt)]}, align 8")
            new = simd_ops.binary(text, op, old, text.varying(self.value(summand)))
            kept = text.blend(self.mask, type_, new, old)
            text.do(f"store {type_} {kept}, ptr {places[id(stmt)]}, align 8")

    def whole(self) -> bool:
        """Whether no turn can lie beyond the end."""
        match self.loop.lo, self.loop.hi:
            case Const(_, lo), Const(_, hi):
                return (hi - lo) % WIDE == 0
        return False

    def let(self, stmt: Let) -> LaneValue:
        assert isinstance(stmt.type, str)
        return LaneValue("0", stmt.type, False) if stmt.value is None else self.value(stmt.value)

    def finish(self, stmt: Assign, place: str) -> None:
        """The lanes of a sum, and what it was before the loop, as one."""
        op, type_ = self.op(stmt)
        element = "i64" if op in NOTHING else "i1"
        together = "iadd" if op == "isub" else op
        lanes = self.text.value(f"load {type_}, ptr {place}, align 8")
        parts = [self.text.value(f"extractelement {type_} {lanes}, i64 {k}") for k in range(WIDE)]
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [scalar.binary(self.text, together, x, y) for x, y in pairs]
        assert isinstance(stmt.place, Var)
        before = self.emitter.var(stmt.place).text
        total = scalar.binary(self.text, together, before, parts[0])
        address = self.emitter.locals[stmt.place.name].text
        self.text.do(f"store {element} {total}, ptr {address}, align 8")
        self.emitter.held.local(address, total)

    # ---- values of a turn -----------------------------------------------------------------

    def value(self, expr: Expr) -> LaneValue:
        """Emit a scalar of each turn; one that is the same in all of them is emitted once."""
        if isinstance(expr, Var) and expr.name in self.lanes:
            return self.lanes[expr.name]
        if not self.lanes.keys() & _names(expr):
            return LaneValue(*self.emitter.value(expr), False)
        match expr:
            case Field() | Elem():
                return self.load(expr)
            case Unary(op, x):
                operand = self.value(x)
                made = simd_ops.unary(self.text, op, self.text.varying(operand))
                return LaneValue(made, UNARY[op].result, True)
            case Binary(op, x, y):
                words = [self.text.varying(self.value(z)) for z in (x, y)]
                return LaneValue(
                    simd_ops.binary(self.text, op, *words), BINARY[op].result, True
                )
            case Fma(x, y, z, single):
                words = [self.text.varying(self.value(w)) for w in (x, y, z)]
                made = simd_ops.fused(self.text, words, single=single)
                return LaneValue(made, F64_T, True)
            case Select(cond, x, y):
                mask, first, second = (self.value(z) for z in (cond, x, y))
                return self.select(mask, first, second)
        raise AssertionError(f"{expr} has an obstacle")

    def select(self, mask: LaneValue, first: LaneValue, second: LaneValue) -> LaneValue:
        type_ = self.text.type_of(first.type)
        x, y = map(self.text.varying, (first, second))
        which = f"{self.text.masks} {self.text.varying(mask)}"
        chosen = self.text.pure(f"select {which}, {type_} {x}, {type_} {y}")
        return LaneValue(chosen, first.type, True)

    def load(self, place: Field | Elem) -> LaneValue:
        """A word of each turn: at once where they are neighbours, else one by one."""
        type_ = self.emitter.type_of(place)
        assert isinstance(type_, str)
        if isinstance(place, Elem) and self.follows(place.index) and self.fixed(place.base):
            words = self.neighbours(place)
        else:
            words = self.gathered(place)
        return LaneValue(self.typed(words, type_), type_, True)

    def fixed(self, base: Expr) -> bool:
        return not self.lanes.keys() & _names(base)

    def follows(self, index: Expr) -> bool:
        """Whether an index grows by 1 with each turn."""
        match index:
            case Var(name):
                return name == self.loop.name
            case Binary("iadd", x, y):
                return (self.follows(x) and self.fixed(y)) or (self.follows(y) and self.fixed(x))
            case Binary("isub", x, y):
                return self.follows(x) and self.fixed(y)
        return False

    def neighbours(self, place: Elem) -> str:
        text = self.text
        with self.turn(self.index, {}):
            spot = self.emitter.spot(place)
            where = f"ptr align 8 {self.emitter.address(spot)}"
        if self.mask is None:
            return text.value(f"load {text.words}, {where.replace(' align 8', '')}, align 8")
        name = masked_load(WIDE)
        text.allow(name)
        zeros = f"{text.words} zeroinitializer"
        return text.value(
            f"call {text.words} @{name}({where}, {text.masks} {self.mask}, {zeros}){spot.tag}"
        )

    def gathered(self, place: Field | Elem) -> str:
        """Turns beyond the end read what the last turn reads."""
        text, words = self.text, "poison"
        last = text.pure(f"sub i64 {self.end}, 1")
        for lane in range(WIDE):
            number = text.pure(f"add i64 {self.index}, {lane}")
            if self.mask is not None and lane:
                number = scalar.binary(text, "imin", number, last)
            with self.turn(number, self.of_lane(lane)):
                spot = self.emitter.spot(place)
                address = self.emitter.address(spot)
            word = text.value(f"load i64, ptr {address}, align 8{spot.tag}")
            words = text.value(f"insertelement {text.words} {words}, i64 {word}, i64 {lane}")
        return words

    @contextmanager
    def turn(self, number: str, values: dict[str, str]) -> Iterator[None]:
        """Inside `with` the names of a turn are those of one lane."""
        locals_ = self.emitter.locals
        inner = {self.loop.name: LaneValue(number, "i64", False)}
        inner |= {name: LaneValue(text, self.lanes[name].type, False)
                  for name, text in values.items()}  # fmt: skip
        outer = {name: locals_.get(name) for name in inner}
        locals_.update({name: Local(one.text, one.type, False) for name, one in inner.items()})
        yield
        for name, one in outer.items():
            if one is None:
                del locals_[name]
            else:
                locals_[name] = one

    def of_lane(self, lane: int) -> dict[str, str]:
        """The values of one turn."""
        text, found = self.text, {}
        for name, value in self.lanes.items():
            if name != self.loop.name:
                vector = f"{text.type_of(value.type)} {text.varying(value)}"
                found[name] = text.pure(f"extractelement {vector}, i64 {lane}")
        return found

    def typed(self, words: str, type_: ScalarType) -> str:
        """Words of memory as values."""
        if type_ == BOOL_T:
            return self.text.pure(f"icmp ne {self.text.words} {words}, zeroinitializer")
        if type_ == F64_T:
            double = self.text.type_of(type_)
            return self.text.pure(f"bitcast {self.text.words} {words} to {double}")
        return words
