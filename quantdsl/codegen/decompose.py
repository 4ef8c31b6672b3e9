"""What a target cannot lower, said by what every target can: one table for all of them."""

from collections.abc import Callable

import msgspec

from quantdsl.ir.ops import Binary, Expr, Module, Stmt, i64
from quantdsl.ir.walk import rebuild_body, rebuild_expr, rebuild_stmt

HALF = 32
LOW = i64((1 << HALF) - 1)


def decompose(module: Module, lacking: frozenset[str]) -> Module:
    """The module without the operations that a target lacks, each a key of DECOMPOSED."""
    if not lacking:
        return module

    def expr(node: Expr) -> Expr:
        new = rebuild_expr(node, expr)
        if isinstance(new, Binary) and new.op in lacking:
            return DECOMPOSED[new.op](new.x, new.y)
        return new

    def stmt(node: Stmt) -> Stmt:
        return rebuild_stmt(node, expr, stmt)

    funcs = (
        msgspec.structs.replace(func, body=rebuild_body(func.body, stmt)) for func in module.funcs
    )
    return msgspec.structs.replace(module, funcs=tuple(funcs))


def _umulh(x: Expr, y: Expr) -> Expr:
    """The high half of a product, from the products of halves; none of the sums wraps."""
    x_low, x_high = Binary("iand", x, LOW), Binary("lshr", x, i64(HALF))
    y_low, y_high = Binary("iand", y, LOW), Binary("lshr", y, i64(HALF))
    carried = Binary("lshr", Binary("imul", x_low, y_low), i64(HALF))
    middle = Binary("iadd", Binary("imul", x_high, y_low), carried)
    other = Binary("iadd", Binary("imul", x_low, y_high), Binary("iand", middle, LOW))
    high = Binary("iadd", Binary("imul", x_high, y_high), Binary("lshr", middle, i64(HALF)))
    return Binary("iadd", high, Binary("lshr", other, i64(HALF)))


DECOMPOSED: dict[str, Callable[[Expr, Expr], Expr]] = {"umulh": _umulh}
