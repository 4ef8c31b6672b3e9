"""What a test feeds a strategy on ticks: mids with a spread and a size, and trades."""

from fractions import Fraction
from typing import TYPE_CHECKING

from msgspec import Struct, field

from quantdsl.check.bindings import unknown
from quantdsl.check.context import Context
from quantdsl.check.literals import LOTS, UNITS_OF_QTY
from quantdsl.check.params import literal
from quantdsl.check.ticks import TRADE
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

FLAT = {"book": "flat_book", "quotes": "flat_quote"}
"""Data item -> the function that makes one message of it."""

SHAPE = "flat_book(mid = 100.00, spread = 2 ticks, qty = 500 shares)"
AMOUNTS = ("spread", "qty", "size")


class TickFeed(Struct):
    """One message of the touch for each mid; after the n-th of them the n-th trade, 0 for none.

    `spread` is in ticks where `in_ticks`, otherwise a difference of prices; sizes are lots.
    """

    mids: list[Fraction] = field(default_factory=list)
    trades: list[Fraction] = field(default_factory=list)
    spread: Fraction = Fraction(2)
    in_ticks: bool = True
    lots: int = 100
    trade_lots: int = 100
    given: set[str] = field(default_factory=set)


def names(strategy: "Strategy") -> list[str]:
    """What may be fed: prices of the touch there is, and trades where they are declared."""
    found = [name for name in FLAT if name.rstrip("s") in strategy.ticks.sources]
    found += ["mid", "spread", "qty"] if found else []
    return [*found, "trades", "size"] if TRADE in strategy.ticks.sources else found


def feed(strategy: "Strategy", cx: Context, into: TickFeed, binding: ast.Binding) -> bool:
    """Take one `NAME = value` in; False for a list that the caller reads, True when it is done."""
    name = binding.name.id
    if len(strategy.instruments) > 1:
        cx.error(
            "QD0216", "feeding ticks of several instruments is not available yet", binding.span
        )
        return True
    if name not in names(strategy):
        unknown(cx, name, binding.name.span, names(strategy), "to feed")
        return True
    if name in into.given:
        cx.error("QD0208", f"{name!r} is given already", binding.name.span)
        return True
    into.given.add(name)
    if name in FLAT:
        _flat(cx, into, binding, FLAT[name])
        return True
    if name in AMOUNTS:
        _amount(cx, into, name, binding.value)
        return True
    return False


def _flat(cx: Context, into: TickFeed, binding: ast.Binding, function: str) -> None:
    """`flat_book(mid =, spread =, qty =)`: as much at every level of both sides."""
    call = binding.value
    args: dict[str | None, ast.Expr] = {}
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == function:
        args = {arg.name: arg.value for arg in call.args}
    if not set(args) <= {"mid", "spread", "qty"} or "mid" not in args:
        shape = SHAPE.replace("flat_book", function)
        cx.error("QD0215", f"'feed {binding.name.id}' takes {function}(...)", call.span, help=shape)
        return
    mid = literal(cx, args["mid"])
    into.mids = [mid[0]] if mid else []
    for name in ("spread", "qty"):
        if name in args:
            _amount(cx, into, name, args[name])


def _amount(cx: Context, into: TickFeed, name: str, node: ast.Expr) -> None:
    found = literal(cx, node)
    if found is None:
        return
    number, unit = found
    units = {"", "tick", "ticks"} if name == "spread" else {"", *LOTS, *UNITS_OF_QTY}
    whole = number.denominator == 1 or (name == "spread" and unit == "")
    if unit not in units or number <= 0 or not whole:
        wanted = "2 ticks, or 0.02" if name == "spread" else "500 shares"
        cx.error("QD0215", f"a {name} above 0 is fed here, such as {wanted}", node.span)
    elif name == "spread":
        into.spread, into.in_ticks = number, unit != ""
    elif name == "qty":
        into.lots = int(number)
    else:
        into.trade_lots = int(number)
