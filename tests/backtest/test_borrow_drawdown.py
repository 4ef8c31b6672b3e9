"""What borrowing shares costs is in the drawdown, on the day on which it is charged."""

import numpy as np
import pyarrow as pa
import pytest

import quantdsl
from tests.backtest.test_every_target import assert_one_hash
from tests.backtest.test_lane_entry import checked_text

TEXT = """language 1
strategy Borrowed:
    bars 1d

    param part = 50% in 10%..90% step 10%

    on bar:
        if flat:
            short(value = part of equity)

    risk:
        max_notional = 1_000% of equity

    backtest:
        fees   = 0bps
        borrow = 36.525%
"""


def days(close):
    dates = np.datetime64("2024-01-01") + np.arange(len(close))
    columns = dict.fromkeys(("open", "high", "low", "close"), close)
    return pa.table({"time": [str(d) for d in dates], **columns, "volume": [1_000] * len(close)})


def drawdown(equity):
    peak = np.maximum.accumulate(equity)
    return -np.max((peak - equity) / peak)


def test_the_last_charge_counts_where_the_price_stands_still():
    result = quantdsl.compile(TEXT).backtest(days([100.0] * 30))
    # 500 shares at 100 cost a thousandth a day, from the second day of the position on.
    assert result.metrics["financing"] == pytest.approx(28 * 50.0)
    assert result.metrics["max_drawdown"] == pytest.approx(-28 * 50.0 / 100_000.0, abs=1e-12)
    assert result.metrics["max_drawdown_money"] == pytest.approx(-28 * 50.0)


@pytest.mark.parametrize("seed", [8, 9, 10])
def test_it_is_that_of_days_where_bars_are_days(seed):
    """A peak still held what the day had been charged for."""
    random = np.random.default_rng(seed)
    close = np.round(100 * np.exp(np.cumsum(random.normal(-0.002, 0.01, 300))), 2)
    result = quantdsl.compile(TEXT).backtest(days(close))
    equity = np.array([100_000.0, *result.days.column("equity").to_pylist()])
    assert result.metrics["max_drawdown"] == pytest.approx(drawdown(equity), abs=1e-12)


def test_every_target_leaves_the_same_bits():
    assert_one_hash(checked_text(TEXT), 900)
