"""The session in the terminal, as the page shows it but in one screen of text."""

import threading
from datetime import UTC, datetime

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from quantdsl.cockpit.history import SILENT_S, History
from quantdsl.live.view import InstrumentView, LogLine, Position, Snapshot

REFRESH_S = 0.25
LOG_ROWS, FILL_ROWS, LIST_ROWS = 6, 6, 8
STYLES = {
    "active": "green", "live": "green", "starting": "yellow", "reducing": "yellow",
    "connecting": "yellow", "stale": "red", "down": "red", "halted": "bold red",
    "lost": "bold red", "silent": "bold red",
}  # fmt: skip
LEVELS = {"info": "", "warning": "yellow", "error": "red"}


def show(history: History, stop: threading.Event, console: Console | None = None) -> None:
    """Shows the session until `stop` is set; where there is no terminal, its log line by line."""
    console = console or Console()
    if not console.is_terminal:
        _follow(history, stop, console)
        return
    with Live(view(history), console=console, auto_refresh=False) as live:
        while True:
            ending = stop.wait(REFRESH_S)
            live.update(view(history), refresh=True)
            if ending:
                return


def _follow(history: History, stop: threading.Event, console: Console) -> None:
    number, day = 0, ""
    while True:
        ending = stop.wait(REFRESH_S)
        told = history.told(number)
        number = told.number
        for line in told.log:
            if (own := f"{datetime.fromtimestamp(line.ts / 1e9, UTC):%Y-%m-%d}") != day:
                day = own
                console.print(Text(f"{day}, UTC", "dim"))
            console.print(_line(line), soft_wrap=True)
        if ending:
            return


def view(history: History) -> RenderableType:
    """One screen of the session as it is now."""
    told = history.told(0)
    snapshot = told.snapshot
    log = Group(*(_line(line) for line in told.log[-LOG_ROWS:]))
    if snapshot is None:
        return Group(Text("waiting for the session to speak", style="dim"), log)
    silent = told.age_s > SILENT_S and snapshot.state not in ("stopped", "lost")
    instruments = {one.symbol: one for one in snapshot.instruments}
    parts: list[RenderableType] = [_head(snapshot, silent), _strategies(snapshot)]
    if held := [one for one in snapshot.positions if one.quantity]:
        parts.append(_positions(held, instruments))
    if snapshot.working:
        parts.append(_working(snapshot, instruments))
    if told.fills:
        fills = _table("Last fills", "time symbol side >quantity >price >profit strategy")
        for row in told.fills[-FILL_ROWS:]:
            how = instruments.get(row.symbol, _PLAIN)
            _add(
            fills, _time(row.ts), row.symbol, _side(row.side), _units(row.quantity, how),
                _price(row.price, how), _money(row.profit) if row.profit else "", row.strategy,
            )  # fmt: skip
        parts.append(fills)
    if any(one.signals for one in snapshot.strategies):
        parts.append(_signals(snapshot))
    if snapshot.gauges:
        parts.append(_gauges(snapshot))
    parts += [_feeds(snapshot), log]
    return Group(*parts)


def _head(snapshot: Snapshot, silent: bool) -> RenderableType:
    state = "silent" if silent else snapshot.state
    first = Text.assemble(
        (snapshot.session, "bold"), "  ", (state.upper(), STYLES.get(state, "")),
        (f"  {snapshot.reason}" if snapshot.reason else "", "red"),
        ("  paper trading: no order leaves this machine", "dim"),
    )  # fmt: skip
    second = Text.assemble(
        f"equity {snapshot.equity:,.2f} {snapshot.currency}  profit ", _money(snapshot.profit),
        "  today ", _money(snapshot.profit_today), f"  drawdown {snapshot.drawdown:.2%}",
        (f"  {snapshot.events:,} events, {snapshot.committed:,} on disk", "dim"),
        (f"  {_time(snapshot.ts)} UTC", "dim"),
    )  # fmt: skip
    return Group(first, second)


def _strategies(snapshot: Snapshot) -> Table:
    table = _table("Strategies", "name state >profit >drawdown >orders >fills >refused why")
    for one in snapshot.strategies:
        _add(
            table, one.name, Text(one.state, STYLES.get(one.state, "")), _money(one.profit),
            f"{one.drawdown:.2%}", f"{one.orders:,}", f"{one.fills:,}", f"{one.rejected:,}",
            one.reason,
        )  # fmt: skip
    return table


