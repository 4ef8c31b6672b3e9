"""The names of a strategy on ticks: what it reads of quotes and trades, and of its own orders."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from quantdsl.check.arith import NAN
from quantdsl.check.bindings import Binding, Local
from quantdsl.check.book import BookBinding
from quantdsl.check.context import Context
from quantdsl.check.functions import BAR_PRICES
from quantdsl.check.market import (
    ENGINE,
    OF_ENTRY,
    OF_INSTRUMENT,
    BarsBinding,
    Computed,
    Traded,
    figures,
    one_of,
)
from quantdsl.check.ticks import BOOK, TRADE, Ticks
from quantdsl.check.types import FLOAT
from quantdsl.check.values import Value, error_value
from quantdsl.events.codes import NO_PRICE
from quantdsl.ir import ops
from quantdsl.lang import ast

if TYPE_CHECKING:
    pass

TOUCH_NAMES = ("bid", "ask", "bid_qty", "ask_qty", "spread", "mid")
TRADE_NAMES = ("price", "qty", "signed_qty")
BAR_NAMES = ("bars", *BAR_PRICES, "volume", "hl2", "hlc3", "ohlc4", "bar_index", "bars_since")


def names_of(ticks: Ticks, traded: Traded) -> "dict[str, Binding | Local]":
    """What can be read of the market of one instrument, and of the orders in it."""
    found: dict[str, Binding | Local] = {}
    for name in TOUCH_NAMES:
        found[name] = Touch(ticks, traded, name) if ticks.touch else Absent(name, TOUCH_OF)
    has_trades, has_book = TRADE in ticks.sources, BOOK in ticks.sources
    found["trade"] = Tape(ticks, traded) if has_trades else Absent("trade", TRADES_OF)
    found["book"] = BookBinding(ticks, traded) if has_book else Absent("book", BOOK_OF)
    found["working"] = Working(ticks, traded)
    for name in () if ticks.strategy.clocks else BAR_NAMES:
        found[name] = Absent(name, BARS_OF, "function" if name == "bars_since" else "value")
    return found


class Read(Binding, ABC):
    """A figure of the last tick: a series."""

    what = "a figure of the market"
    builtin = "value"

    def __init__(self, ticks: Ticks, traded: Traded, name: str) -> None:
        self.ticks = ticks
        self.traded = traded
        self.name = name

    @abstractmethod
    def value(self) -> Value:
        """What the name stands for."""

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """The figure."""
        value = self.value()
        value.span = node.span
        return value


class Touch(Read):
    """bid, ask, bid_qty, ask_qty, spread, mid: of the quotes, else of the book."""

    def value(self) -> Value:
        """Of the last tick with both sides."""
        ticks, traded = self.ticks, self.traded
        place = ticks.place(traded.index, ticks.touch)
        series = ticks.series(traded.index, ticks.touch)
        bid, ask = ops.Field(place, "bid"), ops.Field(place, "ask")
        if self.name == "spread":
            return ticks.priced(traded, ops.Binary("isub", ask, bid), series)
        if self.name == "mid":
            total = ops.Unary("i64_to_f64", ops.Binary("iadd", bid, ask))
            half = ops.Binary("fmul", total, ops.f64(0.5))
            return ticks.in_currency(traded, half, series)
        if self.name in ("bid", "ask"):
            return ticks.priced(traded, bid if self.name == "bid" else ask, series)
        lots = ops.Field(place, self.name.replace("qty", "lots"))
        return ticks.sized(traded, lots, series)


class Print(Read):
    """trade.price, trade.qty, trade.signed_qty."""

    def value(self) -> Value:
        """Of the last trade."""
        ticks, traded = self.ticks, self.traded
        place = ticks.place(traded.index, TRADE)
        series = ticks.series(traded.index, TRADE)
        if self.name == "price":
            return ticks.priced(traded, ops.Field(place, "price"), series)
        word = "signed" if self.name == "signed_qty" else "lots"
        return ticks.sized(traded, ops.Field(place, word), series)


class Tape(Binding):
    """`trade`: the last trade of an instrument."""

    what = "the last trade"
    builtin = "namespace"
    has_members = True

    def __init__(self, ticks: Ticks, traded: Traded) -> None:
        self.ticks = ticks
        self.traded = traded

    def member(self, name: str) -> Binding | None:
        """A figure of it."""
        return Print(self.ticks, self.traded, name) if name in TRADE_NAMES else None

    def members(self) -> list[str]:
        """What may follow the dot."""
        return list(TRADE_NAMES)


class Working(Binding):
    """`working.bid`, `working.ask`: one's own best orders."""

    what = "the working orders"
    builtin = "value"
    has_members = True

    def __init__(self, ticks: Ticks, traded: Traded) -> None:
        self.ticks = ticks
        self.traded = traded

    def member(self, name: str) -> "WorkingPrice | None":
        """The price of a side."""
        return WorkingPrice(self, name) if name in ("bid", "ask") else None

    def members(self) -> list[str]:
        """What may follow the dot."""
        return ["bid", "ask"]


