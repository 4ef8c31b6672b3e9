"""Params: their type, range and choices, and the word of state each is read from."""

import math
from collections.abc import Set
from fractions import Fraction
from typing import TYPE_CHECKING

from msgspec import Struct

from quantdsl import limits
from quantdsl.check import arith
from quantdsl.check.arith import an
from quantdsl.check.context import Context
from quantdsl.check.literals import (
    DURATION_NS,
    FRACTION,
    LOTS,
    PLAIN,
    PLURAL,
    UNITS_OF_QTY,
    beyond,
    converted,
    signed,
)
from quantdsl.check.signatures import resolve
from quantdsl.check.types import BOOL, DURATION, FLOAT, INT, TICKS, Type, money, qty
from quantdsl.check.values import TIMELESS, Value
from quantdsl.ir import ops
from quantdsl.lang import ast
from quantdsl.lang.words import CURRENCIES

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

COUNTED = ("ticks", "lots")
"""Kinds of params that count whole steps of the instrument."""


class Param(Struct, frozen=True):
    """A declared param.

    `default`, `low`, `high` and `step` are exact decimals in the written unit (`unit`); `choices`
    are words for a param of words or series; `field` is the word of state that holds the value:
    an int where `whole`, or a float. An int is proven from `least` on; it is not lowered further,
    and `held_line`, if any, is the line that forbids it.
    """

    name: str
    kind: str  # int float bool word qty lots money ticks duration
    field: str
    unit: str
    default: Fraction
    low: Fraction | None = None
    high: Fraction | None = None
    step: Fraction | None = None
    log_count: int = 0
    choices: tuple[str, ...] = ()
    span: ast.Span = (0, 0)
    least: Fraction = Fraction(0)
    held_line: int = 0

    @property
    def whole(self) -> bool:
        """True where the state holds an integer."""
        return self.kind in ("int", "bool", "word", "duration", *COUNTED)

    def word(self, value: Fraction) -> int | float:
        """What the state holds where the param has this value: ns of a duration."""
        if self.kind == "duration":
            return int(value * DURATION_NS[self.unit])
        if self.whole:
            return int(value)
        return float(value * FRACTION.get(self.unit, Fraction(1)))


def declare(strategy: "Strategy", cx: Context, node: ast.ParamDecl) -> tuple[Param, Value] | None:
    """The param and the value that its name stands for; None when its errors are reported."""
    if isinstance(node.domain, tuple):
        return _choices(strategy, cx, node, node.domain)
    if isinstance(node.default, ast.Bool):
        if node.domain is not None:
            cx.error("QD0702", "a param that is true or false needs no range", node.domain.span)
            return None
        return _bool(strategy, node, node.default)
    default = _exact(cx, node.default)
    if default is None:
        return None
    number, unit = default
    bounds = _bounds(cx, node, unit)
    if bounds is None:
        return None
    finest, low, high, step, count = bounds
    number, unit = converted(number, unit, finest) or number, finest
    kind = _kind(unit, [number, low, high, step], node)
    if kind == "":
        cx.expr(node.default)  # which says what is wrong with this unit
        return None
    counted = kind in ("int", "duration", *COUNTED)
    if kind != "float" and not _fits(cx, node, kind, unit, (number, step, low, high)):
        return None
    place = strategy.equations.field("p", ops.I64_T if counted else ops.F64_T)
    begin = number if low is None else low
    param = Param(
        node.name.id,
        kind,
        place.name,
        unit,
        number,
        low,
        high,
        step,
        count,
        span=node.name.span,
        least=strategy.lowered.least(node.name.id, begin, ranged=low is not None),
        held_line=strategy.lowered.held_line,
    )
    if low is not None and high is not None and not low <= number <= high:
        shown = f"{_written(low)}..{_written(high)}"
        cx.error(
            "QD0701",
            f"the default {_written(number)} lies outside {shown}",
            node.default.span,
            reason="memory and warm-up follow from the range",
            help="move the default or widen the range",
        )
    elif low is not None and step is not None and ((number - low) / step).denominator != 1:
        cx.warn(
            "QD0701",
            "the default is no point of the range",
            node.default.span,
            reason=f"the points are {_written(low)}, {_written(low + step)} and so on",
            help="move the default or the range, so that a sweep contains it",
        )
    if kind == "money":
        strategy.hold_currency(unit, node.default.span)
    value = _value(strategy, cx, param, place)
    if node.type is not None:
        value.span = node.default.span
        value = arith.coerce(cx, value, resolve(cx, node.type))
    return param, value


def _written(number: Fraction) -> str:
    """An exact decimal as a source has it."""
    return str(number) if number.denominator == 1 else repr(float(number))


