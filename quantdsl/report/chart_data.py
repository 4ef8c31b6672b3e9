"""The arrays that the page draws: thinned so that a million bars stay a small, quick file.

A line keeps the lowest and the highest value of each stretch, so no extreme is lost; bars are
merged into candles of equal numbers of bars. Arrays travel as base64 of little-endian
floats: times as f64 seconds since 1970 (UTC), values as f32.
"""

import base64
from typing import Any

import numpy as np
import numpy.typing as npt

from quantdsl.events.layout import Kind
from quantdsl.report.day_metrics import days_of, quantile
from quantdsl.report.result import Benchmark, Float64s, Int64s, Plot, RunResult
from quantdsl.report.tables import curve_drawdown, trade_numbers

CANDLES_MAX = 40_000
STRETCHES = 2_000  # of a line; each keeps two values
TRADES_MAX = 10_000
NS = 1_000_000_000
NEAR = 1e-9
"""Values closer than that, relative, are one value to a histogram: its bars would have no width."""


def chart_data(result: RunResult) -> dict[str, Any]:
    """Everything the page's script draws, ready for JSON."""
    return {
        "equity": equity_curve(result),
        "price": _price(result),
        "trades": _trades(result),
        "currency": result.currency,
    }


SINGLE, EXACT = "<f4", "<f8"
"""Single precision is for lines that are only seen; what is read as a figure keeps its cents."""


def pack(values: npt.NDArray[Any], kind: str = SINGLE) -> str:
    """Base64 of the little-endian numbers."""
    return base64.b64encode(np.ascontiguousarray(values, np.dtype(kind)).tobytes()).decode()


