"""What a run is compared with: its own first instrument held, or the prices of a file."""

from pathlib import Path

import numpy as np

from quantdsl.data.events import open_data
from quantdsl.data.spec import DataSpec, SourceSpec
from quantdsl.events.layout import Action, Kind
from quantdsl.report.result import Benchmark, Float64s, Int64s, RunResult, Structs

HOLD = "hold"
STALE_NS = 7 * 86_400_000_000_000
"""A price older than a week says nothing of today: the file has ended, or has a hole."""
BEFORE_ALL = 0
"""When a run starts whose data end before trading begins."""


def benchmark_of(choice: str, result: RunResult, actions: Structs) -> Benchmark:
    """`hold`, or a file of bars: its level at the start of the run and at each day sample.

    `actions` are those of the run's data. Raises DataError or ConfigError where the file cannot be
    read.
    """
    began = result.curve_ts[:1] if len(result.curve_ts) else [BEFORE_ALL]
    moments = np.append(began, result.of_kind(Kind.DAY)["ts_event"])
    if choice == HOLD:
        return Benchmark(name=HOLD, levels=_held(result, moments, actions))
    path = Path(choice)
    source = SourceSpec(symbol=path.stem, source=choice)
    bars = open_data(DataSpec(instruments=(source,))).bars_table(0)
    levels = _as_of(moments, bars["ts_event"], bars["close"].astype(np.float64))
    return Benchmark(name=path.stem, levels=levels)


def _held(result: RunResult, moments: Int64s, actions: Structs) -> Float64s:
    """What a lot held from the first moment on is worth at each, in ticks, with its splits and
    what it was paid: only ratios matter. NaN where it has no price yet.
    """
    bars, start = result.bars, moments[0]
    prices = np.append(_price_at(bars[:1], start), result.of_kind(Kind.DAY)["d"])
    prices[prices == 0] = np.nan
    one = result.instruments[0]
    tick_money = float(one.tick_value * 10**result.money_digits)
    lots, lots_then, paid = 1.0, np.ones(len(prices)), np.zeros(len(prices))
    own = actions[(actions["instrument"] == 0) & (actions["ts_event"] >= start)]
    for ts, side, (over, under, *_) in own[["ts_event", "side", "payload"]].tolist():
        later = moments > ts  # an action comes after the bars that end at its time
        if side == Action.SPLIT:
            lots *= over / under
            lots_then[later] = lots
        elif side == Action.DIVIDEND:
            paid[later] += lots * over / under / tick_money
        elif before := np.searchsorted(bars["ts_event"], ts, side="right"):
            paid[later] -= lots * bars["close"][before - 1] * over / under
    return prices * lots_then + paid


def _price_at(first: Structs, start: int) -> float:
    """The price as the run begins: the close of the bar that it begins with; where it begins
    within one, as on ticks, that one's open.
    """
    if not len(first) or first["ts_recv"][0] > start:
        return np.nan
    return float(first["close" if first["ts_event"][0] == start else "open"][0])


def _as_of(moments: Int64s, ts: Int64s, closes: Float64s) -> Float64s:
    """The last close at or before each moment, NaN where there is none of the week before."""
    at = np.maximum(np.searchsorted(ts, moments, side="right") - 1, 0)
    age = moments - ts[at]
    return np.where((age >= 0) & (age <= STALE_NS), closes[at], np.nan)
