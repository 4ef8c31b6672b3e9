"""`bars 1m`, `bars 500 ticks`, `bars 10_000 shares`, `bars 1_000_000 USD` beside ticks.

Such bars are built in the core, of the ticks that the strategy sees: of trades where they are
declared, else of the bid or the ask, as `price =` says.
"""

from typing import TYPE_CHECKING

from msgspec import Struct

from quantdsl.check.arith import checked_int
from quantdsl.check.context import Context
from quantdsl.check.literals import DURATION_NS, LOTS, UNITS_OF_QTY, number
from quantdsl.check.market import Clock, Traded
from quantdsl.check.ticks import TRADE
from quantdsl.ir import ops
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

PRICES = ("trade", "bid", "ask")
"""What bars may be built of."""
TIME, TICKS, VOLUME, MONEY = "time", "ticks", "volume", "money"
DAY_NS = DURATION_NS["d"]


class Built(Struct, frozen=True):
    """Bars that are built of ticks: of which event and price, and what of it completes one."""

    clock: int
    event: str
    price: str
    kind: str
    length: ast.Num

    @property
    def length_ns(self) -> int:
        """Of bars of time."""
        return int(number(self.length) * DURATION_NS[self.length.unit or ""])


def price_of(cx: Context, arg: ast.Arg) -> str:
    """`price = trade`, `bid` or `ask`."""
    word = arg.value.id if isinstance(arg.value, ast.Name) else ""
    if word in PRICES:
        return word
    reason = "the middle of a spread lies between two ticks" if word == "mid" else ""
    cx.error("QD0212", f"price is {', '.join(PRICES)}", arg.span, reason=reason)
    return ""


def hold(strategy: "Strategy") -> None:
    """Find of what each of the bars is built; report those that cannot be."""
    cx = strategy.cx
    if strategy.sync_all and strategy.clocks:
        cx.error(
            "QD0216",
            "'sync = all' is not available yet for bars that are built of ticks",
            strategy.clocks[0].span,
            help="each instrument's bar closes by itself: leave 'sync =' out",
        )
    for number_, clock in enumerate(strategy.clocks):
        built = _built(strategy, cx, number_, clock)
        if built is not None:
            strategy.built.append(built)


def _built(strategy: "Strategy", cx: Context, at: int, clock: Clock) -> Built | None:
    assert clock.length is not None
    sources = strategy.ticks.sources
    kind = _kind(clock.length.unit or "")
    price = clock.price or ("trade" if TRADE in sources else "")
    if not price:
        cx.error(
            "QD0221",
            f"bars of {clock.text} are built of trades, which this strategy does not declare",
            clock.span,
            help=f"declare 'trades', or say of which price: bars {clock.text}, price = bid",
        )
        return None
    event = TRADE if price == "trade" else strategy.ticks.touch
    if event not in sources:
        needed = "'trades'" if price == "trade" else "'quotes' or 'book'"
        cx.error(
            "QD0221",
            f"bars of the {price} need {needed}, which this strategy does not declare",
            clock.span,
        )
        return None
    if kind in (VOLUME, MONEY) and event != TRADE:
        cx.error(
            "QD0212",
            f"bars of {clock.text} are built of trades: a quote has no volume",
            clock.span,
            help="leave 'price =' out, or give a time or a number of ticks",
        )
        return None
    built = Built(at, event, price, kind, clock.length)
    return built if _whole(cx, clock, built) else None


def _kind(unit: str) -> str:
    if unit in DURATION_NS or unit in ("mo", "y"):
        return TIME
    if unit in ("tick", "ticks"):
        return TICKS
    return VOLUME if unit in LOTS | UNITS_OF_QTY else MONEY


def _whole(cx: Context, clock: Clock, built: Built) -> bool:
    """Whether a bar can have this length."""
    exact, unit = number(built.length), built.length.unit
    if built.kind == TIME:
        if unit in ("mo", "y") or not 0 < built.length_ns <= DAY_NS:
            cx.error(
                "QD0212",
                "bars that are built of ticks are at most a day long",
                clock.span,
                reason="they begin with a session, and end with it at the latest",
            )
            return False
        return True
    counted = built.kind == TICKS or unit in LOTS
    if exact <= 0 or (counted and exact.denominator != 1):
        cx.error("QD0304", f"no bar has {built.length.text} {unit}", clock.span)
        return False
    return True


def limit(strategy: "Strategy", traded: Traded, built: Built) -> ops.Expr:
    """What completes a bar, as an int: ticks, lots, or money units of the account."""
    exact, unit = number(built.length), built.length.unit or ""
    if built.kind == TICKS or unit in LOTS:
        return ops.i64(int(exact))
    if built.kind == MONEY:
        return strategy.cx.expr(built.length).ir
    lot = strategy.ticks.unit(traded, "lot")
    scaled = ops.Binary("fmul", ops.f64(float(exact)), lot.den)
    return checked_int(ops.Unary("ceil", ops.Binary("fdiv", scaled, lot.num)))
