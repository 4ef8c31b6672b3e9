"""The event stream: order within an instant, sessions, timers, several instruments."""

import itertools
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantdsl.data.calendar import SessionSpec, schedule_of
from quantdsl.data.events import Data, open_data
from quantdsl.data.spec import DataSpec, SourceSpec
from quantdsl.data.timers import Timer
from quantdsl.data.times import FIXED_NS, utc_of_local
from quantdsl.errors import ConfigError
from quantdsl.events.layout import EVENT, MORE, Kind
from quantdsl.events.merge import CHUNK_EVENTS, Merge, cut, mark
from tests.data.helpers import XNYS, check_stream, csv, events, one, utc

MINUTE = FIXED_NS["m"]


def minutes(
    folder: Path, name: str, first: str, count: int, *, left_out: tuple[int, ...] = ()
) -> str:
    ts = utc(first)
    rows = [f"{ts + k * MINUTE},{k + 10}\n" for k in range(count) if k not in left_out]
    return csv(folder, "time,close\n" + "".join(rows), name)


def shown(data: Data) -> list[tuple[str, str, int]]:
    """Events as (time, kind, detail), where detail is the clock, the side or the timer."""
    names = []
    for event in events(data):
        kind = Kind(int(event["kind"]))
        detail = int(event["payload"][0]) if kind is Kind.TIMER else int(event["side"])
        clock = str(np.datetime64(int(event["ts_event"]), "ns"))[11:16]
        names.append((clock, kind.name, detail))
    return names


def test_order_of_one_instant(tmp_path: Path) -> None:
    path = minutes(tmp_path, "a.csv", "2024-03-04T20:45", 15)  # the last quarter of a session
    data = one(
        path,
        clocks=("5m", "15m", "1d"),
        session=XNYS,
        timers=(Timer(id=3, at_s=16 * 3600), Timer(id=1, before_close_ns=10 * MINUTE)),
    )
    check_stream(data)
    assert shown(data) == [
        ("14:30", "SESSION", 0),
        ("20:50", "BAR", 0),
        ("20:50", "TIMER", 1),
        ("20:55", "BAR", 0),
        ("21:00", "BAR", 2),
        ("21:00", "BAR", 1),
        ("21:00", "BAR", 0),
        ("21:00", "TIMER", 3),
        ("21:00", "SESSION", 1),
    ]


def test_without_a_session_the_core_knows_the_days(tmp_path: Path) -> None:
    data = one(minutes(tmp_path, "a.csv", "2024-03-04T23:58", 4))
    assert {kind for _, kind, _ in shown(data)} == {"BAR"}
    assert any("a day ends at midnight UTC" in note for note in data.notes)


def test_sessions_that_touch_close_before_they_open(tmp_path: Path) -> None:
    always = SessionSpec(calendar="24/7")
    data = one(minutes(tmp_path, "a.csv", "2024-03-04T23:59", 2), session=always)
    assert shown(data) == [
        ("00:00", "SESSION", 0),
        ("00:00", "BAR", 0),
        ("00:00", "SESSION", 1),
        ("00:00", "SESSION", 0),
        ("00:01", "BAR", 0),
        ("00:00", "SESSION", 1),
    ]


def test_a_flat_by_time_moves_with_an_early_close() -> None:
    spec = DataSpec(session=XNYS, clocks=("5m",), timers=(Timer(id=0, at_s=15 * 3600 + 55 * 60),))
    data = open_data(spec)
    fired = [int(e["ts_event"]) for e in events(data) if e["kind"] == Kind.TIMER]
    assert len(fired) == 501
    assert utc("2022-11-25T17:55") in fired  # 13:00 less the same five minutes
    assert utc("2022-07-05T19:55") in fired
    assert utc("2022-12-05T20:55") in fired


def test_month_end_is_the_last_session() -> None:
    timers = (
        Timer(id=0, at_s=15 * 3600, on="month_end"),
        Timer(id=1, at_s=36_000, on="week_start"),
    )
    data = open_data(DataSpec(session=XNYS, clocks=("1d",), timers=timers))
    fired = events(data)
    fired = fired[fired["kind"] == Kind.TIMER]
    ends = fired["ts_event"][fired["payload"][:, 0] == 0].astype("datetime64[ns]")
    assert len(ends) == 24
    assert np.datetime64("2022-04-29T19:00") in ends  # the 30th is a Saturday
    weeks = fired["ts_event"][fired["payload"][:, 0] == 1].astype("datetime64[ns]")
    assert np.datetime64("2022-07-05T14:00") in weeks  # Monday the 4th is a holiday


