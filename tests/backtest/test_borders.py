"""`at session_open` and `at session_close`: timers at the borders of sessions and beside them."""

import numpy as np
import pyarrow as pa
import pytest

import quantdsl
from quantdsl.report.messages import messages

TEXT = """language 1

strategy Border:
    bars {length}
    session "XNYS"

    at {moment}:
        log("close {{close}}")
        if flat:
            buy(1 share)
        else:
            close_position()
"""


def weekdays(count):
    """Daily bars from 2024-01-02 on, of which each opens half a dollar above the last close."""
    days = np.arange(np.datetime64("2024-01-02"), np.datetime64("2024-12-31"))
    days = days[np.is_busday(days)][:count]
    close = 100.0 + np.arange(len(days))
    columns = {"open": close - 0.5, "high": close, "low": close - 0.5, "close": close}
    return pa.table({"time": [str(d) for d in days], **columns, "volume": [1_000] * len(days)})


def ran(moment, table=None, length="1d"):
    result = quantdsl.compile(TEXT.format(moment=moment, length=length)).backtest(table)
    said = [(str(row["time"])[5:16], row["text"]) for row in messages(result.result).to_pylist()]
    filled = [(str(row["time"])[5:16], row["price"]) for row in result.fills.to_pylist()]
    return said, filled


def test_a_months_close_knows_its_bar_and_trades_at_the_next_open():
    said, filled = ran("session_close on month_end", weekdays(50))
    assert said[0] == ("01-31 21:00", "close 121")
    assert filled[0] == ("02-01 14:30", 121.5)


def test_a_months_open_knows_the_bar_before_and_trades_at_its_own_open():
    said, filled = ran("session_open on month_start", weekdays(50))
    assert said[0] == ("02-01 14:30", "close 121")
    assert filled[0] == ("02-01 14:30", 121.5)


@pytest.mark.parametrize(
    ("moment", "first"),
    [("session_open + 90m", "01-03 16:00"), ("session_close - 90m", "01-03 19:30")],
)
def test_minutes_from_a_border(moment, first):
    said, filled = ran(moment, None, "30m")
    assert said[0][0] == first
    assert filled[0][0] == first


@pytest.mark.parametrize(
    "moment", ["open", "session_open - 5m", "session_close + 5m", "session_close - 5"]
)
def test_what_lies_outside_of_the_session_is_told(moment):
    with pytest.raises(quantdsl.QuantDSLError, match=r"session_open \+ 5m or session_close - 5m"):
        ran(moment)
