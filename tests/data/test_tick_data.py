"""The stream of a run on ticks: order, whole messages, sessions and timers, faults at the edge."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quantdsl.data.calendar import SessionSpec
from quantdsl.data.spec import DataSpec, SourceSpec
from quantdsl.data.tick_data import open_tick_data
from quantdsl.data.timers import Timer
from quantdsl.errors import ConfigError, DataError
from quantdsl.events.layout import EVENT, MORE, NO_PRICE, Feed, Kind
from quantdsl.events.merge import keep

SECOND = 1_000_000_000
OPEN = 1_704_292_200 * SECOND  # 2024-01-03 14:30 UTC, when XNYS opens


def spec(*sources: object, ticks: str = "quotes", **more: object) -> DataSpec:
    named = tuple(SourceSpec(symbol=f"S{n}", source=str(s)) for n, s in enumerate(sources))
    return DataSpec(instruments=named, ticks=frozenset(ticks.split()), **more)  # type: ignore[arg-type]


def table(folder: Path, lines: list[str], name: str = "ticks.csv") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def streamed(data_spec: DataSpec) -> np.ndarray:
    data = open_tick_data(data_spec)
    return np.concatenate([*data.chunks(), np.empty(0, EVENT)])


def quotes(*rows: str) -> list[str]:
    return ["time,bid,ask,bid_size,ask_size", *rows]


def at(seconds: float) -> int:
    return OPEN + round(seconds * SECOND)


def test_many_sources_merge_stably_by_time_of_receipt(tmp_path):
    first = table(tmp_path, quotes(*(f"{at(s)},10.0,10.1,1,1" for s in (1, 2, 2, 4))), "a.csv")
    second = table(tmp_path, quotes(*(f"{at(s)},20.0,20.1,1,1" for s in (0, 2, 3))), "b.csv")
    events = streamed(spec(first, second))
    assert [(e["instrument"], (e["ts_recv"] - OPEN) // SECOND) for e in events] == [
        (1, 0), (0, 1), (0, 2), (0, 2), (1, 2), (1, 3), (0, 4),
    ]  # fmt: skip
    assert not events["flags"].any()


def test_timers_and_sessions_come_once_and_in_order(tmp_path):
    """The data are read in several blocks, and the session is that of all of them."""
    rows = [f"{at(n / 20)},10.0{n % 9},10.1{n % 9},1,1" for n in range(150_000)]
    path = table(tmp_path, quotes(*rows))
    timers = (Timer(id=0, every_ns=60 * SECOND), Timer(id=1, at_s=15 * 3600))
    events = streamed(spec(path, session=SessionSpec(calendar="XNYS"), timers=timers))
    assert np.all(np.diff(events["ts_recv"]) >= 0)
    assert np.count_nonzero(events["kind"] == Kind.SESSION) == 2
    fired = events[events["kind"] == Kind.TIMER]
    minutes = fired[fired["payload"][:, 0] == 0]
    assert len(minutes) == 7_499 // 60  # the last quote comes at 7,499.95 s
    assert len(np.unique(minutes["ts_recv"])) == len(minutes)
    assert np.count_nonzero(events["kind"] == Kind.QUOTE) == 150_000


def test_no_timer_fires_after_the_end(tmp_path):
    """Nor does a session open that lies wholly after it."""
    day = 24 * 3600
    rows = [f"{at(s + d * day)},10.0,10.1,1,1" for d in (0, 1) for s in range(0, 1200, 10)]
    path = table(tmp_path, quotes(*rows))
    timers = (Timer(id=0, every_ns=60 * SECOND), Timer(id=0, every_ns=60 * SECOND, closes=True))
    session = SessionSpec(calendar="XNYS")
    events = streamed(spec(path, session=session, timers=timers, end=at(300)))
    assert events[events["kind"] == Kind.QUOTE]["ts_recv"].max() == at(290)
    fired = events[events["kind"] == Kind.TIMER]
    assert sorted(fired["ts_recv"].tolist()) == [at(60 * k) for k in (1, 1, 2, 2, 3, 3, 4, 4)]
    assert np.count_nonzero((events["kind"] == Kind.SESSION) & (events["side"] == 0)) == 1


def test_the_times_of_another_clock_are_moved(tmp_path):
    rows = [f"{at(s)},10.0,10.1,1,1" for s in range(5)]
    path = table(tmp_path, quotes(*rows))
    plain, moved = streamed(spec(path)), streamed(spec(path, clock_shift_ns=7 * SECOND + 1))
    for name in ("ts_event", "ts_recv"):
        assert (moved[name] - plain[name]).tolist() == [7 * SECOND + 1] * 5
    assert moved["payload"].tobytes() == plain["payload"].tobytes()


def test_quotes_outside_the_session_are_left_out_and_counted(tmp_path):
    path = table(tmp_path, quotes(*(f"{at(s)},10.0,10.1,1,1" for s in (-5, 5, 10))))
    data = open_tick_data(spec(path, session=SessionSpec(calendar="XNYS")))
    events = np.concatenate(list(data.chunks()))
    assert np.count_nonzero(events["kind"] == Kind.QUOTE) == 2
    assert any("outside the sessions or the span, left out: 1" in note for note in data.notes)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("10.2,10.1,1,1", "crossed quote"),
        ("10.1,10.1,1,1", "locked quote"),
        ("-10.0,10.1,1,1", "price not positive"),
        ("0,10.1,1,1", "price not positive"),
        ("10.0,10.1,-1,1", "size not positive"),
    ],
)
def test_a_bad_quote_is_no_market_until_the_next(row, said, tmp_path):
    good = "10.0,10.1,1,1"
    lines = [f"{at(0)},{good}", f"{at(1)},{row}", f"{at(2)},{good}"]
    data = open_tick_data(spec(table(tmp_path, quotes(*lines)), bad_rows="drop"))
    events = np.concatenate(list(data.chunks()))
    assert events["payload"][1].tolist() == [NO_PRICE, NO_PRICE, 0, 0, 0]
    assert events["payload"][2].tolist()[:2] == events["payload"][0].tolist()[:2]
    assert any(f"bad ticks: 1 {said}" in note for note in data.notes)
    if said in ("crossed quote", "locked quote"):
        assert len(streamed(spec(tmp_path / "ticks.csv"))) == 3  # a market may do that
    else:
        with pytest.raises(DataError, match=f"14:30:01 UTC: {said}.*--bad-rows drop"):
            streamed(spec(tmp_path / "ticks.csv"))


def test_out_of_order_is_told_and_time_never_goes_back(tmp_path):
    lines = [f"{at(s)},10.0,10.1,1,1" for s in (0, 2, 1, 3)]
    path = table(tmp_path, quotes(*lines))
    with pytest.raises(DataError, match="after 2024-01-03 14:30:02 UTC: backward time"):
        streamed(spec(path))
    events = streamed(spec(path, bad_rows="drop"))
    assert np.all(np.diff(events["ts_recv"]) >= 0)
    assert events["payload"][2, 0] == NO_PRICE


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (f"{at(1)},inf,10.1,1,1", r"row 3 \(line 4\): bid = inf: message not understood"),
        (
            f"{at(1)},10.0,10.1,1,1e19",
            r"row 3 \(line 4\): ask_size = 1e\+19: message not understood",
        ),
        (",10.0,10.1,1,1", r"row 3 \(line 4\): time is empty: message not understood"),
        ("soon,10.0,10.1,1,1", r"row 3 \(line 4\): time 'soon' is no number, and '17042922000"),
        (f"{at(1.25)},10.0,-1,1,1", r"14:30:01\.25 UTC: price not positive"),
    ],
)
def test_where_a_row_is_bad_is_told(row, said, tmp_path):
    good = [f"{at(0)},10.0,10.1,1,1"] * 2
    with pytest.raises(DataError, match=said):
        streamed(spec(table(tmp_path, quotes(*good, row))))


def test_a_recording_is_not_read_as_that_of_another_symbol(tmp_path):
    trade = '{"e":"trade","E":1704292200000,"s":"XY","t":7,"p":"99.5","q":"1.0","m":true}'
    path = tmp_path / "x.txt"
    path.write_text(f"{OPEN} {trade}\n")
    assert len(streamed(spec(f"{path}#XY", ticks="trades"))) == 1
    with pytest.raises(DataError, match=r"x\.txt: holds XY and no XX"):
        streamed(spec(f"{path}#XX", ticks="trades"))


def test_a_table_of_several_symbols_is_read_one_at_a_time(tmp_path):
    """The rows of all were taken for the quotes of one."""
    own, other = "10.0,10.1,1,1", "0.05,0.06,1,1"
    rows = [f"{at(n)},{row},{name}" for n in range(3) for name, row in (("A", own), ("b", other))]
    head = "time,bid,ask,bid_size,ask_size,symbol"
    path = table(tmp_path, [head, *rows])
    with pytest.raises(DataError, match=r"holds 2 symbols \(A, b\): choose one by .* FILE#A in"):
        streamed(DataSpec(instruments=(SourceSpec(symbol="", source=str(path)),), ticks={"quotes"}))
    with pytest.raises(DataError, match="has no symbol 'C'; it holds A, b"):
        streamed(spec(f"{path}#C"))
    data = open_tick_data(spec(f"{path}#A"))
    events = np.concatenate(list(data.chunks()))
    assert len(events) == 3
    assert events["payload"][:, 0].tolist() == [1000, 1000, 1000]
    assert any("counted, no fault of the file: 3 messages of another" in n for n in data.notes)
    alone = table(tmp_path, [head, f"{at(0)},{own},A"], "alone.csv")
    assert len(streamed(spec(alone))) == 1
    with pytest.raises(DataError, match=r"alone\.csv: holds A and no C"):
        streamed(spec(f"{alone}#C"))


BOOK = "time,side,price,size,is_snapshot"


def test_a_bad_change_of_a_book_is_a_gap(tmp_path):
    lines = [
        BOOK,
        f"{at(0)},bid,10.0,5,true",
        f"{at(0)},ask,10.1,5,true",
        f"{at(1)},bid,10.0,-3,false",
        f"{at(1)},ask,10.1,4,false",
        f"{at(2)},bid,9.9,7,true",
    ]
    path = table(tmp_path, lines)
    with pytest.raises(DataError, match="size not positive"):
        streamed(spec(path, ticks="book"))
    events = streamed(spec(path, ticks="book", bad_rows="drop"))
    kinds = [Kind(kind).name for kind in events["kind"]]
    assert kinds == [
        "BOOK_SNAPSHOT", "BOOK_DELTA", "BOOK_DELTA", "FEED", "BOOK_DELTA", "BOOK_SNAPSHOT",
        "BOOK_DELTA",
    ]  # fmt: skip
    assert events["side"][3] == Feed.GAP
    assert (events["flags"] & MORE).tolist() == [1, 1, 0, 1, 0, 1, 0]


@pytest.mark.parametrize(
    "row",
    [
        f"{at(1)},foo,10.0,3,false",
        f"{at(1)},bid,ten,3,false",
        f"{at(1)},bid,10.0,inf,false",
        ",bid,10.0,3,false",
        f"{at(1)},bid,1e30,3,true",
    ],
)
def test_a_change_of_a_book_that_cannot_be_read_is_a_gap(row, tmp_path):
    lines = [
        BOOK,
        f"{at(0)},bid,10.0,5,true",
        f"{at(0)},ask,10.1,5,true",
        row,
        f"{at(2)},ask,10.1,4,false",
        f"{at(3)},bid,9.9,7,true",
    ]
    path = table(tmp_path, lines)
    with pytest.raises(DataError):
        streamed(spec(path, ticks="book"))
    events = streamed(spec(path, ticks="book", bad_rows="drop"))
    gap = events[3]
    assert (gap["kind"], gap["side"]) == (Kind.FEED, Feed.GAP)
    assert np.count_nonzero(events["kind"] == Kind.FEED) == 1
    assert (np.diff(events["ts_recv"]) >= 0).all()
    assert events["kind"][-2] == Kind.BOOK_SNAPSHOT


def test_a_snapshot_with_a_row_that_cannot_be_read_is_one_snapshot(tmp_path):
    lines = [
        BOOK,
        f"{at(0)},bid,10.0,5,true",
        f"{at(0)},bid,9.9,what,",
        f"{at(0)},ask,10.1,5,true",
        f"{at(2)},ask,10.1,4,false",
    ]
    events = streamed(spec(table(tmp_path, lines), ticks="book", bad_rows="drop"))
    kinds = [Kind(kind).name for kind in events["kind"]]
    assert kinds == ["BOOK_SNAPSHOT", "BOOK_DELTA", "FEED", "BOOK_DELTA", "BOOK_DELTA"]


def test_a_line_that_is_torn_leaves_no_book(tmp_path):
    path = table(tmp_path, [BOOK, f"{at(0)},bid,10.0,5,true", "torn", f"{at(2)},ask,10.1,4,false"])
    with pytest.raises(DataError, match="a change of the book is lost"):
        streamed(spec(path, ticks="book", bad_rows="drop"))


def test_a_time_that_cannot_be_read_is_left_out_where_bad_rows_are(tmp_path):
    path = table(tmp_path, quotes("soon,9,9.1,1,1", f"{at(0)},10.0,10.1,1,1", "x,9,9.1,1,1"))
    data = open_tick_data(spec(path, bad_rows="drop"))
    assert np.concatenate([*data.chunks()])["payload"][:, 0].tolist() == [1000]
    assert any("bad ticks: 2 messages not understood" in note for note in data.notes)


def test_a_quote_that_cannot_be_read_is_one_without_prices(tmp_path):
    path = table(tmp_path, quotes(f"{at(0)},10.0,10.1,1,1", f"{at(1)},10.0,inf,1,1"))
    events = streamed(spec(path, bad_rows="drop"))
    assert events["payload"][1].tolist()[:4] == [NO_PRICE, NO_PRICE, 0, 0]


def test_a_book_without_a_mark_of_snapshots_is_told_how_to_have_one(tmp_path):
    path = table(tmp_path, ["time,side,price,size", f"{at(0)},bid,10.0,5", f"{at(1)},ask,10.1,5"])
    with pytest.raises(DataError, match="changes has a column 'snapshot'"):
        open_tick_data(spec(path, ticks="book"))


def test_what_the_data_do_not_hold_is_an_error(tmp_path):
    path = table(tmp_path, quotes(f"{at(0)},10.0,10.1,1,1"))
    with pytest.raises(DataError, match="holds quotes, and the strategy asks for trades"):
        open_tick_data(spec(path, ticks="quotes trades"))
    with pytest.raises(ConfigError, match="cut a book off from its snapshot"):
        open_tick_data(spec(path, ticks="book", start=OPEN))
    other = table(tmp_path, ["a,b", "1,2"], "other.csv")
    with pytest.raises(DataError, match="holds no ticks that quantdsl knows"):
        open_tick_data(spec(other))
    with pytest.raises(ConfigError, match=r"'binanse' is none of .*did you mean 'binance'"):
        open_tick_data(spec(other, format="binanse"))


def test_the_last_event_kept_of_a_message_ends_it():
    events = np.zeros(5, EVENT)
    events["flags"] = (MORE, MORE, 0, MORE, 0)
    kept = keep(events, np.array([True, True, False, True, False]))
    assert kept["flags"].tolist() == [MORE, 0, 0]


def test_the_latency_of_the_config_counts_where_the_data_have_no_receipt(tmp_path):
    path = table(tmp_path, quotes(f"{at(0)},10.0,10.1,1,1"))
    events = streamed(spec(path, feed_latency_ns=700_000))
    assert events["ts_recv"][0] - events["ts_event"][0] == 700_000


def test_a_cut_parquet_file_is_damaged_and_not_unknown(tmp_path):
    path = tmp_path / "T.parquet"
    pq.write_table(pa.table({"time": [at(0)], "bid": [10.0], "ask": [10.1]}), path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="is a damaged Parquet file"):
        open_tick_data(spec(path))
