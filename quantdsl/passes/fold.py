"""Compute what is known now: integer and truth constants, and the branches they decide.

Sizes are constants once linked, so library code that asks about its size is settled here, before
LLVM reads it. Floats are left to LLVM, which folds them to the same bits.
"""

import operator
from collections.abc import Callable

import msgspec

from quantdsl.ir.ops import (
    BINARY,
    BOOL_T,
    F64_T,
    I64_T,
    UNARY,
    Binary,
    Const,
    Expr,
    For,
    Func,
    If,
    Module,
    Select,
    Stmt,
    Unary,
    While,
    f64_to_bits,
)
from quantdsl.ir.walk import rebuild_expr, rebuild_stmt

_SIGN = 1 << 63
_UNSIGNED = (1 << 64) - 1

_UNARY: dict[str, Callable[[int], int]] = {
    "not": lambda x: 1 - x,
    "ineg": operator.neg,
    "inot": operator.invert,
    "bool_to_i64": int,
    "i64_to_f64": lambda x: f64_to_bits(float(x)),
}
_BINARY: dict[str, Callable[[int, int], int]] = {
    "iadd": operator.add,
    "isub": operator.sub,
    "imul": operator.mul,
    "idiv": lambda x, y: x // y if y else 0,
    "imod": lambda x, y: x % y if y else 0,
    "imin": min,
    "imax": max,
    "iand": operator.and_,
    "ior": operator.or_,
    "ixor": operator.xor,
    "shl": lambda x, y: x << (y & 63),
    "lshr": lambda x, y: (x & _UNSIGNED) >> (y & 63),
    "ashr": lambda x, y: x >> (y & 63),
    "umulh": lambda x, y: ((x & _UNSIGNED) * (y & _UNSIGNED)) >> 64,
    "ilt": operator.lt,
    "ile": operator.le,
    "igt": operator.gt,
    "ige": operator.ge,
    "ieq": operator.eq,
    "ine": operator.ne,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}


def fold_constants(module: Module) -> Module:
    """The module with what is known at compile time in place of its computation."""
    return msgspec.structs.replace(module, funcs=tuple(map(_func, module.funcs)))


def _func(func: Func) -> Func:
    body = _body(func.body)
    return func if body is func.body else msgspec.structs.replace(func, body=body)


def _expr(expr: Expr) -> Expr:
    new = rebuild_expr(expr, _expr)
    if isinstance(new, Binary):
        x, y = new.x, new.y
        if isinstance(x, Const) and isinstance(y, Const) and new.op in _BINARY:
            return _constant(BINARY[new.op].result, _BINARY[new.op](x.bits, y.bits))
    elif isinstance(new, Unary):
        if isinstance(new.x, Const) and new.op in _UNARY:
            return _constant(UNARY[new.op].result, _UNARY[new.op](new.x.bits))
    elif isinstance(new, Select) and isinstance(new.cond, Const):
        return new.x if new.cond.bits else new.y
    return new


def _constant(type_: str, bits: int) -> Const:
    if type_ == I64_T:
        return Const(I64_T, ((bits + _SIGN) & _UNSIGNED) - _SIGN)
    return Const(F64_T, bits) if type_ == F64_T else Const(BOOL_T, int(bits))


def _body(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    new = tuple(kept for stmt in body for kept in _stmt(stmt))
    same = len(new) == len(body) and all(a is b for a, b in zip(body, new, strict=True))
    return body if same else new


def _stmt(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements that stand for one: a decided branch gives its own, names stay unique."""
    match stmt:
        case If():
            cond = _expr(stmt.cond)
            if isinstance(cond, Const):
                return _body(stmt.then if cond.bits else stmt.otherwise)
            then, otherwise = _body(stmt.then), _body(stmt.otherwise)
            if cond is stmt.cond and then is stmt.then and otherwise is stmt.otherwise:
                return (stmt,)
            return (If(cond, then, otherwise, stmt.line),)
        case For() | While():
            body = _body(stmt.body)
            if body is not stmt.body:
                stmt = msgspec.structs.replace(stmt, body=body)
    # Blocks are folded above; what is left here are the expressions of the statement itself.
    return (rebuild_stmt(stmt, _expr, lambda inner: inner),)