def _seconds(ts_ns: Int64s) -> str:
    return pack(ts_ns // NS, EXACT)


def thin_rows(n: int) -> Int64s:
    """Rows that give a thinned line its times: two of each stretch, evenly spaced, and the last.

    The chart gives each point the same width, so even spacing is what keeps its time axis true.
    """
    if n <= 2 * STRETCHES:
        return np.arange(n)
    return np.append(np.arange(2 * STRETCHES) * n // (2 * STRETCHES), n - 1)


def thin(values: Float64s) -> Float64s:
    """The values at `thin_rows`: lowest and highest of each stretch as they came, and the last."""
    n = len(values)
    if n <= 2 * STRETCHES:
        return values
    begins = np.arange(STRETCHES) * n // STRETCHES
    stretch = np.repeat(np.arange(STRETCHES), np.diff(begins, append=n))
    firsts = []
    for extreme in (np.minimum, np.maximum):
        among = np.flatnonzero(values == extreme.reduceat(values, begins)[stretch])
        firsts.append(among[np.searchsorted(among, begins)])
    thinned: Float64s = values[np.append(np.sort(np.stack(firsts, axis=1)).ravel(), n - 1)]
    return thinned


def _last_of_second(ts_ns: Int64s) -> slice | npt.NDArray[np.intp]:
    """Picks the last row of each whole second, since the chart's axis counts seconds.

    A slice where that is every row, so that nothing is copied.
    """
    seconds = ts_ns // NS
    last = seconds[1:] != seconds[:-1]
    return slice(None) if last.all() else np.flatnonzero(np.append(last, True))


def equity_curve(result: RunResult) -> dict[str, Any]:
    """Equity, drawdown and the benchmark, if any, over time."""
    start = float(result.money(result.accumulators["equity_first"]))
    level = result.money(result.curve_equity)
    curve = curve_data(result.curve_ts, start, level, curve_drawdown(result))
    if result.benchmark is not None:
        curve["benchmark"] = _benchmark(result, result.benchmark)
    return curve


def curve_data(ts_ns: Int64s, start: float, level: Float64s, under: Float64s) -> dict[str, Any]:
    """A curve of money and its drawdown, thinned."""
    rows = _last_of_second(ts_ns)
    ts = ts_ns[rows]
    return {
        "start": start,
        "time": _seconds(ts[thin_rows(len(ts))]),
        "equity": pack(thin(level[rows]), EXACT),
        "drawdown": pack(thin(under[rows]) * 100.0),
    }


def _benchmark(result: RunResult, benchmark: Benchmark) -> dict[str, Any]:
    """The benchmark as money, as if the starting equity had been put into it at its first price."""
    levels = benchmark.levels
    ts = days_of(result).ts
    known = np.isfinite(levels[1:])
    first = np.append(levels[np.isfinite(levels)], np.nan)[0]
    money = levels[1:] / first * float(result.money(result.accumulators["equity_first"]))
    value = pack(money[known], EXACT)
    return {"name": benchmark.name, "time": _seconds(ts[known]), "value": value}


def _price(result: RunResult) -> dict[str, Any]:
    """Candles of the first instrument at its bars' open times, with the strategy's plots."""
    bars = result.bars
    rows = _last_of_second(bars["ts_recv"])
    bars = bars[rows]
    bars_each = max(1, -(-len(bars) // CANDLES_MAX))
    first = np.arange(0, len(bars), bars_each)
    last = np.append(first[1:], len(bars))[: len(first)] - 1
    tick = result.instruments[0].tick
    price = {
        "open": bars["open"][first],
        "high": np.maximum.reduceat(bars["high"], first) if len(first) else first,
        "low": np.minimum.reduceat(bars["low"], first) if len(first) else first,
        "close": bars["close"][last],
    }
    scaled = {name: ticks * tick.numerator / tick.denominator for name, ticks in price.items()}
    lowest, highest = (scaled["low"].min(), scaled["high"].max()) if len(first) else (0.0, 0.0)
    return {
        "symbol": result.instruments[0].name,
        "bars_each": bars_each,
        "tick": float(tick),
        "time": _seconds(bars["ts_recv"][first]),
        **{name: pack(values) for name, values in scaled.items()},
        "plots": [_plot(plot, values, lowest, highest) for plot, values in _at(result, rows, last)],
    }


def _at(result: RunResult, rows: Any, last: Any) -> list[tuple[Plot, Float64s]]:
    """The plots where the candles close: a row of the curve is a bar, but not in a run on ticks."""
    if result.execution is None:
        return [(plot, plot.values[rows][last]) for plot in result.plots]
    closes = result.bars["ts_event"][rows][last]
    at = np.searchsorted(result.curve_ts, closes, "right") - 1
    return [(plot, plot.values[np.maximum(at, 0)]) for plot in result.plots]


def _plot(plot: Plot, values: Float64s, lowest: float, highest: float) -> dict[str, Any]:
    """One line; it shares the price's scale if it lies near it, else it gets its own pane."""
    known = values[np.isfinite(values)]
    middle = quantile(known, 0.5) if len(known) else lowest
    return {
        "name": plot.name,
        "color": plot.color if plot.color.isalpha() else "",
        "on_price": bool(lowest * 0.5 <= middle <= highest * 1.5),
        "value": pack(values),
    }


def _trades(result: RunResult) -> dict[str, Any]:
    """The first TRADES_MAX round trips, column by column."""
    rows = result.of_kind(Kind.ROUND_TRIP)
    columns = trade_numbers(result)
    columns["bars"] = columns.pop("exit_bar") - columns.pop("entry_bar")
    shown = rows[:TRADES_MAX]
    names = [instrument.name for instrument in result.instruments]
    return {
        "total": len(rows),
        "entry": _seconds(shown["a"]),
        "exit": _seconds(shown["ts_recv"]),
        "instrument": [names[number] for number in shown["instrument"].tolist()],
        "side": ["long" if lots > 0 else "short" for lots in shown["d"].tolist()],
        **{name: pack(values[:TRADES_MAX], EXACT) for name, values in columns.items()},
    }


def borders(low: float, high: float) -> tuple[float, float]:
    """Between what a histogram of values from low to high is drawn, so that bars have a width."""
    if high - low > NEAR * max(abs(low), abs(high)):
        return low, high
    pad = max(abs(low), 1.0) * 0.5
    return low - pad, high + pad
