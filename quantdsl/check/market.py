"""What a strategy sees of the market and of its own account: names and the IR behind them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from quantdsl.check import civil
from quantdsl.check.bindings import Binding, Local
from quantdsl.check.context import Context
from quantdsl.check.equations import STATE
from quantdsl.check.functions import BAR_PRICES, bars_value
from quantdsl.check.types import BOOL, FLOAT, INT, TIME, Type, money, price, qty
from quantdsl.check.values import Series, Unit, Value, Warm, error_value
from quantdsl.ir import ops
from quantdsl.lang import ast
from quantdsl.lang.ast import Span

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

ENGINE = ops.Field(STATE, "e")
NOW = ops.Field(ENGINE, "now")
TICK_LOT = "money_per_tick_lot"
"""What the core has of an instrument for the money of one lot that moves one tick."""
ONCE = Warm(ops.i64(1), 1)
NEVER = -(2**62)
"""A time before all others: what has never happened lies there, and nothing waits for it."""


class Clock(Struct, frozen=True):
    """`bars 5m as name`; clock 0 is the finest.

    Beside ticks its bars are built of them: `price` says of which, empty where the file does not.
    """

    text: str
    name: str
    span: ast.Span
    length: ast.Num | None = None
    price: str = ""

    @property
    def called(self) -> str:
        """What people call it: its name, else the length of its bars."""
        return self.name or self.text


class Traded(Struct, frozen=True):
    """An instrument of the strategy; `name` is its alias, or empty for the only one."""

    index: int
    name: str
    symbol: str
    at: ops.Expr | None = None  # of a universe: whichever is looked at

    @property
    def ir(self) -> ops.Expr:
        """Its index."""
        return ops.i64(self.index) if self.at is None else self.at


class Units:
    """Ticks, lots and money of the strategy's instruments: read from the engine's state."""

    def __init__(self, strategy: "Strategy") -> None:
        self.strategy = strategy

    def _instrument(self, of: str) -> ops.Elem:
        traded = next(
            (t for t in self.strategy.instruments if t.name == of), self.strategy.instruments[0]
        )
        return ops.Elem(ops.Field(ENGINE, "instruments"), traded.ir)

    def of(self, cx: Context, value: Value) -> Unit:
        """How a count of this value's kind becomes a float."""
        if value.type.kind == "money":
            return self.money(cx)
        if not self.strategy.instruments:
            cx.error("QD0307", "of which instrument? There is no instrument yet", value.span)
            return self.money(cx)
        of = value.type.of or cx.meant
        if not of and len(self.strategy.instruments) > 1:
            cx.error(
                "QD0307",
                "of which instrument? There are several here",
                value.span,
                help="give the amount as a float, or compare prices of one instrument",
            )
        source = self._bars() or self._instrument(of)
        stem = "lot" if value.type.kind == "qty" else "tick"
        return Unit(ops.Field(source, stem + "_num"), ops.Field(source, stem + "_den"))

    def _bars(self) -> ops.Field | None:
        """Of an equation of a universe its bars, which say it too: signals have no engine."""
        strategy = self.strategy
        if strategy.universe is None or not strategy.equating or not strategy.clocks:
            return None
        return next(iter(strategy.bars.values()), None) or strategy.bar(0, 0)

    def default_qty(self, cx: Context, span: ast.Span) -> Type:
        """A bare `100 shares` counts lots of the only instrument, or of the one that is meant."""
        if not self.strategy.instruments:
            return cx.error(
                "QD0307", "shares of which instrument? There is no instrument yet", span
            ).type
        if len(self.strategy.instruments) > 1 and not cx.meant:
            name = self.strategy.instruments[0].name
            return cx.error(
                "QD0307",
                "shares of which instrument? There are several here",
                span,
                help=f"write floor_qty(100, {name}); in buy({name}, 100 shares) and in "
                f"{name}.position > 100 shares it is told",
            ).type
        return qty(cx.meant)

    def money(self, cx: Context) -> Unit:
        """Money units of the account."""
        return Unit(ops.f64(1.0), ops.Field(STATE, "money_scale"))

    def tick_lot(self, cx: Context, of: str, span: Span) -> ops.Expr:
        """Money of one lot moving one tick."""
        universe = self.strategy.universe
        if universe is None or not self.strategy.equating:
            return ops.Field(self._instrument(of), TICK_LOT)
        if universe.worth is None:  # a word of each instrument's own: signals have no engine
            universe.worth = self.strategy.equations.field("m", ops.I64_T, panel=True)
        return universe.worth