class WorkingPrice(Binding):
    """The highest limit of the buys at work, or the lowest of the sells; na without one."""

    what = "a price of the working orders"

    def __init__(self, working: Working, side: str) -> None:
        self.working = working
        self.side = side

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """The price as a float."""
        ticks, traded = self.working.ticks, self.working.traded
        if not ticks.strategy.acting:
            return cx.error(
                "QD0306",
                "an equation is made of market data and params alone",
                node.span,
                reason="orders belong to handlers",
                help="move this into a handler, such as 'on quote:'",
            )
        if traded.at is not None and not one_of(cx, node.span):
            return error_value(node.span)
        name = cx.fresh("k")
        call = ops.Call(
            ticks.strategy.core(f"engine.working_{self.side}"), (ENGINE, traded.ir)
        )
        cx.emit(ops.Let(name, ops.I64_T, call))
        found = ticks.in_currency(traded, ops.Unary("i64_to_f64", ops.Var(name)), None)
        none = ops.Binary("ieq", ops.Var(name), ops.i64(NO_PRICE))
        return Value(FLOAT, ops.Select(none, NAN, found.ir), node.span)


TOUCH_OF = ("'quotes' or 'book'", "declare 'quotes' or 'book depth = 10'")
TRADES_OF = ("'trades'", "declare 'trades'")
BOOK_OF = ("'book'", "declare 'book depth = 10'")
BARS_OF = ("'bars'", "declare 'bars 1m' beside the ticks, or use mid or trade.price")


class Absent(Binding):
    """A name of the market that the data of this strategy do not have."""

    what = "not in these data"
    has_members = True

    def __init__(self, name: str, source: tuple[str, str], builtin: str = "value") -> None:
        self.name = name
        self.source = source
        self.builtin = builtin

    def _error(self, cx: Context, span: ast.Span) -> Value:
        needed, help_ = self.source
        what = "an indicator of bars" if self.name == "bars" else repr(self.name)
        return cx.error(
            "QD0221",
            f"{what} needs {needed}, which this strategy does not declare",
            span,
            help=help_,
        )

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """An error that says what to declare."""
        return self._error(cx, node.span)

    def member(self, name: str) -> "Absent":
        """What is not there has no parts either: the error is the same."""
        return self

    def call(self, cx: Context, node: ast.Call) -> Value:
        """An error that says what to declare."""
        return self._error(cx, node.span)


class TicksBinding(BarsBinding):
    """An instrument of a strategy on ticks: `y.bid`, `y.position`, `buy(y, ...)`."""

    what = "an instrument"

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """Its bars, where it has any; it is no other value."""
        if self.strategy.clocks:
            return super().read(cx, node)
        return Absent("bars", BARS_OF).read(cx, node)

    def member(self, name: str) -> "Binding | Local | None":
        """A figure of its market, of its bars or of its position."""
        if name in OF_INSTRUMENT:
            return Computed(self.strategy, OF_INSTRUMENT[name], self.instrument)
        if name in OF_ENTRY:
            return figures(self.strategy, self.instrument)[name]
        found = names_of(self.strategy.ticks, self.instrument).get(name)
        return super().member(name) if found is None and self.strategy.clocks else found

    def members(self) -> list[str]:
        """What may follow the dot."""
        own = [*TOUCH_NAMES, "trade", "book", "working", *OF_INSTRUMENT, *OF_ENTRY]
        return [*own, *super().members()] if self.strategy.clocks else own


def bars_alone() -> dict[str, Binding]:
    """The names of ticks in a strategy on bars, which has none; a user may take them."""
    touch: dict[str, Binding] = {
        name: Absent(name, TOUCH_OF, "free") for name in ("bid", "ask", "spread", "mid")
    }
    return {
        **touch,
        "book": Absent("book", BOOK_OF, "namespace"),
        "trade": Absent("trade", TRADES_OF, "namespace"),
        "quote": Absent("quote", TOUCH_OF, "function"),
        "working": Absent("working", TOUCH_OF, "free"),
    }
