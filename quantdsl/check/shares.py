"""Shares: plain numbers for a part of a whole, `top = 20%` of all or `min_trade = 0.1%` of equity.

A number of another kind would be read as a share of thousands: 100 USD as 10,000 %.
"""

from fractions import Fraction
from typing import TYPE_CHECKING

from quantdsl.check import arith
from quantdsl.check.arith import an
from quantdsl.check.context import Context
from quantdsl.check.equations import STATE, for_all
from quantdsl.check.literals import FRACTION
from quantdsl.check.values import Value
from quantdsl.ir import ops
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

PLAIN = ("float", "int")
GROSS_NET = ("gross", "net")
FACTOR_READ_AS_PERCENT = 10
"""Nobody holds ten times what there is on purpose, so a bare number from here on meant percent."""


def share(cx: Context, value: Value, arg: ast.Arg, help: str) -> Value:
    """The argument as one float for all instruments; an error where it counts something."""
    number = for_all(cx, arith.as_float(cx, arith.plain(cx, value)), help)
    if number.bad or value.type.kind in PLAIN:
        return number
    return cx.error(
        "QD0301", f"a share is needed here, this is {an(value.type)}", arg.span, help=help
    )


def within(cx: Context, strategy: "Strategy", value: Value, arg: ast.Arg, most: float) -> Value:
    """The share, or an error where it or the range of its param leaves 0 .. most."""
    ends = [] if value.bad else _ends(strategy, value)
    beyond = next((end for end in ends if not 0 <= end <= most), None)
    if beyond is None:
        return value
    percent = 1 <= beyond <= 100 * most and beyond.is_integer()
    meant = f"did you mean {beyond:g}%?" if percent else "such as 20%"
    if not isinstance(value.const, int | float):
        meant = "give the param and its range in percent, such as 20% in 10%..30%"
    return cx.error(
        "QD0308",
        f"a share of all lies in 0% .. {most:.0%}, this is {beyond:,.0%}",
        arg.span,
        help=meant,
    )


def both_sides(cx: Context, strategy: "Strategy", found: dict[str, Value], node: ast.Call) -> bool:
    """False after an error: one where `gross` is below 0, or `net` beyond it, so that what stands
    for a short would be bought."""
    gross, net = (_ends(strategy, found[name]) if name in found else [] for name in GROSS_NET)
    if min(gross, default=0.0) < 0.0:
        told = f"gross is what both sides are together, and this is {min(gross):,.0%}"
        cx.error("QD0308", told, node.span, help="write gross = 100%, and -x to turn sides")
        return False
    if len(gross) == len(net) == 1 and abs(net[0]) > gross[0]:
        least = f"{abs(net[0]):,.0%}"
        told = f"a net of {net[0]:,.0%} needs a gross of {least}, and this is {gross[0]:,.0%}"
        cx.error("QD0308", told, node.span, help=f"write gross = {least} for one side alone")
        return False
    return True


def told_of_all(cx: Context, arg: ast.Arg) -> None:
    """Warn of a bare 1, which reads as one instrument and is a share of all."""
    if isinstance(arg.value, ast.Num) and (arg.value.text, arg.value.unit) == ("1", None):
        cx.warn(
            "QD0308",
            "1 is a share, so this takes all",
            arg.span,
            reason="of a share at least one is taken, however small it is",
            help="for one write a share that is less than two of them, such as 0.1%; for all 100%",
        )


def told_of_factor(cx: Context, node: ast.Expr) -> None:
    """Warn of a bare 150, which reads as percent and is as many times the equity."""
    given = node.operand if isinstance(node, ast.Unary) else node
    if not isinstance(given, ast.Num) or given.unit is not None:
        return
    times = Fraction(given.text)
    if times >= FACTOR_READ_AS_PERCENT:
        cx.warn(
            "QD0308",
            f"{given.text} without % is {float(times):,.0%}",
            node.span,
            help=f"did you mean {given.text}%?",
        )


def _ends(strategy: "Strategy", value: Value) -> list[float]:
    """The least and the largest that a literal or a param may be; nothing of all else."""
    if isinstance(value.const, int | float):
        return [float(value.const)]
    for param in strategy.params:
        place = ops.Field(STATE, param.field)
        if value.ir in (place, ops.Unary("i64_to_f64", place)):
            scale = FRACTION.get(param.unit, 1)
            ends = (param.low, param.default, param.high)
            return [float(end * scale) for end in ends if end is not None]
    return []
