"""What a strategy on quotes, trades or an order book sees of the market.

A clock of ticks ticks with each message that leaves prices to go by: a quote with both sides that
does not cross or lock, a trade, a book that is valid after the whole message. So nothing that is
read of them is ever na. What is read between two ticks is what the last one left.
"""

from typing import TYPE_CHECKING

from msgspec import Struct

from quantdsl.check.context import Context
from quantdsl.check.market import ENGINE, ONCE, Traded
from quantdsl.check.types import FLOAT, price, qty
from quantdsl.check.values import Series, Unit, Value
from quantdsl.ir import ops
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

QUOTE, TRADE, BOOK = "quote", "trade", "book"
SOURCES = {"quotes": QUOTE, "trades": TRADE, "book": BOOK}
"""Data item -> the event that it brings, which is also the name of its handlers."""

NEEDED = {
    QUOTE: frozenset({"USES_TICKS", "USES_QUOTES"}),
    TRADE: frozenset({"USES_TICKS", "USES_TRADES"}),
    BOOK: frozenset({"USES_TICKS", "USES_BOOK"}),
}
"""What each needs of the core (library.USES)."""

TOUCH, PRINT = ops.StructType("Touch"), ops.StructType("Print")
TOUCH_WORDS = ("bid", "ask", "bid_lots", "ask_lots")
PRINT_WORDS = ("price", "lots", "signed")


def structs() -> dict[str, ops.StructDecl]:
    """The best prices and the trade that the last tick of a clock left, in ticks and lots."""
    return {
        type_.name: ops.StructDecl(
            type_.name, tuple(ops.FieldDecl(name, ops.I64_T) for name in words)
        )
        for type_, words in ((TOUCH, TOUCH_WORDS), (PRINT, PRINT_WORDS))
    }


class TickSource(Struct, frozen=True):
    """`quotes`, `trades` or `book depth = N` (0 for those without a depth)."""

    event: str
    span: ast.Span
    depth: int = 0


class Ticks:
    """The tick sources of a strategy, and where their last tick lies in its state."""

    def __init__(self, strategy: "Strategy") -> None:
        self.strategy = strategy
        self.sources: dict[str, TickSource] = {}
        self.places: dict[tuple[int, str], ops.Field] = {}  # instrument, event -> Touch or Print
        self.stale: ops.Field | None = None  # clocks whose feed is stale since this instant
        self.own_stale: ops.Field | None = None  # on a universe those of an instrument

    def __bool__(self) -> bool:
        return bool(self.sources)

    @property
    def touch(self) -> str:
        """The source of bid and ask: quotes where there are quotes, else the book."""
        return QUOTE if QUOTE in self.sources else BOOK if BOOK in self.sources else ""

    def clock(self, event: str) -> int:
        """The number of a source's clock, after those of bars."""
        return len(self.strategy.clocks) + list(self.sources).index(event)

    def bit(self, instrument: int, event: str) -> int:
        """The bit of a source's clock in masks of clocks."""
        return self.strategy.clock_bit(instrument, self.clock(event))

    def ticks_of(self, clocks: int) -> bool:
        """Whether a mask of a universe's clocks holds one of ticks."""
        own = sum(1 << self.clock(event) for event in self.sources)
        return clocks & own != 0

    def series(self, instrument: int, event: str) -> Series:
        """Defined from the first tick on."""
        bit = self.bit(instrument, event)
        return Series(1 << bit, ((bit, ONCE),))

    def place(self, instrument: int, event: str) -> ops.Field:
        """Where the last tick is kept."""
        key = (instrument, event)
        if key not in self.places:
            type_ = PRINT if event == TRADE else TOUCH
            panel = self.strategy.universe is not None
            self.places[key] = self.strategy.equations.field("t", type_, panel=panel)
        return self.places[key]

    def stale_bits(self) -> ops.Field:
        """The word of the clocks whose feed has become stale at this instant."""
        if self.stale is None:
            self.stale = self.strategy.equations.field("g", ops.I64_T)
            if self.strategy.universe is not None:
                self.own_stale = self.strategy.equations.field("g", ops.I64_T, panel=True)
        return self.stale

    # ---- handlers ----

    def clocks_of(self, cx: Context, node: ast.On) -> int | None:
        """The clocks of `on quote`, `on book(y)`, `on stale(trades)`; None after an error."""
        event, arg = node.event.id, node.arg
        word = arg.id if isinstance(arg, ast.Name) else ""
        if event == "stale":
            if word not in SOURCES:
                sources = ", ".join(SOURCES)
                cx.error(
                    "QD0212",
                    f"'on stale(...)' names one of {sources}",
                    node.event.span,
                    help="such as 'on stale(book):'",
                )
                return None
            event, word, arg = SOURCES[word], "", None
        if event not in self.sources:
            needed = next(name for name, brings in SOURCES.items() if brings == event)
            cx.error(
                "QD0221",
                f"'on {node.event.id}' needs {needed!r}, which this strategy does not declare",
                node.event.span,
                help="declare 'book depth = 10'" if event == BOOK else f"declare {needed!r}",
            )
            return None
        if arg is None:
            return self.strategy.mask(self.clock(event))
        traded = next((t for t in self.strategy.instruments if t.name and t.name == word), None)
        if traded is None:
            cx.error("QD0212", f"'on {event}(...)' names an instrument", arg.span)
            return None
        return 1 << self.bit(traded.index, event)

    def no_bars(self, cx: Context, span: ast.Span) -> None:
        """Say that a strategy on ticks has no bars."""
        cx.error(
            "QD0221",
            "'on bar' needs 'bars', which this strategy does not declare",
            span,
            help="declare 'bars 1m' beside the ticks, or act at times: every 1m",
        )

    # ---- values ----

    def unit(self, traded: Traded, stem: str) -> Unit:
        """How ticks ("tick") or lots ("lot") of an instrument become a float."""
        place = ops.Elem(ops.Field(ENGINE, "instruments"), traded.ir)
        return Unit(ops.Field(place, stem + "_num"), ops.Field(place, stem + "_den"))

    def priced(self, traded: Traded, ir: ops.Expr, series: Series | None) -> Value:
        """Ticks as a price."""
        return Value(price(traded.name), ir, unit=self.unit(traded, "tick"), series=series)

    def sized(self, traded: Traded, ir: ops.Expr, series: Series | None) -> Value:
        """Lots as a quantity."""
        return Value(qty(traded.name), ir, unit=self.unit(traded, "lot"), series=series)

    def in_currency(self, traded: Traded, ticks: ops.Expr, series: Series | None) -> Value:
        """A float number of ticks as a float price."""
        unit = self.unit(traded, "tick")
        ir = ops.Binary("fdiv", ops.Binary("fmul", ticks, unit.num), unit.den)
        return Value(FLOAT, ir, series=series)
