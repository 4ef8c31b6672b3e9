"""Bars of a clock against a plain oracle, however the rows are cut into chunks."""

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantdsl.data.aggregate import BarBuilder, Bars, Placing, place
from quantdsl.data.calendar import SessionSpec, schedule_of, utc_days
from quantdsl.data.events import open_data
from quantdsl.data.spec import DataSpec, SourceSpec
from quantdsl.data.times import DAY_NS, Interval
from quantdsl.errors import DataError
from tests.data.helpers import XNYS, bars, csv, one, utc

MINUTE = 60 * 10**9
FIRST = utc("2024-03-04T00:00")
SCHEDULES = {
    "none": utc_days(FIRST - DAY_NS, FIRST + 20 * DAY_NS),
    "XNYS": schedule_of(XNYS, FIRST, FIRST + 10 * DAY_NS),
}


def rows_of(minutes: list[int], session: str) -> Bars:
    """One-minute bars at these minutes after FIRST that lie in a session."""
    ts = FIRST + np.array(sorted(set(minutes)), np.int64) * MINUTE
    how = Placing(Interval.parse("1m"), SCHEDULES[session], False, False)
    start, end, index, inside = place(ts, how)
    low = np.arange(len(ts)) * 7 % 50 + 100
    high = low + np.arange(len(ts)) * 13 % 20
    rows = Bars(start, end, index, low, high, low, high, np.ones(len(ts), np.int64))
    return rows.where(inside)


def oracle(rows: Bars, length: str, session: str) -> list[tuple[int, ...]]:
    """The complete bars, one row at a time in plain Python."""
    schedule = SCHEDULES[session]
    made: list[list[int]] = []
    for k in range(rows.size):
        s = int(rows.session[k])
        opened, closed = int(schedule.open_ns[s]), int(schedule.close_ns[s])
        if length == "1d":
            begin, finish = opened, closed
        else:
            step = Interval.parse(length).nominal_ns
            begin = opened + (int(rows.start[k]) - opened) // step * step
            finish = min(begin + step, closed)
        values = [int(column[k]) for column in rows[3:]]
        if made and made[-1][1] == finish:
            bar = made[-1]
            bar[3], bar[4] = max(bar[3], values[1]), min(bar[4], values[2])
            bar[5], bar[6] = values[3], bar[6] + values[4]
            bar[7] = int(rows.end[k])
        else:
            made.append([begin, finish, *values, int(rows.end[k])])
    if made and made[-1][7] != made[-1][1]:
        made.pop()  # its end has not come yet
    return [tuple(bar[:7]) for bar in made]


