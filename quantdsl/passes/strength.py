"""Floor division and remainder by a power of two become a shift and a mask.

Ring buffers index by `i mod N` on every event; a division takes tens of cycles. LLVM does not see
through the spelled-out floor division.
"""

import msgspec

from quantdsl.ir.ops import Binary, Const, Expr, Module, Stmt, i64
from quantdsl.ir.walk import rebuild_body, rebuild_expr, rebuild_stmt


def reduce_strength(module: Module) -> Module:
    """The module without divisions by a constant power of two."""
    funcs = tuple(
        msgspec.structs.replace(func, body=rebuild_body(func.body, _stmt)) for func in module.funcs
    )
    return msgspec.structs.replace(module, funcs=funcs)


def _stmt(stmt: Stmt) -> Stmt:
    return rebuild_stmt(stmt, _expr, _stmt)


def _expr(expr: Expr) -> Expr:
    new = rebuild_expr(expr, _expr)
    if not isinstance(new, Binary) or new.op not in {"idiv", "imod"}:
        return new
    divisor = new.y.bits if isinstance(new.y, Const) else 0
    if divisor <= 0 or divisor & (divisor - 1):
        return new
    if new.op == "imod":
        return Binary("iand", new.x, i64(divisor - 1))
    return Binary("ashr", new.x, i64(divisor.bit_length() - 1))
