"""Operators: which types meet, what comes out, and the IR that does it.

Fixed where money is committed, float where statistics are computed: a fixed value meets its own
kind exactly and everything else as a float (language.md section 4).
"""

from collections.abc import Sequence

from quantdsl.check import percent, single, sizes
from quantdsl.check.context import Context
from quantdsl.check.types import (
    BOOL,
    DURATION,
    F32,
    FIXED,
    FLOAT,
    INT,
    INVALID,
    MISSING,
    NUMERIC,
    SAFE,
    TIME,
    Type,
    money,
    stored,
)
from quantdsl.check.values import PANEL_SHIFT, Series, Unit, Value, Warm, error_value
from quantdsl.ir import ops
from quantdsl.lang.ast import Span
from quantdsl.lang.diagnostics import Label

FLOAT_OPS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
INT_OPS = {"+": "iadd", "-": "isub", "*": "imul"}
COMPARE = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
NAN = ops.Const(ops.F64_T, ops.CANONICAL_NAN_BITS)
ONE = ops.f64(1.0)
INT_MIN, INT_MAX = -(2**63), 2**63 - 1
SIZE_MAX = 2**31
GRID_NOISE = 2.0**-46
"""Relative: a few roundings of a float, far below half a step of any price that fits."""

_DIMENSION = {
    "price": "money",
    "money": "money",
    "ticks": "money",
    "qty": "size",
    "duration": "time",
    "time": "time",
}
"""What each fixed type measures; only what measures the same can be added."""


# ---- series -----------------------------------------------------------------------------------


def joined(values: Sequence[Value]) -> Series | None:
    """The series of what is computed from these values; None when one is not a series."""
    clocks = 0
    warm: dict[int, Warm] = {}
    for value in values:
        if value.series is None:
            return None
        clocks |= value.series.clocks
        for clock, need in value.series.warm:
            warm[clock] = warm[clock].latest(need) if clock in warm else need
    if clocks >> PANEL_SHIFT:  # what is of an instrument ticks with its own bars alone
        clocks = clocks >> PANEL_SHIFT << PANEL_SHIFT
    return Series(clocks, tuple(sorted(warm.items(), key=lambda item: item[0])))


# ---- conversions ------------------------------------------------------------------------------


def as_float(cx: Context, value: Value) -> Value:
    """The value as an F64; an error where the type has no float meaning."""
    kind = value.type.kind
    if kind == "float" or value.bad:
        return value
    if kind == "na":
        return Value(FLOAT.missing(), NAN, value.span, series=value.series)
    if value.type.optional:
        either = ops.Select(is_missing(value), NAN, _unit_float(cx, value))
        return Value(FLOAT.missing(), either, value.span, series=value.series)
    if kind not in NUMERIC or kind == "time":
        return cx.error(
            "QD0301",
            f"a number is needed here, this is {an(value.type)}",
            value.span,
        )
    const = float(value.const) if isinstance(value.const, int) and kind == "int" else None
    ir = ops.f64(const) if const is not None else _unit_float(cx, value)
    return Value(FLOAT, ir, value.span, high=value.high, series=value.series, const=const)


def _unit_float(cx: Context, value: Value) -> ops.Expr:
    count = ops.Unary("i64_to_f64", value.ir)
    if value.type.kind == "int":
        return count
    if value.type.kind == "duration":
        return ops.Binary("fdiv", count, ops.f64(1e9))
    unit = value.unit or cx.units.of(cx, value)
    scaled = count if unit.num == ONE else ops.Binary("fmul", count, unit.num)
    return scaled if unit.den == ONE else ops.Binary("fdiv", scaled, unit.den)


def checked_int(x: ops.Expr) -> ops.Expr:
    """A float with an integral value as I64; INVALID when it is not finite or not safe."""
    inside = ops.Binary("flt", ops.Unary("fabs", x), ops.f64(float(SAFE)))
    return ops.Select(inside, ops.Unary("f64_to_i64", x), ops.i64(INVALID))


