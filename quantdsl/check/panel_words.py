"""What a lane of a panel reads and writes: words of columns, which hold values."""

from quantdsl.check.equations import OF_THIS, STATE
from quantdsl.ir import ops
from quantdsl.ir.own import MADE, OWN, WIDTH
from quantdsl.ir.walk import rebuild_body, with_expr

READ, WRITTEN = ops.Var(OWN), ops.Var(MADE)
SPAN = ops.Field(STATE, "span")
HERE = ops.Var("at")
INSTANTS_MAX = 128
"""Instants of a block: the state of each instrument is moved once a block."""
TRAIT = "trait."
"""The beginning of the name of the column of a trait; its number follows."""
FACTOR = "factor"
"""The column of what prices are multiplied by where they are adjusted."""
INSTANTS = "instants"
"""The column of how many instants there have been, this one included."""
CLOCK = {"now": "clock.now", "midnight": "clock.midnight"}
"""Columns of what the engine knows of time: an instant's own, and when its session's day began."""
OF_INSTANTS = (INSTANTS, *CLOCK.values())
"""The columns of the host that hold one word an instant."""
SEEN = "seen"
"""The column of who has a bar, of flat columns."""


def of_host(name: str) -> bool:
    """Whether the host fills a column."""
    return name.startswith(("bar.", TRAIT)) or name in (FACTOR, SEEN, *OF_INSTANTS)


def at(buffer: ops.Var, column: int, where: ops.Expr = HERE) -> ops.Elem:
    """The word of this bar, or of another one."""
    first = ops.Binary("imul", ops.i64(column), SPAN)
    return ops.Elem(buffer, ops.Binary("iadd", first, where))


def flattened(body: tuple[ops.Stmt, ...]) -> tuple[ops.Stmt, ...]:
    """With what the state keeps of this instrument as the state itself: a lane has one."""
    return rebuild_body(body, lambda stmt: with_expr(stmt, OF_THIS, STATE))


def placed(index: ops.Expr) -> ops.Expr:
    """Where an instrument stands in a column, at the first instant of a block."""
    ahead = ops.Binary("iand", index, ops.i64(-WIDTH))
    beside = ops.Binary("iand", index, ops.i64(WIDTH - 1))
    return ops.Binary("iadd", ops.Binary("imul", ahead, ops.i64(INSTANTS_MAX)), beside)
