"""Walking and rebuilding the IR: what the linker, the passes and the analyses share.

Nodes are immutable. A rebuild returns the very node it was given where nothing changed, so an
untouched function costs no memory and `is` tells whether a pass did something.
"""

import operator
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from quantdsl.ir.ops import (
    Assign,
    Binary,
    Call,
    Const,
    Do,
    Elem,
    Expr,
    Field,
    Fma,
    For,
    If,
    Let,
    Return,
    Select,
    SizeOf,
    Stmt,
    StructOf,
    Table,
    Unary,
    Var,
    While,
)

ExprMap = Callable[[Expr], Expr]
StmtMap = Callable[[Stmt], Stmt]


def operands(expr: Expr) -> tuple[Expr, ...]:
    """The direct subexpressions, in order of evaluation as written."""
    return _OPERANDS[type(expr)](expr)


def rebuild_expr(expr: Expr, f: ExprMap) -> Expr:
    """`expr` with `f` applied to each direct subexpression."""
    old = _OPERANDS[type(expr)](expr)
    if not old:
        return expr
    new = tuple(map(f, old))
    return expr if all(map(operator.is_, old, new)) else _REBUILT[type(expr)](expr, new)


# Tables, not a match: these two run once for each node and pass, and a match tries case by case.
_OPERANDS: dict[type, Callable[[Any], tuple[Expr, ...]]] = {
    Const: lambda _: (),
    SizeOf: lambda _: (),
    Var: lambda _: (),
    Table: lambda _: (),
    Field: lambda e: (e.base,),
    Elem: lambda e: (e.base, e.index),
    Unary: lambda e: (e.x,),
    Binary: lambda e: (e.x, e.y),
    Fma: lambda e: (e.x, e.y, e.z),
    Select: lambda e: (e.cond, e.x, e.y),
    Call: lambda e: e.args,
    StructOf: lambda e: e.values,
}
_REBUILT: dict[type, Callable[[Any, tuple[Any, ...]], Expr]] = {
    Field: lambda e, new: Field(new[0], e.name),
    Elem: lambda _, new: Elem(*new),
    Unary: lambda e, new: Unary(e.op, *new),
    Binary: lambda e, new: Binary(e.op, *new),
    Fma: lambda _, new: Fma(*new),
    Select: lambda _, new: Select(*new),
    Call: lambda e, new: Call(e.func, new, e.sizes),
    StructOf: lambda e, new: StructOf(e.type, new),
}


def rebuild_stmt(stmt: Stmt, f: ExprMap, g: StmtMap) -> Stmt:
    """`stmt` with `f` applied to each direct expression and `g` to each nested statement."""
    match stmt:
        case Let():
            new = stmt if stmt.value is None else _replaced(stmt, value=f(stmt.value))
        case Assign():
            new = _replaced(stmt, place=f(stmt.place), value=f(stmt.value))
        case Do():
            new = _replaced(stmt, call=f(stmt.call))
        case If():
            then, otherwise = rebuild_body(stmt.then, g), rebuild_body(stmt.otherwise, g)
            new = _replaced(stmt, cond=f(stmt.cond), then=then, otherwise=otherwise)
        case For():
            body = rebuild_body(stmt.body, g)
            new = _replaced(stmt, lo=f(stmt.lo), hi=f(stmt.hi), body=body)
        case While():
            body = rebuild_body(stmt.body, g)
            new = _replaced(stmt, cond=f(stmt.cond), max=f(stmt.max), body=body)
        case Return():
            new = stmt if stmt.value is None else _replaced(stmt, value=f(stmt.value))
        case _:
            new = stmt
    return new


def rebuild_body(body: tuple[Stmt, ...], g: StmtMap) -> tuple[Stmt, ...]:
    """`body` with `g` applied to each statement."""
    new = tuple(map(g, body))
    return body if all(map(operator.is_, body, new)) else new


def roots(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions that stand directly in a statement, not in its nested statements."""
    match stmt:
        case Let() | Return():
            return () if stmt.value is None else (stmt.value,)
        case Assign():
            return (stmt.place, stmt.value)
        case Do():
            return (stmt.call,)
        case If():
            return (stmt.cond,)
        case For():
            return (stmt.lo, stmt.hi)
        case While():
            return (stmt.cond, stmt.max)
    return ()


def nested(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The blocks inside a statement."""
    match stmt:
        case If():
            return (stmt.then, stmt.otherwise)
        case For() | While():
            return (stmt.body,)
    return ()


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement of a body, outer before inner."""
    for stmt in body:
        yield stmt
        for block in nested(stmt):
            yield from statements(block)


def expressions(body: tuple[Stmt, ...]) -> Iterator[Expr]:
    """Every expression of a body, parents before operands."""
    stack: list[Expr] = []
    for stmt in statements(body):
        stack.extend(roots(stmt))
        while stack:
            expr = stack.pop()
            yield expr
            stack += _OPERANDS[type(expr)](expr)


def _replaced(stmt: Stmt, **fields: object) -> Stmt:
    if all(getattr(stmt, name) is value for name, value in fields.items()):
        return stmt
    return msgspec.structs.replace(stmt, **fields)
