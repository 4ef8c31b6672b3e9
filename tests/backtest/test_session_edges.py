"""The open of a session and its `flat_by`, where ticks, timers and fills come at their edge."""

import numpy as np
import pyarrow as pa
import pytest

import quantdsl
from quantdsl.errors import LimitError
from quantdsl.report.messages import messages

TEXT = """language 1

strategy Edge:
    {source}
    {session}

    state sent = false

    {body}

    backtest:
        fees    = 0 bps
        {latency}
"""

XNYS = 'session "XNYS", flat_by = 15:55'


def run(columns, source, session, body):
    latency = "" if source.startswith("bars") else "latency = 10 ms"
    text = TEXT.format(
        source=source, session=session, latency=latency, body=body.replace("\n", "\n    ")
    )
    return quantdsl.compile(text).backtest(pa.table(columns))


def trades(*rows):
    """The columns of (time, price), ten lots each."""
    times, prices = zip(*rows, strict=True)
    return {"time": list(times), "price": list(prices), "size": [10] * len(rows)}


def said(result):
    """The time of day and the text of each message."""
    return [(str(row["time"])[8:19], row["text"]) for row in messages(result.result).to_pylist()]


def closed(result):
    """Time of day, side, lots and position of each fill."""
    names = ("side", "quantity", "position")
    return [(str(row["time"])[8:23], *(row[n] for n in names)) for row in result.fills.to_pylist()]


OPENING = 'on session_open:\n    log("open")\n{tick}:\n    log("tick")\n{timer}:\n    log("timer")'


def test_a_session_opens_once_where_a_tick_and_a_timer_come_with_it():
    rows = trades(
        *((f"2024-01-0{day}T14:30:{second}Z", 100.0) for day in (2, 3) for second in ("00", "01"))
    )
    body = OPENING.format(tick="on trade", timer="at 09:30")
    first = [("02 14:30:00", "open"), ("02 14:30:00", "tick"), ("02 14:30:00", "timer")]
    day = [*first, ("02 14:30:01", "tick")]
    later = [(f"03{when[2:]}", text) for when, text in day]
    assert said(run(rows, "trades", XNYS, body)) == day + later


def test_without_sessions_a_day_opens_with_its_first_bar_and_not_with_a_timer():
    hours = ["2024-01-02T20:00", "2024-01-02T21:00", "2024-01-04T08:00", "2024-01-04T09:00"]
    prices = dict.fromkeys(("open", "high", "low", "close"), [100.0] * 4)
    body = OPENING.format(tick="on bar", timer="every 2h")
    heard = said(run({"time": hours, **prices}, "bars 1h", "", body))
    opened = [when for when, text in heard if text == "open"]
    assert opened == ["02 21:00:00", "04 09:00:00"]
    assert ("04 08:00:00", "timer") in heard


def test_ticks_of_midnight_open_one_day():
    rows = trades(
        ("2024-01-02T23:59:00Z", 100.0),
        ("2024-01-03T00:00:00Z", 100.0),
        ("2024-01-03T00:00:00Z", 100.0),
        ("2024-01-03T00:01:00Z", 100.0),
    )
    heard = said(run(rows, "trades", "", OPENING.format(tick="on trade", timer="at 00:00")))
    assert [when for when, text in heard if text == "open"] == ["02 23:59:00", "03 00:00:00"]


BID = "on trade:\n    if not sent:\n        buy(4 shares, limit = 100.00)\n        sent = true"


def test_what_fills_while_flat_by_recalls_it_is_closed_at_once():
    rows = trades(
        ("2024-01-02T15:00:00Z", 100.50),
        ("2024-01-02T20:54:59Z", 100.40),
        ("2024-01-02T20:55:00.005Z", 99.90),  # the cancel arrives 5 ms later
        ("2024-01-02T20:56:00Z", 100.30),
        ("2024-01-02T20:59:00Z", 100.20),
        ("2024-01-03T14:30:01Z", 101.00),
        ("2024-01-03T20:59:00Z", 101.00),
    )
    assert closed(run(rows, "trades", XNYS, BID)) == [
        ("02 20:55:00.005", "buy", 4.0, 4.0),
        ("02 20:56:00.010", "sell", 4.0, 0.0),
    ]