def _positions(held: list[Position], instruments: dict[str, InstrumentView]) -> Table:
    table = _table("Positions", "symbol >quantity >entry >mark >unrealised strategy")
    for one in held[:LIST_ROWS]:
        how = instruments.get(one.symbol, _PLAIN)
        _add(
            table, one.symbol, _units(one.quantity, how), _price(one.price, how),
            _price(one.mark, how), _money(one.unrealised), one.strategy,
        )  # fmt: skip
    return _cut(table, len(held))


def _working(snapshot: Snapshot, instruments: dict[str, InstrumentView]) -> Table:
    table = _table("Working orders", "symbol side type >left >price since strategy")
    for one in snapshot.working[:LIST_ROWS]:
        how = instruments.get(one.symbol, _PLAIN)
        price = "" if one.price is None else _price(one.price, how)
        _add(
            table, one.symbol, _side(one.side), one.type, _units(one.quantity - one.filled, how),
            price, _time(one.ts), one.strategy,
        )  # fmt: skip
    return _cut(table, len(snapshot.working))


def _signals(snapshot: Snapshot) -> Table:
    table = _table("Signals", "signal >asked >ready >stale >dropped >answer on strategy")
    rows = [(one.name, signal) for one in snapshot.strategies for signal in one.signals]
    for strategy, one in rows[:LIST_ROWS]:
        _add(
            table, one.name, f"{one.asked:,}", f"{one.ready:,}", f"{one.stale:,}",
            f"{one.dropped:,}", f"{one.answer_us:,.0f} us" if one.answer_us else "",
            one.device or "nothing", strategy,
        )  # fmt: skip
    return _cut(table, len(rows))


def _gauges(snapshot: Snapshot) -> Table:
    table = _table("Risk limits", "limit used >value >of strategy")
    nearest = sorted(snapshot.gauges, key=lambda one: one.value / (one.limit or 1), reverse=True)
    for one in nearest[:LIST_ROWS]:
        style = "red" if one.tripped or one.value >= 0.9 * one.limit else "cyan"
        bar = ProgressBar(one.limit or 1, max(one.value, 0), width=20, complete_style=style)
        name = one.name.replace("_", " ") + (" (tripped)" if one.tripped else "")
        limit = f"{one.limit:,.6g} {one.unit}"
        _add(table, name, bar, f"{one.value:,.6g}", limit, one.strategy)
    return _cut(table, len(snapshot.gauges))


def _feeds(snapshot: Snapshot) -> Table:
    table = _table("Feeds", "name state >messages >delay >gaps >reconnects >bad why")
    for one in snapshot.feeds:
        delay = f"{one.delay_ns / 1e6:,.1f} ms" if one.delay_ns else ""
        _add(
            table, one.name, Text(one.state, STYLES.get(one.state, "")), f"{one.messages:,}", delay,
            f"{one.gaps:,}", f"{one.reconnects:,}", f"{one.bad:,}", one.why,
        )  # fmt: skip
    return table


_PLAIN = InstrumentView("", 2, 2)


def _table(title: str, columns: str) -> Table:
    """A table; a column that begins with > is set to the right."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in columns.split():
        right = name.startswith(">")
        table.add_column(
            name.lstrip(">"), justify="right" if right else "left", header_style="dim", no_wrap=True
        )
    return table


def _add(table: Table, *cells: RenderableType) -> None:
    """Adds a row; what is a name or a reason is text, whatever brackets are in it."""
    table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in cells))


def _cut(table: Table, count: int) -> Table:
    if count > LIST_ROWS:
        table.caption = f"and {count - LIST_ROWS} more"
    return table


def _line(line: LogLine) -> Text:
    return Text(f"{_time(line.ts)} {line.source}: {line.text}", LEVELS[line.level])


def _time(ts: int) -> str:
    return f"{datetime.fromtimestamp(ts / 1e9, UTC):%H:%M:%S}"


def _money(value: float) -> Text:
    return Text(f"{value:+,.2f}", "green" if value > 0 else "red" if value < 0 else "")


def _side(side: str) -> Text:
    return Text(side, "green" if side == "buy" else "red")


def _price(value: float, how: InstrumentView) -> str:
    return f"{value:,.{how.price_digits}f}"


def _units(value: float, how: InstrumentView) -> str:
    return f"{value:,.{how.quantity_digits}f}"
