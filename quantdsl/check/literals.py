"""Numbers with units, from a closed table (language.md section 4)."""

import math
from fractions import Fraction

from msgspec import structs

from quantdsl.check.arith import checked_int
from quantdsl.check.context import Context, elaborates
from quantdsl.check.types import (
    BOOL,
    DURATION,
    FLOAT,
    INT,
    NA,
    SAFE,
    STR,
    TICKS,
    Type,
    money,
)
from quantdsl.check.values import TIMELESS, Value, error_value
from quantdsl.ir import ops
from quantdsl.lang import ast

DURATION_NS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
    "w": 604_800_000_000_000,
}
BEYOND = {"int": (2**63, "2^63"), "duration": (2**62, "146 years")}
"""By kind: what a number in its steps stays below, and in words; SAFE where a kind is not here.

No duration is so long that a time of a market and it wrap in 64 bits.
"""
FRACTION = {"%": Fraction(1, 100), "bps": Fraction(1, 10_000)}
LOTS = frozenset({"lot", "lots"})
UNITS_OF_QTY = frozenset({"share", "shares", "unit", "units", "contract", "contracts"})
PLAIN = frozenset({"bar", "bars", "day", "days"})
COUNTS = LOTS | UNITS_OF_QTY | PLAIN | {"tick", "ticks"}
PLURAL = {unit: f"{unit}s" for unit in COUNTS if f"{unit}s" in COUNTS}
"""The units that are also written of one: `1 lot..5 lots`."""


def converted(value: Fraction, unit: str, other: str) -> Fraction | None:
    """A duration or a fraction in another unit of its kind, exactly; None where it is not one."""
    for table in (DURATION_NS, FRACTION):
        if unit in table and other in table:
            return value * Fraction(table[unit]) / Fraction(table[other])
    return None


def number(node: ast.Num) -> Fraction:
    """The exact decimal as written."""
    return Fraction(node.text)


@elaborates(ast.Num)
def _num(cx: Context, node: ast.Num) -> Value:
    exact, unit = number(node), node.unit
    if unit is None or unit in PLAIN:
        return _plain(cx, node, exact)
    if unit in FRACTION:
        return structs.replace(_float(exact * FRACTION[unit]), percent=True)
    if unit in DURATION_NS:
        return _whole(cx, node, exact * DURATION_NS[unit], DURATION)
    if unit in ("tick", "ticks"):
        return _whole(cx, node, exact, TICKS)
    if unit in LOTS:
        lots = _whole(cx, node, exact, cx.units.default_qty(cx, node.span))
        lots.unit = cx.units.of(cx, lots) if not lots.bad else None
        return lots
    if unit in UNITS_OF_QTY:
        return _units(cx, node, exact)
    if unit == "R":
        return cx.error(
            "QD0216",
            "multiples of the risk (R) are not available yet",
            node.span,
            help="write prices: let r = 2 * ta.atr(14), stop_loss = close - r, "
            "take_profit = close + 2 * r",
        )
    if unit in ("mo", "y"):
        return cx.error(
            "QD0304",
            "months and years have no fixed length",
            node.span,
            help="give the length in days, such as 30 d",
        )
    return _money(cx, exact, unit, node.span)


def _plain(cx: Context, node: ast.Num, exact: Fraction) -> Value:
    if exact.denominator == 1 and not any(mark in node.text for mark in ".eE"):
        whole = int(exact)
        if whole >= 2**63:
            return cx.error(
                "QD0104",
                f"{node.text} does not fit in an int",
                node.span,
                help="write it as a float: add .0",
            )
        return Value(INT, ops.i64(whole), low=whole, high=whole, series=TIMELESS, const=whole)
    return _float(exact)


def _float(exact: Fraction) -> Value:
    value = float(exact)
    return Value(FLOAT, ops.f64(value), series=TIMELESS, const=value)


def _whole(cx: Context, node: ast.Num, exact: Fraction, type_: Type) -> Value:
    if type_.kind == "error":
        return Value(type_, ops.i64(0))
    if exact.denominator != 1:
        return cx.error(
            "QD0304", f"{node.text} {node.unit} is not a whole number of them", node.span
        )
    if past := beyond(type_.kind, exact):
        return cx.error("QD0104", f"{node.text} {node.unit} is {past}", node.span)
    return Value(type_, ops.i64(int(exact)), series=TIMELESS, const=int(exact))


def signed(node: ast.Expr) -> tuple[Fraction, str] | None:
    """The number of a literal with its sign, exactly, and its unit; None of anything else."""
    if isinstance(node, ast.Unary) and node.op in "+-":
        inner = signed(node.operand)
        return (-inner[0], inner[1]) if inner is not None and node.op == "-" else inner
    return (Fraction(node.text), node.unit or "") if isinstance(node, ast.Num) else None


def is_quantity(node: ast.Expr) -> bool:
    """Whether this is a number of shares, units, contracts or lots, with or without a sign."""
    found = signed(node)
    return found is not None and found[1] in LOTS | UNITS_OF_QTY


def beyond(kind: str, steps: Fraction) -> str:
    """Says beyond what a number of this kind lies, in steps of ns, ticks or lots; "" if it fits."""
    most, words = BEYOND.get(kind, (SAFE, "2^53"))
    return f"beyond {words}, which is the most there is" if abs(steps) >= most else ""


def _units(cx: Context, node: ast.Num, exact: Fraction) -> Value:
    """Shares, units and contracts become lots, rounded down to a whole lot."""
    type_ = cx.units.default_qty(cx, node.span)
    if type_.kind == "error":
        return Value(type_, ops.i64(0))
    value = Value(type_, ops.i64(0), series=TIMELESS)
    value.unit = cx.units.of(cx, value)
    assert value.unit is not None
    scaled = ops.Binary("fmul", ops.f64(float(exact)), value.unit.den)
    lots = ops.Unary("floor", ops.Binary("fdiv", scaled, value.unit.num))
    value.ir = checked_int(lots)
    return value


def _money(cx: Context, exact: Fraction, currency: str, span: ast.Span) -> Value:
    if cx.strategy is not None and not cx.strategy.hold_currency(currency, span):
        return error_value(span)
    unit = cx.units.money(cx)
    scaled = ops.Binary("fmul", ops.f64(float(exact)), unit.den)
    ir = checked_int(ops.Unary("rint", scaled))
    return Value(money(currency), ir, unit=unit, series=TIMELESS)


@elaborates(ast.Time)
def _time(cx: Context, node: ast.Time) -> Value:
    return Value(Type("clock"), ops.i64(node.seconds), series=TIMELESS, const=node.seconds)


@elaborates(ast.Str)
def _str(cx: Context, node: ast.Str) -> Value:
    return Value(STR, ops.i64(0), series=TIMELESS, const=node.value)


@elaborates(ast.Bool)
def _bool(cx: Context, node: ast.Bool) -> Value:
    return Value(BOOL, ops.boolean(node.value), series=TIMELESS, const=node.value)


@elaborates(ast.Na)
def _na(cx: Context, node: ast.Na) -> Value:
    return Value(NA, ops.f64(math.nan), series=TIMELESS)


@elaborates(ast.Bad)
def _bad(cx: Context, node: ast.Bad) -> Value:
    return Value(Type("error"), ops.i64(0), series=TIMELESS)
