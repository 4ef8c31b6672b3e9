"""Expressions, places and calls of vector code: what a statement computes, for each lane."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from quantdsl.codegen import scalar, simd_ops
from quantdsl.codegen.simd_forms import VectorForm, Wanted, result_type, shape_of
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

SINGLE_WORDS = 32
"""Up to so many words are copied or zeroed one by one."""
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


class ValueEmitter(ABC):
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
        self.at_once = False
        """Whether calls that work on memory of each lane are made for all lanes at once."""

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
        return "0" if self.mask is None else self.text.first_lane(self.mask)

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
        return self.apart_call(call)

    @abstractmethod
    def apart_call(self, call: Call) -> Value:
        """Emit a call on memory of each lane."""

    def blank(self, type_: ScalarType) -> Local:
        """A varying local of zeros; no lane ever holds an undefined value, active or not."""
        vector = self.text.type_of(type_)
        address = self.text.alloca(vector)
        self.text.do(f"store {vector} zeroinitializer, ptr {address}, align 8")
        return Local(address, type_, True, True, self.mask)

    def vectorises(self, call: Call) -> bool:
        """Whether a callee is called in its vector form: cold code on scalars alone has none."""
        decl = self.signatures[call.func].decl
        return not decl.cold if self.on_scalars(call) else self.at_once

    def on_scalars(self, call: Call) -> bool:
        """Whether a callee works on scalars alone."""
        decl = self.signatures[call.func].decl
        kinds = [decl.result, *(param.type for param in decl.params)]
        return all(isinstance(kind, str) for kind in kinds)

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
        """Whether a place lies in memory that all lanes have in common, as scalar code takes it."""
        spot = self.spots.get(base_name(place))
        return spot is not None and spot.shared and self.fits(self.place_type(place), spot)

    def fits(self, type_: Type, spot: Spot) -> bool:
        """Whether the words of a place lie as scalar code has them: those of buffers always do."""
        return isinstance(type_, BufferType) or spot.word_step == self.wanted.shared.word_step

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
        """Call a function for its scalar result: its vector form, or once if all lanes agree."""
        decl = self.signatures[call.func].decl
        assert isinstance(decl.result, str)
        if not self.on_scalars(call):
            return Value(self.text.value(self.form_call(call, None)), decl.result, True)
        values = [self.value(arg) for arg in call.args]
        if not any(value.varies for value in values):
            args = [f"{LLVM_TYPE[value.type]} {value.text}" for value in values]
            return Value(self.scalar_call(call.func, args), decl.result, False)
        vectors = [Value(self.vector(value), value.type, True) for value in values]
        form = VectorForm(call.func, self.mask is not None, (True,) * len(vectors))
        return Value(self.text.value(self.called(form, vectors)), decl.result, True)

    def form_call(self, call: Call, result: Spot | None) -> str:
        """The text of a call of a function that works on memory of each lane; `result` is where
        an aggregate goes that it makes."""
        given: list[Value | Spot] = []
        for param, arg in zip(self.signatures[call.func].decl.params, call.args, strict=True):
            given.append(self.value(arg) if isinstance(param.type, str) else self.spot(arg))
        kinds = tuple(shape_of(one) if isinstance(one, Spot) else one.varies for one in given)
        made = None if result is None else shape_of(result)
        form = VectorForm(call.func, self.mask is not None, kinds, made)
        return self.called(form, given if result is None else [result, *given])

    def called(self, form: VectorForm, given: Sequence[Value | Spot]) -> str:
        """The text of a call of a vector form."""
        text = self.text
        args = [] if self.mask is None else [f"{text.masks} {self.mask}"]
        for one in given:
            if isinstance(one, Spot):
                args.append(f"ptr {self.memory.address(one)}")
                args += [f"{text.words} {one.at}"] if one.at else []
            else:
                args.append(f"{self.type_of(one)} {one.text}")
        result = result_type(text, self.signatures[form.func].decl)
        return f"call {result} @{self.wanted.vector(form)}({', '.join(args)})"

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
                if not self.fits(param.type, spot):
                    spot = self.own_copy(spot)
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

    def aggregate(self, type_: Type, seen: bool) -> Spot:
        """Fresh memory of each lane, as scalar code takes it where that has `seen` it."""
        words, lanes = self.layout.words(type_), self.text.lanes
        beside = seen and self.wanted.shared.word_step == 1
        address = self.text.alloca(f"[{words * lanes} x i64]", 8 if beside else 8 * lanes)
        steps = (words, 1) if beside else (1, lanes)
        return Spot(address, 0, type_, self.elements_tag(type_), *steps, born=self.mask)

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

    def own_copy(self, source: Spot) -> Spot:
        """The same words in memory of each lane, as scalar code takes them."""
        copy = self.aggregate(source.type, True)
        self.copy(copy, source)
        return copy

    def each_word(self, emit: Callable[..., None], *spots: Spot) -> None:
        """Emit what is done for each word of aggregates of one type; few words one by one, so that
        LLVM may keep each in a register."""
        count = self.layout.words(spots[0].type)
        if count > SINGLE_WORDS:
            with self.words(*spots) as places:
                emit(*places)
            return
        for word in range(count):
            emit(*(spot._replace(offset=spot.offset + word, type="i64", tag="") for spot in spots))

    def zero(self, target: Spot) -> None:
        """Set every word of an aggregate to zero, in the active lanes."""
        nothing = Value("0", "i64", False)
        self.each_word(lambda word: self.memory.store(word, nothing, self.mask), target)

    def copy(self, target: Spot, source: Spot) -> None:
        """Copy an aggregate in the active lanes; the two are one object or do not overlap."""

        def move(to: Spot, from_: Spot) -> None:
            self.memory.store(to, self.memory.load(from_, self.mask), self.mask)

        self.each_word(move, target, source)


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