def from_float(cx: Context, value: Value, unit: Unit, rounding: str) -> ops.Expr:
    """A float amount as a fixed count in `unit`, rounded by `rounding` (floor, ceil, rint).

    What is on the grid but for the noise of float arithmetic stays there: 1.15 in steps of 0.01
    is 115 although 1.15 * 100 is below it.
    """
    amount = as_float(cx, value).ir
    scaled = ops.Binary("fmul", amount, unit.den) if unit.den != ONE else amount
    count = ops.Binary("fdiv", scaled, unit.num) if unit.num != ONE else scaled
    if rounding != "rint":
        noise = ops.Binary("fmul", ops.Unary("fabs", count), ops.f64(GRID_NOISE))
        count = ops.Binary("fadd" if rounding == "floor" else "fsub", count, noise)
    return checked_int(ops.Unary(rounding, count))


def is_missing(value: Value) -> ops.Expr:
    """True when an optional value is na."""
    if stored(value.type) == ops.F64_T:
        return ops.Unary("isnan", value.ir)
    return ops.Binary("ieq", value.ir, ops.i64(MISSING))


def an(type_: Type) -> str:
    """The type with its article, where it has one."""
    text = str(type_)
    if type_.kind in ("money", "ticks", "bars", "na", "void"):
        return text
    return f"an {text}" if text[:1] in "aeiou" or text.startswith("f32") else f"a {text}"


def returns_nothing(cx: Context, span: Span) -> Value:
    """A call that stands where its value is wanted, and has none."""
    return cx.error(
        "QD0301",
        "this returns nothing",
        span,
        help="write the call as a line of its own, or give the function a result: '-> float', "
        "and a 'return'",
    )


def time_of_day(cx: Context, value: Value) -> Value:
    """`15:50` as the moment of the session's day, or of the UTC day where there is no session."""
    if cx.strategy is None:
        return cx.error(
            "QD0307",
            "a time of day needs the strategy's session",
            value.span,
            help="pass the moment as a parameter of type time",
        )
    return Value(TIME, cx.strategy.time_of_day(value.ir), value.span)


def coerce(cx: Context, value: Value, wanted: Type, help: str | None = None) -> Value:
    """The value as `wanted`, converting only where nothing can be lost or the language says so.

    `help` tells what else may have been meant, where there is no usual way.
    """
    have = value.type
    if value.bad or wanted.kind == "error" or have == wanted:
        return value
    if wanted.of == F32.of:
        return single.coerced(cx, value, wanted)
    if have.kind == "clock" and wanted.kind == "time":
        return time_of_day(cx, value)
    if have.kind == "na":
        if not wanted.optional and wanted.kind != "float":
            return cx.error(
                "QD0502",
                f"na does not fit {an(wanted)}",
                value.span,
                help=f"declare the type as {wanted}?",
            )
        nothing = NAN if stored(wanted) == ops.F64_T else ops.i64(MISSING)
        return Value(wanted, nothing, value.span, series=value.series)
    if have.optional and not wanted.optional and wanted.kind != "float":
        return cx.error(
            "QD0501",
            "this may be na here",
            value.span,
            help="guard it with 'is not na' or give a default with '??'",
        )
    if have.plain() == wanted.plain():
        return Value(
            wanted,
            value.ir,
            value.span,
            value.low,
            value.high,
            value.unit,
            value.series,
            value.const,
            percent=value.percent,
        )
    if wanted.kind == "float":
        return single.widened(as_float(cx, value))
    if wanted.kind == "money" and value.percent:
        return percent.no_money(cx, value)
    if wanted.kind == "money" and have.kind in ("float", "int", "money"):
        unit = cx.units.money(cx)
        ir = value.ir if have.kind == "money" else from_float(cx, value, unit, "rint")
        return Value(wanted, ir, value.span, unit=unit, series=value.series)
    if wanted.kind == have.kind and (not wanted.of or not have.of):
        return Value(have, value.ir, value.span, unit=value.unit, series=value.series)
    what = f"{an(wanted)} is needed here, this is {an(have)}"
    return cx.error("QD0301", what, value.span, help=_way(cx, value, wanted) or help)


