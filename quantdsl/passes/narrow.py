"""Equations in single precision: each float operation of theirs is rounded to binary32, once.

What an equation reads of memory is rounded as it is read, a constant is the nearest binary32, and
functions that equations call exist a second time, in single precision too. All else (handlers,
orders, risk, accounting, what only params decide) is as it was, so money is counted as ever.
Integers stay exact: prices in ticks, sizes in lots, counts.

A value of an equation is a double that holds a binary32, and each operation on such values is
followed by the rounding that ops.py defines. So the interpreter, which knows nothing of this, and
every target leave the same bits, and a target may use its 32-bit instructions.
"""

import math
from collections.abc import Callable, Set
from typing import Any

import msgspec

from quantdsl.errors import InternalError
from quantdsl.ir import scalar
from quantdsl.ir.layout import element
from quantdsl.ir.ops import (
    F64_T,
    I64_T,
    ArrayType,
    Assign,
    Binary,
    Call,
    Const,
    Do,
    Elem,
    Expr,
    Field,
    Fma,
    Func,
    Let,
    Module,
    Stmt,
    StructType,
    Table,
    Type,
    Unary,
    Var,
    bits_to_f64,
    f64,
)
from quantdsl.ir.walk import rebuild_body, rebuild_expr, rebuild_stmt, statements
from quantdsl.passes.unused import drop_unused

ROUNDED = frozenset({"sqrt", "from_bits", "i64_to_f64", "fadd", "fsub", "fmul", "fdiv"})
"""Operations whose result on binary32 values may be none; the others choose, cut or turn."""
SUFFIX = ".f32"
GREATEST, LEAST = float.fromhex("0x1.fffffep127"), float.fromhex("0x1p-149")
"""The finite positive numbers of binary32 at its two ends."""


def narrow(module: Module, places: Set[Expr], wide: Callable[[str], bool]) -> Module:
    """The module with what is assigned to `places`, or to their elements, in single precision.

    So is what a call fills one of them with. A function for which `wide` holds keeps its
    precision: its arguments are binary32 values, and its result is rounded, unless it also writes
    elsewhere, which functions for which it holds do not.
    """
    narrower = _Narrower(module, wide)
    memory = narrower.funcs[module.entries[0]].params[0].type
    funcs = [
        _Within(narrower, func, places).func() if _takes(func, memory) else func
        for func in module.funcs
    ]
    made = [one for func in funcs for one in (func, *narrower.copies(func.name))]
    return drop_unused(msgspec.structs.replace(module, funcs=tuple(made)))


def _takes(func: Func, memory: Type) -> bool:
    return bool(func.params) and func.params[0].type == memory


class _Narrower:
    """The functions of a module, and those in single precision that were asked for."""

    def __init__(self, module: Module, wide: Callable[[str], bool]) -> None:
        self.wide = wide
        self.funcs = {func.name: func for func in module.funcs}
        self.fields = {
            struct.name: {field.name: field.type for field in struct.fields}
            for struct in module.structs
        }
        self.tables = {table.name: table for table in module.tables}
        self._single: dict[str, Func] = {}

    def single(self, name: str) -> str:
        """The name of this function in single precision; its own where nothing of it changes."""
        if self.wide(name):
            return name
        if name not in self._single:
            self._single[name] = _Single(self, self.funcs[name]).func()
        return self._single[name].name

    def copies(self, name: str) -> list[Func]:
        """The function in single precision, where it is another one."""
        made = self._single.get(name)
        return [made] if made is not None and made.name != name else []


class _Within:
    """A function as it was, but for what it assigns to the places of equations."""

    def __init__(self, module: _Narrower, func: Func, places: Set[Expr]) -> None:
        self.decl, self.places = func, places
        self.single = _Single(module, func, whole=False)

    def func(self) -> Func:
        body = rebuild_body(self.decl.body, self.stmt)
        return self.decl if body is self.decl.body else _with(self.decl, self.decl.name, body)

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Assign) and self.is_place(stmt.place):
            return Assign(stmt.place, self.single.expr(stmt.value), stmt.line)
        if isinstance(stmt, Do) and any(arg in self.places for arg in stmt.call.args):
            return Do(self.single.call(stmt.call), stmt.line)
        return rebuild_stmt(stmt, lambda expr: expr, self.stmt)

    def is_place(self, place: Expr) -> bool:
        """Whether it is an equation's, or what a cross-section has of one instrument."""
        return place in self.places or (isinstance(place, Elem) and place.base in self.places)


