"""The data items of a strategy: which instruments, which bars, which session."""

from typing import TYPE_CHECKING

from quantdsl import limits
from quantdsl.check import tick_bars, universe
from quantdsl.check.context import Context
from quantdsl.check.literals import DURATION_NS
from quantdsl.check.market import Clock, Traded
from quantdsl.check.naming import repeated
from quantdsl.check.ticks import BOOK, NEEDED, SOURCES, TickSource
from quantdsl.check.values import PANEL_SHIFT
from quantdsl.lang import ast
from quantdsl.lang.diagnostics import Label

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

LENGTHS = frozenset({*DURATION_NS, "mo", "y"})
"""Units of lengths of time."""

SESSION_TIMES = ("start", "end", "flat_by")


def declare(strategy: "Strategy", node: ast.Data) -> None:
    """Enter one data item."""
    cx = strategy.cx
    repeated(cx, node.args)
    if node.kind == "universe":
        universe.declare(strategy, cx, node)
    elif node.kind in SOURCES:
        _ticks(strategy, cx, node)
    elif node.kind == "instrument":
        _instrument(strategy, cx, node)
    elif node.kind == "bars":
        _bars(strategy, cx, node)
    else:
        _session(strategy, cx, node)


def hold(strategy: "Strategy") -> None:
    """Report what goes not together, and more clocks than fit a word of the engine."""
    cx = strategy.cx
    if strategy.ticks:
        tick_bars.hold(strategy)
    elif strategy.clocks[0].text:
        _coarser(cx, strategy.clocks)
    if strategy.universe is not None:
        _hold_universe(strategy, cx)
    elif strategy.adjust is not None:
        cx.error("QD0216", "'adjust =' is not available yet without a universe", strategy.adjust[1])
    total = len(strategy.instruments) * strategy.width
    if total > limits.CLOCKS:
        cx.error(
            "QD0611",
            "too many instruments and clocks",
            strategy.node.name.span,
            reason=f"the limit is {limits.CLOCKS}; here it is {total}",
        )


def _hold_universe(strategy: "Strategy", cx: Context) -> None:
    """A universe stands for all instruments; of ticks nothing is adjusted."""
    assert strategy.universe is not None
    span = strategy.universe.span
    if strategy.ticks and strategy.adjust is not None:
        where = strategy.adjust[1]
        cx.error("QD0216", "'adjust =' is not available yet for bars built of ticks", where)
    if len(strategy.instruments) != 1 or strategy.instruments[0].symbol:
        cx.error("QD0212", "a strategy has a universe or instruments, not both", span)
    if strategy.width > PANEL_SHIFT // 2:
        cx.error("QD0611", "too many clocks", span, reason=f"the limit is {PANEL_SHIFT // 2}")


# ---- instruments ------------------------------------------------------------------------------


def _instrument(strategy: "Strategy", cx: Context, node: ast.Data) -> None:
    first = node.args[0].value if node.args else None
    if not isinstance(first, ast.Str) or len(node.args) > 1:
        cx.error(
            "QD0212",
            "an instrument is its symbol in quotes, then its name here",
            node.span,
            help='instrument "XNYS:KO" as y',
        )
        return
    name = node.alias.id if node.alias else ""
    if strategy.instruments and (not name or not strategy.instruments[0].name):
        cx.error(
            "QD0212",
            "several instruments each need a name",
            node.span,
            help=f'instrument "{first.value}" as y',
        )
        return
    known = next((t for t in strategy.instruments if name and t.name == name), None)
    if known is not None and node.alias is not None:
        cx.error(
            "QD0208",
            f"{name!r} is defined already",
            node.alias.span,
            help=f"it stands for {known.symbol}; give this one another name",
        )
        return
    strategy.instruments.append(Traded(len(strategy.instruments), name, first.value))


# ---- bars -------------------------------------------------------------------------------------


def _bars(strategy: "Strategy", cx: Context, node: ast.Data) -> None:
    first = node.args[0] if node.args else None
    if first is None or not isinstance(first.value, ast.Num) or first.value.unit is None:
        cx.error("QD0212", "bars need a length", node.span, help="such as 'bars 5m'")
        return
    price = ""
    for arg in node.args[1:]:
        if arg.name == "price":
            price = tick_bars.price_of(cx, arg)
        else:
            _bars_option(strategy, cx, arg)
    text = strategy.module.source.text[slice(*first.span)]
    text = text.replace(" ", "") if first.value.unit in LENGTHS else text
    name = node.alias.id if node.alias else ""
    if strategy.clocks and not _second(strategy, cx, node, text, name):
        return
    strategy.clocks.append(Clock(text, name, node.span, first.value, price))


def _bars_option(strategy: "Strategy", cx: Context, arg: ast.Arg) -> None:
    """`sync = all` waits for every instrument; `timeout =` is how long a live session waits."""
    value = arg.value
    if arg.name == "sync":
        strategy.sync_all = isinstance(value, ast.Name) and value.id == "all"
        if not strategy.sync_all:
            cx.error(
                "QD0212",
                "sync is all",
                arg.span,
                help="write 'sync = all', or leave it out: a bar is used when it closes",
            )
    elif arg.name == "timeout":
        if not isinstance(value, ast.Num) or value.unit not in DURATION_NS:
            cx.error("QD0212", "timeout is a duration", arg.span, help="such as 'timeout = 2s'")
    elif arg.name == "adjust":
        if not isinstance(value, ast.Name) or value.id not in ("splits", "all"):
            cx.error("QD0212", "adjust is splits or all", arg.span)
        strategy.adjust = (value.id if isinstance(value, ast.Name) else "", arg.span)
    elif arg.name is None:
        cx.error(
            "QD0212",
            "bars have one length",
            arg.span,
            help="a second clock is a line of its own, such as 'bars 1d as daily'",
        )
    else:
        cx.error("QD0216", f"'{arg.name} =' is not available yet", arg.span)


