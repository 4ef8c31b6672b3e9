"""What the cockpit remembers: everything once, in order, and never more than its limits."""

import threading
import tracemalloc

from msgspec.structs import replace

from quantdsl.cockpit.history import BARS_MAX, FILLS_MAX, LOG_MAX, POINTS_MAX, Cursor, History
from quantdsl.live.view import BarRow, FillRow, LogLine, Snapshot
from tests.cockpit.script import Script

EMPTY = Snapshot(1, 1, "s", "active", 1)
SECOND = 1_000_000_000


def fill(number):
    return FillRow(number, number * 10, "A", "X", "buy", 1.0, 2.0)


def test_a_reader_gets_every_row_once_whenever_it_asks():
    history, script, cursor, seen = History(), Script(5), Cursor(), []
    told = []
    for turn in range(400):
        snapshot = script.next()
        told += snapshot.fills
        history.take(snapshot)
        if turn % 7 == 0 or turn == 399:
            news = history.news(cursor)
            cursor = news.cursor
            seen += news.fills
    assert len(told) > 5
    assert [replace(row, seq=0) for row in seen] == [replace(row, seq=0) for row in told]
    assert not history.news(cursor).fills


def test_a_session_that_began_anew_tells_of_nothing_twice():
    history = History()
    for number in range(1, 4):
        history.take(replace(EMPTY, seq=number, fills=(fill(number),)))
    cursor = history.news(Cursor()).cursor
    for number in range(1, 5):  # it was killed, and its journal brings back what was committed
        history.take(replace(EMPTY, seq=number, fills=(fill(number),)))
    assert [row.ts for row in history.news(cursor).fills] == [40]
    assert len(history.news(Cursor()).fills) == 4


def test_a_bar_that_forms_is_replaced():
    history = History()
    bar = BarRow(1, 5, "X", 1.0, 1.0, 1.0, 1.0, closed=False)
    history.take(replace(EMPTY, bars=(bar,)))
    cursor = history.news(Cursor()).cursor
    assert cursor.symbol == "X"
    history.take(replace(EMPTY, seq=2, bars=(replace(bar, seq=2, high=9.0),)))
    (only,) = history.news(cursor).bars
    assert (only.ts, only.high) == (5, 9.0)
    assert len(history.news(Cursor()).bars) == 1


def test_its_memory_has_limits():
    history = History()
    for number in range(1, 6_001):
        row = BarRow(number, number * 10, "X", 1.0, 1.0, 1.0, 1.0)
        line = LogLine(number, number, "info", "s", "t")
        history.take(
            replace(
                EMPTY, seq=number, ts=number * SECOND, bars=(row,), fills=(fill(number),),
                log=(line,), equity=float(number),
            )
        )  # fmt: skip
    news = history.news(Cursor())
    assert len(news.bars) == BARS_MAX
    assert len(news.fills) == FILLS_MAX
    assert len(news.log) == LOG_MAX
    assert len(news.points) <= POINTS_MAX
    assert news.fills[-1].ts == 60_000
    assert news.points[0].ts == SECOND  # thinned, the curve keeps its beginning
    assert news.points[-1].equity > 5_990


def test_who_follows_a_curve_starts_over_when_it_is_thinned():
    history = History()
    for number in range(POINTS_MAX):
        history.take(replace(EMPTY, seq=number, ts=number * SECOND))
    cursor = history.news(Cursor()).cursor
    assert not history.news(cursor).points
    history.take(replace(EMPTY, seq=POINTS_MAX, ts=POINTS_MAX * SECOND))
    news = history.news(cursor)
    assert news.points_whole
    assert len(news.points) == POINTS_MAX // 2 + 1


def test_a_session_that_starts_has_no_equity_yet():
    history = History()
    history.take(replace(EMPTY, state="starting"))
    assert not history.news(Cursor()).points
    history.say("info", "host", "hello")
    assert history.news(Cursor()).log[0].text == "hello"


def test_who_has_no_use_for_rows_is_told_the_rest():
    history, script = History(), Script(2)
    for _ in range(50):
        history.take(script.next())
    history.say("info", "host", "hello")
    news, told = history.news(Cursor()), history.told(0)
    assert (told.snapshot, told.fills, told.log) == (news.snapshot, news.fills, news.log)
    assert told.log
    assert history.told(told.number).log == []


def test_readers_and_writer_do_not_disturb_each_other():
    history, script, stop = History(), Script(2), threading.Event()
    counts = [0, 0, 0]

    def read(place):
        cursor = Cursor()
        while not stop.is_set():
            news = history.news(cursor)
            cursor = news.cursor
            counts[place] += len(news.fills)

    readers = [threading.Thread(target=read, args=(place,)) for place in range(3)]
    for reader in readers:
        reader.start()
    told = 0
    for _ in range(2_000):
        snapshot = script.next()
        told += len(snapshot.fills)
        history.take(snapshot)
    while min(counts) < told:
        stop.wait(0.01)
    stop.set()
    for reader in readers:
        reader.join()
    assert counts == [told] * 3
    assert told > 5


def test_a_reader_gets_the_bars_that_changed_in_order_whatever_was_dropped():
    history, cursor = History(), Cursor()
    row = BarRow(1, 0, "X", 1.0, 2.0, 0.5, 1.5, 7.0, closed=False)
    for number in range(BARS_MAX + 10):
        history.take(replace(EMPTY, seq=number, bars=(replace(row, ts=number),)))
    news = history.news(cursor)
    assert [bar.ts for bar in news.bars] == list(range(10, BARS_MAX + 10))
    history.take(replace(EMPTY, bars=(replace(row, ts=50, high=9.0), replace(row, ts=12))))
    changed = history.news(news.cursor).bars
    assert [replace(bar, seq=0) for bar in changed] == [
        replace(row, seq=0, ts=12), replace(row, seq=0, ts=50, high=9.0)
    ]  # fmt: skip
    newest = BARS_MAX + 9
    for again in (3, newest, newest):  # one that was dropped comes late, then the newest changes
        history.take(replace(EMPTY, bars=(replace(row, ts=again),)))
    times = [bar.ts for bar in history.news(cursor).bars]
    assert len(times) == len(set(times)) == BARS_MAX


def test_bars_and_points_take_no_more_memory_as_they_come():
    """Rows as objects would: three hundred bytes each, a second, for more than an hour."""
    history = History()

    def told(first: int, last: int) -> None:
        for number in range(first, last):
            bar = BarRow(1, number * SECOND, "X", *[number + 0.1] * 4)
            ts, equity = number * SECOND, number + 0.5
            history.take(replace(EMPTY, seq=number, ts=ts, equity=equity, bars=(bar,)))

    told(0, 10)
    tracemalloc.start()
    try:
        told(10, 3_010)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(history.news(Cursor()).bars) == 3_010
    assert grown < 3_000, "not a byte a bar: their places are there from the beginning"