def _way(cx: Context, value: Value, wanted: Type) -> str | None:
    """How a value of another kind becomes the wanted one, where there is a usual way."""
    text = cx.module.source.text[slice(*value.span)]
    if wanted.kind == "int" and value.type.kind == "float":
        cut = f"int({text}) drops the fraction"
        return cut if value.const is not None else f"{cut}; what begins as 0.0 is a float"
    if wanted.kind == "int" and value.type.kind in FIXED:
        return "what begins as 0 is an int: begin with 0.0, or with a unit"
    if wanted.kind == "price" and value.type.kind in ("int", "float", "money", "ticks"):
        return "a price is one of the market: begin with na (price?), or take a float"
    if wanted.kind == "qty" and value.type.kind in ("int", "float"):
        return f"write {text} shares" if value.const is not None else f"write floor_qty({text})"
    return None


# ---- arithmetic -------------------------------------------------------------------------------


def plain(cx: Context, value: Value) -> Value:
    """The value, which must not be missing here."""
    if not value.type.optional or value.bad:
        return value
    if value.ir in cx.facts:
        return Value(
            value.type.plain(),
            value.ir,
            value.span,
            value.low,
            value.high,
            value.unit,
            value.series,
        )
    name = cx.module.source.text[slice(*value.span)]
    of, _, last = name.rpartition("entry_price")
    if not last and of[-1:] in ("", "."):
        return cx.error(
            "QD0501",
            f"{name!r} may be na here",
            value.span,
            reason="it is the price of what is held, not of an order that has not filled",
            help=f"'if {of}position != 0:' says that something is held; exits of a new order go by "
            "fill.price in 'on fill:'",
        )
    rest = f", or '{name} ?? 0.0'" if value.type.kind == "float" else ""
    return cx.error(
        "QD0501",
        f"{name!r} may be na here",
        value.span,
        reason=f"its type is {value.type}: it can be missing by design",
        help=f"write '{name} is not na and ...'{rest}"
        if rest
        else f"write {name} is not na and ...",
    )


def _same_family(left: Value, right: Value) -> bool:
    return left.type.kind == right.type.kind and (
        left.type.of == right.type.of or not left.type.of or not right.type.of
    )


def _mixed_instruments(left: Value, right: Value) -> bool:
    return (
        left.type.kind == right.type.kind
        and left.type.kind in ("price", "qty", "money")
        and not _same_family(left, right)
    )


def _mixed_dimensions(left: Value, right: Value) -> bool:
    """True for two fixed values that measure different things, such as a price and a duration."""
    dimensions = {_DIMENSION.get(side.type.kind, "") for side in (left, right)}
    return len(dimensions) == 2 and "" not in dimensions


def binary(cx: Context, op: str, left: Value, right: Value, span: Span) -> Value:
    """left op right for + - * / mod of."""
    left, right = plain(cx, left), plain(cx, right)
    if left.bad or right.bad:
        return error_value(span)
    for side in (left, right):
        if side.type.kind not in NUMERIC:
            return cx.error("QD0301", f"'{op}' needs numbers, this is {an(side.type)}", side.span)
    if op == "of" and left.type.kind in FIXED:
        return cx.error(
            "QD0301",
            f"'of' takes a share of something, this is {an(left.type)}",
            left.span,
            help="write a share as a percentage, as in '20% of equity'",
        )
    series = joined((left, right))
    if op in "+-" and _mixed_instruments(left, right):
        return _mixed_error(cx, op, left, right)
    if (wrong := percent.cannot_join(cx, op, left, right, span)) is not None:
        return wrong
    if op in "+-" and _mixed_dimensions(left, right):
        word = "added" if op == "+" else "subtracted"
        message = f"{an(left.type)} and {an(right.type)} cannot be {word}"
        return cx.error("QD0302", message, span)
    fixed = _fixed(cx, op, left, right)
    if fixed is not None:
        fixed.series = series
        return fixed
    if op == "mod":
        return single.narrowed((left, right), _float_mod(cx, left, right))
    x, y = single.operands(as_float(cx, left), as_float(cx, right))
    if x.bad or y.bad:
        return error_value(span)
    if op == "/" and _same_family(left, right) and left.type.kind in FIXED:
        x = Value(FLOAT, ops.Unary("i64_to_f64", left.ir))
        y = Value(FLOAT, ops.Unary("i64_to_f64", right.ir))
    ir = ops.Binary(FLOAT_OPS["*" if op == "of" else op], x.ir, y.ir)
    part = percent.kept(op, left, right)
    return single.narrowed((x, y), Value(FLOAT, ir, span, series=series, percent=part))


