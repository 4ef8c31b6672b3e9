"""Walking and rebuilding the IR: what the linker, the passes and the analyses share.

Nodes are immutable. A rebuild returns the very node it was given where nothing changed, so an
untouched function costs no memory and `is` tells whether a pass did something.
"""

import operator
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from quantdsl.ir.ops import (
    Assign,
    Binary,
    Break,
    Call,
    Const,
    Continue,
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


# Tables, not a match: these run once for each node and pass, and a match tries case by case.
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


def rebuild_expr(expr: Expr, f: ExprMap) -> Expr:
    """`expr` with `f` applied to each direct subexpression."""
    return _REBUILD[type(expr)](expr, f)


def _leaf(expr: Expr, _: ExprMap) -> Expr:
    return expr


def _field(e: Field, f: ExprMap) -> Expr:
    base: Any = f(e.base)
    return e if base is e.base else Field(base, e.name)


def _elem(e: Elem, f: ExprMap) -> Expr:
    base: Any = f(e.base)
    index = f(e.index)
    return e if base is e.base and index is e.index else Elem(base, index)


def _unary(e: Unary, f: ExprMap) -> Expr:
    x = f(e.x)
    return e if x is e.x else Unary(e.op, x)


def _binary(e: Binary, f: ExprMap) -> Expr:
    x, y = f(e.x), f(e.y)
    return e if x is e.x and y is e.y else Binary(e.op, x, y)


def _fma(e: Fma, f: ExprMap) -> Expr:
    x, y, z = f(e.x), f(e.y), f(e.z)
    return e if x is e.x and y is e.y and z is e.z else Fma(x, y, z, e.single)


def _select(e: Select, f: ExprMap) -> Expr:
    cond, x, y = f(e.cond), f(e.x), f(e.y)
    return e if cond is e.cond and x is e.x and y is e.y else Select(cond, x, y)


def _call(e: Call, f: ExprMap) -> Expr:
    args = _mapped(e.args, f)
    return e if args is e.args else Call(e.func, args, e.sizes)


def _struct_of(e: StructOf, f: ExprMap) -> Expr:
    values = _mapped(e.values, f)
    return e if values is e.values else StructOf(e.type, values)


N = TypeVar("N")


def _mapped(old: tuple[N, ...], f: Callable[[N], N]) -> tuple[N, ...]:
    new = tuple(map(f, old))
    return old if all(map(operator.is_, old, new)) else new


_REBUILD: dict[type, Callable[[Any, ExprMap], Expr]] = {
    Const: _leaf,
    SizeOf: _leaf,
    Var: _leaf,
    Table: _leaf,
    Field: _field,
    Elem: _elem,
    Unary: _unary,
    Binary: _binary,
    Fma: _fma,
    Select: _select,
    Call: _call,
    StructOf: _struct_of,
}


def rebuild_stmt(stmt: Stmt, f: ExprMap, g: StmtMap) -> Stmt:
    """`stmt` with `f` applied to each direct expression and `g` to each nested statement."""
    return _REBUILD_STMT[type(stmt)](stmt, f, g)


def _let(s: Let, f: ExprMap, _: StmtMap) -> Stmt:
    value = None if s.value is None else f(s.value)
    return s if value is s.value else Let(s.name, s.type, value, s.line)


def _assign(s: Assign, f: ExprMap, _: StmtMap) -> Stmt:
    place: Any = f(s.place)
    value = f(s.value)
    return s if place is s.place and value is s.value else Assign(place, value, s.line)


def _do(s: Do, f: ExprMap, _: StmtMap) -> Stmt:
    call: Any = f(s.call)
    return s if call is s.call else Do(call, s.line)


def _if(s: If, f: ExprMap, g: StmtMap) -> Stmt:
    then, otherwise = _mapped(s.then, g), _mapped(s.otherwise, g)
    cond = f(s.cond)
    same = cond is s.cond and then is s.then and otherwise is s.otherwise
    return s if same else If(cond, then, otherwise, s.line)


def _for(s: For, f: ExprMap, g: StmtMap) -> Stmt:
    body = _mapped(s.body, g)
    lo, hi = f(s.lo), f(s.hi)
    same = lo is s.lo and hi is s.hi and body is s.body
    return s if same else For(s.name, lo, hi, body, s.line)


def _while(s: While, f: ExprMap, g: StmtMap) -> Stmt:
    body = _mapped(s.body, g)
    cond, most = f(s.cond), f(s.max)
    same = cond is s.cond and most is s.max and body is s.body
    return s if same else While(cond, most, body, s.line)


def _return(s: Return, f: ExprMap, _: StmtMap) -> Stmt:
    value = None if s.value is None else f(s.value)
    return s if value is s.value else Return(value)


_REBUILD_STMT: dict[type, Callable[[Any, ExprMap, StmtMap], Stmt]] = {
    Let: _let,
    Assign: _assign,
    Do: _do,
    If: _if,
    For: _for,
    While: _while,
    Return: _return,
    Break: lambda s, *_: s,
    Continue: lambda s, *_: s,
}


def rebuild_blocks(stmt: Stmt, f: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]) -> Stmt:
    """`stmt` with `f` applied to each of its blocks, however many statements it makes of them."""
    match stmt:
        case If(cond, then, otherwise, line):
            return If(cond, f(then), f(otherwise), line)
        case For(name, lo, hi, body, line):
            return For(name, lo, hi, f(body), line)
        case While(cond, most, body, line):
            return While(cond, most, f(body), line)
    return stmt