@given(
    minutes=st.lists(st.integers(0, 9 * 1440), min_size=1, max_size=300),
    dense=st.tuples(st.integers(0, 9 * 1440), st.integers(0, 500)),
    cuts=st.lists(st.integers(0, 800), max_size=5),
    length=st.sampled_from(["5m", "15m", "1h", "7m", "1d"]),
    session=st.sampled_from(["none", "XNYS"]),
)
def test_bars_equal_the_oracle(
    minutes: list[int], dense: tuple[int, int], cuts: list[int], length: str, session: str
) -> None:
    rows = rows_of([*minutes, *range(dense[0], dense[0] + dense[1])], session)
    interval = Interval.parse(length)
    builder = BarBuilder(interval, Interval.parse("1m"), SCHEDULES[session])
    made: list[tuple[int, ...]] = []
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), None], strict=True):
        found = builder.add(rows.slice(begin, end))
        columns = (found.start, found.end, found.open, found.high, found.low, found.close)
        made += list(zip(*(c.tolist() for c in (*columns, found.volume)), strict=True))
    expected = oracle(rows, length, session)
    # The oracle's tuples hold open, high, low, close, volume after the span.
    assert made == [(b[0], b[1], b[2], b[3], b[4], b[5], b[6]) for b in expected]
    if interval.unit != "d" or session == "none":
        room = sum((b[1] - b[0] + MINUTE - 1) // MINUTE for b in expected)
        assert builder.missing == room - sum(b[6] for b in expected)


def test_the_last_bar_of_a_session_is_shorter(tmp_path: Path) -> None:
    stamps = [utc("2024-03-04T14:30") + k * 30 * MINUTE for k in range(13)]
    text = "time,close\n" + "".join(f"{ts},{k + 1}\n" for k, ts in enumerate(stamps))
    made = bars(one(csv(tmp_path, text), clocks=("1h",), session=XNYS))
    assert len(made) == 7
    assert made["ts_event"][-1] == utc("2024-03-04T21:00")
    assert made["ts_event"][-1] - made["ts_recv"][-1] == 30 * MINUTE


def test_rows_outside_the_session_are_counted(tmp_path: Path) -> None:
    stamps = [utc("2024-03-04T13:00") + k * 30 * MINUTE for k in range(20)]
    text = "time,close\n" + "".join(f"{ts},{k + 1}\n" for k, ts in enumerate(stamps))
    data = one(csv(tmp_path, text), session=XNYS)
    assert len(bars(data)) == 13
    assert "rows outside the sessions or the span, left out: 7" in data.notes


def test_rows_that_cross_the_border_of_a_bar_count_to_the_later(tmp_path: Path) -> None:
    stamps = [utc("2024-03-04T15:00") + k * 60 * MINUTE for k in range(5)]
    text = "time,close\n" + "".join(f"{ts},{k + 1}\n" for k, ts in enumerate(stamps))
    data = one(csv(tmp_path, text), clocks=("2h",), session=XNYS)
    made = bars(data)
    assert made["ts_event"].tolist() == [utc("2024-03-04T16:30"), utc("2024-03-04T18:30")]
    assert made["close"].tolist() == [1, 3]
    assert "bars of the data that cross into a bar of 2h and count to it: 2" in data.notes


def test_bars_across_midnight_are_whole_without_a_session(tmp_path: Path) -> None:
    stamps = [utc("2024-03-03T22:00") + k * 240 * MINUTE for k in range(13)]
    text = "time,close\n" + "".join(f"{ts},{k + 1}\n" for k, ts in enumerate(stamps))
    data = one(csv(tmp_path, text), clocks=("4h", "1d"))
    assert len(bars(data)) == 13
    days = bars(data, clock=1)
    assert days["ts_event"].tolist() == [utc("2024-03-05"), utc("2024-03-06")]
    assert days["close"].tolist() == [6, 12]


def test_lengths_that_do_not_divide(tmp_path: Path) -> None:
    path = csv(tmp_path, "time,close\n2024-01-02 10:00,1\n2024-01-02 10:02,2\n")
    with pytest.raises(DataError, match="2m does not divide 5m"):
        one(path, clocks=("5m",))


@pytest.mark.parametrize("time", ["open", "close"])
def test_time_of_a_row_is_its_open_or_its_close(tmp_path: Path, time: str) -> None:
    stamps = [utc("2024-03-04T14:30") + k * MINUTE for k in range(1 - (time == "open"), 10)]
    text = "time,close\n" + "".join(f"{ts},{k + 1}\n" for k, ts in enumerate(stamps))
    data = one(csv(tmp_path, text), time=time, clocks=("1m",), session=XNYS)
    made = bars(data)
    assert made["ts_recv"][0] == utc("2024-03-04T14:30")
    assert made["ts_event"][0] == utc("2024-03-04T14:31")
    assert f"a row's time is its bar's {time}" in data.notes


@pytest.mark.parametrize(
    ("stamps", "ends"),
    [
        (["2012-01-31", "2012-02-29", "2012-03-31"], ["2012-02-01", "2012-03-01", "2012-04-01"]),
        (["2012-01-01", "2012-02-01", "2012-03-01"], ["2012-02-01", "2012-03-01", "2012-04-01"]),
    ],
)
def test_monthly_dates_begin_or_end_their_month(
    tmp_path: Path, stamps: list[str], ends: list[str]
) -> None:
    made = bars(one(csv(tmp_path, "date,close\n" + "".join(f"{s},1\n" for s in stamps))))
    assert made["ts_event"].tolist() == [utc(end) for end in ends]
    assert made["ts_recv"].tolist()[1:] == [utc(end) for end in ends[:-1]]


def test_weeks_and_months_end_with_their_last_session(tmp_path: Path) -> None:
    days = [dt.date(2024, 3, 1) + dt.timedelta(days=k) for k in range(62)]
    text = "date,close\n" + "".join(f"{d},{k + 1}\n" for k, d in enumerate(days) if d.weekday() < 5)
    path = csv(tmp_path, text)
    data = one(path, clocks=("1d", "1w", "1mo"), session=XNYS)
    weeks, months = bars(data, clock=1), bars(data, clock=2)
    assert utc("2024-03-28T20:00") in weeks["ts_event"]  # Good Friday shortens this week
    assert months["ts_event"].tolist() == [utc("2024-03-28T20:00"), utc("2024-04-30T20:00")]
    assert "rows outside the sessions or the span, left out: 1" in data.notes


def test_session_hours_of_the_users_own() -> None:
    own = SessionSpec(calendar="XNYS", start_s=10 * 3600, end_s=15 * 3600)
    schedule = schedule_of(own, utc("2024-11-25"), utc("2024-12-03"))
    opens, closes = schedule.open_ns, schedule.close_ns
    assert utc("2024-11-27T15:00") in opens
    assert utc("2024-11-27T20:00") in closes
    assert utc("2024-11-29T18:00") in closes  # the half day ends before the user's own close


def test_files_of_which_the_bars_cannot_be_built_are_all_named(tmp_path: Path) -> None:
    sources = []
    for name, minutes in (("fine", 5), ("coarse", 60), ("odd", 7), ("long", 30), ("odder", 9)):
        times = pd.date_range("2024-03-04", periods=30, freq=f"{minutes}min")
        text = "time,close\n" + "".join(f"{time},1\n" for time in times)
        sources.append(SourceSpec(symbol=name, source=csv(tmp_path, text, f"{name}.csv")))
    long, odder = sources[3:]
    said = (
        r"coarse.csv holds bars of 1h, .*long.csv holds bars of 30m, and the strategy asks for "
        r"bars of 10m: .* --bars 1h \(in a config data.bars\)"
    )
    with pytest.raises(DataError, match=said):
        open_data(DataSpec(instruments=tuple(sources), clocks=("10m",)))
    with pytest.raises(DataError, match=r"long.csv: holds bars of 30m and the strategy asks for b"):
        open_data(DataSpec(instruments=(sources[0], long), clocks=("10m",)))
    with pytest.raises(DataError, match=r"odd.csv: holds bars of 7m, of which .* 7m does not div"):
        open_data(DataSpec(instruments=(sources[0], sources[2]), clocks=("10m",)))
    said = r"odd.csv holds .*odder.csv holds bars of 9m, of which .* for 7m, 9m do not divide 10m"
    with pytest.raises(DataError, match=said):
        open_data(DataSpec(instruments=(sources[2], odder), clocks=("10m",)))