def _second(strategy: "Strategy", cx: Context, node: ast.Data, text: str, name: str) -> bool:
    """Whether further bars have a name of their own."""
    if not name:
        cx.error("QD0212", "further bars need a name", node.span, help=f"bars {text} as coarse")
        return False
    if any(clock.name == name for clock in strategy.clocks):
        cx.error(
            "QD0208", f"{name!r} is defined already", node.alias.span if node.alias else node.span
        )
        return False
    return True


def _coarser(cx: Context, clocks: list[Clock]) -> None:
    """Recorded bars have a length of time, and further ones are coarser than the first."""
    for clock in clocks:
        if clock.length is not None and clock.length.unit not in LENGTHS:
            cx.error(
                "QD0221",
                f"bars of {clock.length.text} {clock.length.unit} are built of trades or quotes, "
                "which this strategy does not declare",
                clock.span,
                help="declare 'trades', or give a length of time, such as 'bars 5m'",
            )
            return
        if clock.price:
            cx.error(
                "QD0221",
                "'price =' says of which ticks bars are built, and this strategy declares none",
                clock.span,
                help="declare 'trades', 'quotes' or 'book depth = 10', or leave 'price =' out",
            )
    for clock in clocks[1:]:
        if _length(clock.text) <= _length(clocks[0].text):
            cx.error(
                "QD0212",
                f"bars of {clock.text} are not longer than those of {clocks[0].text}",
                clock.span,
                reason="the first 'bars' is the clock that orders meet, so it is the finest",
                help="put the finest bars first",
            )


def _length(text: str) -> float:
    """A length of time in ns; months and years by their longest."""
    unit = text.lstrip("0123456789._")
    day = DURATION_NS["d"]
    factor = {**DURATION_NS, "mo": 31 * day, "y": 366 * day}[unit]
    return float(text.removesuffix(unit).replace("_", "")) * factor


# ---- ticks ------------------------------------------------------------------------------------


def _ticks(strategy: "Strategy", cx: Context, node: ast.Data) -> None:
    """`quotes`, `trades`, `book depth = N`: of every instrument of the strategy."""
    event = SOURCES[node.kind]
    if event in strategy.ticks.sources:
        first = strategy.ticks.sources[event].span
        cx.error(
            "QD0208",
            f"{node.kind} are declared already"
            if event != BOOK
            else "the book is declared already",
            node.span,
            labels=(Label(first, "here"),),
        )
        return
    if node.alias is not None:
        cx.error(
            "QD0212",
            f"'{node.kind}' has no name of its own",
            node.alias.span,
            help="an instrument has: y.bid, y.trade.price, y.book.microprice()",
        )
    shape = "such as 'book depth = 10'"
    if event != BOOK:
        if node.args:
            cx.error("QD0212", f"'{node.kind}' takes nothing", node.args[0].span)
        strategy.ticks.sources[event] = TickSource(event, node.span)
    else:
        arg = node.args[0] if len(node.args) == 1 else None
        given = arg.value if arg is not None and arg.name == "depth" else None
        plain = isinstance(given, ast.Num) and not given.unit
        depth = cx.expr(given).const if given is not None and plain else None
        if not isinstance(depth, int) or not 1 <= depth <= limits.BOOK_DEPTH:
            cx.error(
                "QD0212",
                "a book says how many levels are looked at",
                node.span,
                help=shape,
                reason=f"from 1 to {int(limits.BOOK_DEPTH):,}",
            )
            depth = 1
        strategy.ticks.sources[event] = TickSource(event, node.span, depth)
    strategy.uses |= NEEDED[event]


# ---- session ----------------------------------------------------------------------------------


def _session(strategy: "Strategy", cx: Context, node: ast.Data) -> None:
    shape = 'session "XNYS", start = 09:35, flat_by = 15:55'
    first = node.args[0].value if node.args else None
    if not isinstance(first, ast.Str):
        cx.error("QD0212", "a session names a calendar", node.span, help=shape)
        return
    if strategy.session:
        cx.error("QD0212", "a strategy has one session", node.span)
        return
    if node.alias is not None:
        cx.error("QD0212", "a session has no name of its own", node.alias.span)
    strategy.session["calendar"] = first.value
    for arg in node.args[1:]:
        if arg.name in SESSION_TIMES and isinstance(arg.value, ast.Time):
            strategy.session[arg.name] = arg.value.seconds
        elif arg.name == "tz" and isinstance(arg.value, ast.Str):
            strategy.session["tz"] = arg.value.value
        else:
            cx.error(
                "QD0212",
                "a session takes start, end, flat_by (times) and tz (a text)",
                arg.span,
                help=shape,
            )
    times = [
        strategy.session[name] for name in ("start", "flat_by", "end") if name in strategy.session
    ]
    if times != sorted(times):
        cx.error(
            "QD0212",
            "start, flat_by and end of a session stand in this order of time",
            node.span,
            help=shape,
        )
