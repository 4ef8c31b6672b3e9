"""A kernel of threads in several blocks as a loop over its blocks.

A block runs from its beginning to its end before the next one does, wherever they run one after the
other. A grid may run them at the same time and in any order, since no block sees what another one
does; where the order can be seen, by an atomic in order, each block waits there for those before.
"""

from quantdsl.check.context import Context
from quantdsl.check.phases import BLOCK, Body
from quantdsl.check.thread_base import Threads
from quantdsl.ir import ops
from quantdsl.ir import threads as form
from quantdsl.ir.walk import rebuild_expr, rebuild_stmt, statements


def gridded(cx: Context, body: Body, threads: Threads) -> Body:
    """The body of one block as that of all blocks of a grid."""
    name = cx.fresh(form.GRID)
    own = tuple(_numbered(stmt, ops.Var(name)) for stmt in body)
    if form.TURN in statements(own):
        own = (*own, form.PASS)
    return (ops.For(name, ops.i64(0), blocks_of(threads), own),)


def blocks_of(threads: Threads) -> ops.Expr:
    """How many blocks a grid has."""
    made: ops.Expr = ops.i64(1)
    for size in threads.grid:
        if isinstance(made, ops.Const) and isinstance(size.ir, ops.Const):
            made = ops.i64(made.bits * size.ir.bits)
        else:
            made = ops.Binary("imul", made, size.ir)
    return made


def _numbered(stmt: ops.Stmt, number: ops.Expr) -> ops.Stmt:
    """The statement with the number of the block in place."""

    def expr(node: ops.Expr) -> ops.Expr:
        return number if node == BLOCK else rebuild_expr(node, expr)

    def each(inner: ops.Stmt) -> ops.Stmt:
        return rebuild_stmt(inner, expr, each)

    return each(stmt)
