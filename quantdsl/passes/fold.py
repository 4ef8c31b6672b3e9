"""Compute what is known now: integer and truth constants, and the branches they decide.

Sizes are constants once linked, so library code that asks about its size is settled here, before
LLVM reads it. Floats are left to LLVM, which folds them to the same bits.
"""

import msgspec

from quantdsl.ir.ops import (
    BINARY,
    I64_T,
    UNARY,
    Binary,
    Break,
    Const,
    Continue,
    Expr,
    For,
    Func,
    If,
    Let,
    Module,
    Select,
    Stmt,
    Unary,
    Var,
    While,
    f64,
)
from quantdsl.ir.walk import ENDS, rebuild_expr, rebuild_stmt, statements
from quantdsl.passes.constants import fold_binary, fold_unary
from quantdsl.passes.scopes import assigned_names

ONE = f64(1.0)


def fold_constants(module: Module) -> Module:
    """The module with what is known at compile time in place of its computation."""
    return msgspec.structs.replace(module, funcs=tuple(map(folded_func, module.funcs)))


def folded(expr: Expr) -> Expr:
    """An expression with what is known put in place of its computation."""
    return Folder(frozenset()).expr(expr)


def folded_func(func: Func) -> Func:
    """A function with what is known put in place of its computation."""
    body = Folder(assigned_names(func.body)).body(func.body)
    return func if body is func.body else msgspec.structs.replace(func, body=body)


class Folder:
    """Folds one function; `known` are its locals whose one value is a constant."""

    def __init__(self, assigned: frozenset[str]) -> None:
        self.assigned = assigned
        self.known: dict[str, Const] = {}

    def expr(self, expr: Expr) -> Expr:
        if type(expr) is Var:
            return self.known.get(expr.name, expr)
        return settled(rebuild_expr(expr, self.expr))

    def body(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        new: list[Stmt] = []
        for stmt in body:
            new += self.stmt(stmt)
            if new and type(new[-1]) in ENDS:
                break  # what follows was reached only where a branch was not decided
        same = len(new) == len(body) and all(a is b for a, b in zip(body, new, strict=True))
        return body if same else tuple(new)

    def stmt(self, stmt: Stmt) -> tuple[Stmt, ...]:
        """The statements that stand for one: a decided branch gives its own, names stay unique."""
        match stmt:
            case If():
                return self.branch(stmt)
            case For():
                lo, hi = self.expr(stmt.lo), self.expr(stmt.hi)
                if isinstance(lo, Const) and hi == Const(I64_T, lo.bits + 1) and _straight(stmt):
                    self.known[stmt.name] = lo
                    return self.body(stmt.body)
        if type(stmt) is For or type(stmt) is While:
            inner = self.body(stmt.body)
            if inner is not stmt.body:
                stmt = msgspec.structs.replace(stmt, body=inner)
        # Blocks are folded above; what is left here are the expressions of the statement itself.
        new = rebuild_stmt(stmt, self.expr, lambda inner: inner)
        if type(new) is Let and type(new.value) is Const and new.name not in self.assigned:
            self.known[new.name] = new.value
            return ()
        return (new,)

    def branch(self, stmt: If) -> tuple[Stmt, ...]:
        """What is left of an if."""
        cond = self.expr(stmt.cond)
        if isinstance(cond, Const):
            return self.body(stmt.then if cond.bits else stmt.otherwise)
        then, otherwise = self.body(stmt.then), self.body(stmt.otherwise)
        if not then and not otherwise:
            return ()
        if cond is stmt.cond and then is stmt.then and otherwise is stmt.otherwise:
            return (stmt,)
        return (If(cond, then, otherwise, stmt.line),)


def settled(expr: Expr) -> Expr:
    """An expression of operands that are settled: what is known in place of its computation."""
    if type(expr) is Binary:
        x, y = expr.x, expr.y
        if type(x) is Const and type(y) is Const:
            bits = fold_binary(expr.op, x.bits, y.bits)
            return expr if bits is None else Const(BINARY[expr.op].result, bits)
        return _absorbed(expr)
    if type(expr) is Unary:
        bits = fold_unary(expr.op, expr.x.bits) if type(expr.x) is Const else None
        return expr if bits is None else Const(UNARY[expr.op].result, bits)
    if type(expr) is Select and type(expr.cond) is Const:
        return expr.x if expr.cond.bits else expr.y
    return expr


def _absorbed(expr: Binary) -> Expr:
    """What one known operand makes of an operation; operands are pure, so one may be dropped."""
    x, y = (expr.y, expr.x) if type(expr.x) is Const else (expr.x, expr.y)
    if type(y) is not Const:
        return expr
    if expr.op in ("and", "or"):
        return y if bool(y.bits) == (expr.op == "or") else x
    if expr.op in ("iadd", "ior") and y.bits == 0:
        return x
    if expr.op == "imul" and y.bits in (0, 1):
        return x if y.bits else y
    if y == ONE and (expr.op == "fmul" or (expr.op == "fdiv" and expr.y is y)):
        return x
    # min(max(x, low), high) where low >= high: an index into an array of one.
    if expr.op == "imin" and isinstance(x, Binary) and x.op == "imax":
        bounds = [side.bits for side in (x.x, x.y) if isinstance(side, Const)]
        return y if bounds and max(bounds) >= y.bits else expr
    return expr


def _straight(loop: For) -> bool:
    """Whether the body runs through: no break or continue in it, not even of an inner loop."""
    return not any(isinstance(stmt, Break | Continue) for stmt in statements(loop.body))
