"""The description of signals in the terminal."""

import math

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from quantdsl.report.signal_report import SignalReport
from quantdsl.report.signal_study import HORIZONS, LEVELS
from quantdsl.report.words import UNDEFINED, date, plural

LOW, QUARTER, MEDIAN, REST, HIGH = map(LEVELS.index, (0.05, 0.25, 0.5, 0.75, 0.95))


def show(report: SignalReport, console: Console) -> None:
    """Print what was described, the distributions, and what the signals foretell."""
    console.print(heading(report))
    console.print(_distribution(report))
    console.print(_levels(report))
    console.print(_foretold(report))
    console.print(_spread(report))
    console.print(Text(said_of_returns(report), style="dim"))


def heading(report: SignalReport) -> Text:
    """Strategy, instruments, span and params in one or two lines."""
    names = ", ".join(report.instruments[:4])
    if len(report.instruments) > 4:
        names = plural(len(report.instruments), "instrument")
    found = Text.from_markup(f"[bold]{escape(report.strategy)}[/bold] on {escape(names)}")
    found.append(f" · {date(report.start_ns)} to {date(report.end_ns)} · ")
    found.append(plural(report.rows, "row"))
    if report.params:
        found.append("\n" + ", ".join(f"{k} = {v}" for k, v in report.params.items()), style="cyan")
    return found


def said_of_returns(report: SignalReport) -> str:
    """What the figures of the forward return are, and are not."""
    where = (
        "across instruments at each instant, then averaged over time"
        if report.across
        else "along the bars of each instrument, so in hindsight"
    )
    return (
        f"Correlations and fifths are {where}. Forward returns are of the future and exist in "
        "this description alone: no signal sees them. t: how far from chance, overlapping returns "
        "counted once (docs/signals.md)."
    )


def number(value: float, digits: int = 4) -> str:
    """A figure in so many significant digits, or whole where that is shorter."""
    if math.isnan(value):
        return UNDEFINED
    whole = 10**digits <= abs(value) < 1e6
    return f"{value:,.0f}" if whole else f"{value:.{digits}g}"


def percent(value: float, digits: int = 2) -> str:
    """A share as '12.34 %'."""
    return UNDEFINED if math.isnan(value) else f"{value * 100:z.{digits}f} %"


def ratio(value: float, digits: int = 3) -> str:
    """A correlation or a t with fixed digits."""
    return UNDEFINED if math.isnan(value) else f"{value:z.{digits}f}"


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0)
    )
    table.add_column("Signal", no_wrap=True, overflow="ellipsis", min_width=6)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _distribution(report: SignalReport) -> Table:
    table = _table("\nDistribution", *"Coverage Mean Std Skew Kurtosis Autocorr. Turnover".split())
    for one in report.studies:
        level = [percent(one.coverage, 1), number(one.mean), number(one.std)]
        shape = [ratio(one.skew, 2), ratio(one.kurtosis, 2)]
        table.add_row(one.name, *level, *shape, ratio(one.autocorrelation[0]), ratio(one.turnover))
    return table


def _levels(report: SignalReport) -> Table:
    shown = (LOW, QUARTER, MEDIAN, REST, HIGH)
    table = _table("\nQuantiles", "min", *(f"{LEVELS[n] * 100:g}%" for n in shown), "max")
    for one in report.studies:
        values = (one.least, *(one.quantiles[n] for n in shown), one.most)
        table.add_row(one.name, *map(number, values))
    return table


def _foretold(report: SignalReport) -> Table:
    title = "\nRank correlation with the return over so many bars (and its t)"
    table = _table(title, *map(str, HORIZONS))
    for one in report.studies:
        cells = [f"{ratio(f.spearman)} ({ratio(f.spearman_t, 1)})" for f in one.foretold]
        table.add_row(one.name, *cells)
    return table


def _spread(report: SignalReport) -> Table:
    title = "\nReturn of the highest fifth less the lowest"
    table = _table(title, *map(str, HORIZONS))
    for one in report.studies:
        table.add_row(one.name, *(percent(f.spread, 3) for f in one.foretold))
    return table
