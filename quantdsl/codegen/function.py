"""One IR function as an LLVM function: statements, places, calls.

A local that is never assigned is an SSA value at once; the others live in allocas, which LLVM
promotes. An aggregate is a pointer to its words.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from quantdsl.codegen import scalar, wide
from quantdsl.codegen.held import Held
from quantdsl.codegen.idioms import EXPONENT_BIAS, lowest_bit, number_kept
from quantdsl.codegen.places import Local, Spot, Value
from quantdsl.codegen.simd_text import VectorText
from quantdsl.codegen.target import TRAILING_ZEROS, WIDE
from quantdsl.codegen.tbaa import AliasTags
from quantdsl.codegen.text import LLVM_TYPE, Text, literal
from quantdsl.errors import InternalError
from quantdsl.ir.layout import Layout, element
from quantdsl.ir.ops import (
    BINARY,
    BOOL_T,
    UNARY,
    ArrayType,
    Assign,
    Binary,
    Break,
    BufferType,
    Call,
    Const,
    Continue,
    Do,
    Elem,
    Expr,
    Field,
    Fma,
    For,
    Func,
    If,
    Let,
    Return,
    Select,
    Stmt,
    StructOf,
    StructType,
    Table,
    TableDecl,
    Type,
    Unary,
    Var,
    While,
)
from quantdsl.ir.walk import statements

SINGLE_WORDS = 16
"""Up to so many words are copied or zeroed one by one, so that LLVM may keep each in a register."""
STRAIGHT_WORDS = 256
"""Up to so many go by wide moves, more by a loop."""
RARELY, MOSTLY = "!999999997", "!999999998"
"""Weights of a branch to cold code, and of one past it; numbers that no other metadata has."""
WIDE_TYPE = f"<{WIDE} x i64>"


class Signature(NamedTuple):
    """How an IR function is called in LLVM."""

    symbol: str
    decl: Func
    external: bool = False
    """Whether another object file defines or calls it."""

    @property
    def returns_struct(self) -> bool:
        """Whether the caller passes memory for the result as the first argument."""
        return self.decl.result is not None and not isinstance(self.decl.result, str)

    @property
    def result(self) -> str:
        """The LLVM result type."""
        return LLVM_TYPE[self.decl.result] if isinstance(self.decl.result, str) else "void"


class Shared(NamedTuple):
    """What the functions of a module have in common."""

    layout: Layout
    signatures: dict[str, Signature]
    tables: dict[str, tuple[str, TableDecl]]
    tags: AliasTags
    word_step: int = 1
    """Words of memory from one word of an aggregate to the next: lanes may lie in between."""


class FunctionEmitter:
    """Emits one function; `lines()` is its definition."""

    def __init__(
        self, shared: Shared, signature: Signature, text: Text, *, weighed: bool = False
    ) -> None:
        self.layout, self.signatures, self.tables, self.tags, self.word_step = shared
        self.signature = signature
        self.text, self.weighed = text, weighed
        self.held = Held(self.tags)
        self.locals: dict[str, Local] = {}
        self.assigned = {
            stmt.place.name
            for stmt in statements(signature.decl.body)
            if isinstance(stmt, Assign) and isinstance(stmt.place, Var)
        }
        self.loops: list[tuple[str, str]] = []
        """(label after the loop, label of the next turn) of the open loops."""

    def lines(self) -> Iterator[str]:
        decl, text = self.signature.decl, self.text
        params = ["ptr %result"] if self.signature.returns_struct else []
        for index, param in enumerate(decl.params):
            params.append(self.parameter(index, param.name, param.type))
        self.block(decl.body)
        if not text.ended:
            text.end("ret void" if self.signature.result == "void" else "unreachable")
        self.held.finish(self.signature.symbol)
        attributes = "#0" if decl.inline else "#1"
        linkage = "" if self.signature.external else "internal "
        head = f"define {linkage}{self.signature.result} @{self.signature.symbol}"
        yield f"{head}({', '.join(params)}) {attributes} {{"
        yield "entry:"
        yield from text.head
        yield from text.lines
        yield "}"

    def parameter(self, index: int, name: str, type_: Type) -> str:
        value = f"%p{index}"
        if not isinstance(type_, str):
            self.locals[name] = Local(value, type_, True)
            if isinstance(type_, BufferType):
                return f"ptr {value}"
            size_bytes = 8 * ((self.layout.words(type_) - 1) * self.word_step + 1)
            return f"ptr nonnull align 8 dereferenceable({size_bytes}) {value}"
        self.bind(name, Value(value, type_))
        return f"{LLVM_TYPE[type_]} {value}"

    def bind(self, name: str, value: Value) -> None:
        """Name a scalar, in memory if the function assigns to it later."""
        type_ = LLVM_TYPE[value.type]
        if name not in self.assigned:
            self.locals[name] = Local(value.text, value.type, False)
            return
        address = self.text.alloca(type_)
        self.text.do(f"store {type_} {value.text}, ptr {address}, align 8")
        self.held.local(address, value.text)
        self.locals[name] = Local(address, value.type, True)

    # ---- statements ---------------------------------------------------------------------

    def block(self, body: tuple[Stmt, ...]) -> None:
        for stmt in body:
            if self.text.ended:  # nothing reaches what follows a Break, Continue or Return
                return
            STATEMENTS[type(stmt)](self, stmt)

    def let(self, stmt: Let) -> None:
        if isinstance(stmt.type, str):
            value = self.value(stmt.value) if stmt.value else Value(ZEROS[stmt.type], stmt.type)
            self.bind(stmt.name, value)
            return
        spot = self.fresh(stmt.type)
        self.locals[stmt.name] = Local(spot.base, stmt.type, True)
        if stmt.value is None:
            self.fill_zeros(spot)
        else:
            self.store_struct(spot, stmt.value)

    def assign(self, stmt: Assign) -> None:
        if isinstance(stmt.place, Var):
            local = self.locals[stmt.place.name]
            if isinstance(local.type, str):
                value, type_ = self.value(stmt.value), LLVM_TYPE[local.type]
                self.text.do(f"store {type_} {value.text}, ptr {local.text}, align 8")
                self.held.local(local.text, value.text)
                return
        if isinstance(self.type_of(stmt.place), str):
            value = self.value(stmt.value)
            self.store(self.spot(stmt.place), value)
        else:
            self.assign_struct(stmt)

    def assign_struct(self, stmt: Assign) -> None:
        """A result is made aside first: the call may still read what it will replace."""
        if isinstance(stmt.value, Call):
            aside = self.fresh(self.type_of(stmt.place))
            self.call(stmt.value, aside.base)
            self.copy(self.spot(stmt.place), aside)
        elif isinstance(stmt.value, StructOf):
            values = [self.value(value) for value in stmt.value.values]
            self.store_fields(self.spot(stmt.place), values)
        else:
            source = self.spot(stmt.value)
            self.copy(self.spot(stmt.place), source)

    def do(self, stmt: Do) -> None:
        result = self.signatures[stmt.call.func].decl.result
        aside = ""
        if result is not None and not isinstance(result, str):
            aside = self.fresh(result).base
        self.call(stmt.call, aside)

    def branch(self, stmt: If) -> None:
        text = self.text
        condition = self.value(stmt.cond).text
        then, after = text.label(), text.label()
        otherwise = text.label() if stmt.otherwise else after
        text.branch(condition, then, otherwise, self.weights(stmt))
        before, ends = self.held.state, []
        for label, body in ((then, stmt.then), (otherwise, stmt.otherwise)):
            self.held.state = dict(before)
            if label != after:
                text.start(label)
                with text.scope():
                    self.block(body)
            if label == after or not text.ended:
                ends.append(self.held.state)
                text.jump(after)
        self.held.meet(before, ends)
        text.start(after)

    def weights(self, stmt: If) -> str:
        """How often a branch is taken, where a copy of a cold function stands in it: rarely."""
        cold = tuple(map(self.calls_cold, (stmt.then, stmt.otherwise)))
        if not self.weighed or cold[0] == cold[1]:
            return ""
        return f", !prof {RARELY if cold[0] else MOSTLY}"

    def calls_cold(self, body: tuple[Stmt, ...]) -> bool:
        """Whether a block copies a cold function that it calls whenever it runs."""
        for stmt in body:
            call = stmt.call if isinstance(stmt, Do) else getattr(stmt, "value", None)
            decl = self.signatures[call.func].decl if isinstance(call, Call) else None
            if decl is not None and decl.cold and decl.inline:
                return True
        return False

    def for_loop(self, stmt: For) -> None:
        if isinstance(self.text, VectorText) and not wide.obstacle(stmt):
            wide.WideLoop(self, self.text, stmt).emit()
            return
        lo, hi = self.value(stmt.lo).text, self.value(stmt.hi).text
        with self.counted_loop(lo, hi) as index:
            self.locals[stmt.name] = Local(index, "i64", False)
            self.block(stmt.body)

    def while_loop(self, stmt: While) -> None:
        text, turns = self.text, self.value(stmt.max).text
        with self.counted_loop("0", turns):
            body = text.label()
            text.branch(self.value(stmt.cond).text, body, self.loops[-1][0])
            text.start(body)
            self.block(stmt.body)

    @contextmanager
    def counted_loop(self, lo: str, hi: str) -> Iterator[str]:
        """Emit a loop around what is emitted inside `with`; gives the index."""
        text = self.text
        head, body, again, after = (text.label() for _ in range(4))
        before, index, following = text.block, f"%i{head[1:]}", f"%n{head[1:]}"
        self.held.state = {}  # a turn may change what the next one reads
        text.jump(head)
        text.start(head)
        text.do(f"{index} = phi i64 [ {lo}, %{before} ], [ {following}, %{again} ]")
        text.branch(text.value(f"icmp slt i64 {index}, {hi}"), body, after)
        text.start(body)
        self.loops.append((after, again))
        with text.scope():
            yield index
        self.loops.pop()
        text.jump(again)
        text.start(again)
        text.do(f"{following} = add nsw i64 {index}, 1")  # below hi, so it cannot wrap
        text.jump(head)
        self.held.state = {}
        text.start(after)

    def leave(self, _: Break) -> None:
        self.text.jump(self.loops[-1][0])

    def next_turn(self, _: Continue) -> None:
        self.text.jump(self.loops[-1][1])

    def ret(self, stmt: Return) -> None:
        if stmt.value is None:
            self.text.end("ret void")
        elif self.signature.returns_struct:
            assert self.signature.decl.result is not None
            result = Spot("%result", 0, self.signature.decl.result, "", self.word_step)
            self.store_struct(result, stmt.value)
            self.text.end("ret void")
        else:
            value = self.value(stmt.value)
            self.text.end(f"ret {LLVM_TYPE[value.type]} {value.text}")

    # ---- struct values ------------------------------------------------------------------

    def store_struct(self, target: Spot, value: Expr) -> None:
        """Fill fresh memory, which nothing in `value` can name."""
        if isinstance(value, Call):
            self.call(value, self.address(target))
        elif isinstance(value, StructOf):
            self.store_fields(target, [self.value(field) for field in value.values])
        else:
            self.copy(target, self.spot(value))

    def store_fields(self, target: Spot, values: list[Value]) -> None:
        assert isinstance(target.type, StructType)
        for name, value in zip(self.layout.slots(target.type.name), values, strict=True):
            self.store(self.field(target, name), value)

    def copy(self, target: Spot, source: Spot) -> None:
        """Copy a struct word by word; the two are one object or do not overlap."""
        count = self.layout.words(target.type)
        to, from_ = self.address(target), self.address(source)
        self.held.overwrite(self.word_tags(target.type))
        if count > SINGLE_WORDS:
            for index, type_ in self.pieces(count):
                piece = self.text.value(f"load {type_}, ptr {self.word(from_, index)}, align 8")
                self.text.do(f"store {type_} {piece}, ptr {self.word(to, index)}, align 8")
            return
        for at, tag in enumerate(self.word_tags(target.type)):
            word = self.text.value(f"load i64, ptr {self.word(from_, at)}, align 8{tag}")
            self.text.do(f"store i64 {word}, ptr {self.word(to, at)}, align 8{tag}")

    def fill_zeros(self, target: Spot) -> None:
        count = self.layout.words(target.type)
        self.held.overwrite(self.word_tags(target.type))
        if count > SINGLE_WORDS:
            for index, type_ in self.pieces(count):
                place = self.word(target.base, index)
                self.text.do(f"store {type_} zeroinitializer, ptr {place}, align 8")
            return
        for at, tag in enumerate(self.word_tags(target.type)):
            self.text.do(f"store i64 0, ptr {self.word(target.base, at)}, align 8{tag}")

    def pieces(self, count: int) -> Iterator[tuple[int | str, str]]:
        """Word index and LLVM type of each move over `count` words; emits a loop for many."""
        if count > STRAIGHT_WORDS:
            with self.counted_loop("0", str(count)) as index:
                yield index, "i64"
            return
        wide = count - count % WIDE if self.word_step == 1 else 0
        yield from ((at, WIDE_TYPE) for at in range(0, wide, WIDE))
        yield from ((at, "i64") for at in range(wide, count))

    def word_tags(self, type_: Type, tag: str = "") -> Iterator[str]:
        """The alias tag of each word of an aggregate."""
        if isinstance(type_, StructType):
            for name, slot in self.layout.slots(type_.name).items():
                yield from self.word_tags(slot.type, self.tags.field(type_.name, name, slot.type))
        elif isinstance(type_, ArrayType):
            assert isinstance(type_.size, int)
            if not tag and isinstance(type_.elem, str):
                tag = self.tags.elements(type_)
            for _ in range(type_.size):
                yield from self.word_tags(type_.elem, tag)
        else:
            yield tag

    # ---- expressions --------------------------------------------------------------------

    def value(self, expr: Expr) -> Value:
        """Emit a scalar."""
        return EXPRESSIONS[type(expr)](self, expr)

    def const(self, expr: Const) -> Value:
        return Value(literal(expr), expr.type)

    def var(self, expr: Var) -> Value:
        local = self.locals[expr.name]
        assert isinstance(local.type, str)
        if not local.in_memory:
            return Value(local.text, local.type)
        held = self.held.get(local.text, 0)
        if held is None:
            held = self.text.value(f"load {LLVM_TYPE[local.type]}, ptr {local.text}, align 8")
            self.held.local(local.text, held)
        return Value(held, local.type)

    def load(self, expr: Field | Elem) -> Value:
        spot = self.spot(expr)
        assert isinstance(spot.type, str)
        held = self.held.get(spot.base, spot.offset)
        if held is None:
            address, align = self.address(spot), 8 * self.aligned(expr)
            type_ = "i64" if spot.type == BOOL_T else LLVM_TYPE[spot.type]
            held = self.text.value(f"load {type_}, ptr {address}, align {align}{spot.tag}")
            if spot.type == BOOL_T:
                held = self.text.pure(f"icmp ne i64 {held}, 0")
            self.held.loaded(spot.base, spot.offset, spot.tag, held)
        return Value(held, spot.type)

    def aligned(self, place: Field | Elem) -> int:
        """Of how many words the address of a scalar is known to be a multiple."""
        if not isinstance(place, Elem) or not isinstance(place.base, Var):
            return 1
        type_ = self.locals[place.base.name].type
        return min(type_.align, factor(place.index)) if isinstance(type_, BufferType) else 1

    def store(self, spot: Spot, value: Value) -> None:
        word, type_ = value.text, LLVM_TYPE[value.type]
        if value.type == BOOL_T:
            word, type_ = self.text.pure(f"zext i1 {word} to i64"), "i64"
        self.text.do(f"store {type_} {word}, ptr {self.address(spot)}, align 8{spot.tag}")
        self.held.store(spot.base, spot.offset, spot.tag, value.text)

    def unary(self, expr: Unary) -> Value:
        x = self.value(expr.x)
        return Value(scalar.unary(self.text, expr.op, x.text), UNARY[expr.op].result)

    def binary(self, expr: Binary) -> Value:
        word = lowest_bit(expr)
        if word is not None and self.text.has(TRAILING_ZEROS):
            bits = self.value(word).text
            return Value(scalar.lowest_bit(self.text, bits, -EXPONENT_BIAS), "i64")
        x, y = self.value(expr.x), self.value(expr.y)
        return Value(scalar.binary(self.text, expr.op, x.text, y.text), BINARY[expr.op].result)

    def fma(self, expr: Fma) -> Value:
        operands = [self.value(x).text for x in (expr.x, expr.y, expr.z)]
        return Value(scalar.fused(self.text, operands, single=expr.single), "f64")

    def select(self, expr: Select) -> Value:
        condition, number = self.value(expr.cond), number_kept(expr)
        if number is None:
            x = self.value(expr.x)
        else:
            x = Value(scalar.kept(self.text, condition.text, self.value(number).text), "i64")
        y, type_ = self.value(expr.y), LLVM_TYPE[x.type]
        chosen = f"select i1 {condition.text}, {type_} {x.text}, {type_} {y.text}"
        return Value(self.text.pure(chosen), x.type)

    def scalar_call(self, expr: Call) -> Value:
        value = self.call(expr, "")
        assert value is not None
        return value

    def call(self, call: Call, result_address: str) -> Value | None:
        """Emit a call; a struct result goes to `result_address`."""
        signature = self.signatures[call.func]
        args = [f"ptr {result_address}"] if signature.returns_struct else []
        for param, arg in zip(signature.decl.params, call.args, strict=True):
            if isinstance(param.type, str):
                args.append(f"{LLVM_TYPE[param.type]} {self.value(arg).text}")
            else:
                args.append(f"ptr {self.address(self.spot(arg))}")
        text = f"call {signature.result} @{signature.symbol}({', '.join(args)})"
        self.held.call(signature.symbol)
        if isinstance(signature.decl.result, str):
            return Value(self.text.value(text), signature.decl.result)
        self.text.do(text)
        return None

    # ---- places -------------------------------------------------------------------------

    def spot(self, place: Expr) -> Spot:
        """Emit the address of a place, but for its constant offset."""
        match place:
            case Var():
                local = self.locals[place.name]
                tag = ""
                if isinstance(local.type, ArrayType | BufferType):
                    tag = self.elements_tag(local.type)
                step = 1 if isinstance(local.type, BufferType) else self.word_step
                return Spot(local.text, 0, local.type, tag, step)
            case Field():
                return self.field(self.spot(place.base), place.name)
            case Elem():
                return self.elem(place)
        raise InternalError(f"QD9502 codegen: not a place: {place}")

    def field(self, base: Spot, name: str) -> Spot:
        assert isinstance(base.type, StructType)
        slot = self.layout.slots(base.type.name)[name]
        tag = self.tags.field(base.type.name, name, slot.type)
        return Spot(base.base, base.offset + slot.offset_words, slot.type, tag, base.word_step)

    def elem(self, place: Elem) -> Spot:
        if isinstance(place.base, Table):
            address, table = self.tables[place.base.name]
            base = Spot(address, 0, ArrayType(table.type, len(table.bits)), "", 1)
        else:
            base = self.spot(place.base)
        type_ = element(base.type)
        words = self.layout.words(type_)
        if isinstance(base.type, ArrayType) and base.type.size == 1:
            return base._replace(type=type_)  # the index can only be 0
        if isinstance(place.index, Const):
            return base._replace(offset=base.offset + place.index.bits * words, type=type_)
        # The constant part waits for the end, so that all fields of an element share its address.
        # On its own the sum so far may lie before the array, hence no `inbounds` here.
        index = self.value(place.index).text
        step = words * base.word_step
        type_text = "i64" if step == 1 else f"[{step} x i64]"
        address = self.text.pure(f"getelementptr {type_text}, ptr {base.base}, i64 {index}")
        return base._replace(base=address, type=type_)

    def fresh(self, type_: Type) -> Spot:
        """Memory for an aggregate."""
        words = (self.layout.words(type_) - 1) * self.word_step + 1
        return Spot(self.text.alloca(f"[{words} x i64]"), 0, type_, "", self.word_step)

    def address(self, spot: Spot) -> str:
        if spot.offset == 0:
            return spot.base
        words = spot.offset * spot.word_step
        return self.text.pure(f"getelementptr i64, ptr {spot.base}, i64 {words}")

    def word(self, address: str, index: int | str) -> str:
        """The address of a word of an aggregate."""
        if index == 0:
            return address
        step = "i64" if self.word_step == 1 else f"[{self.word_step} x i64]"
        return self.text.pure(f"getelementptr {step}, ptr {address}, i64 {index}")

    def elements_tag(self, type_: ArrayType | BufferType) -> str:
        return self.tags.elements(type_) if isinstance(type_.elem, str) else ""

    def type_of(self, place: Expr) -> Type:
        """The type of a place, without emitting anything."""
        match place:
            case Var():
                return self.locals[place.name].type
            case Field():
                base = self.type_of(place.base)
                assert isinstance(base, StructType)
                return self.layout.slots(base.name)[place.name].type
            case Elem():
                return element(self.type_of(place.base))
            case Table():
                table = self.tables[place.name][1]
                return ArrayType(table.type, len(table.bits))
        raise InternalError(f"QD9502 codegen: not a place: {place}")


FACTOR_MAX = 64


def factor(expr: Expr) -> int:
    """A power of two, at most FACTOR_MAX, that divides a whole number."""
    match expr:
        case Const():
            return min(expr.bits & -expr.bits or FACTOR_MAX, FACTOR_MAX)
        case Binary("iadd" | "isub", x, y):
            return min(factor(x), factor(y))
        case Binary("imul", x, y):
            return min(factor(x) * factor(y), FACTOR_MAX)
    return 1


ZEROS = {"bool": "false", "i64": "0", "f64": "0.0"}

STATEMENTS: dict[type, Callable[..., None]] = {
    Let: FunctionEmitter.let,
    Assign: FunctionEmitter.assign,
    Do: FunctionEmitter.do,
    If: FunctionEmitter.branch,
    For: FunctionEmitter.for_loop,
    While: FunctionEmitter.while_loop,
    Break: FunctionEmitter.leave,
    Continue: FunctionEmitter.next_turn,
    Return: FunctionEmitter.ret,
}

EXPRESSIONS: dict[type, Callable[..., Value]] = {
    Const: FunctionEmitter.const,
    Var: FunctionEmitter.var,
    Field: FunctionEmitter.load,
    Elem: FunctionEmitter.load,
    Unary: FunctionEmitter.unary,
    Binary: FunctionEmitter.binary,
    Fma: FunctionEmitter.fma,
    Select: FunctionEmitter.select,
    Call: FunctionEmitter.scalar_call,
}