def test_what_the_book_cannot_take_at_flat_by_goes_out_again():
    levels = [
        ("2024-01-02T15:00:00Z", "bid", 99.0, 5, 1),
        ("2024-01-02T15:00:00Z", "ask", 101.0, 20, 1),
        ("2024-01-02T20:54:00Z", "ask", 102.0, 1, 0),
        ("2024-01-02T20:55:01Z", "ask", 102.0, 2, 0),  # the closing order has ended unfilled
        ("2024-01-02T20:55:02Z", "bid", 99.0, 30, 0),
        ("2024-01-02T20:55:03Z", "ask", 102.0, 3, 0),
        ("2024-01-02T20:55:04Z", "ask", 102.0, 4, 0),
    ]
    names = ("time", "side", "price", "size", "snapshot")
    columns = zip(*levels, strict=True)
    table = {name: list(column) for name, column in zip(names, columns, strict=True)}
    body = "on book:\n    if not sent:\n        buy(20 shares)\n        sent = true"
    made = closed(run(table, "book depth = 5", XNYS, body))
    assert made[-1][-1] == 0.0
    assert sum(lots for _, side, lots, _ in made if side == "sell") == 20.0
    assert all(when < "02 20:55:05" for when, *_ in made)


@pytest.mark.parametrize("limit", ["max_daily_loss", "max_drawdown"])
def test_what_fills_while_a_limit_flattens_is_closed_too(limit):
    rows = trades(
        ("2024-01-02T15:00:00Z", 100.00),
        ("2024-01-02T15:00:01Z", 100.00),
        ("2024-01-02T15:00:02Z", 98.20),
        ("2024-01-02T15:00:02.005Z", 97.90),  # the cancel arrives 5 ms later
        ("2024-01-02T15:00:03Z", 98.30),
        ("2024-01-02T15:01:00Z", 97.30),
    )
    body = (
        "on trade:\n    if not sent:\n        buy(10 shares)\n"
        "        buy(4 shares, limit = 98.00)\n        sent = true\n"
        f"risk:\n    {limit} = 15 USD -> flatten, halt"
    )
    assert closed(run(rows, "trades", "", body)) == [
        ("02 15:00:00.010", "buy", 10.0, 10.0),
        ("02 15:00:02.005", "buy", 4.0, 14.0),
        ("02 15:00:02.010", "sell", 10.0, 4.0),
        ("02 15:00:03.010", "sell", 4.0, 0.0),
    ]


ONCE_OVER = """state n = 0
on trade:
    n += 1
    if n == 1:
        buy(10 shares)
        buy(4 shares, limit = 98.00)
    elif n == 3:
        buy(60 shares)
    elif n == 6:
        buy(1 shares)
risk:
    max_order = 50 shares -> flatten"""


def test_what_fills_while_a_limit_of_an_order_flattens_is_closed_and_then_the_strategy_goes_on():
    rows = trades(
        ("2024-01-02T15:00:00Z", 100.00),
        ("2024-01-02T15:00:01Z", 100.00),
        ("2024-01-02T15:00:02Z", 98.20),  # an order over the limit
        ("2024-01-02T15:00:02.005Z", 97.90),  # the cancel arrives 5 ms later
        ("2024-01-02T15:00:03Z", 98.30),
        ("2024-01-02T15:00:04Z", 98.30),
        ("2024-01-02T15:01:00Z", 98.30),
        ("2024-01-02T15:02:00Z", 98.30),
    )
    assert closed(run(rows, "trades", "", ONCE_OVER)) == [
        ("02 15:00:00.010", "buy", 10.0, 10.0),
        ("02 15:00:02.005", "buy", 4.0, 14.0),
        ("02 15:00:02.010", "sell", 10.0, 4.0),
        ("02 15:00:03.010", "sell", 4.0, 0.0),
        ("02 15:00:04.010", "buy", 1.0, 1.0),
    ]


def test_ticks_outside_of_every_session_are_why_nothing_was_traded():
    night = trades(("2024-01-02T23:00:00Z", 100.0), ("2024-01-02T23:01:00Z", 100.0))
    body = "on trade:\n    buy(1 shares)"
    (why,) = run(night, "trades", XNYS, body).result.no_trade_reasons
    said = "from 2024-01-02 23:00 UTC to 2024-01-02 23:01 UTC, hold nothing within a session"
    assert said in why
    assert why.endswith(" of XNYS")


def book(*rows):
    """The columns of (time, side, price, size) of a book; the first two are a snapshot."""
    names = ("time", "side", "price", "size")
    told = zip(names, zip(*rows, strict=True), strict=True)
    columns = {name: list(cells) for name, cells in told}
    return columns | {"snapshot": [True, True] + [False] * (len(rows) - 2)}


