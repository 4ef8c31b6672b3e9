"""What a lane of a panel reads and writes: words of columns, which hold values."""

from quantdsl.check.equations import STATE
from quantdsl.ir import ops
from quantdsl.ir.own import MADE, OWN

READ, WRITTEN = ops.Var(OWN), ops.Var(MADE)
SPAN = ops.Field(STATE, "span")
HERE = ops.Var("at")


def at(buffer: ops.Var, column: int, where: ops.Expr = HERE) -> ops.Elem:
    """The word of this bar, or of another one."""
    first = ops.Binary("imul", ops.i64(column), SPAN)
    return ops.Elem(buffer, ops.Binary("iadd", first, where))
