"""The words of a session's pipes: what is packed comes out equal, and nothing else is let in."""

import math

import msgspec
import pytest

from quantdsl.live.view import (
    BarRow,
    BookView,
    Command,
    FeedHealth,
    FillRow,
    Gauge,
    InstrumentView,
    LatencyView,
    LogLine,
    Position,
    Snapshot,
    StrategyView,
    WorkingOrder,
)

WHOLE = Snapshot(
    seq=7, ts=1_000, session="s", state="active", started=1,
    instruments=(InstrumentView("BTCUSDT", 2, 5),),
    strategies=(StrategyView("Trend", "halted", "daily loss"),),
    positions=(Position("Trend", "BTCUSDT", -0.5, 10.0, 11.0, -5.5, -0.5),),
    working=(WorkingOrder(1, "Trend", "BTCUSDT", "buy", "limit", 0.5, 0.0, 9.0, 900, ahead=3.0),),
    gauges=(Gauge("daily_loss", 10.0, 500.0, "USD", "Trend"),),
    feeds=(FeedHealth("synthetic", ("BTCUSDT",), "live", messages=3),),
    books=(BookView("BTCUSDT", ((9.0, 1.0),), ((11.0, 2.0),), 990, last=10.0, last_side="buy"),),
    latency=(LatencyView("event to record", (100.0, 200.0), (4, 1), p50_ns=90.0),),
    fills=(FillRow(1, 950, "Trend", "BTCUSDT", "sell", 0.5, 10.0, maker=True),),
    bars=(BarRow(1, 900, "BTCUSDT", 10.0, 11.0, 9.0, 10.0, 5.0, closed=False),),
    log=(LogLine(1, 940, "warning", "session", "text"),),
)  # fmt: skip


def test_a_snapshot_comes_out_of_the_pipe_equal():
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(WHOLE), type=Snapshot) == WHOLE


def test_a_figure_that_is_none_reaches_a_page_as_null():
    text = msgspec.json.encode(msgspec.structs.replace(WHOLE, equity=math.nan))
    assert msgspec.json.decode(text)["equity"] is None


@pytest.mark.parametrize("frame", [{"kind": "buy"}, {"kind": "halt", "strategy": 3}, {}])
def test_no_other_command_is_understood(frame):
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(frame), type=Command)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode({"kind": "halt"}), type=Command)