class BarsBinding(Binding):
    """Bars of one instrument on one clock: `close`, `y.close`, `daily.close`."""

    what = "the bars of a clock"
    has_members = True

    def __init__(self, strategy: "Strategy", instrument: Traded, clock: int) -> None:
        self.strategy = strategy
        self.instrument = instrument
        self.clock = clock

    @property
    def series(self) -> Series:
        """Defined from the first bar on."""
        bit = self.strategy.clock_bit(self.instrument.index, self.clock)
        return Series(1 << bit, ((bit, ONCE),))

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """The bars as an argument of an indicator."""
        return self.bars(node.span)

    def bars(self, span: Span) -> Value:
        """The bars; of a universe they say themselves what counts are, for signals have no engine.

        Elsewhere the instrument does, which lanes know before they start.
        """
        place = self.strategy.bar(self.instrument.index, self.clock)
        one = self.strategy.universe is None
        source = ops.Elem(ops.Field(ENGINE, "instruments"), self.instrument.ir) if one else None
        return bars_value(place, self.instrument.name, span, self.series, source)

    def member(self, name: str) -> "Binding | Local | None":
        """A price, a mean of prices, the volume; of an instrument also its position and so on."""
        if name in (*BAR_PRICES, "volume", "time", "hl2", "hlc3", "ohlc4"):
            return Local(self.bars((0, 0)).names[name])
        if name in ("adj", "forming"):
            return Later(f"'{name}' prices")
        if self.clock == 0 and name in OF_INSTRUMENT:
            return Computed(self.strategy, OF_INSTRUMENT[name], self.instrument)
        if self.clock == 0 and name in OF_ENTRY:
            return figures(self.strategy, self.instrument)[name]
        clock = next((n for n, c in enumerate(self.strategy.clocks) if c.name == name), None)
        if clock is not None:
            return BarsBinding(self.strategy, self.instrument, clock)
        return None

    def members(self) -> list[str]:
        """What may follow the dot."""
        own = (*OF_INSTRUMENT, *OF_ENTRY) if self.clock == 0 else ()
        return [*BAR_PRICES, "volume", "time", "hl2", "hlc3", "ohlc4", *own]

    def attr(self, cx: Context, node: ast.Attr) -> Value:
        """The value of `y.name`; of `y.flat`, how that is asked of one of several."""
        if self.clock != 0 or node.name not in OF_POSITION:
            return super().attr(cx, node)
        text = cx.module.source.text[slice(*node.value.span)]
        asked = f"{text}.position {OF_POSITION[node.name]} 0"
        what = f"there is no {node.name!r} in {self.what}"
        edit = (node.span, f"({asked})")
        return cx.error("QD0201", what, node.name_span, help=f"write {asked}", edit=edit)


class Later(Binding):
    """A part of the language that this version does not compile."""

    what = "not available yet"
    has_members = True

    def __init__(self, text: str, builtin: str = "value") -> None:
        self.text = text
        self.builtin = builtin

    def _error(self, cx: Context, span: ast.Span) -> Value:
        return cx.error("QD0216", f"{self.text} are not available yet", span)

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """An error that says so."""
        return self._error(cx, node.span)

    def member(self, name: str) -> "Later":
        """What is not there has no parts either: the error is the same."""
        return self

    def call(self, cx: Context, node: ast.Call) -> Value:
        """An error that says so."""
        return self._error(cx, node.span)


# ---- values of the account ---------------------------------------------------------------------


class Account(Struct, frozen=True):
    """A readable figure: the std accessor behind it and the type of what it returns."""

    accessor: str
    type: Callable[[Traded], Type]
    of_instrument: bool
    text: str


OF_POSITION = {"flat": "==", "long": ">", "short": "<"}
"""What a strategy of one instrument asks of it by a word, as comparisons with 0."""
OF_ENTRY = ("pending", "entry_price", "bars_since")
"""What handlers ask of the orders and the entry of an instrument; see `figures`."""

OF_INSTRUMENT: dict[str, Account] = {
    "position": Account(
        "position",
        lambda t: qty(t.name),
        True,
        "Filled position, signed; working orders do not count.",
    ),
    "value": Account(
        "position_value", lambda _: money(), True, "Signed value of the position at the last mark."
    ),
    "open_profit": Account(
        "open_profit",
        lambda _: money(),
        True,
        "Profit of the open position at the last mark, before its fees.",
    ),
}
OF_ACCOUNT: dict[str, Account] = {
    "equity": Account("equity", lambda _: money(), False, "Cash and positions at the last mark."),
    "cash": Account("cash", lambda _: money(), False, "Cash; short sales are in it."),
    "pnl": Account("pnl", lambda _: money(), False, "Change of equity since the start."),
    "day_pnl": Account(
        "day_pnl", lambda _: money(), False, "Change of equity since the day began."
    ),
    "fill_count": Account("fill_count", lambda _: INT, False, "Fills so far."),
    "trade_count": Account("trade_count", lambda _: INT, False, "Round trips closed so far."),
    "order_count": Account("order_count", lambda _: INT, False, "Orders sent so far."),
}


