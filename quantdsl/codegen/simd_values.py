"""Expressions, places and calls of vector code: what a statement computes, for each lane."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from quantdsl.codegen import scalar, simd_ops
from quantdsl.codegen.function import Shared
from quantdsl.codegen.simd_memory import Memory, Spot
from quantdsl.codegen.simd_text import Value, VectorText
from quantdsl.codegen.target import TRAILING_ZEROS
from quantdsl.codegen.text import LLVM_TYPE, literal
from quantdsl.errors import InternalError
from quantdsl.ir.layout import element
from quantdsl.ir.ops import (
    BINARY,
    UNARY,
    ArrayType,
    Binary,
    BufferType,
    Call,
    Const,
    Elem,
    Expr,
    Field,
    Fma,
    Func,
    ScalarType,
    Select,
    Table,
    Type,
    Unary,
    Var,
)
from quantdsl.ir.walk import base_name
from quantdsl.passes.uniform import Uniform

LaneStep = Callable[[str], None]
"""Emits what is done for one lane; takes the lane's number as an LLVM value."""
LaneValue = Callable[[str], str]
"""Emits one lane's scalar."""


class Local(NamedTuple):
    """A scalar in scope; `text` is its value, or its address where it is `in_memory`."""

    text: str
    type: ScalarType
    varies: bool
    in_memory: bool = False
    born: str | None = None
    """The lanes that may ever read it: where they are the active ones, it is not blended."""


class Wanted(NamedTuple):
    """What vector code asks of the rest of its module."""

    shared: Shared
    scalars: set[str]
    """Functions that are called for one lane at a time."""
    vectors: dict[tuple[str, bool], str]
    """(function, masked) -> symbol of its vector form."""

    def vector(self, name: str, masked: bool) -> str:
        """The symbol of a function's vector form."""
        return self.vectors.setdefault((name, masked), f"v{len(self.vectors)}")