def _exact(cx: Context, node: ast.Expr) -> tuple[Fraction, str] | None:
    """A number with its unit in the plural: a range may go from 1 lot to 5 lots."""
    found = literal(cx, node)
    return None if found is None else (found[0], PLURAL.get(found[1], found[1]))


def literal(cx: Context, node: ast.Expr) -> tuple[Fraction, str] | None:
    """A number with its unit, exactly; reports anything else."""
    if (written := signed(node)) is not None:
        return written
    value = cx.expr(node)
    if value.bad:
        return None
    if not isinstance(value.const, int | float) or not math.isfinite(value.const):
        cx.error("QD0702", "a param's default and range are literals", node.span)
        return None
    if value.type not in (INT, FLOAT):  # its word is a count of something that its text alone names
        cx.error(
            "QD0702",
            f"a param's default and range are literals or plain numbers, this is {an(value.type)}",
            node.span,
            help="write the literal, such as 5m; of an enum choices are: in {Side.a, Side.b}",
        )
        return None
    return Fraction(value.const), ""


def _bounds(
    cx: Context, node: ast.ParamDecl, unit: str
) -> tuple[str, Fraction | None, Fraction | None, Fraction | None, int] | None:
    """Low and high end, step and the count of a log range, in the unit that comes first: that of
    the default, or the finest of a range in several, in which all numbers are decimals."""
    if node.domain is None:
        if node.step is not None or node.log is not None:
            cx.error("QD0702", "steps need a range", node.span, help="such as 'in 5..50 step 5'")
            return None
        return unit, None, None, None, 0
    if not isinstance(node.domain, ast.Range):
        cx.error(
            "QD0702",
            "a range or a set of choices stands after 'in'",
            node.span,
            help="such as 'in 5..50 step 5' or 'in {1, 2, 3}'",
        )
        return None
    low, high = _exact(cx, node.domain.low), _exact(cx, node.domain.high)
    step = _exact(cx, node.step) if node.step is not None else None
    if low is None or high is None:
        return None
    ends = [end for end in (low, high, step) if end is not None]
    units = {unit, *(of for value, of in ends if of or value)}
    if len(units) > 1:
        finest = _finest(units)
        if finest is None:
            other = next(of for of in sorted(units) if of != unit)
            cx.error(
                "QD0703",
                f"the range is in {other or 'plain numbers'}, the default in "
                f"{unit or 'plain numbers'}",
                node.domain.span,
            )
            return None
        low, high, *steps = ((converted(*end, finest) or end[0], finest) for end in ends)
        unit, step = finest, steps[0] if steps else None
    if low[0] > high[0]:
        cx.error("QD0703", f"the range {low[0]}..{high[0]} is empty", node.domain.span)
        return None
    if step is not None and step[0] <= 0:
        cx.error("QD0703", "a step is above 0", node.domain.span)
        return None
    count = int(node.log) if node.log and node.log.isdecimal() else 0
    if node.log is not None and (low[0] <= 0 or count < 2):
        cx.error(
            "QD0703",
            "a log range lies above 0 and has a whole number of points, at least 2",
            node.domain.span,
            help="such as 'in 0.01..0.50 log 12'",
        )
        return None
    points = count or (int((high[0] - low[0]) / step[0]) + 1 if step is not None else 1)
    if points > limits.POINTS:
        cx.error(
            "QD0611",
            "this range has too many points",
            node.domain.span,
            reason=f"the limit is {limits.POINTS}; here it is {points:,}",
            help="take wider steps",
        )
        return None
    return unit, low[0], high[0], step[0] if step else None, count


def _finest(units: Set[str]) -> str | None:
    """The finest of several units of one kind."""
    for table in (DURATION_NS, FRACTION):
        if units <= table.keys():
            return min(units, key=lambda one: Fraction(table[one]))
    return None


def _kind(unit: str, numbers: list[Fraction | None], node: ast.ParamDecl) -> str:
    if unit in DURATION_NS:
        return "duration"
    if unit in LOTS:
        return "lots"
    if unit == "ticks":
        return "ticks"
    if unit in UNITS_OF_QTY:
        return "qty"
    if unit in FRACTION:
        return "float"
    if unit and unit not in PLAIN:
        return "money" if unit in CURRENCIES else ""
    texts = [node.default]
    if isinstance(node.domain, ast.Range):
        texts += [node.domain.low, node.domain.high]
    decimal = any(isinstance(t, ast.Num) and any(c in t.text for c in ".eE") for t in texts)
    whole = all(n is None or n.denominator == 1 for n in numbers)
    return "int" if whole and not decimal and not node.log else "float"


