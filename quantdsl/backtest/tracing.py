"""`quantdsl backtest --trace FROM..TO`: what a strategy saw and did, bar by bar.

The strategy is compiled once more, with a record for every branch, and run over all of the data;
what lies between FROM and TO is printed: equations, branches, orders, fills, with source lines.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from quantdsl.backtest.prepare import prepare
from quantdsl.backtest.run import carry, result
from quantdsl.check import check_source
from quantdsl.check.step import CURVE_WORDS
from quantdsl.data.times import parse_instant
from quantdsl.errors import ConfigError
from quantdsl.events.layout import Kind
from quantdsl.lang.source import Source
from quantdsl.report.messages import said
from quantdsl.report.order_words import order_words
from quantdsl.report.result import RunResult


def trace(path: Path, window: str, **options: Any) -> Iterator[str]:
    """The lines of the trace; `window` is FROM..TO, ISO dates or times, TO included."""
    first, dots, last = window.partition("..")
    if not dots:
        raise ConfigError(
            f"--trace {window}: write FROM..TO, such as 2024-01-02T15:00..2024-01-02T16:00"
        )
    source = Source.read(path)
    checked, _ = check_source(source, trace=True)
    assert checked is not None  # the run before this one has compiled it
    prepared = prepare(checked, **options)
    begin, end = (parse_instant(one, prepared.data.spec.tz) for one in (first, last))
    if begin > end:
        raise ConfigError(f"--trace {window}: its end lies before its beginning")
    bars = carry(prepared.run, prepared.data)
    ran = result(prepared, path, bars)
    shown = _Records(ran, source)
    rows = {int(row[0]): row for row in prepared.run.curve()}
    by_ts: dict[int, list[str]] = {ts: [] for ts in rows if begin <= ts <= end}
    inside = (ran.records["ts_event"] >= begin) & (ran.records["ts_event"] <= end)
    for record in ran.records[inside]:
        by_ts.setdefault(int(record["ts_event"]), []).extend(shown.lines(record))
    names = [plot.name for plot in checked.strategy.plots]
    for ts, lines in sorted(by_ts.items()):
        yield f"{np.datetime64(ts, 'ns').astype('datetime64[s]')}"
        if ts in rows:
            yield "  " + _values(names, rows[ts], 10.0**ran.money_digits)
        yield from (f"  {line}" for line in lines)


def _values(names: list[str], row: Any, scale: float) -> str:
    numbers = row[CURVE_WORDS:].copy().view(np.float64)
    parts = [f"{name} = {number:.10g}" for name, number in zip(names, numbers, strict=True)]
    return ", ".join([*parts, f"equity = {row[1] / scale:.2f}"])


class _Records:
    """Says each record in words: prices in currency, quantities in units, the reason, the line."""

    def __init__(self, ran: RunResult, source: Source) -> None:
        self.ran = ran
        self.source = source

    def lines(self, record: Any) -> list[str]:
        """One line; none for a record that another one says already."""
        a, b, c, d, e = (int(record[name]) for name in "abcde")
        kind = Kind(record["kind"])
        instrument = self.ran.instruments[int(record["instrument"])]
        name = f" {instrument.name}" if len(self.ran.instruments) > 1 else ""

        def units(lots: int) -> str:
            return f"{float(lots * instrument.lot):+g}{name}"

        def price(ticks: int) -> str:
            return f"{float(ticks * instrument.tick):g}"

        if kind == Kind.BRANCH:
            text = self.source.line_text(a).strip()
            return [f"line {a}: {'yes' if b else 'no '}  {text}"]
        if kind == Kind.ROUND_TRIP:
            profit = e / 10.0**self.ran.money_digits
            return [f"closed: {units(d)} from {price(b)} to {price(c)}, profit {profit:.2f}"]
        if kind in (Kind.LOG, Kind.RISK):
            return [": ".join(said(self.ran, record))]
        told = order_words(record, self.ran.reasons, units, price, f"exit{name}")
        return [] if told is None else [told]