DONE = {"+": "added", "-": "subtracted"}
COUNTED = {"price": "ticks of ", "qty": "lots of ", "money": ""}


def _mixed_error(cx: Context, op: str, left: Value, right: Value) -> Value:
    what = left.type.kind
    text = cx.module.source.text
    x, y = (text[slice(*side.span)] for side in (left, right))
    counted = COUNTED[what]
    if what == "money":
        message, help_ = "money of two currencies", "convert one with a rate of your own, as floats"
    else:
        message = f"{what} of two instruments"
        help_ = f"for a statistic use float({x}) {op} float({y}), or logarithms"
    return cx.error(
        "QD0302",
        f"{message} cannot be {DONE.get(op, 'compared')}",
        right.span,
        note=f"counted in {counted}{right.type.of}",
        labels=(Label(left.span, f"counted in {counted}{left.type.of}"),),
        help=help_,
    )


def _fixed(cx: Context, op: str, left: Value, right: Value) -> Value | None:
    """The exact result of two fixed values or ints, or None where the result is a float."""
    lk, rk = left.type.kind, right.type.kind
    if lk == rk == "int":
        return _ints(op, left, right, exact=cx.kernel)
    result: Type | None = None
    unit = left.unit or right.unit
    if op in ("+", "-"):
        if _same_family(left, right) and lk in FIXED:
            result = DURATION if lk == "time" else left.type if left.type.of else right.type
            if lk == "time" and op == "+":
                return None
        elif (lk, rk) in (("price", "ticks"), ("time", "duration")):
            result, unit = left.type, left.unit
        elif op == "+" and (lk, rk) in (("ticks", "price"), ("duration", "time")):
            result, unit = right.type, right.unit
    elif op == "*":
        if rk == "int" and lk in ("qty", "money", "duration", "ticks"):
            result, unit = left.type, left.unit
        elif lk == "int" and rk in ("qty", "money", "duration", "ticks"):
            result, unit = right.type, right.unit
        elif {lk, rk} == {"price", "qty"} and left.type.of == right.type.of:
            return _notional(cx, left, right)
    if result is None:
        return None
    ir = ops.Binary(INT_OPS[op], left.ir, right.ir)
    return Value(result, ir, unit=unit)


def _notional(cx: Context, left: Value, right: Value) -> Value:
    product = ops.Binary("imul", left.ir, right.ir)
    per = cx.units.tick_lot(cx, left.type.of, left.span)
    return Value(money(), ops.Binary("imul", product, per), unit=cx.units.money(cx))


def _ints(op: str, left: Value, right: Value, *, exact: bool) -> Value | None:
    if op == "mod":
        top = sizes.sub(right.high, 1) if right.high is not None and (right.low or 0) > 0 else None
        low = 0 if top is not None else None
        return Value(INT, ops.Binary("imod", left.ir, right.ir), low=low, high=top)
    if op not in INT_OPS:
        return None
    ir = ops.Binary(INT_OPS[op], left.ir, right.ir)
    if isinstance(left.const, int) and isinstance(right.const, int):
        total = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}[op](left.const, right.const)
        if INT_MIN <= total <= INT_MAX:
            return Value(INT, ops.i64(total), low=total, high=total, const=total)
    low, high = _interval(op, left, right)
    known = low is not None and left.high is not None and right.high is not None
    if exact and op == "*" and known and high is None:
        assert left.high is not None
        assert right.high is not None
        high = sizes.product(left.high, right.high)  # an index of blocks is made of such
    return Value(INT, ir, low=low, high=high)