def test_a_book_goes_on_outside_the_session_and_nobody_trades_on_it():
    rows = book(
        ("2024-01-02T12:00:00Z", "bid", 100.0, 5),
        ("2024-01-02T12:00:00Z", "ask", 100.4, 5),
        ("2024-01-02T12:00:01Z", "bid", 100.1, 7),
        ("2024-01-02T14:30:00Z", "ask", 100.3, 2),
        ("2024-01-02T20:59:59Z", "bid", 100.2, 1),
        ("2024-01-02T21:00:00Z", "bid", 100.2, 9),
        ("2024-01-03T09:00:00Z", "bid", 100.2, 0),
        ("2024-01-03T14:30:01Z", "ask", 100.3, 3),
    )
    heard = (
        'on book:\n    let lots = book.bid_qty[0]\n    log("{bid} {lots} {ask}")\n'
        "    buy(1 shares, tif = ioc)"
    )
    result = run(rows, "book depth = 5", 'session "XNYS"', heard)
    assert said(result) == [
        ("02 14:30:00", "100.1 7 100.3"),
        ("02 20:59:59", "100.2 1 100.3"),
        ("03 14:30:01", "100.1 7 100.3"),
    ]
    assert [order["time"].hour for order in result.orders.to_pylist()] == [14, 20, 14]


def test_a_book_outside_of_every_session_is_why_nothing_was_traded():
    night = book(
        ("2024-01-02T23:00:00Z", "bid", 100.0, 5),
        ("2024-01-02T23:00:00Z", "ask", 100.1, 5),
        ("2024-01-02T23:01:00Z", "bid", 99.9, 5),
    )
    body = "on book:\n    buy(1 shares)"
    (why,) = run(night, "book depth = 5", XNYS, body).result.no_trade_reasons
    assert "hold nothing within a session of XNYS" in why


def test_what_is_waited_for_is_told_in_ticks_and_bars_of_their_clock():
    rows = trades(("2024-01-02T15:00:00Z", 100.0), ("2024-01-02T15:00:01Z", 100.0))
    away = "ts.ewm_std(float(trade.price), halflife = 5s)[5]"
    body = f"on trade:\n    if {away} > 0:\n        buy(1 shares)"
    (why,) = run(rows, "trades", XNYS, body).result.no_trade_reasons
    assert "may need 7 ticks to be defined, and the data have 2 ticks" in why
    body = "on bar(m):\n    if ta.sma(m.close, 9) > 0:\n        buy(1 shares)"
    (why,) = run(rows, "trades\n    bars 1s as m", XNYS, body).result.no_trade_reasons
    assert "may need 9 bars of m to be defined, and the data have 1 bar" in why


def test_round_the_clock_a_session_is_closed_before_the_next_one_opens():
    minutes = [f"2024-01-02T23:{minute}:00" for minute in (56, 57, 58, 59)]
    minutes += ["2024-01-03T00:00:00", "2024-01-03T00:01:00"]
    opens = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    prices = dict.fromkeys(("open", "high", "low", "close"), opens)
    body = (
        'on session_open:\n    log("open {session_open}")\non session_close:\n'
        '    log("close {session_open}")\non bar:\n    if not sent:\n'
        "        buy(1 shares, tif = opg)\n        buy(1 shares, tif = cls)\n        sent = true"
    )
    made = run({"time": minutes, **prices}, "bars 1m", 'session "24/7"', body)
    assert said(made) == [
        ("02 00:00:00", "open 2024-01-02T00:00:00"),
        ("03 00:00:00", "close 2024-01-02T00:00:00"),
        ("03 00:00:00", "open 2024-01-03T00:00:00"),
        ("04 00:00:00", "close 2024-01-03T00:00:00"),
    ]
    assert [row["price"] for row in made.fills.to_pylist()] == [4.0, 5.0]  # the close, the open


@pytest.mark.parametrize("source", ["trades", "trades\n    bars 1us as m"])
def test_a_timer_that_comes_too_often_is_refused(source):
    """It asked for terabytes, and ended in a MemoryError."""
    rows = trades(*((f"2024-01-02T14:30:0{second}Z", 100.0) for second in range(3)))
    body = 'every 1us:\n    log("timer")\non trade:\n    log("tick")'
    with pytest.raises(LimitError, match=r"comes 23,400,000,000 times within sessions .*MOMENTS"):
        run(rows, source, 'session "XNYS"', body)


@pytest.mark.parametrize(("session", "whys"), [("", 2), ('session "XNYS"', 0)])
def test_timers_whose_days_had_no_bar_are_why_nothing_was_traded(session, whys):
    """Without a session the last day of a week is a Sunday."""
    days = [str(day) for day in np.arange("2024-01-01", "2024-03-01", dtype="datetime64[D]")]
    rows = [day for at, day in enumerate(days) if at % 7 < 5]  # the first is a Monday
    columns = {"time": rows} | dict.fromkeys(("open", "high", "low", "close"), [10.0] * len(rows))
    body = "at session_close on week_end:\n    target(9 shares)"
    result = run(columns, "bars 1d", session, body).result
    assert len(result.no_trade_reasons) == whys
    if whys:
        missed, size = result.no_trade_reasons
        assert missed.startswith("times that session_close on week_end fell on a day without a bar")
        assert size == "a size of less than one lot makes no order"
