"""What a run is compared with: its own first instrument held, or the prices of a file."""

from pathlib import Path

import numpy as np

from quantdsl.data.events import open_data
from quantdsl.data.spec import DataSpec, SourceSpec
from quantdsl.events.layout import Kind
from quantdsl.report.result import Benchmark, Float64s, Int64s, RunResult

HOLD = "hold"
STALE_NS = 7 * 86_400_000_000_000
"""A price older than a week says nothing of today: the file has ended, or has a hole."""


def benchmark_of(choice: str, result: RunResult) -> Benchmark:
    """`hold`, or a file of bars: its level at the start of the run and at each day sample.

    Raises DataError or ConfigError where the file cannot be read.
    """
    if choice == HOLD:
        return Benchmark(name=HOLD, levels=_held(result))
    path = Path(choice)
    source = SourceSpec(symbol=path.stem, source=choice)
    bars = open_data(DataSpec(instruments=(source,))).bars_table(0)
    moments = np.append(result.curve_ts[:1], result.of_kind(Kind.DAY)["ts_event"])
    levels = _as_of(moments, bars["ts_event"], bars["close"].astype(np.float64))
    return Benchmark(name=path.stem, levels=levels)


def _held(result: RunResult) -> Float64s:
    """The first open and then the close of each day, in ticks: only ratios matter."""
    closes = result.of_kind(Kind.DAY)["d"].astype(np.float64)
    return np.append(result.bars["open"][:1].astype(np.float64), closes)


def _as_of(moments: Int64s, ts: Int64s, closes: Float64s) -> Float64s:
    """The last close at or before each moment, NaN where there is none of the week before."""
    at = np.maximum(np.searchsorted(ts, moments, side="right") - 1, 0)
    age = moments - ts[at]
    return np.where((age >= 0) & (age <= STALE_NS), closes[at], np.nan)