def _interval(op: str, a: Value, b: Value) -> tuple[int | None, ops.Size | None]:
    low: int | None = None
    high: ops.Size | None = None
    if _may_wrap(op, a, b):
        return None, None
    if op == "+":
        low = a.low + b.low if a.low is not None and b.low is not None else None
        high = sizes.add(a.high, b.high) if a.high is not None and b.high is not None else None
    elif op == "-":
        if a.low is not None and isinstance(b.high, int):
            low = a.low - b.high
        elif _span_proven(a, b):
            low = 0
        high = sizes.sub(a.high, b.low) if a.high is not None and b.low is not None else None
    elif a.low is not None and b.low is not None and a.low >= 0 and b.low >= 0:
        low = a.low * b.low
        high = sizes.times(a.high, b.high) if a.high is not None and b.high is not None else None
    return low, high


def _may_wrap(op: str, a: Value, b: Value) -> bool:
    """True when the result may leave 64 bits, where an int starts again at the other end."""
    (a_low, a_high), (b_low, b_high) = _ends(a), _ends(b)
    if op == "+":
        ends = (a_low + b_low, a_high + b_high)
    elif op == "-":
        ends = (a_low - b_high, a_high - b_low)
    else:
        corners = [x * y for x in (a_low, a_high) for y in (b_low, b_high)]
        ends = (min(corners), max(corners))
    return ends[0] < INT_MIN or ends[1] > INT_MAX


def _ends(value: Value) -> tuple[int, int]:
    """The least and the largest int that the value may be; no size is above the longest window."""
    low = value.low if value.low is not None else INT_MIN
    if value.high is None:
        return low, INT_MAX
    return low, value.high if isinstance(value.high, int) else SIZE_MAX


def _span_proven(a: Value, b: Value) -> bool:
    """True when a is a size itself and b never exceeds it: a - b >= 0."""
    return isinstance(a.ir, ops.SizeOf) and b.high is not None and sizes.at_most(b.high, a.ir.size)


def _float_mod(cx: Context, left: Value, right: Value) -> Value:
    x, y = as_float(cx, left), as_float(cx, right)
    turns = ops.Unary("floor", ops.Binary("fdiv", x.ir, y.ir))
    ir = ops.Fma(ops.Unary("fneg", turns), y.ir, x.ir)
    return Value(FLOAT, ir, series=joined((x, y)))


def negative(cx: Context, value: Value, span: Span) -> Value:
    """-value."""
    value = plain(cx, value)
    kind = value.type.kind
    if value.bad:
        return value
    if kind == "float":
        const = -value.const if isinstance(value.const, float) else None
        ir = ops.f64(const) if const is not None else ops.Unary("fneg", value.ir)
        part = value.percent
        return Value(value.type, ir, span, series=value.series, const=const, percent=part)
    if kind not in NUMERIC or kind == "time":
        return cx.error("QD0301", f"'-' needs a number, this is {an(value.type)}", span)
    if kind == "int" and isinstance(value.const, int) and value.const != INT_MIN:
        return Value(
            INT,
            ops.i64(-value.const),
            span,
            -value.const,
            -value.const,
            series=value.series,
            const=-value.const,
        )
    low, high = _interval("-", Value(INT, ops.i64(0), low=0, high=0), value)
    return Value(value.type, ops.Unary("ineg", value.ir), span, low, high, value.unit, value.series)


# ---- comparison -------------------------------------------------------------------------------


def compare(cx: Context, op: str, left: Value, right: Value, span: Span) -> Value:
    """left op right as a bool."""
    if left.type.kind == "na" or right.type.kind == "na":
        other = left if right.type.kind == "na" else right
        asked = cx.module.source.text[slice(*other.span)] + (
            " is not na" if op == "!=" else " is na"
        )
        return cx.error(
            "QD0505",
            "nothing equals na, not even na",
            span,
            help=f"write {asked}",
            edit=(span, asked),
        )
    left, right = plain(cx, left), plain(cx, right)
    if left.bad or right.bad:
        return error_value(span)
    if {left.type.kind, right.type.kind} == {"clock", "time"}:
        left, right = coerce(cx, left, TIME), coerce(cx, right, TIME)
    series = joined((left, right))
    lk, rk = left.type.kind, right.type.kind
    if "choice" in (lk, rk):
        return _compare_choice(cx, op, left, right, span)
    if lk in ("bool", "enum") or rk in ("bool", "enum"):
        return _compare_words(cx, op, left, right, span)
    if lk == rk == "int" or (_same_family(left, right) and lk in FIXED):
        return Value(BOOL, ops.Binary("i" + COMPARE[op], left.ir, right.ir), span, series=series)
    if _mixed_instruments(left, right):
        return _mixed_error(cx, op, left, right)
    if "time" in (lk, rk) or (lk == "duration") != (rk == "duration"):
        return cx.error("QD0303", f"{an(left.type)} cannot be compared with {an(right.type)}", span)
    if (wrong := percent.cannot_compare(cx, left, right, span)) is not None:
        return wrong
    x, y = single.operands(as_float(cx, left), as_float(cx, right))
    if x.bad or y.bad:
        return error_value(span)
    return Value(BOOL, ops.Binary("f" + COMPARE[op], x.ir, y.ir), span, series=series)


