"""What a lane of a panel reads and writes: words of columns, which hold values."""

from quantdsl.check.equations import STATE
from quantdsl.ir import ops
from quantdsl.ir.own import MADE, OWN

READ, WRITTEN = ops.Var(OWN), ops.Var(MADE)
SPAN = ops.Field(STATE, "span")
HERE = ops.Var("at")
TO_WORD = {ops.F64_T: "bits", ops.BOOL_T: "bool_to_i64"}


def at(buffer: ops.Var, column: int, where: ops.Expr = HERE) -> ops.Elem:
    """The word of this bar, or of another one."""
    first = ops.Binary("imul", ops.i64(column), SPAN)
    return ops.Elem(buffer, ops.Binary("iadd", first, where))


def of_word(value: ops.Expr, type_: ops.ScalarType) -> ops.Expr:
    """What a word of memory holds."""
    if type_ == ops.F64_T:
        return ops.Unary("from_bits", value)
    return ops.Binary("ine", value, ops.i64(0)) if type_ == ops.BOOL_T else value


def to_word(value: ops.Expr, type_: ops.ScalarType) -> ops.Expr:
    """A value as a word of memory."""
    return ops.Unary(TO_WORD[type_], value) if type_ in TO_WORD else value