def among_several(strategy: "Strategy", traded: Traded) -> str:
    """The name of an instrument where there are others; the only one goes without saying."""
    return traded.name if len(strategy.instruments) > 1 else ""


def one_of(cx: Context, span: Span) -> bool:
    """Whether there is an instrument that is meant; reports where there are all of a universe."""
    if cx.alone:
        cx.error(
            "QD0307",
            "of which instrument? This runs once for the universe",
            span,
            help="'on bar:' runs for each instrument; rebalance(weight) takes them all",
        )
    return not cx.alone


class Computed(Binding):
    """A figure of the account or of a position; it is no series, so equations cannot read it."""

    what = "a figure of the account"
    builtin = "value"

    def __init__(self, strategy: "Strategy", account: Account, instrument: Traded) -> None:
        self.strategy = strategy
        self.account = account
        self.instrument = instrument

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """The figure as it stands when the handler runs."""
        if cx.home is not None and cx.home is self.strategy.equations and not self.strategy.acting:
            return cx.error(
                "QD0306",
                "an equation is made of market data and params alone",
                node.span,
                reason="position, equity and state belong to handlers",
                help="move this into 'on bar:'",
            )
        if self.account.of_instrument and not one_of(cx, node.span):
            return error_value(node.span)
        args: tuple[ops.Expr, ...] = (ENGINE,)
        if self.account.of_instrument:
            args = (ENGINE, self.instrument.ir)
        ir = ops.Call(self.strategy.core(f"engine.{self.account.accessor}"), args)
        type_ = self.account.type(self.instrument)
        value = Value(type_, ir, node.span)
        if type_.kind in ("qty", "money"):
            value.unit = cx.units.of(cx, value)
        return value


class OfWhich(Binding):
    """What a strategy of several instruments asks of one of them, without its name."""

    what = "a figure of one instrument"
    builtin = "free"  # a name of the user's own means no instrument

    def __init__(self, strategy: "Strategy", name: str) -> None:
        self.strategy = strategy
        self.name = name

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """An error that says how it is asked of one."""
        first, second, *_ = (traded.name for traded in self.strategy.instruments)
        asked = f"{{}}.{self.name}"
        if self.name in OF_POSITION:
            asked = f"{{}}.position {OF_POSITION[self.name]} 0"
        elif self.name == "bars_since":
            asked = "{}.bars_since(entry)"
        return cx.error(
            "QD0307",
            "of which instrument? There are several here",
            node.span,
            help=f"write {asked.format(first)} or {asked.format(second)}",
        )

    def call(self, cx: Context, node: ast.Call) -> Value:
        """The same error."""
        return self.read(cx, node.func)


class Figure(Binding):
    """A value made by a function of the context: flat, long, now, bar_index ..."""

    what = "a figure of the run"
    builtin = "value"

    def __init__(self, make: Callable[[Context], Value], *, of_instrument: bool = False) -> None:
        self.make = make
        self.of_instrument = of_instrument

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """The value here."""
        if self.of_instrument and not one_of(cx, node.span):
            return error_value(node.span)
        return self.make(cx)


def _lots(strategy: "Strategy", traded: Traded) -> ops.Expr:
    """Its position, signed."""
    return ops.Call(strategy.core("engine.position"), (ENGINE, traded.ir))


def figures(strategy: "Strategy", traded: Traded) -> dict[str, Binding | Local]:
    """What handlers ask of a position and its orders: of the only instrument bare, of one of
    several after its name."""

    def pending(cx: Context) -> Value:
        strategy.uses.add("USES_PENDING")
        return Value(BOOL, ops.Call(strategy.core("engine.pending"), (ENGINE, traded.ir)))

    def entry_price(cx: Context) -> Value:
        ticks = ops.Call(strategy.core("engine.entry_ticks"), (ENGINE, traded.ir))
        unit = cx.units.of(cx, Value(price(traded.name), ops.i64(0)))
        ir = ops.Binary("fdiv", ops.Binary("fmul", ticks, unit.num), unit.den)
        return Value(FLOAT if _lots(strategy, traded) in cx.facts else FLOAT.missing(), ir)

    return {
        "pending": Figure(pending, of_instrument=True),
        "entry_price": Figure(entry_price, of_instrument=True),
        "bars_since": Later("bars since a fill, on ticks,", "function")
        if strategy.ticks
        else BarsSince(strategy, traded),
    }