class ValueEmitter:
    """Emits values under the mask of the active lanes."""

    def __init__(
        self, wanted: Wanted, decl: Func, text: VectorText, same: Uniform, mask: str | None
    ) -> None:
        self.wanted, self.decl, self.text, self.same = wanted, decl, text, same
        self.signatures = wanted.shared.signatures
        self.layout = wanted.shared.layout
        self.memory = Memory(text, wanted.shared.layout, wanted.shared.tags)
        self.mask = mask
        """The active lanes; None stands for all."""
        self.locals: dict[str, Local] = {}
        self.spots: dict[str, Spot] = {}
        self.held: dict[Expr, Value] = {}
        """Elements that have been loaded already."""

    def value(self, expr: Expr) -> Value:
        """Emit a scalar of each lane."""
        return EXPRESSIONS[type(expr)](self, expr)

    def vector(self, value: Value) -> str:
        """A scalar of each lane as a vector."""
        return self.text.varying(value)

    def const(self, expr: Const) -> Value:
        return Value(literal(expr), expr.type, False)

    def var(self, expr: Var) -> Value:
        local = self.locals[expr.name]
        if not local.in_memory:
            return Value(local.text, local.type, local.varies)
        return Value(self.loaded(local), local.type, local.varies)

    def loaded(self, local: Local) -> str:
        """The value of a local in memory."""
        return self.text.value(f"load {self.type_of(local)}, ptr {local.text}, align 8")

    def type_of(self, value: Local | Value) -> str:
        """The LLVM type of a scalar or vector."""
        return self.text.type_of(value.type) if value.varies else LLVM_TYPE[value.type]

    def load(self, expr: Field | Elem) -> Value:
        if self.held and expr in self.held:
            return self.held[expr]
        spot = self.spot(expr)
        if spot.shared or not self.same.place(expr):
            return self.memory.load(spot, self.mask)
        assert isinstance(spot.type, str)
        # An inactive lane may hold another word: it need not have been written for that lane.
        address = self.memory.lane_address(spot, self.active_lane())
        return self.memory.load_scalar(address, spot.type, spot.tag)

    def active_lane(self) -> str:
        """The number of some active lane."""
        if self.mask is None:
            return "0"
        self.text.allow(TRAILING_ZEROS)
        bits = self.text.bits(self.mask)
        return self.text.pure(f"call i64 @{TRAILING_ZEROS}(i64 {bits}, i1 true)")

    def agreed(self, value: Value) -> str:
        """The scalar that all active lanes hold."""
        return self.extract(value, self.active_lane()) if value.varies else value.text

    def unary(self, expr: Unary) -> Value:
        x = self.value(expr.x)
        emit = simd_ops.unary if x.varies else scalar.unary
        return Value(emit(self.text, expr.op, x.text), UNARY[expr.op].result, x.varies)

    def binary(self, expr: Binary) -> Value:
        x, y = self.value(expr.x), self.value(expr.y)
        if x.varies or y.varies:
            result = simd_ops.binary(self.text, expr.op, self.vector(x), self.vector(y))
        else:
            result = scalar.binary(self.text, expr.op, x.text, y.text)
        return Value(result, BINARY[expr.op].result, x.varies or y.varies)

    def fma(self, expr: Fma) -> Value:
        operands = [self.value(x) for x in (expr.x, expr.y, expr.z)]
        if any(x.varies for x in operands):
            words = [self.vector(x) for x in operands]
            return Value(simd_ops.fused(self.text, words, single=expr.single), "f64", True)
        texts = [x.text for x in operands]
        return Value(scalar.fused(self.text, texts, single=expr.single), "f64", False)

    def select(self, expr: Select) -> Value:
        condition, x, y = (self.value(operand) for operand in (expr.cond, expr.x, expr.y))
        varies = condition.varies or x.varies or y.varies
        mask = f"{self.text.masks if condition.varies else 'i1'} {condition.text}"
        left, right = (self.vector(side) if varies else side.text for side in (x, y))
        type_ = self.type_of(x._replace(varies=varies))
        chosen = self.text.pure(f"select {mask}, {type_} {left}, {type_} {right}")
        return Value(chosen, x.type, varies)

    # ---- calls --------------------------------------------------------------------------

    def call(self, call: Call) -> Value:
        """Emit a call for its scalar result."""
        decl = self.signatures[call.func].decl
        assert isinstance(decl.result, str)
        if self.vectorises(call):
            return self.vector_call(call)
        if self.made_once(call):
            return Value(self.once(call), decl.result, False)
        result = self.blank(decl.result)
        self.each_lane([self.lane_call(call, result)])
        return Value(self.loaded(result), decl.result, True)

    def blank(self, type_: ScalarType) -> Local:
        """A varying local of zeros; no lane ever holds an undefined value, active or not."""
        vector = self.text.type_of(type_)
        address = self.text.alloca(vector)
        self.text.do(f"store {vector} zeroinitializer, ptr {address}, align 8")
        return Local(address, type_, True, True, self.mask)

    def vectorises(self, call: Call) -> bool:
        """Whether a callee has a vector form: it works on scalars alone."""
        decl = self.signatures[call.func].decl
        kinds = [decl.result, *(param.type for param in decl.params)]
        return not decl.cold and all(isinstance(kind, str) for kind in kinds)

    def made_once(self, call: Call) -> bool:
        """Whether a call works on what all lanes have in common alone: then once is enough."""
        decl = self.signatures[call.func].decl
        places = [
            arg
            for param, arg in zip(decl.params, call.args, strict=True)
            if not isinstance(param.type, str)
        ]
        alike = bool(places) and all(map(self.same.expr, call.args))
        scalar = decl.result is None or isinstance(decl.result, str)
        return alike and scalar and all(map(self.shares, places))

    def shares(self, place: Expr) -> bool:
        """Whether a place lies in memory that all lanes have in common."""
        spot = self.spots.get(base_name(place))
        return spot is not None and spot.shared

    def once(self, call: Call) -> str:
        """Call a scalar function for all lanes at once; the name of its result."""
        args = []
        for param, arg in zip(self.signatures[call.func].decl.params, call.args, strict=True):
            if isinstance(param.type, str):
                args.append(f"{LLVM_TYPE[param.type]} {self.agreed(self.value(arg))}")
            else:
                args.append(f"ptr {self.memory.address(self.spot(arg))}")
        return self.scalar_call(call.func, args)

    def scalar_call(self, func: str, args: list[str]) -> str:
        """Call a scalar function; the name of its result."""
        self.wanted.scalars.add(func)
        signature = self.signatures[func]
        text = f"call {signature.result} @{signature.symbol}({', '.join(args)})"
        if signature.result != "void":
            return self.text.value(text)
        self.text.do(text)
        return ""

    def vector_call(self, call: Call) -> Value:
        """Call a function of scalars: its vector form, or once if all lanes agree."""
        decl = self.signatures[call.func].decl
        assert isinstance(decl.result, str)
        values = [self.value(arg) for arg in call.args]
        if not any(value.varies for value in values):
            args = [f"{LLVM_TYPE[value.type]} {value.text}" for value in values]
            return Value(self.scalar_call(call.func, args), decl.result, False)
        args = [] if self.mask is None else [f"{self.text.masks} {self.mask}"]
        args += (f"{self.text.type_of(value.type)} {self.vector(value)}" for value in values)
        symbol = self.wanted.vector(call.func, self.mask is not None)
        type_ = self.text.type_of(decl.result)
        return Value(
            self.text.value(f"call {type_} @{symbol}({', '.join(args)})"), decl.result, True
        )

    def lane_call(self, call: Call, result: Local | Spot | None) -> LaneStep:
        """Evaluate the arguments now; the step calls the scalar function for one lane."""
        decl = self.signatures[call.func].decl
        given: list[tuple[str, LaneValue]] = []
        if isinstance(result, Spot):
            given.append(("ptr", functools.partial(self.memory.lane_address, result)))
        for param, arg in zip(decl.params, call.args, strict=True):
            if isinstance(param.type, str):
                given.append((LLVM_TYPE[param.type], self.by_lane(self.value(arg))))
            else:
                spot = self.spot(arg)
                if spot.shared and param.inout:
                    raise InternalError(f"QD9511 codegen: {call.func} runs for each lane by itself")
                given.append(("ptr", functools.partial(self.memory.lane_address, spot)))

        put = self.into(result) if isinstance(result, Local) else None

        def step(lane: str) -> None:
            args = [f"{type_} {value(lane)}" for type_, value in given]
            value = self.scalar_call(call.func, args)
            if put is not None:
                put(lane, value)

        return step

    def by_lane(self, value: Value) -> LaneValue:
        """Put a vector into memory now, from where a loop over the lanes reads one by one."""
        if not value.varies:
            return lambda _: value.text
        text, type_ = self.text, value.type
        address = text.alloca(text.words)
        words = self.memory.to_words(value.text, type_)
        text.do(f"store {text.words} {words}, ptr {address}, align 8")

        def load(lane: str) -> str:
            place = text.pure(f"getelementptr i64, ptr {address}, i64 {lane}")
            return self.memory.load_scalar(place, type_, "").text

        return load

    def extract(self, value: Value, lane: str) -> str:
        """One lane's scalar."""
        return self.text.pure(f"extractelement {self.type_of(value)} {value.text}, i64 {lane}")

    def into(self, local: Local) -> Callable[[str, str], None]:
        """How a turn of a loop over the lanes gives a local that lane's scalar.

        Vectors are written whole: one that is read just behind writes of its words by themselves
        waits until all of them are in the cache.
        """
        text, type_ = self.text, self.type_of(local)

        def put(lane: str, scalar: str) -> None:
            if local.varies:
                own = text.spread("i64", lane)
                here = text.pure(f"icmp eq {text.words} {text.per_lane(0, 1)}, {own}")
                value = text.spread(LLVM_TYPE[local.type], scalar)
                scalar = text.blend(here, type_, value, self.loaded(local))
            text.do(f"store {type_} {scalar}, ptr {local.text}, align 8")

        return put

    def each_lane(self, steps: list[LaneStep]) -> None:
        """Emit a loop over the active lanes that does every step for one and then the next."""
        text = self.text
        bits = text.bits(self.mask)
        turn, after = text.label(), text.label()
        before, left, rest = text.block, f"%l{turn[1:]}", f"%r{turn[1:]}"
        text.jump(turn)
        text.start(turn)
        with text.scope():
            start = len(text.lines)
            text.allow(TRAILING_ZEROS)
            lane = text.value(f"call i64 @{TRAILING_ZEROS}(i64 {left}, i1 true)")
            for step in steps:
                step(lane)
            text.lines.insert(
                start, f"  {left} = phi i64 [ {bits}, %{before} ], [ {rest}, %{text.block} ]"
            )
            less = text.value(f"add i64 {left}, -1")
            text.do(f"{rest} = and i64 {left}, {less}")
            text.branch(text.value(f"icmp ne i64 {rest}, 0"), turn, after)
        text.start(after)

    # ---- places -------------------------------------------------------------------------

    def spot(self, place: Expr) -> Spot:
        """Emit the address of a place, but for its constant offset."""
        match place:
            case Var():
                return self.spots[place.name]
            case Field():
                return self.memory.field(self.spot(place.base), place.name)
            case Elem():
                return self.elem(place)
        raise InternalError(f"QD9502 codegen: not a place: {place}")

    def elem(self, place: Elem) -> Spot:
        if isinstance(place.base, Table):
            address, table = self.wanted.shared.tables[place.base.name]
            base = Spot(address, 0, ArrayType(table.type, len(table.bits)), "", 0)
        else:
            base = self.spot(place.base)
        spot = base._replace(type=element(base.type))
        words = self.layout.words(spot.type)
        if isinstance(base.type, ArrayType) and base.type.size == 1:
            return spot  # the index can only be 0
        if isinstance(place.index, Const):
            return spot._replace(offset=base.offset + place.index.bits * words)
        text, index = self.text, self.value(place.index)
        if not index.varies:
            step = f"[{words * base.word_step} x i64]"
            address = text.pure(f"getelementptr {step}, ptr {base.base}, i64 {index.text}")
            return spot._replace(base=address)
        at = index.text
        if words > 1:
            at = text.pure(f"mul {text.words} {at}, splat (i64 {words})")
        if base.at:
            at = text.pure(f"add {text.words} {base.at}, {at}")
        return spot._replace(at=at)

    def place_type(self, place: Expr) -> Type:
        """The type of a place, without emitting anything."""
        match place:
            case Var():
                name = place.name
                return self.spots[name].type if name in self.spots else self.locals[name].type
            case Field():
                base = self.place_type(place.base)
                assert not isinstance(base, str | ArrayType | BufferType)
                return self.layout.slots(base.name)[place.name].type
            case Elem():
                return element(self.place_type(place.base))
        raise InternalError(f"QD9502 codegen: not a place: {place}")

    # ---- aggregates ---------------------------------------------------------------------

    def aggregate(self, type_: Type, side_by_side: bool) -> Spot:
        """Fresh memory of each lane; its words `side_by_side` where scalar code is to see it."""
        words, lanes = self.layout.words(type_), self.text.lanes
        address = self.text.alloca(f"[{words * lanes} x i64]", 8 if side_by_side else 8 * lanes)
        tag = self.elements_tag(type_)
        steps = (words, 1) if side_by_side else (1, lanes)
        return Spot(address, 0, type_, tag, *steps, born=self.mask)

    def elements_tag(self, type_: Type) -> str:
        """The alias tag of a bare array or buffer of scalars."""
        if isinstance(type_, ArrayType | BufferType) and isinstance(type_.elem, str):
            return self.memory.tags.elements(type_)
        return ""

    @contextmanager
    def words(self, *spots: Spot) -> Iterator[list[Spot]]:
        """Emit a loop over the words of aggregates of one type; gives their places in a turn."""
        text, count = self.text, self.layout.words(spots[0].type)
        turn, after = text.label(), text.label()
        before, at, following = text.block, f"%i{turn[1:]}", f"%n{turn[1:]}"
        text.jump(turn)
        text.start(turn)
        text.do(f"{at} = phi i64 [ 0, %{before} ], [ {following}, %{turn} ]")
        with text.scope():
            yield [
                spot._replace(
                    base=text.pure(
                        f"getelementptr [{spot.word_step} x i64], ptr {spot.base}, i64 {at}"
                    ),
                    type="i64",
                    tag="",
                )
                for spot in spots
            ]
        text.do(f"{following} = add nsw i64 {at}, 1")
        text.branch(text.value(f"icmp slt i64 {following}, {count}"), turn, after)
        text.start(after)

    def zero(self, target: Spot) -> None:
        """Set every word of an aggregate to zero, in the active lanes."""
        with self.words(target) as (word,):
            self.memory.store(word, Value("0", "i64", False), self.mask)

    def copy(self, target: Spot, source: Spot) -> None:
        """Copy an aggregate in the active lanes; the two are one object or do not overlap."""
        with self.words(target, source) as (to, from_):
            self.memory.store(to, self.memory.load(from_, self.mask), self.mask)


EXPRESSIONS: dict[type, Callable[..., Value]] = {
    Const: ValueEmitter.const,
    Var: ValueEmitter.var,
    Field: ValueEmitter.load,
    Elem: ValueEmitter.load,
    Unary: ValueEmitter.unary,
    Binary: ValueEmitter.binary,
    Fma: ValueEmitter.fma,
    Select: ValueEmitter.select,
    Call: ValueEmitter.call,
}
