"""Where the lanes of a group part ways, given what is the same in all of them.

A scalar that is the same in all lanes that are active where it is read stays a scalar, and a
branch on it stays a branch. All else is a vector, and lanes that part are told by masks.
"""

from quantdsl.ir.ops import (
    Break,
    Continue,
    For,
    If,
    Return,
    Stmt,
    While,
)
from quantdsl.passes.uniform import Uniform

Loop = For | While
Ways = frozenset[type]
"""Which of Break, Continue and Return some lanes take while others of the same turn do not."""
NONE: Ways = frozenset()
FOREVER: Ways = frozenset({Break, Return})
"""The ways that a lane does not come back from in the next turn."""


def parts(same: Uniform, loop: Loop) -> bool:
    """Whether lanes that enter a loop together may leave it at different turns."""
    bounds = (loop.lo, loop.hi) if isinstance(loop, For) else (loop.cond, loop.max)
    if not all(map(same.expr, bounds)):
        return True
    return bool(ways(same, loop.body, apart=False) & FOREVER)


def ways(same: Uniform, body: tuple[Stmt, ...], *, apart: bool) -> Ways:
    """The ways out of a block that are gone apart; `apart` if some lanes are not in it."""
    found = NONE
    for stmt in body:
        if isinstance(stmt, Break | Continue | Return):
            return found | {type(stmt)} if apart else found
        new = NONE
        if isinstance(stmt, If):
            inside = apart or not same.expr(stmt.cond)
            new = ways(same, stmt.then, apart=inside) | ways(same, stmt.otherwise, apart=inside)
        elif isinstance(stmt, For | While):
            new = ways(same, stmt.body, apart=apart or parts(same, stmt)) & {Return}
        apart = apart or bool(new)
        found |= new
    return found