def sides(strategy: "Strategy", traded: Traded) -> dict[str, Binding | Local]:
    """Whether the only instrument is held, and on which side."""

    def is_(op: str) -> Callable[[Context], Value]:
        return lambda _: Value(BOOL, ops.Binary(op, _lots(strategy, traded), ops.i64(0)))

    return {
        "flat": Figure(is_("ieq"), of_instrument=True),
        "long": Figure(is_("igt"), of_instrument=True),
    }


class BarsSince(Binding):
    """bars_since(entry), y.bars_since(entry): bars since the position was opened."""

    what = "a function"
    builtin = "function"

    def __init__(self, strategy: "Strategy", instrument: Traded) -> None:
        self.strategy = strategy
        self.instrument = instrument

    def call(self, cx: Context, node: ast.Call) -> Value:
        """The count; the bar that filled the entry is 0."""
        known = (
            len(node.args) == 1
            and node.args[0].name is None
            and isinstance(node.args[0].value, ast.Name)
            and node.args[0].value.id == "entry"
        )
        if not known:
            return cx.error("QD0308", "bars_since takes entry", node.span, help="bars_since(entry)")
        if not one_of(cx, node.span):
            return error_value(node.span)
        counted = self.strategy.core("engine.bars_since_entry")
        return Value(INT, ops.Call(counted, (ENGINE, self.instrument.ir)), node.span)


class Now(Figure):
    """`now`, and what it is by the calendar: `now.weekday`, `now.hour`."""

    what = "the time of the event"
    has_members = True

    def __init__(self, strategy: "Strategy") -> None:
        super().__init__(lambda _: Value(TIME, NOW))
        self.strategy = strategy

    def member(self, name: str) -> "Civil | None":
        """A figure of the date or of the time of day."""
        return Civil(self.strategy, name) if name in civil.FIGURES else None

    def members(self) -> list[str]:
        """What may follow the dot."""
        return list(civil.FIGURES)

    def attr(self, cx: Context, node: ast.Attr) -> Value:
        """The value of `now.name`; by a name of other tools, how it is said here."""
        if node.name not in civil.ELSEWHERE:
            return super().attr(cx, node)
        what = f"there is no {node.name!r} in {self.what}"
        return cx.error("QD0201", what, node.name_span, help=civil.ELSEWHERE[node.name])


class Civil(Binding):
    """A figure of the calendar at `now`: an int, and in an equation a series.

    Equations step on all ticks of the finest clocks, so that none stands still while time passes.
    """

    what = "a figure of the calendar"

    def __init__(self, strategy: "Strategy", name: str) -> None:
        self.strategy = strategy
        self.name = name

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """The figure as of the last moment before now."""
        strategy = self.strategy
        ir = ops.Call(strategy.core(f"civil.{self.name}"), (NOW, ops.Field(ENGINE, "midnight")))
        low, high = civil.FIGURES[self.name]
        series = None if strategy.acting else _every_tick(strategy)
        return Value(INT, ir, node.span, low, high, series=series)


def _every_tick(strategy: "Strategy") -> Series:
    """The finest bars of all instruments, on ticks all ticks; defined from the first one on."""
    ticks = strategy.ticks
    clocks = [ticks.clock(event) for event in ticks.sources] if ticks else [0]
    every = 0
    for traded in strategy.instruments:
        every |= sum(1 << strategy.clock_bit(traded.index, clock) for clock in clocks)
    return Series(every, ((strategy.clock_bit(0, clocks[0]), ONCE),))


def clock_figures(strategy: "Strategy") -> dict[str, Binding | Local]:
    """Time: now, the session, never."""

    def session_time(name: str) -> Figure:
        return Figure(lambda _: Value(TIME, ops.Field(ENGINE, name)))

    return {
        "now": Now(strategy),
        "session_open": session_time("session_open"),
        "session_close": session_time("session_close"),
        "never": Local(Value(TIME, ops.i64(NEVER), series=Series())),
    }


def bar_index(strategy: "Strategy") -> Figure:
    """Bars of the finest clock before this one: a series."""

    def made(cx: Context) -> Value:
        bit = strategy.clock_bit(0, 0)
        count = strategy.equations.counter(1 << bit)
        return Value(
            INT, ops.Binary("isub", count, ops.i64(1)), series=Series(1 << bit, ((bit, ONCE),))
        )

    return Figure(made)
