"""`quantdsl compare`: what differs between two finished runs."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
from rich.table import Table
from rich.text import Text

from quantdsl.cli.output import console
from quantdsl.report.metrics import BY_NAME
from quantdsl.report.store import RunInfo, SavedRun, load
from quantdsl.report.words import date, figure, moment, plural

RUN = click.Path(exists=True, file_okay=False, path_type=Path)
SHOWN_TRADES = 5
SHOWN_DIFFERENCES = 20


@click.command("compare")
@click.argument("first", type=RUN)
@click.argument("second", type=RUN, required=False)
@click.option("--data", metavar="PATH", help="Recorded market data; PATH#SYMBOL for one of many.")
@click.option(
    "--all", "everything", is_flag=True, help="Show equal figures and every difference too."
)
def command(first: Path, second: Path | None, data: str | None, everything: bool) -> None:
    """Show what differs between the runs in folders FIRST and SECOND: inputs, figures, trades.

    With --data, FIRST is the journal of a session. The same strategy runs on the recorded data, and
    every order and fill that differs is explained by one cause: latency, queue, missed data, price
    or risk.
    """
    if (second is None) == (data is None):
        what = "name a second run, or --data PATH for the journal of a session"
        raise click.UsageError(what if second is None else f"{what}, and not both")
    if second is None:
        assert data is not None
        _session(first, data, everything=everything)
    else:
        _runs(first, second, everything=everything)


def _session(journal: Path, data: str, *, everything: bool) -> None:
    from quantdsl.cli.replay import parts_of
    from quantdsl.events.layout import Kind
    from quantdsl.live.comparison import against_data

    for session, name in parts_of(journal):
        found, ahead_ns, ticks, symbols = against_data(session, name, data)
        if ahead_ns:
            which = "ahead of" if ahead_ns > 0 else "behind"
            click.echo(
                f"{name}: the session's clock is {abs(ahead_ns):,} ns {which} the recorder's; the "
                "data are told by the session's"
            )
        for kind in (Kind.ORDER, Kind.FILL):
            own = [one for one in found.differences if one.kind == kind]
            causes = Counter(one.cause for one in own)
            told = "".join(f", {count:,} by {cause}" for cause, count in causes.most_common())
            noun = plural(found.same[kind], kind.name.lower())
            click.echo(f"{name}: {noun} the same, {len(own):,} different{told}")
        shown = len(found.differences) if everything else SHOWN_DIFFERENCES
        for one in found.differences[:shown]:
            sides = [
                _what(of, record, ticks)
                for of, record in (("session", one.session), ("data", one.recorded))
            ]
            some = one.session if one.session is not None else one.recorded
            of = f"{symbols[some['instrument']]} " if some is not None and len(symbols) > 1 else ""
            click.echo(
                f"  {one.kind.name.lower():<5} {one.cause:<11} {of}{'; '.join(sides)}: {one.why}"
            )
        if (left := len(found.differences) - shown) > 0:
            click.echo(f"  and {left:,} more; --all shows them")


def _what(of: str, record: Any, ticks: Sequence[float]) -> str:
    """An order or a fill in one of the two runs."""
    from quantdsl.events.layout import NO_PRICE

    if record is None:
        return f"{of} none"
    limit, step = int(record["c"]), ticks[int(record["instrument"])]
    price = f" at {limit * step:.10g}" if abs(limit) < abs(NO_PRICE) else ""
    at_ns = int(record["ts_event"])
    exact = f"{moment(at_ns)}:{at_ns // 1_000_000 % 60_000 / 1_000:06.3f}"
    return f"{of} {int(record['b']):+,} lots{price}, {exact}"


def _runs(first: Path, second: Path, *, everything: bool) -> None:
    one, two = load(first), load(second)
    terminal = console()
    heads = ("", str(first), str(second))
    if inputs := _differing(_inputs(one.info), _inputs(two.info)):
        terminal.print(_table("What was run", heads, inputs))
    else:
        terminal.print("The inputs are the same.")
    if figures := _figures(one, two, everything):
        terminal.print(_table("Figures", (*heads, "difference"), figures))
    else:
        terminal.print("Every figure is the same.")
    for line in _trades(one, two):
        terminal.print(line, soft_wrap=True)


def _inputs(info: RunInfo) -> dict[str, str]:
    """Everything that may make two runs differ, by name."""
    return {
        "strategy": info.strategy,
        "strategy sha256": info.source_sha256[:12],
        "data": info.data,
        "data sha256": info.data_sha256[:12],
        "quantdsl": info.version,
        "instruments": ", ".join(info.instruments),
        "bars": f"{info.bars:,} from {date(info.first_bar_ns)} to {date(info.last_bar_ns)}",
        **{f"param {name}": value for name, value in info.params.items()},
        **{setting.name: setting.value for setting in info.settings},
    }


def _differing(one: Mapping[str, str], two: Mapping[str, str]) -> list[tuple[str, str, str]]:
    names = dict.fromkeys([*one, *two])
    rows = [(name, one.get(name, "-"), two.get(name, "-")) for name in names]
    return [row for row in rows if row[1] != row[2]]


def _figures(one: SavedRun, two: SavedRun, everything: bool) -> list[tuple[str, str, str, str]]:
    """Metrics side by side with their difference, those that differ or all."""
    rows = []
    for name, metric in BY_NAME.items():
        a, b = one.metrics.get(name, math.nan), two.metrics.get(name, math.nan)
        equal = a == b or (math.isnan(a) and math.isnan(b))
        if everything or not equal:
            change = "" if equal else figure(b - a, metric.unit, two.info.currency)
            shown = figure(a, metric.unit, one.info.currency)
            rows.append((metric.title, shown, figure(b, metric.unit, two.info.currency), change))
    return rows


def _table(title: str, heads: Iterable[str], rows: Iterable[tuple[str, ...]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2))
    for index, head in enumerate(heads):
        table.add_column(Text(head), justify="right" if index else "left", overflow="fold")
    for row in rows:
        table.add_row(*[Text(cell) for cell in row])
    return table


TRADE = (
    "entry_time",
    "exit_time",
    "instrument",
    "side",
    "quantity",
    "entry_price",
    "exit_price",
    "profit",
)
"""The columns that make a trade this trade."""


def _trades(one: SavedRun, two: SavedRun) -> list[str]:
    """How many trades the runs share, and the first few that only one of them has."""
    first, second = _counted(one), _counted(two)
    lines = [f"\n{plural((first & second).total(), 'trade')} in both runs"]
    for name, alone in (("first", first - second), ("second", second - first)):
        if alone:
            lines.append(f"{plural(alone.total(), 'trade')} in the {name} run only:")
            lines += [f"  {_line(*trade)}" for trade in list(alone)[:SHOWN_TRADES]]
        if len(alone) > SHOWN_TRADES:
            lines.append(f"  and {len(alone) - SHOWN_TRADES:,} more")
    return lines


def _counted(run: SavedRun) -> Counter[tuple[Any, ...]]:
    """Each trade by its columns, with how often it occurs."""
    columns = [run.trades[name] for name in TRADE]
    plain = [c.cast("int64") if pa.types.is_timestamp(c.type) else c for c in columns]
    return Counter(zip(*[column.to_pylist() for column in plain], strict=True))


def _line(
    entered: int,
    left: int,
    instrument: str,
    side: str,
    quantity: float,
    entry_price: float,
    exit_price: float,
    profit: float,
) -> str:
    size, entry, exit_ = (
        np.format_float_positional(number, trim="-")
        for number in (quantity, entry_price, exit_price)
    )
    return (
        f"{moment(entered)} to {moment(left)}  {instrument} {side} {size}  "
        f"{entry} to {exit_}  profit {profit:,.2f}"
    )
