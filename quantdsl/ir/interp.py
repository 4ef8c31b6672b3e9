"""The oracle: runs a linked module as it is written, with no compiler involved.

Slow and plain on purpose, but for one thing: each function is turned into closures once, so that
a backtest of some thousand bars stays bearable. Every index is checked (InternalError), i64
wraps, fma is exact. Callers pass memory as int64 word arrays, as for machine code.
"""

import itertools
import operator
from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quantdsl.errors import InternalError
from quantdsl.frames import in_one_piece
from quantdsl.ir.kinds import Kinds
from quantdsl.ir.layout import Layout, array_size, element
from quantdsl.ir.ops import (
    BOOL_T,
    F64_T,
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
    Module,
    Return,
    Select,
    Stmt,
    StructOf,
    StructType,
    Table,
    Type,
    Unary,
    Var,
    While,
)
from quantdsl.ir.scalar import BINARY, UNARY, Frame, Thunk, fma, fma32
from quantdsl.ir.walk import base_name

BREAK, CONTINUE, RETURN = 1, 2, 3
RESULT = 0
"""Frame slot of the result; the parameters follow from slot 1 on."""

Words = NDArray[np.int64]
Step = Callable[[Frame], int | None]
"""A statement: does its work and says None, BREAK, CONTINUE or RETURN."""
ZERO = {BOOL_T: False, F64_T: 0.0}


class Interpreter:
    """Runs the functions of one linked module; as many at a time as there are threads."""

    def __init__(self, module: Module) -> None:
        self.layout = Layout(module.structs)
        self.kinds = Kinds(self.layout)
        self.decls = {func.name: func for func in module.funcs}
        self.tables = {
            table.name: [Const(table.type, bits).value for bits in table.bits]
            for table in module.tables
        }
        self._codes: dict[str, _Code] = {}

    @in_one_piece
    def call(self, name: str, *args: Any) -> Any:
        """Call a function: scalars as Python values, aggregates as int64 word arrays or Memory.

        What the function writes to inout parameters stands in the arrays afterwards; the same
        array given twice is one object. Returns the scalar result, or None.
        """
        func = self.decls[name]
        code = self.code(name)
        frame: Frame = [None]
        opened: dict[int, Memory] = {}
        for param, arg in zip(func.params, args, strict=True):
            if isinstance(param.type, str):
                frame.append(arg)
                continue
            memory = arg if isinstance(arg, Memory) else self._open(param.type, arg, opened)
            frame += (memory.values, 0)
        result = code.run(frame)
        for memory in opened.values():
            memory.store()
        return result

    def memory(self, type_: Type, words: Words) -> "Memory":
        """Read `words` once, for many calls that keep their data as Python values."""
        return Memory(self.kinds, type_, words)

    def code(self, name: str) -> "_Code":
        """The closures of a function, made at its first use."""
        if name not in self._codes:
            self._codes[name] = _FuncCompiler(self, self.decls[name]).code()
        return self._codes[name]

    def _open(self, type_: Type, words: Words, opened: dict[int, "Memory"]) -> "Memory":
        address = words.__array_interface__["data"][0]
        if address not in opened:
            opened[address] = Memory(self.kinds, type_, words)
        return opened[address]


class Memory:
    """The words of one aggregate or buffer as Python values."""

    def __init__(self, known: Kinds, type_: Type, words: Words) -> None:
        kinds = known.of(element(type_) if isinstance(type_, BufferType) else type_)
        if words.dtype != np.int64 or len(words) % len(kinds):
            raise InternalError(f"QD9401 interp: {words.dtype}[{len(words)}] for a {type_}")
        elements = len(words) // len(kinds)
        self.words = words
        self.values: list[Any] = words.tolist()
        self._floats = np.tile(kinds == F64_T, elements)
        floats = np.flatnonzero(self._floats)
        for index, value in zip(
            floats.tolist(), words.view(np.float64)[floats].tolist(), strict=True
        ):
            self.values[index] = value
        for index in np.flatnonzero(np.tile(kinds == BOOL_T, elements)).tolist():
            self.values[index] = bool(self.values[index])
        self._first = self.values.copy()

    def store(self) -> None:
        """Write what was assigned to back to the words; most of a State is not."""
        if not self.words.flags.writeable:
            return
        doubles = self.words.view(np.float64)
        assigned = map(operator.is_not, self.values, self._first)
        for index in itertools.compress(range(len(self.values)), assigned):
            words = doubles if self._floats[index] else self.words
            words[index] = self._first[index] = self.values[index]


class _Code:
    """A function as closures; `blank` extends the arguments to a whole frame."""

    def __init__(self) -> None:
        self.blank: Frame = []
        self.body: Step = _nothing

    def run(self, frame: Frame) -> Any:
        frame += self.blank
        self.body(frame)
        return frame[RESULT]


