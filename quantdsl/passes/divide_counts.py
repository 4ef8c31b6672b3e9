"""Divide counts by numbers with one product and one correction, to the same bits.

A GPU finds the reciprocal anew in each division: a chain of a dozen steps. The rounded reciprocal y
of a number d is known here, and a * y is within two units of the last place of a / d. What that
leaves of a is exact, and so is what it is divided by but for 2^-53 of it; so the correction lands
within 2^-51 units of the quotient, and rounds as the quotient does wherever that is no closer to
the middle between two floats. With d = n * 2^k, n odd, it is at least 1 / (2 n) units away from
there: a is a multiple of 2^k units of the last place of a / d, and no middle times d is a float.
(P. Markstein, Computation of elementary functions on the IBM RISC System/6000 processor, 1990, has
the general case.)
"""

from collections.abc import Iterable, Iterator

import msgspec

from quantdsl.ir.ops import (
    F64_T,
    Assign,
    Binary,
    Call,
    Const,
    Do,
    Expr,
    Fma,
    Func,
    Let,
    Module,
    Return,
    Stmt,
    Unary,
    Var,
    f64,
)
from quantdsl.ir.walk import nested, nodes, operands, rebuild_blocks, rebuild_expr, rebuild_stmt
from quantdsl.passes.scopes import assigned_names

ODD_BITS_MAX = 32
"""Of n: far from 2^50, where a quotient may lie as close to a middle as a correction is exact."""
EXPONENT_MAX = 400
"""Of d, either way: a count has 64 bits, so nothing on the way under- or overflows."""


def divide_counts(module: Module) -> Module:
    """The module with its divisions of whole numbers by literals made so."""
    funcs = (_Divider(func).func() if _divides(func) else func for func in module.funcs)
    return msgspec.structs.replace(module, funcs=tuple(funcs))


def _divides(func: Func) -> bool:
    """Whether a function divides by a literal at all: few do."""
    return any(_literal(node) for node in nodes(func.body))


def _literal(expr: Expr) -> Const | None:
    """What a division divides by, if it can be made so for counts."""
    if type(expr) is Binary and expr.op == "fdiv" and type(expr.y) is Const and _is_short(expr.y):
        return expr.y
    return None


class _Divider:
    def __init__(self, func: Func) -> None:
        self.old = func
        self.counts: set[str] = set()
        """Locals that are whole numbers as floats all the way."""
        self.changing = assigned_names(func.body)
        self.made = 0
        self.before: list[Stmt] = []
        """What stands before the statement that is at work."""

    def func(self) -> Func:
        body = tuple(self.block(self.old.body))
        return msgspec.structs.replace(self.old, body=body) if self.made else self.old

    def block(self, body: Iterable[Stmt]) -> Iterator[Stmt]:
        for stmt in body:
            if nested(stmt):
                yield rebuild_blocks(stmt, lambda block: tuple(self.block(block)))
            elif isinstance(stmt, Let | Assign | Do | Return) and not _calls_first(stmt):
                self.before = []
                new = rebuild_stmt(stmt, self.expr, lambda inner: inner)
                yield from self.before
                yield new
            else:
                yield stmt
            if isinstance(stmt, Let) and stmt.value is not None and self.is_count(stmt.value):
                self.counts |= {stmt.name} - self.changing

    def is_count(self, expr: Expr) -> bool:
        if isinstance(expr, Var):
            return expr.name in self.counts
        return isinstance(expr, Unary) and expr.op == "i64_to_f64"

    def expr(self, expr: Expr) -> Expr:
        new = rebuild_expr(expr, self.expr)
        literal = _literal(new)
        if literal is None or not self.is_count(operands(new)[0]):
            return new
        return self.quotient(operands(new)[0], literal)

    def quotient(self, a: Expr, d: Const) -> Expr:
        self.made += 1
        x, q = Var(f"count.{self.made}@"), Var(f"near.{self.made}@")
        y = f64(1.0 / float(d.value))
        self.before += [Let(x.name, F64_T, a), Let(q.name, F64_T, Binary("fmul", x, y))]
        return Fma(Fma(f64(-float(d.value)), q, x), y, q)


def _calls_first(stmt: Stmt) -> bool:
    """Whether a call may change what an assignment's place reads behind it."""
    return isinstance(stmt, Assign) and isinstance(stmt.value, Call)


def _is_short(d: Const) -> bool:
    """Whether few bits make a number, and it is none that a product divides by exactly."""
    size = abs(float(d.value))
    if not 2.0**-EXPONENT_MAX < size < 2.0**EXPONENT_MAX:
        return False
    top, _ = size.as_integer_ratio()
    return bool(1 < top // (top & -top) < 2**ODD_BITS_MAX)