def _fits(
    cx: Context, node: ast.ParamDecl, kind: str, unit: str, given: tuple[Fraction | None, ...]
) -> bool:
    """Whether the state holds these numbers: whole where it counts (the last may lie between two
    points of the range), and small enough.
    """
    steps = [n * DURATION_NS.get(unit, 1) if n is not None else Fraction(0) for n in given]
    whole = "nanoseconds" if kind == "duration" else kind
    if kind in ("duration", *COUNTED) and any(n.denominator > 1 for n in steps[:-1]):
        cx.error("QD0702", f"a param in {unit} counts whole {whole}", node.name.span)
        return False
    for at, past in zip(
        (node.default, node.step, node.domain, node.domain),
        (beyond(kind, n) for n in steps),
        strict=True,
    ):
        if past and isinstance(at, ast.Expr):
            cx.error("QD0104", f"this is {past}", at.span)
            return False
    return True


def _value(strategy: "Strategy", cx: Context, param: Param, place: ops.Field) -> Value:
    """What reading the param gives: the word itself, or a count made of it."""
    if param.kind == "duration":
        return Value(DURATION, place, series=TIMELESS)
    if param.kind == "int":
        low = int(param.least)
        high = int(param.high) if param.high is not None else int(param.default)
        return Value(INT, place, low=low, high=high, series=TIMELESS)
    if param.kind == "float":
        return Value(FLOAT, place, series=TIMELESS, percent=param.unit in FRACTION)
    if param.kind == "ticks":
        return Value(TICKS, place, series=TIMELESS)
    if param.kind == "lots":
        lots = Value(qty(""), place, param.span, series=TIMELESS)
        lots.unit = cx.units.of(cx, lots)
        return lots
    type_ = money(param.unit) if param.kind == "money" else qty("")
    value = Value(type_, place, param.span, series=TIMELESS)
    unit = cx.units.of(cx, value)
    value.unit = unit
    amount = Value(FLOAT, place, series=TIMELESS)
    value.ir = arith.from_float(cx, amount, unit, "rint" if param.kind == "money" else "floor")
    return value


def _bool(strategy: "Strategy", node: ast.ParamDecl, default: ast.Bool) -> tuple[Param, Value]:
    place = strategy.equations.field("p", ops.I64_T)
    param = Param(
        node.name.id,
        "bool",
        place.name,
        "",
        Fraction(int(default.value)),
        Fraction(0),
        Fraction(1),
        Fraction(1),
        span=node.name.span,
    )
    return param, Value(BOOL, ops.Binary("ine", place, ops.i64(0)), series=TIMELESS)


def _choices(
    strategy: "Strategy", cx: Context, node: ast.ParamDecl, domain: tuple[ast.Expr, ...]
) -> tuple[Param, Value] | None:
    """A choice of words, numbers or series; the state holds its number."""
    place = strategy.equations.field("p", ops.I64_T)
    texts = [strategy.module.source.text[slice(*choice.span)] for choice in domain]
    default = strategy.module.source.text[slice(*node.default.span)]
    twin = next((n for n, text in enumerate(texts) if text in texts[:n]), None)
    if twin is not None:
        cx.error("QD0208", f"the choice {texts[twin]} is there already", domain[twin].span)
        return None
    if default not in texts:
        cx.error(
            "QD0701",
            f"the default {default} is not one of the choices",
            node.default.span,
            help="choices: " + ", ".join(texts),
        )
        return None
    words = all(isinstance(choice, ast.Str) for choice in domain)
    param = Param(
        node.name.id,
        "word",
        place.name,
        "",
        Fraction(texts.index(default)),
        Fraction(0),
        Fraction(len(texts) - 1),
        Fraction(1),
        choices=tuple(text.strip('"') for text in texts),
        span=node.name.span,
    )
    if words:
        value = Value(Type("choice", param.name), place, series=TIMELESS)
        value.names = {
            text: Value(INT, ops.i64(n), const=n) for n, text in enumerate(param.choices)
        }
        return param, value
    values = [cx.expr(choice) for choice in domain]
    if any(value.bad for value in values):
        return None
    for choice in values:
        if choice.series is None:
            cx.error(
                "QD0702",
                f"a choice is a number, a word or a series, this is {an(choice.type)}",
                choice.span,
            )
            return None
    total = values[-1]
    for number in range(len(values) - 2, -1, -1):
        here = Value(BOOL, ops.Binary("ieq", place, ops.i64(number)), series=TIMELESS)
        total = arith.select(cx, here, values[number], total, node.span)
    if all(isinstance(value.const, int) for value in values):
        known = [int(value.const) for value in values if isinstance(value.const, int)]
        total.low, total.high = min(known), max(known)
    return param, total
