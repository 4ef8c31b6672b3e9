"""Orders that are sent while a bar is under way meet the close of that bar, and no older price."""

import pyarrow as pa
import pytest

import quantdsl
from quantdsl.backtest.prepare import arrange
from tests.backtest.test_lane_entry import checked_text

DAYS = ("2024-01-02", "2024-01-03", "2024-01-04")
DAILY = {
    "time": list(DAYS),
    "open": [100.0, 110.0, 120.0],
    "high": [105.0, 119.0, 125.0],
    "low": [99.0, 104.0, 113.0],
    "close": [102.0, 115.0, 121.0],
    "volume": [1000, 1000, 1000],
}
HALF_HOURS = [f"{DAYS[0]}T{9 + k // 2:02}:{30 * (k % 2):02}:00-05:00" for k in range(1, 14)]
INTRADAY = {
    "time": HALF_HOURS,
    "open": [100.0 + k for k in range(13)],
    "high": [101.5 + k for k in range(13)],
    "low": [99.5 + k for k in range(13)],
    "close": [101.0 + k for k in range(13)],
    "volume": [1000] * 13,
}

TEXT = """language 1

strategy Woken:
    bars {bars}
    session "XNYS"{flat_by}

    {body}

    backtest:
        fees = 0 bps
"""


def fills(columns, body, bars="1d", flat_by=""):
    text = TEXT.format(bars=bars, body=body.replace("\n", "\n    "), flat_by=flat_by)
    result = quantdsl.compile(text).backtest(pa.table(columns))
    return [(row["side"], row["price"]) for row in result.fills.to_pylist()]


def on_second_day(order):
    return f"state n = 0\nat 15:45:\n    n += 1\n    if n == 2:\n        {order}"


@pytest.mark.parametrize(
    ("order", "prices"),
    [
        ("buy(10 shares)", [115.0]),
        ("buy(10 shares, limit = 106)", []),  # the low was lower: nobody knows when
        ("buy(10 shares, limit = 116)", [115.0]),
        ("buy(10 shares, stop = 118)", [120.0]),  # the high was higher: at the next open
        ("buy(10 shares, stop = 114)", [115.0]),
        ("buy(10 shares, tif = cls)", [115.0]),
        ("buy(10 shares, tif = opg)", [120.0]),
        ("short(10 shares, limit = 114)", [115.0]),
    ],
)
def test_an_order_of_1545_on_daily_bars(order, prices):
    assert [price for _, price in fills(DAILY, on_second_day(order))] == prices


def test_a_day_order_meets_its_day_whatever_fires_inside_the_bar():
    day = "on bar:\n    if flat:\n        buy(10 shares, limit = 105, tif = day)"
    assert fills(DAILY, day + '\nat 15:45:\n    cancel(tag = "other")') == [("buy", 105.0)]


def test_flat_by_inside_a_bar_closes_at_its_close():
    body = "on bar:\n    if flat:\n        buy(10 shares)"
    made = fills(INTRADAY, body, "30m", ", flat_by = 15:45")
    assert made[:2] == [("buy", 101.0), ("sell", 113.0)]


def test_a_stop_with_new_terms_meets_the_close():
    body = (
        'on bar:\n    if flat and not pending:\n        buy(10 shares, stop_loss = 90, tag = "a")\n'
        'at 15:45:\n    replace("a", stop_loss = 112)'
    )
    # The second day falls to 104, below both; its close of 115 is above the new stop. The third
    # day opens at 120 and falls to 113.
    assert fills(DAILY, body) == [("buy", 110.0)]


@pytest.mark.parametrize(
    ("bars", "body", "uses"),
    [
        ("1d", "at 15:45", True),
        ("30m", "at 15:45", True),
        ("15m", "at 15:45", False),
        ("1w", "at 15:45", True),
        ("1w", "on session_close", True),
        ("1d", "on session_close", False),
        ("1d", "on session_open", False),
        ("1d", "every 30m", True),
        ("1m", "every 30m", False),
        ("1d", "on bar", False),
    ],
)
def test_only_who_sends_inside_bars_pays_for_it(bars, body, uses):
    text = TEXT.format(bars=bars, body=body + ":\n        buy(10 shares)", flat_by="")
    assert ("USES_INSIDE" in arrange(checked_text(text)).uses) == uses