class _Single:
    """Rewrites a function; unless it is so `whole`, its locals may hold any double."""

    def __init__(self, module: _Narrower, func: Func, *, whole: bool = True) -> None:
        self.module, self.decl, self.whole = module, func, whole
        self.types: dict[str, Type] = {param.name: param.type for param in func.params}
        for stmt in statements(func.body):
            if isinstance(stmt, Let):
                self.types[stmt.name] = stmt.type

    def func(self) -> Func:
        """The function in single precision: itself where nothing changes."""
        body = rebuild_body(self.decl.body, self.stmt)
        same = body is self.decl.body
        return self.decl if same else _with(self.decl, self.decl.name + SUFFIX, body)

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Assign):
            place, value = self.place(stmt.place), self.expr(stmt.value)
            same = place is stmt.place and value is stmt.value
            return stmt if same else Assign(place, value, stmt.line)
        if isinstance(stmt, Do):
            call = self.call(stmt.call)
            return stmt if call is stmt.call else Do(call, stmt.line)
        return rebuild_stmt(stmt, self.expr, self.stmt)

    def expr(self, expr: Expr) -> Expr:
        """An expression whose value, if it is a float, is a binary32."""
        match expr:
            case Const():
                return expr if expr.type != F64_T else nearest(expr)
            case Var() | Field() | Elem():
                return self.read(expr)
            case Unary("f32", x):
                return self.expr(x)
            case Fma(x, y, z):
                return Fma(self.expr(x), self.expr(y), self.expr(z), single=True)
            case Call():
                called, func = self.call(expr), self.module.funcs[expr.func]
                kept = self.module.wide(expr.func) and func.result == F64_T
                return rounded(called) if kept and not _writes(func) else called
        made = rebuild_expr(expr, self.expr)
        rounds = isinstance(made, Unary | Binary) and made.op in ROUNDED
        return rounded(made) if rounds else made

    def read(self, place: Var | Field | Elem) -> Expr:
        """A scalar, rounded where it may be any double; an aggregate as the place that it is."""
        made = self.place(place)
        known = self.whole and isinstance(place, Var)
        return made if known or self.type_of(place) != F64_T else rounded(made)

    def call(self, call: Call) -> Call:
        """A call, its result as the function leaves it."""
        made = rebuild_expr(call, self.expr)
        assert isinstance(made, Call)
        name = self.module.single(call.func)
        return made if name == made.func else Call(name, made.args, made.sizes)

    def place(self, place: Expr) -> Any:
        """The same place, its indices computed as all else is."""
        if not isinstance(place, Elem):
            return rebuild_expr(place, self.place)
        base, index = self.place(place.base), self.expr(place.index)
        return place if base is place.base and index is place.index else Elem(base, index)

    def type_of(self, place: Expr) -> Type:
        match place:
            case Var(name):
                return self.types.get(name, I64_T)  # else the count of a loop
            case Field(base, name):
                struct = self.type_of(base)
                assert isinstance(struct, StructType)
                return self.module.fields[struct.name][name]
            case Elem(base, _):
                return element(self.type_of(base))
            case Table(name):
                table = self.module.tables[name]
                return ArrayType(table.type, len(table.bits))
        raise InternalError(f"QD9301 ir: not a place: {place}")


def _writes(func: Func) -> bool:
    return any(param.inout for param in func.params)


def rounded(expr: Expr) -> Expr:
    """The nearest binary32."""
    return Unary("f32", expr)


def nearest(const: Const) -> Const:
    """A literal as a binary32: what is finite and not zero stays so, for it bounds something."""
    value = bits_to_f64(const.bits)
    near = scalar.f32(value)
    if math.isinf(near) and not math.isinf(value):
        near = math.copysign(GREATEST, value)
    if near == 0.0 != value:
        near = math.copysign(LEAST, value)
    return f64(near)


def _with(func: Func, name: str, body: tuple[Stmt, ...]) -> Func:
    return msgspec.structs.replace(func, name=name, body=body)