def _compare_choice(cx: Context, op: str, left: Value, right: Value, span: Span) -> Value:
    """A param of words against one of its words."""
    choice, word = (left, right) if left.type.kind == "choice" else (right, left)
    if op not in ("==", "!=") or not isinstance(word.const, str):
        return cx.error(
            "QD0303",
            "a choice is compared with one of its words",
            span,
            help=", ".join(choice.names),
        )
    if word.const not in choice.names:
        return cx.error(
            "QD0201",
            f"{word.const!r} is not one of the choices",
            word.span,
            help="its choices: " + ", ".join(choice.names),
        )
    ir = ops.Binary("i" + COMPARE[op], choice.ir, choice.names[word.const].ir)
    return Value(BOOL, ir, span, series=choice.series)


def _compare_words(cx: Context, op: str, left: Value, right: Value, span: Span) -> Value:
    if left.type != right.type or op not in ("==", "!="):
        return cx.error(
            "QD0303", f"'{op}' cannot compare {an(left.type)} with {an(right.type)}", span
        )
    series = joined((left, right))
    if left.type == BOOL:
        same: ops.Expr = ops.Binary("xor", left.ir, right.ir)
        ir = ops.Unary("not", same) if op == "==" else same
    else:
        ir = ops.Binary("i" + COMPARE[op], left.ir, right.ir)
    return Value(BOOL, ir, span, series=series)


def select(cx: Context, cond: Value, left: Value, right: Value, span: Span) -> Value:
    """left if cond else right."""
    if cond.bad or left.bad or right.bad:
        return error_value(span)
    type_ = common_type(cx, left, right, span)
    if type_.kind == "error":
        return error_value(span)
    x, y = coerce(cx, left, type_), coerce(cx, right, type_)
    low = min(x.low, y.low) if x.low is not None and y.low is not None else None
    high = sizes.larger(x.high, y.high) if x.high is not None and y.high is not None else None
    return Value(
        type_,
        ops.Select(cond.ir, x.ir, y.ir),
        span,
        low,
        high,
        x.unit or y.unit,
        joined((cond, left, right)),
        percent=x.percent and y.percent,
    )


def common_type(cx: Context, left: Value, right: Value, span: Span) -> Type:
    """The type both fit: the same, or float for two numbers, or optional with na."""
    lt, rt = left.type, right.type
    if lt.kind == "na" or rt.kind == "na":
        other = rt if lt.kind == "na" else lt
        if other == F32:
            return F32
        return FLOAT if other.kind in ("na", "float") and not other.optional else other.missing()
    optional = lt.optional or rt.optional
    if F32.of in (lt.of, rt.of) and single.meet(left, right):
        return F32.missing() if optional else F32
    if F32.of in (lt.of, rt.of) and lt.kind in NUMERIC and rt.kind in NUMERIC:
        return FLOAT.missing() if optional else FLOAT
    if lt.plain() == rt.plain():
        return lt.missing() if optional else lt
    if lt.kind == rt.kind and (not lt.of or not rt.of):
        return lt if lt.of else rt
    if lt.kind in NUMERIC and rt.kind in NUMERIC and TIME.kind not in (lt.kind, rt.kind):
        return FLOAT.missing() if optional else FLOAT
    cx.error("QD0301", f"{an(lt)} and {an(rt)} have no common type", span)
    return error_value(span).type
