"""What an elaborated expression is: its type, its IR, and what is known about it."""

from msgspec import Struct, field

from quantdsl.check import sizes
from quantdsl.check.types import ERROR, Type
from quantdsl.ir import ops
from quantdsl.lang.ast import Span


class Unit(Struct, frozen=True):
    """How a fixed value becomes a float: count * num / den, one division. Both are F64 exprs."""

    num: ops.Expr
    den: ops.Expr


class Warm(Struct, frozen=True):
    """How many ticks of a clock must have been seen; `most` over all param values."""

    count: ops.Expr
    most: ops.Size

    def latest(self, other: "Warm") -> "Warm":
        """Defined when both are."""
        if self == other:
            return self
        if isinstance(self.count, ops.Const) and isinstance(other.count, ops.Const):
            count: ops.Expr = ops.i64(max(self.count.bits, other.count.bits))
        else:
            count = ops.Binary("imax", self.count, other.count)
        return Warm(count, sizes.larger(self.most, other.most))

    def plus(self, more: ops.Expr, most: ops.Size) -> "Warm":
        """`more` ticks later."""
        if isinstance(self.count, ops.Const) and isinstance(more, ops.Const):
            count: ops.Expr = ops.i64(self.count.bits + more.bits)
        else:
            count = ops.Binary("iadd", self.count, more)
        return Warm(count, sizes.add(self.most, most))


PANEL_SHIFT = 32
"""In a strategy on a universe the clock bits from here on are those of each single instrument."""


class Series(Struct, frozen=True):
    """A value that is a function of market data and params alone, defined on clocks.

    `warm` says per clock bit from which tick on it is defined (1 is the first).
    """

    clocks: int = 0
    warm: tuple[tuple[int, Warm], ...] = ()

    @property
    def panel(self) -> bool:
        """Whether there is a value for each instrument of a universe."""
        return self.clocks >> PANEL_SHIFT != 0


TIMELESS = Series()
"""A constant or param: a series that never ticks."""


class Value(Struct):
    """`ir` of a scalar is an expression, of an aggregate a place.

    `low` and `high` bound an int, inclusive. `series` is None for what depends on state. `const`
    is the Python value of a compile-time constant. `writable` marks the place of an assignment,
    `percent` what is written in % or bps.
    """

    type: Type
    ir: ops.Expr
    span: Span = (0, 0)
    low: int | None = None
    high: ops.Size | None = None
    unit: Unit | None = None
    series: Series | None = None
    const: int | float | bool | str | None = None
    writable: bool = False
    names: dict[str, "Value"] = field(default_factory=dict)
    percent: bool = False

    @property
    def place(self) -> ops.Place:
        """Where an aggregate, or a variable, lies."""
        assert isinstance(self.ir, ops.Var | ops.Field | ops.Elem | ops.Table)
        return self.ir

    @property
    def bad(self) -> bool:
        """True when an error about it is reported already."""
        return self.type.kind == "error"


def error_value(span: Span) -> Value:
    """Stands for an expression whose error is reported; silences what follows from it."""
    return Value(ERROR, ops.i64(0), span, series=TIMELESS)
