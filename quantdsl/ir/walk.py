"""Walking and rebuilding the IR: what the linker, the passes and the analyses share.

Nodes are immutable. A rebuild returns the very node it was given where nothing changed, so an
untouched function costs no memory and `is` tells whether a pass did something.
"""

from collections.abc import Callable, Iterator

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
    Place,
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
    match expr:
        case Const() | SizeOf() | Var() | Table():
            return ()
        case Field():
            return (expr.base,)
        case Elem():
            return (expr.base, expr.index)
        case Unary():
            return (expr.x,)
        case Binary():
            return (expr.x, expr.y)
        case Fma():
            return (expr.x, expr.y, expr.z)
        case Select():
            return (expr.cond, expr.x, expr.y)
        case Call():
            return expr.args
        case StructOf():
            return expr.values


def rebuild_expr(expr: Expr, f: ExprMap) -> Expr:
    """`expr` with `f` applied to each direct subexpression."""
    old = operands(expr)
    if not old:
        return expr
    new = tuple(map(f, old))
    if all(a is b for a, b in zip(old, new, strict=True)):
        return expr
    match expr:
        case Call():
            return Call(expr.func, new, expr.sizes)
        case StructOf():
            return StructOf(expr.type, new)
        case Field():
            return Field(as_place(new[0]), expr.name)
        case Elem():
            return Elem(as_place(new[0]), new[1])
        case Unary():
            return Unary(expr.op, new[0])
        case Binary():
            return Binary(expr.op, new[0], new[1])
        case Fma():
            return Fma(new[0], new[1], new[2])
        case Select():
            return Select(new[0], new[1], new[2])
    return expr


def as_place(expr: Expr) -> Place:
    """The same node; a rebuild must keep places places."""
    assert isinstance(expr, Place)
    return expr


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
    return body if all(a is b for a, b in zip(body, new, strict=True)) else new


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
            stack.extend(operands(expr))


def _replaced(stmt: Stmt, **fields: object) -> Stmt:
    if all(getattr(stmt, name) is value for name, value in fields.items()):
        return stmt
    return msgspec.structs.replace(stmt, **fields)