def test_every_counts_from_the_open(tmp_path: Path) -> None:
    path = minutes(tmp_path, "a.csv", "2024-03-04T14:30", 390)
    data = one(path, session=XNYS, timers=(Timer(id=0, every_ns=30 * MINUTE),))
    fired = [clock for clock, kind, _ in shown(data) if kind == "TIMER"]
    assert fired[0] == "15:00"
    assert fired[-1] == "21:00"
    assert len(fired) == 13


def test_a_timer_outside_every_session_is_refused(tmp_path: Path) -> None:
    path = minutes(tmp_path, "a.csv", "2024-03-04T14:30", 10)
    with pytest.raises(ConfigError, match="at 20:00 lies outside every session of XNYS"):
        one(path, session=XNYS, timers=(Timer(id=0, at_s=20 * 3600),))


def test_an_every_that_is_longer_than_every_session_is_refused(tmp_path: Path) -> None:
    path, day = minutes(tmp_path, "a.csv", "2024-03-04T14:30", 10), 24 * 60 * MINUTE
    with pytest.raises(ConfigError, match=r"every 1d counts from .* every session of XNYS: it "):
        one(path, session=XNYS, timers=(Timer(id=0, every_ns=day),))
    with pytest.raises(ConfigError, match=r"every 30d counts from .* every day of UTC: it would "):
        one(path, timers=(Timer(id=0, every_ns=30 * day),))
    daily = (Timer(id=0, every_ns=day),)
    data = one(path, session=SessionSpec(calendar="24/7"), timers=daily)
    assert ("00:00", "TIMER", 0) in shown(data)


def test_an_evening_time_belongs_to_the_session_that_it_opens(tmp_path: Path) -> None:
    path = minutes(tmp_path, "a.csv", "2024-03-04T23:00", 60 * 24)
    timers = (Timer(id=0, at_s=18 * 3600), Timer(id=1, at_s=15 * 3600))
    data = one(path, session=SessionSpec(calendar="CMES"), timers=timers)
    fired = [(int(e["payload"][0]), int(e["ts_event"])) for e in events(data) if e["kind"] == 10]
    assert (0, utc("2024-03-05T00:00")) in fired  # Chicago's evening of the 4th, session of the 5th
    assert (1, utc("2024-03-05T21:00")) in fired


def test_unknown_calendar_is_named(tmp_path: Path) -> None:
    path = minutes(tmp_path, "a.csv", "2024-03-04T14:30", 10)
    with pytest.raises(ConfigError, match=r"calendar 'XNYX' is not known; did you mean 'XNYS'"):
        one(path, session=SessionSpec(calendar="XNYX"))


def pair(folder: Path, *, sync_all: bool) -> Data:
    first = minutes(folder, "ko.csv", "2024-03-04T14:30", 60, left_out=(3, 4))
    second = minutes(folder, "pep.csv", "2024-03-04T14:30", 60, left_out=(4, 7, 59))
    instruments = (SourceSpec(symbol="KO", source=first), SourceSpec(symbol="PEP", source=second))
    return open_data(DataSpec(instruments=instruments, session=XNYS, sync_all=sync_all))


def test_instruments_come_in_declared_order(tmp_path: Path) -> None:
    found = check_stream(pair(tmp_path, sync_all=False))
    made = found[found["kind"] == Kind.BAR]
    assert len(made) == 58 + 57
    same = made["ts_event"][1:] == made["ts_event"][:-1]
    assert np.all(made["instrument"][1:][same] == 1)


def test_sync_all_keeps_common_instants(tmp_path: Path) -> None:
    data = pair(tmp_path, sync_all=True)
    made = check_stream(data)
    made = made[made["kind"] == Kind.BAR]
    assert len(made) == 2 * 56
    assert np.array_equal(made["instrument"], np.tile([0, 1], 56))
    assert any(
        note.startswith("instants in which not every") and note.endswith(": 3")
        for note in data.notes
    )


def test_cuts_are_hard(tmp_path: Path) -> None:
    path = minutes(tmp_path, "a.csv", "2024-03-04T14:30", 60)
    data = one(path, start=utc("2024-03-04T14:40"), end=utc("2024-03-04T14:50"))
    assert [clock for clock, _, _ in shown(data)] == [f"14:{m}" for m in range(41, 51)]


def test_no_timer_fires_after_the_end(tmp_path: Path) -> None:
    path = minutes(tmp_path, "a.csv", "2024-03-04T14:30", 60)
    timers = (Timer(id=1, every_ns=3 * MINUTE), Timer(id=2, at_s=9 * 3600 + 45 * 60))
    data = one(path, session=XNYS, timers=timers, end=utc("2024-03-04T14:42"))
    fired = [(clock, timer) for clock, kind, timer in shown(data) if kind == "TIMER"]
    assert fired == [("14:33", 1), ("14:36", 1), ("14:39", 1)]


