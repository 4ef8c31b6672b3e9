"""Indicators as a strategy sees them: hoisted, on a param's length, from its first bar on."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from quantdsl.backtest.run import backtest
from tests.std.harness import Bars, Ticks, run
from tests.std.markets import market

N = 400
FIRST = 1
DAY = np.timedelta64(1, "D")

STRATEGY = """language 1

strategy Probe:
    bars 1d
    param n = {n} in 5..60 step 5

    let mean  = ta.sma(close, n)
    let trend = ta.supertrend(3, 10)
    let count = ta.barssince(close > mean)

    on bar:
        if flat and close > mean:
            buy(1 shares)
        elif long and close < mean:
            close_position()

    plot(mean, "sma")
    plot(ta.hma(close, n), "hma")
    plot(ta.ema(close, n, seed = ta.Seed.first), "ema")
    plot(ta.sma(volume, n), "volume")
    plot(ta.stdev(hl2, n), "stdev")
    plot(ta.highestbars(n), "highestbars")
    plot(ta.correlation(high, low, n), "correlation")
    plot(ta.macd(close).hist, "macd")
    plot(ta.rsi(ta.sma(close, 3), n), "rsi")
    plot(ta.mfi(hlc3, n), "mfi")
    plot(ta.median(close, n), "median")
    plot(trend.value, "supertrend")
    plot(count ?? -1.0, "barssince")
    plot(ta.valuewhen(ta.crossover(close, mean), close, 1) ?? -1.0, "valuewhen")
"""


def table(at: Bars) -> pa.Table:
    """The bars as a user's table."""
    days = np.datetime64("2020-01-01", "ns") + np.arange(N) * DAY
    prices = {name: getattr(at, name) / 100 for name in ("open", "high", "low", "close")}
    return pa.table({"time": days, **prices, "volume": at.volume.astype(np.float64)})


def expected(at: Bars, n: int) -> dict[str, Any]:
    """The same series from the indicators alone."""
    close, high, low = at.close / 100, at.high / 100, at.low / 100
    mean = run("ta.sma", src=Ticks(at.close), len=n)
    crossed = run("ta.crossover", x=close, y=mean)
    held = run("ta.valuewhen", cond=crossed, src=close, occurrence=1)
    since = run("ta.barssince", cond=close > mean)
    hlc3 = (at.high + at.low + at.close) / 300
    return {
        "sma": mean,
        "hma": run("ta.hma", src=close, len=n),
        "ema": run("ta.ema", src=close, len=n, seed=FIRST),
        "volume": run("ta.sma", overload=2, src=Ticks(at.volume, 1.0, 1.0), len=n),
        "stdev": run("ta.stdev", src=(at.high + at.low) / 200, len=n),
        "highestbars": run("ta.highestbars", src=high, len=n),
        "correlation": run("ta.correlation", x=high, y=low, len=n),
        "macd": run("ta.macd", src=close)["hist"],
        "rsi": run("ta.rsi", src=run("ta.sma", src=Ticks(at.close), len=3)[2:], len=n),
        "mfi": run("ta.mfi", src=hlc3, len=n, data=at),
        "median": run("ta.median", src=close, len=n),
        "supertrend": run("ta.supertrend", len=10, data=at)["value"],
        "barssince": np.nan_to_num(since, nan=-1.0),
        "valuewhen": np.nan_to_num(held, nan=-1.0),
    }


@pytest.mark.parametrize("n", [5, 20, 60])
def test_plots_equal_the_indicators(n: int, tmp_path: Path) -> None:
    at = market(N)
    path = tmp_path / "probe.qdsl"
    path.write_text(STRATEGY.format(n=n), encoding="utf-8")
    plots = {plot.name: plot.values for plot in backtest(path, data=table(at)).plots}
    for name, want in expected(at, n).items():
        got = plots[name]
        known = ~np.isnan(got)
        assert known.sum() > N - 2 * n - 40, name
        tail = want[-known.sum():]
        np.testing.assert_array_equal(got[known], tail, err_msg=name)
