"""One backtest: a strategy file, data, settings; out comes a `RunResult`.

The host only carries: it writes config and params into the state, streams events in chunks and
drains records. Every decision, fill, fee and metric is made by the compiled core.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

import quantdsl
from quantdsl.backtest import values
from quantdsl.backtest.awaited import answers
from quantdsl.backtest.book_middles import book_middles
from quantdsl.backtest.prepare import NS_PER_DAY, Prepared, prepare
from quantdsl.backtest.program import Run
from quantdsl.backtest.silence import silence
from quantdsl.check import Checked, compile_file
from quantdsl.check.step import CURVE_WORDS
from quantdsl.config import DEFAULT, Resolved
from quantdsl.data.calendar import ALWAYS_OPEN
from quantdsl.data.events import BarTable, Data
from quantdsl.data.tick_data import RunData, TickData
from quantdsl.events import layout
from quantdsl.events.layout import Kind
from quantdsl.report.benchmark import benchmark_of
from quantdsl.report.execution import Execution, Middles, execution_of
from quantdsl.report.result import Plot, RunResult, Setting
from quantdsl.report.words import moment

RUN_END = 2
_LIVE = tuple("live. latency. paper. journal. cockpit. alerts. feed limits.".split())
"""Settings that only a live session has."""
TRADING_DAYS, CALENDAR_DAYS = 252.0, 365.0
_LONG_BARS_A_YEAR = {"w": 52.0, "mo": 12.0, "y": 1.0}
Progress = Callable[[int, int], None]
"""(time done, time in all), in ns of the data."""


def backtest(path: Path, *, progress: Progress | None = None, **options: Any) -> RunResult:
    """The result of running the strategy file `path`; `options` are those of `prepare`.

    `data` is a path or a table (pyarrow, pandas, polars); None is the built-in market. Raises
    SourceError, DataError or ConfigError, each with one message that says how to mend it.
    """
    return run_checked(compile_file(path), path, progress=progress, **options)


def run_checked(
    checked: Checked, path: Path, *, progress: Progress | None = None, **options: Any
) -> RunResult:
    """As `backtest`, of a strategy that is checked already; `options` are those of `prepare`."""
    prepared = prepare(checked, **options)
    bars = carry(prepared.run, prepared.data, progress)
    finished = replace(result(prepared, path, bars), no_trade_reasons=silence(prepared, options))
    if compared := prepared.resolved.config.report.benchmark:
        data = prepared.data
        assert isinstance(data, Data | TickData), "a session has no benchmark"
        against = benchmark_of(compared, finished, data.actions.events)
        finished = replace(finished, benchmark=against)
    return finished


def run_end(ts: int) -> npt.NDArray[np.void]:
    """The last event of a run: what is open is closed or stays, figures are completed."""
    end = np.zeros(1, layout.EVENT)
    end["ts_event"] = end["ts_recv"] = ts
    end["kind"], end["side"] = Kind.SESSION, RUN_END
    return end


def carry(run: Run, data: RunData, progress: Progress | None = None) -> BarTable | None:
    """Feed all of the data, then the end of the run; the bars that passed, where they are those
    of a chart."""
    bars = BarTable(data.rows) if isinstance(data, Data) else None
    first, end = data.span
    last = 0
    for events in data.chunks():
        run.feed(events)
        if bars is not None:
            bars.add(events)
        # A bar is had when it happened; a tick later.
        last = int(max(events["ts_event"][-1], events["ts_recv"][-1]))
        if progress is not None:
            progress(last - first, end - first)
    run.feed(run_end(last))
    return bars


def result(prepared: Prepared, path: Path, bars: BarTable | None = None) -> RunResult:
    """Everything the run left behind; without its `bars` the data are read once more."""
    checked, resolved, data = prepared.checked, prepared.resolved, prepared.data
    run, strategy = prepared.run, prepared.checked.strategy
    curve = run.curve()
    plots = tuple(
        Plot(
            name=plot.name,
            color=plot.color,
            values=curve[:, CURVE_WORDS + n].view(np.float64),
        )
        for n, plot in enumerate(strategy.plots)
    )
    by_name = {param.name: param for param in strategy.params}
    return RunResult(
        strategy=strategy.name,
        source_path=str(path),
        source_text=checked.source.text,
        version=quantdsl.__version__,
        data_name=data.name,
        data_sha256=data.sha256,
        params={name: values.show(by_name[name], value) for name, value in prepared.chosen.items()},
        instruments=tuple(data.instruments),
        currency=resolved.config.account.currency,
        money_digits=data.money_digits,
        periods_per_year=periods_per_year(data),
        records=run.all_records(),
        curve_ts=curve[:, 0],
        curve_equity=curve[:, 1],
        bars=_counted(data.bars_table(0) if bars is None else bars.table(), curve),
        accumulators=run.memory.struct("e.metrics"),
        plots=plots,
        settings=settings_of(resolved, signals=bool(strategy.signals)),
        execution=_execution(prepared),
        notes=(
            *prepared.notes,
            *data.notes,
            *_of_books(prepared),
            *_of_ends(prepared, curve),
            *map(str, answers(checked, run.memory)),
        ),
        warnings=warnings_of(checked, resolved),
        reasons=checked.library.reasons(),
        messages=dict(enumerate(strategy.messages)),
    )


def _of_books(prepared: Prepared) -> Iterator[str]:
    """When a book was no market, and what of it was too far away to be kept."""
    if "USES_BOOK" not in prepared.checked.strategy.uses:
        return
    memory = prepared.run.memory
    for index, one in enumerate(prepared.data.instruments):
        book = f"e.books[{index}]"
        words = {word: int(memory.get(f"{book}.{word}")) for word in ("crossed", "locked")}
        far = sum(int(memory.get(f"{book}.sides[{side}].given_up")) for side in (0, 1))
        said = ", ".join(f"{word} after {n:,} messages" for word, n in words.items() if n)
        if said:
            yield f"{one.symbol}: the book was {said}: no order met it then"
        if far:
            yield f"{one.symbol}: {far:,} levels were more than the book keeps, until a snapshot"


def _of_ends(prepared: Prepared, curve: npt.NDArray[np.int64]) -> Iterator[str]:
    """What is held of instruments whose bars ended before those of others."""
    if prepared.checked.strategy.ticks or not len(curve):
        return
    memory, last_ts = prepared.run.memory, int(curve[-1, 0])
    for index, one in enumerate(prepared.data.instruments):
        ts = int(memory.get(f"e.market[{index}].ts"))
        if ts < last_ts and memory.get(f"e.positions[{index}].lots"):
            yield f"{one.name}: held to the end at the price of {moment(ts)} UTC: no bar came since"


def _execution(prepared: Prepared) -> Execution | None:
    """What became of the orders, where the run is on ticks."""
    data, venue = prepared.data, prepared.resolved.config.venue
    if not data.spec.ticks or isinstance(data, Data):
        return None
    power = f"with a power of {venue.queue_power:g}"
    unused = "" if venue.queue_power == 1.0 else f", not {power}, which is of a proportional one"
    ahead = f" {power}" if venue.queue == "proportional" else unused
    constant = (
        f"an order takes {venue.latency_entry_us:,.15g} microseconds to the venue, and word of it "
        f"{venue.latency_response_us:,.15g} back"
    )
    middles, marks = _middles(prepared)
    assumptions = (
        *(data.latencies.statement() if isinstance(data, TickData) else ()),
        *(() if venue.latency_file else (constant,)),
        f"{venue.latency_feed:g} times the feed's own latency is added to both",
        f"queues: {venue.queue}{ahead}",
        "the data are a recording: orders of the run change nothing in it",
        *((marks,) if marks else ()),
        *(data.said_of_time() if isinstance(data, TickData) else ()),
    )
    return execution_of(prepared.run.all_records(), middles, data.span[1], assumptions)


def _middles(prepared: Prepared) -> tuple[Middles, str]:
    """What fills are marked against, and what is to be said of it."""
    data = prepared.data
    assert not isinstance(data, Data)
    if data.quoted:
        return data.middles, ""
    if "book" in data.spec.ticks:
        return partial(book_middles, data), "mark-outs go by the middle of the book"
    return data.middles, "without quotes mark-outs go by the last trade, or are na"


def periods_per_year(data: RunData) -> float:
    """Day samples in a year: sessions with a bar; without one UTC days, or bars no shorter.

    UTC days are as many as those of a week that have bars: 5 of stocks, 6 of currencies.
    """
    files = [feed.scan.interval for feed in data.feeds] if isinstance(data, Data) else []
    finest = min(files, key=lambda one: one.nominal_ns, default=None)
    if finest is not None and finest.unit in _LONG_BARS_A_YEAR:
        return _LONG_BARS_A_YEAR[finest.unit]
    if data.schedule.named and data.schedule.name != ALWAYS_OPEN:
        return TRADING_DAYS
    if data.schedule.named or not data.clocks or data.clocks[0].nominal_ns < NS_PER_DAY:
        scans = [feed.scan for feed in data.feeds] if isinstance(data, Data) else []
        days = max((scan.days_a_week for scan in scans), default=7)
        return TRADING_DAYS if days == 5 else round(CALENDAR_DAYS * days / 7)
    return _LONG_BARS_A_YEAR.get(data.clocks[0].unit, TRADING_DAYS)


def settings_of(
    resolved: Resolved, *, sweep: bool = False, signals: bool = False
) -> tuple[Setting, ...]:
    """Every effective setting with its source; those of sweeps and of signals where there are any.

    Those of the live engine and of its measurement change nothing here.
    """
    others = (*_LIVE, *(() if sweep else ("sweep.",)), *(() if signals else ("signals.",)))
    return tuple(
        Setting(name=e.key, value=str(e.value), source=e.source)
        for e in resolved.entries
        if e.value not in ("", {}) and not e.key.startswith(others)
    )


def _counted(bars: npt.NDArray[np.void], curve: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
    """The bars from the start of trading on, of which the curve tells: no copy of them."""
    if not len(curve):
        return bars[:0]
    return bars[np.count_nonzero(bars["ts_event"] < curve[0, 0]) :]  # they are in order of time


def warnings_of(checked: Checked, resolved: Resolved) -> tuple[str, ...]:
    """What the checker warns of; that the file states no costs is no news where settings do."""
    costs = any(
        entry.source != DEFAULT and entry.key.startswith(("fees.", "slippage."))
        for entry in resolved.entries
    )
    return tuple(
        f"{finding.code}: {finding.message}"
        for finding in checked.diagnostics
        if not (costs and finding.code == "QD0806")
    )