def test_a_second_pass_gives_the_same_bytes() -> None:
    data = open_data(DataSpec(session=XNYS, clocks=("5m", "1d")))
    first = events(data)
    notes = data.notes
    assert events(data).tobytes() == first.tobytes()
    assert data.notes == notes


@given(
    lanes=st.lists(st.lists(st.integers(0, 50), max_size=30), min_size=1, max_size=5),
    bound=st.integers(0, 60),
    at_once=st.integers(1, 40),
)
def test_merge_is_a_stable_sort(lanes: list[list[int]], bound: int, at_once: int) -> None:
    merge = Merge(len(lanes))
    expected = []
    for number, times in enumerate(lanes):
        made = np.zeros(len(times), EVENT)
        made["ts_event"] = sorted(times)
        made["instrument"] = number
        half = len(made) // 2
        merge.push(number, made[:half])
        merge.push(number, made[half:])
        expected += [(ts, number) for ts in sorted(times)]
    with patch("quantdsl.events.merge.SORTED_EVENTS", at_once):
        before = [mark(piece) for piece in merge.take(bound)]
        found = [*before, *(mark(piece) for piece in merge.take(None))]
    for earlier, later in itertools.pairwise(found):
        assert earlier["ts_event"][-1] < later["ts_event"][0]
    assert all(ts < bound for piece in before for ts in piece["ts_event"])
    joined = [(int(e["ts_event"]), int(e["instrument"])) for part in found for e in part]
    assert joined == sorted(expected)


@given(st.lists(st.integers(1, 40_000), min_size=1, max_size=12))
def test_pieces_never_divide_an_instant(instants: list[int]) -> None:
    made = np.zeros(sum(instants), EVENT)
    made["ts_event"] = np.repeat(np.arange(len(instants)), instants)
    pieces = cut(mark(made))
    assert sum(map(len, pieces)) == len(made)
    for piece in pieces:
        assert (piece["flags"][-1] & MORE) == 0
        assert len(piece) <= max(CHUNK_EVENTS, *instants)


@given(st.integers(0, 20 * 365 * 24 * 60))
def test_local_times_follow_the_zone(minute: int) -> None:
    import datetime as dt
    from zoneinfo import ZoneInfo

    wall = dt.datetime(2005, 1, 1) + dt.timedelta(minutes=minute)  # noqa: DTZ001
    local = np.array([int(np.datetime64(wall, "ns").astype(np.int64))])
    expected = wall.replace(tzinfo=ZoneInfo("America/New_York")).timestamp()
    assert utc_of_local(local, "America/New_York")[0] == int(expected) * 10**9


def test_schedule_knows_dst_and_half_days() -> None:
    schedule = schedule_of(XNYS, utc("2024-03-01"), utc("2024-12-31"))
    opens, closes = set(schedule.open_ns.tolist()), set(schedule.close_ns.tolist())
    assert utc("2024-03-08T14:30") in opens
    assert utc("2024-03-11T13:30") in opens
    assert utc("2024-11-04T14:30") in opens
    assert utc("2024-07-03T17:00") in closes
    assert utc("2024-07-04T13:30") not in opens


def test_a_session_that_is_read_in_several_blocks_begins_and_ends_once(tmp_path: Path) -> None:
    first, pad = utc("2024-01-03 14:30") // FIXED_NS["s"], "0" * 200
    rows = (f"{first + n},10.{pad}\n" for n in range(23_400))
    path = csv(tmp_path, "time,close\n" + "".join(rows))
    data = one(path, session=XNYS, timers=(Timer(id=0, every_ns=MINUTE),))
    found = check_stream(data)
    assert np.count_nonzero(found["kind"] == Kind.TIMER) == 390
    assert np.count_nonzero(found["kind"] == Kind.SESSION) == 2


def test_rows_outside_the_sessions_make_an_assumed_zone_doubtful(tmp_path: Path) -> None:
    rows = "".join(f"2024-01-03 {9 + n // 60:02d}:{n % 60:02d},{n + 10}\n" for n in range(300))
    path = csv(tmp_path, "time,close\n" + rows)
    for tz, doubtful in (("", True), ("America/New_York", False)):
        data = one(path, session=XNYS, tz=tz)
        events(data)
        assert any("--tz name the right one?" in note for note in data.notes) == doubtful