def with_expr(stmt: Stmt, old: Expr, new: Expr) -> Stmt:
    """The statement, nested ones included, with an expression in place of another."""

    def expr(node: Expr) -> Expr:
        return new if node == old else rebuild_expr(node, expr)

    def inner(node: Stmt) -> Stmt:
        return rebuild_stmt(node, expr, inner)

    return inner(stmt)


def rebuild_body(body: tuple[Stmt, ...], g: StmtMap) -> tuple[Stmt, ...]:
    """`body` with `g` applied to each statement."""
    return _mapped(body, g)


_ROOTS: dict[type, Callable[[Any], tuple[Expr, ...]]] = {
    Let: lambda s: () if s.value is None else (s.value,),
    Return: lambda s: () if s.value is None else (s.value,),
    Assign: lambda s: (s.place, s.value),
    Do: lambda s: (s.call,),
    If: lambda s: (s.cond,),
    For: lambda s: (s.lo, s.hi),
    While: lambda s: (s.cond, s.max),
    Break: lambda _: (),
    Continue: lambda _: (),
}


def roots(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions that stand directly in a statement, not in its nested statements."""
    return _ROOTS[type(stmt)](stmt)


ENDS = frozenset({Return, Break, Continue})
"""What follows one of these in its block is never reached."""

_NESTED: dict[type, Callable[[Any], tuple[tuple[Stmt, ...], ...]]] = {
    If: lambda s: (s.then, s.otherwise),
    For: lambda s: (s.body,),
    While: lambda s: (s.body,),
}


def nested(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The blocks inside a statement."""
    blocks = _NESTED.get(type(stmt))
    return () if blocks is None else blocks(stmt)


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement of a body, outer before inner."""
    stack = list(body[::-1])
    while stack:
        stmt = stack.pop()
        yield stmt
        if type(stmt) in _NESTED:
            for block in nested(stmt)[::-1]:
                stack += block[::-1]


def nodes_in(expr: Expr) -> Iterator[Expr]:
    """An expression and everything inside it, parents before operands."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack += operands(node)[::-1]


def base_of(place: Expr) -> Expr:
    """What a place begins with: a local or a table; the expression itself where it is no place."""
    # By exact types: a test for one of several takes most of the time of a pass.
    while type(place) is Field or type(place) is Elem:
        place = place.base
    return place


def base_name(place: Expr) -> str:
    """The local that a place lies in; "" for a table, and for what is no place."""
    base = base_of(place)
    return base.name if isinstance(base, Var) else ""


def nodes(body: tuple[Stmt, ...]) -> list[Expr]:
    """Every expression of a body, in an order of no account: for those who count, at a third
    of the time of `expressions`.
    """
    found: list[Expr] = []
    for stmt in statements(body):
        found += _ROOTS[type(stmt)](stmt)
    for expr in found:  # which grows meanwhile; most have no operands
        kind = type(expr)
        if kind is not Var and kind is not Const:
            found += _OPERANDS[kind](expr)
    return found


def expressions(body: tuple[Stmt, ...]) -> Iterator[Expr]:
    """Every expression of a body, parents before operands."""
    for stmt in statements(body):
        stack = list(_ROOTS[type(stmt)](stmt))
        while stack:
            expr = stack.pop()
            yield expr
            stack += _OPERANDS[type(expr)](expr)