class _PlaceCode(NamedTuple):
    """Where a place lies: `f[memory][f[base] + offset + dynamic(f)]`."""

    memory: int
    base: int
    offset: int
    dynamic: Thunk | None
    type: Type

    def address(self) -> Thunk:
        """The thunk of its offset in its memory."""
        base, offset, dynamic = self.base, self.offset, self.dynamic
        if dynamic is None:
            return lambda f: f[base] + offset
        return lambda f: f[base] + offset + dynamic(f)

    def load(self) -> Thunk:
        """The thunk of the scalar there."""
        memory, base, offset, dynamic = self.memory, self.base, self.offset, self.dynamic
        if dynamic is None:
            return lambda f: f[memory][f[base] + offset]
        return lambda f: f[memory][f[base] + offset + dynamic(f)]


class _FuncCompiler:
    """Turns one function into closures over a flat frame.

    A scalar takes one slot; an aggregate two: the list of values that holds it and its offset.
    """

    def __init__(self, interpreter: Interpreter, func: Func) -> None:
        self.interpreter = interpreter
        self.layout, self.kinds = interpreter.layout, interpreter.kinds
        self.func = func
        self.slots: dict[str, tuple[int, Type]] = {}
        self.size = RESULT + 1

    def code(self) -> _Code:
        for param in self.func.params:
            self.declare(param.name, param.type)
        given = self.size
        code = _Code()
        code.body = self.block(self.func.body)
        code.blank = [None] * (self.size - given)
        return code

    def declare(self, name: str, type_: Type) -> int:
        slot = self.size
        self.slots[name] = slot, type_
        self.size += 1 if isinstance(type_, str) else 2
        return slot

    # ---- statements ---------------------------------------------------------------------

    def block(self, body: tuple[Stmt, ...]) -> Step:
        steps = tuple(map(self.stmt, body))

        def run(f: Frame) -> int | None:
            for step in steps:
                if signal := step(f):
                    return signal
            return None

        return steps[0] if len(steps) == 1 else run

    def stmt(self, stmt: Stmt) -> Step:
        match stmt:
            case Let():
                return self.let(stmt)
            case Assign():
                return self.assign(stmt)
            case Do():
                call = self.call(stmt.call)
                return lambda f: call(f) and None
            case If():
                return self.branch(stmt)
            case For():
                return self.for_loop(stmt)
            case While():
                return self.while_loop(stmt)
            case Break():
                return _constant(BREAK)
            case Continue():
                return _constant(CONTINUE)
            case Return():
                return self.ret(stmt)

    def let(self, stmt: Let) -> Step:
        if isinstance(stmt.type, str):
            value = self.value(stmt.value or Const(stmt.type, 0))
            return _set_slot(self.declare(stmt.name, stmt.type), value)
        if stmt.value is None:
            zeros = [ZERO.get(kind, 0) for kind in self.kinds.of(stmt.type).tolist()]
            words = _copies(zeros)
        else:
            words = self.struct_value(stmt.value)
        slot = self.declare(stmt.name, stmt.type)

        def run(f: Frame) -> None:
            f[slot] = words(f)
            f[slot + 1] = 0

        return run

    def assign(self, stmt: Assign) -> Step:
        if isinstance(stmt.place, Var) and isinstance(self.slots[stmt.place.name][1], str):
            return _set_slot(self.slots[stmt.place.name][0], self.value(stmt.value))
        place = self.place(stmt.place)
        memory, address = place.memory, place.address()
        if isinstance(place.type, str):
            value = self.value(stmt.value)

            def store(f: Frame) -> None:
                new = value(f)
                f[memory][address(f)] = new

            return store
        words, count = self.struct_value(stmt.value), self.layout.words(place.type)

        def copy(f: Frame) -> None:
            new = words(f)
            start = address(f)
            f[memory][start : start + count] = new

        return copy

    def branch(self, stmt: If) -> Step:
        cond, then, otherwise = self.value(stmt.cond), *map(self.block, (stmt.then, stmt.otherwise))
        return lambda f: then(f) if cond(f) else otherwise(f)

    def for_loop(self, stmt: For) -> Step:
        lo, hi = self.value(stmt.lo), self.value(stmt.hi)
        slot = self.declare(stmt.name, "i64")
        body = self.block(stmt.body)

        def run(f: Frame) -> int | None:
            for value in range(lo(f), hi(f)):
                f[slot] = value
                signal = body(f)
                if signal == BREAK:
                    return None
                if signal == RETURN:
                    return RETURN
            return None

        return run

    def while_loop(self, stmt: While) -> Step:
        cond, turns, body = self.value(stmt.cond), self.value(stmt.max), self.block(stmt.body)

        def run(f: Frame) -> int | None:
            for _ in range(turns(f)):
                if not cond(f):
                    return None
                signal = body(f)
                if signal == BREAK:
                    return None
                if signal == RETURN:
                    return RETURN
            return None

        return run

    def ret(self, stmt: Return) -> Step:
        if stmt.value is None:
            return _constant(RETURN)
        scalar = isinstance(self.func.result, str)
        value = self.value(stmt.value) if scalar else self.struct_value(stmt.value)

        def run(f: Frame) -> int:
            f[RESULT] = value(f)
            return RETURN

        return run

    # ---- expressions --------------------------------------------------------------------

    def value(self, expr: Expr) -> Thunk:
        """The thunk of a scalar."""
        match expr:
            case Const():
                return _constant(expr.value)
            case Var():
                return itemgetter(self.slots[expr.name][0])
            case Field() | Elem():
                return self.place(expr).load() if base_name(expr) else self.table(expr)
            case Unary():
                return UNARY[expr.op](self.value(expr.x))
            case Binary():
                return BINARY[expr.op](self.value(expr.x), self.value(expr.y))
            case Fma():
                x, y, z = map(self.value, (expr.x, expr.y, expr.z))
                fused = fma32 if expr.single else fma
                return lambda f: fused(x(f), y(f), z(f))
            case Select():
                return self.select(expr)
            case Call():
                return self.call(expr)
        raise InternalError(f"QD9402 interp: {self.func.name}: not a scalar: {expr}")

    def select(self, expr: Select) -> Thunk:
        cond, x, y = map(self.value, (expr.cond, expr.x, expr.y))

        def run(f: Frame) -> Any:
            # Both sides are evaluated, so that a bad index on either side is seen.
            a, b = x(f), y(f)
            return a if cond(f) else b

        return run

    def struct_value(self, expr: Expr) -> Thunk:
        """The thunk of a struct's words, as a list that nobody else holds."""
        if isinstance(expr, Call):
            return self.call(expr)
        if isinstance(expr, StructOf):
            values = tuple(map(self.value, expr.values))
            return lambda f: [value(f) for value in values]
        place = self.place(expr)
        memory, address, count = place.memory, place.address(), self.layout.words(place.type)

        def run(f: Frame) -> Any:
            start = address(f)
            return f[memory][start : start + count]

        return run

    def call(self, call: Call) -> Thunk:
        """The thunk of a call: a scalar, a struct's words, or None."""
        run = self.interpreter.code(call.func).run
        args: list[Thunk] = [_nothing]  # the slot of the result
        for param, arg in zip(self.interpreter.decls[call.func].params, call.args, strict=True):
            if isinstance(param.type, str):
                args.append(self.value(arg))
            else:
                place = self.place(arg)
                args += (itemgetter(place.memory), place.address())
        thunks = tuple(args)
        return lambda f: run([arg(f) for arg in thunks])

    # ---- places -------------------------------------------------------------------------

    def place(self, place: Expr) -> _PlaceCode:
        match place:
            case Var():
                slot, type_ = self.slots[place.name]
                return _PlaceCode(slot, slot + 1, 0, None, type_)
            case Field():
                base = self.place(place.base)
                assert isinstance(base.type, StructType)
                field = self.layout.slots(base.type.name)[place.name]
                offset = base.offset + field.offset_words
                return base._replace(offset=offset, type=field.type)
            case Elem():
                base = self.place(place.base)
                index = self.index(place, base)
                return base._replace(dynamic=_sum(base.dynamic, index), type=element(base.type))
        raise InternalError(f"QD9403 interp: {self.func.name}: not a place: {place}")

    def index(self, place: Elem, base: _PlaceCode) -> Thunk:
        """The checked word offset of an element from its array's start."""
        index, step = self.value(place.index), self.layout.words(element(base.type))
        where = self.func.name
        if isinstance(base.type, ArrayType):
            count = array_size(base.type)

            def in_array(f: Frame) -> int:
                i: int = index(f)
                if not 0 <= i < count:
                    raise InternalError(f"QD9404 interp: {where}: index {i} outside 0..<{count}")
                return i * step

            return in_array

        def in_buffer(f: Frame) -> int:
            i: int = index(f)
            count = (len(f[base.memory]) - f[base.base]) // step
            if not 0 <= i < count:
                raise InternalError(f"QD9404 interp: {where}: index {i} outside 0..<{count}")
            return i * step

        return in_buffer

    def table(self, expr: Expr) -> Thunk:
        assert isinstance(expr, Elem)
        assert isinstance(expr.base, Table)
        values, index = self.interpreter.tables[expr.base.name], self.value(expr.index)
        name, where = expr.base.name, self.func.name

        def run(f: Frame) -> Any:
            i: int = index(f)
            if not 0 <= i < len(values):
                raise InternalError(f"QD9404 interp: {where}: index {i} of table {name}")
            return values[i]

        return run


def _nothing(f: Frame) -> None:
    pass


def _constant(value: Any) -> Thunk:
    return lambda f: value  # noqa: ARG005


def _copies(values: list[Any]) -> Thunk:
    return lambda f: values[:]  # noqa: ARG005


def _set_slot(slot: int, value: Thunk) -> Step:
    def run(f: Frame) -> None:
        f[slot] = value(f)

    return run


def _sum(x: Thunk | None, y: Thunk) -> Thunk:
    return y if x is None else lambda f: x(f) + y(f)
