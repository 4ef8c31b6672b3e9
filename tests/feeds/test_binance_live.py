"""Binance's feed against a venue that speaks its protocol: books, splices, faults, bars, ends."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

from quantdsl.data.instrument import Instrument
from quantdsl.data.ticks import FAULTS, WORDS, Fault
from quantdsl.data.times import Interval
from quantdsl.errors import FeedError
from quantdsl.events.layout import BAR, EVENT, MORE, Feed, Kind
from quantdsl.live.connection import Batch
from quantdsl.live.feed import FeedSpec, LiveFeed, open_feed
from quantdsl.live.rest import Answer
from tests.venues import binance
from tests.venues.faults import Close, Dial, Duplicate, Insert, Lose, Reorder, Reset
from tests.venues.server import Venue
from tests.waiting import WAIT_S, until

ALL = frozenset({"book", "quotes", "trades"})


class Kept:
    """A sink that keeps copies, and looks that each push is as the protocol says."""

    def __init__(self) -> None:
        self.pushed: list[Any] = []
        self._latest = 0

    def push(self, events: Any) -> None:
        assert len(events)
        assert not events["flags"][-1] & MORE
        ticks = events[events["kind"] != Kind.BAR]
        assert np.all(np.diff(ticks["ts_recv"]) >= 0)
        if len(ticks):
            assert ticks["ts_recv"][0] >= self._latest
            self._latest = int(ticks["ts_recv"][-1])
        self.pushed.append(events.copy())

    @property
    def events(self) -> Any:
        """All that was pushed until now."""
        return np.concatenate(list(self.pushed)) if self.pushed else np.empty(0, EVENT)

    def of(self, kind: Kind) -> Any:
        events = self.events
        return events[events["kind"] == kind]

    def states(self) -> list[Feed]:
        return [Feed(side) for side in self.of(Kind.FEED)["side"].tolist()]


def spec_of(venue: Venue, *symbols: str, futures: bool = False, **more: Any) -> FeedSpec:
    """An instrument is stale after an hour unless a test says otherwise: a machine may be slow."""
    given = {"ticks": ALL, "stale_ns_max": 3600 * 10**9, **more}
    return FeedSpec(
        feed="binance_futures" if futures else "binance",
        symbols=symbols or ("BTCUSDT",),
        stream_url=venue.stream_url,
        rest_url=venue.rest_url,
        ca_file=venue.ca_file,
        **given,
    )


@contextmanager
def running(spec: FeedSpec) -> Iterator[tuple[LiveFeed, Kept]]:
    feed, sink, stop = open_feed(spec), Kept(), threading.Event()
    feed.instruments()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            feed.run(sink, stop)
        except BaseException as error:  # a feed never raises, and a test must see it
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield feed, sink
    finally:
        stop.set()
        thread.join(WAIT_S)
        assert not thread.is_alive()
        if failed:
            raise failed[0]
    assert feed.health.state == "stopped"


def book_of(events: Any, instrument: int = 0) -> tuple[dict[int, int], dict[int, int]]:
    """The book that the events leave, in ticks and lots, built the plainest way."""
    book: tuple[dict[int, int], dict[int, int]] = ({}, {})
    own = events[events["instrument"] == instrument]
    for kind, side, payload in zip(
        own["kind"].tolist(), own["side"].tolist(), own["payload"].tolist(), strict=True
    ):
        if kind == Kind.BOOK_SNAPSHOT:
            book[0].clear()
            book[1].clear()
        elif kind == Kind.BOOK_DELTA and payload[1]:
            book[side][payload[0]] = payload[1]
        elif kind == Kind.BOOK_DELTA:
            book[side].pop(payload[0], None)
    return book


def known(dialect: binance.Binance, symbol: str = "BTCUSDT") -> Any:
    """The book at the end of the tape; apart from the venue's own, which follows what it played."""
    own = dialect.depth[symbol]
    oracle = binance.Depth(own.snapshot, own.place, own.diffs)
    return oracle.book(len(dialect.tape)).in_units(*dialect.units[symbol])


def near(book: tuple[dict[int, int], dict[int, int]]) -> Any:
    """Its best levels: a snapshot holds a thousand a side, and a recorded book has more."""
    return sorted(book[0].items())[-700:], sorted(book[1].items())[:700]


def played_to_the_end(venue: Venue, sink: Kept, last: Any, at: Any = lambda book: book) -> None:
    """Plays the rest of the tape as fast as it is read, until the book is the last one."""
    venue.hurry()
    made: list[Any] = [0, None]  # the book after so many pushes

    def whole() -> bool:
        if made[0] != len(sink.pushed):
            made[:] = len(sink.pushed), at(book_of(sink.events))
        return bool(made[1] == last)

    until(whole, lambda: (venue.cursor, venue.log, sink.states()))


def good(sink: Kept, times: int = 1) -> None:
    """Waits until the book was found good so often."""
    until(lambda: sink.states().count(Feed.GOOD) >= times, sink.states)


@pytest.mark.parametrize("futures", [False, True])
@pytest.mark.parametrize("tls", [False, True])
def test_the_book_is_that_of_the_venue(futures, tls):
    dialect = binance.made_up(steps=1_500, futures=futures)
    with (
        Venue(dialect, tls=tls, speed=1.0) as venue,
        running(spec_of(venue, futures=futures)) as (feed, sink),
    ):
        good(sink)
        played_to_the_end(venue, sink, known(dialect))
        until(lambda: feed.health.state == "live", lambda: feed.health)
    assert sink.states()[0] == Feed.RESET
    assert Feed.GOOD in sink.states()
    assert feed.health.received == (
        feed.health.processed + feed.health.ignored + feed.health.dropped
    )
    assert feed.health.dropped == 0
    asked = sum(one.channel.endswith("@bookTicker") for one in dialect.tape)
    assert len(sink.of(Kind.QUOTE)) == asked
    assert not np.any(sink.of(Kind.BOOK_DELTA)["payload"][:, 3:])


@pytest.mark.parametrize("name", ["usdm_btcusdt", "spot_btcusdt"])
def test_recorded_streams_leave_the_recorded_book(name, shared_data):
    dialect = binance.hftbacktest(name, 3_000)
    with (
        Venue(dialect, speed=1.0) as venue,
        running(spec_of(venue, futures=name.startswith("usdm"))) as (feed, sink),
    ):
        good(sink)
        played_to_the_end(venue, sink, near(known(dialect)), near)
    assert feed.health.dropped == 0
    assert abs(feed.health.clock_offset_ns) > 0


def test_a_lost_message_is_noticed_with_the_next_and_mended():
    dialect = binance.made_up(steps=3_000)
    with Venue(dialect, speed=1.0) as venue, running(spec_of(venue)) as (feed, sink):
        good(sink)
        venue.faults.now(Lose(2), lambda one: one.book)
        until(lambda: feed.health.gaps == 1)
        until(lambda: sink.states()[-2:] == [Feed.GAP, Feed.GOOD], sink.states)
        played_to_the_end(venue, sink, known(dialect))
    assert feed.health.connects == 1
    events = sink.events
    gap = int(np.flatnonzero((events["kind"] == Kind.FEED) & (events["side"] == Feed.GAP))[0])
    fresh = int(np.flatnonzero(events["kind"] == Kind.BOOK_SNAPSHOT)[-1])
    assert not np.any(events["kind"][gap:fresh] == Kind.BOOK_DELTA)


@pytest.mark.parametrize("fault", [Duplicate(), Reorder(4), Insert("{"), Insert('{"e":"depth')])
def test_what_a_network_may_do_leaves_the_book_right(fault):
    dialect = binance.made_up(steps=2_000)
    with Venue(dialect, speed=1.0) as venue, running(spec_of(venue)) as (feed, sink):
        good(sink)
        venue.faults.now(fault, lambda one: one.book)
        played_to_the_end(venue, sink, known(dialect))
    # Counted once a batch, when its events are pushed: a quick feed has the whole rest in one.
    if isinstance(fault, Duplicate):
        assert (feed.health.gaps, feed.health.faults[WORDS[Fault.DUPLICATE]]) == (0, 1)
    elif isinstance(fault, Insert):
        assert (feed.health.dropped, feed.health.gaps) == (1, 0)
    else:
        assert feed.health.gaps == 1


@pytest.mark.parametrize("fault", [Reset(), Close(1001)])
def test_it_comes_back_after_a_lost_connection(fault):
    dialect = binance.made_up(steps=4_000)
    with Venue(dialect, speed=1.0) as venue, running(spec_of(venue)) as (feed, sink):
        good(sink)
        venue.faults.now(fault)
        until(lambda: feed.health.connects == 2)
        good(sink, 2)
        played_to_the_end(venue, sink, known(dialect))
        assert venue.log.live_max == 1
        assert feed.health.reason
    assert sink.states().count(Feed.RESET) == 2
    assert sink.states()[-1] == Feed.GOOD


def test_silence_makes_an_instrument_stale_until_enough_good_messages_came():
    dialect = binance.made_up(steps=1_500)
    spec_more = {"stale_ns_max": 300_000_000, "good_messages_min": 5}
    with Venue(dialect, speed=1.0) as venue, running(spec_of(venue, **spec_more)) as (feed, sink):
        good(sink)
        venue.hold()
        until(lambda: feed.health.stales, lambda: feed.health)
        venue.resume()
        until(lambda: Feed.GOOD in sink.states()[sink.states().index(Feed.STALE) :], sink.states)
    at = [n for n, e in enumerate(sink.events) if (e["kind"], e["side"]) == (Kind.FEED, Feed.STALE)]
    after = sink.events[at[0] :]
    again = int(np.flatnonzero(after["kind"] == Kind.FEED)[1])
    assert after["side"][again] == Feed.GOOD
    assert len(np.unique(after["ts_event"][1 : again + 1])) >= 5


def test_whole_bars_come_as_history_and_nothing_is_asked_twice():
    dialect = binance.made_up(steps=200)
    with Venue(dialect) as venue:
        feed = open_feed(spec_of(venue))
        one = feed.instruments()[0]
        minute = Interval.parse("1m")
        now = dialect.now_ms() // 60_000 * minute.nominal_ns
        bars = feed.history("BTCUSDT", minute, now - 2_500 * minute.nominal_ns).view(BAR)
        asked = sum("/klines" in request for request in venue.log.requests)
    assert one.tick == dialect.units["BTCUSDT"][0]
    assert len(bars) == 2_500
    assert asked == 3
    assert set(np.diff(bars["ts_recv"])) == {minute.nominal_ns}
    assert np.all(bars["ts_event"] - bars["ts_recv"] == minute.nominal_ns)
    assert bars["ts_event"][-1] <= now
    assert np.all((bars["low"] <= bars["open"]) & (bars["high"] >= bars["close"]))
    assert np.all(bars["low"] > 0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"symbols": ("NOSUCH",)}, "Invalid symbol"),
        ({"ticks": frozenset({"funding"})}, "spot pays no funding"),
        ({"symbols": ("B/T",)}, "is no symbol such as BTCUSDT"),
        ({"options": {"speed": 2}}, "has no option 'speed'. It has trades"),
        ({"ticks": frozenset()}, "0 streams are asked for"),
        ({"rest_url": "https://127.0.0.1:1"}, "cannot be asked"),
        ({"ca_file": "/nowhere"}, "no certificate to trust"),
    ],
)
def test_what_cannot_be_is_told_before_it_begins(change, said):
    import msgspec

    with Venue(binance.made_up(steps=10)) as venue, pytest.raises(FeedError, match=said):
        open_feed(msgspec.structs.replace(spec_of(venue), **change)).instruments()


def test_hostile_words_are_dropped_and_counted():
    hostile = [
        "[" * 100_000, '{"e":"trade"' * 50, '{"stream":"x","data":{"e":"kline","k":{}}}',
        '{"data":{"e":"trade","E":1,"s":"ETHUSDT","t":1,"p":"1.0","q":"1.0","T":1,"m":true}}',
        '{"data":{"e":"trade","E":1,"s":"BTCUSDT","t":9999999,"p":"-1.0","q":"1","T":9999999999999,"m":true}}',
        '{"data":{"e":"depthUpdate","E":1,"s":"BTCUSDT","U":1,"u":2,"b":[["1e3","1"]],"a":[]}}',
    ]  # fmt: skip
    dialect = binance.made_up(steps=2_000)
    with Venue(dialect, speed=1.0) as venue, running(spec_of(venue)) as (feed, sink):
        good(sink)
        for text in hostile:
            venue.faults.now(Insert(text))
        played_to_the_end(venue, sink, known(dialect))
        until(lambda: feed.health.dropped >= len(hostile) - 1)
    assert feed.health.connects == 1
    assert feed.health.received == (
        feed.health.processed + feed.health.ignored + feed.health.dropped
    )


class Deal(NamedTuple):
    """A trade as the venue tells it."""

    number: int
    at_ms: int
    price: str = "60000.10"

    @property
    def text(self) -> bytes:
        return (
            f'{{"stream":"btcusdt@trade","data":{{"e":"trade","E":{self.at_ms},"s":"BTCUSDT",'
            f'"t":{self.number},"p":"{self.price}","q":"1.001","T":{self.at_ms},"m":true}}}}'
        ).encode()


def told(feed: LiveFeed, texts: list[bytes], recv_ns: int) -> Kept:
    """What a feed makes of messages of one time of receipt, without a connection."""
    sink = Kept()
    stops = np.cumsum([len(text) for text in texts])
    spans = np.column_stack([stops - [len(text) for text in texts], stops]).astype(np.int64)
    data = np.frombuffer(bytearray(b"".join(texts)), np.uint8)
    feed._take(Batch(data, np.ascontiguousarray(spans), len(texts), recv_ns), sink)
    return sink


def unconnected(**more: Any) -> LiveFeed:
    from quantdsl.feeds.edge import edges  # it compiles what every feed needs

    feed = open_feed(FeedSpec(feed="binance_futures", symbols=("BTCUSDT",), **more))
    one = Instrument(symbol="BTCUSDT", tick=Fraction(1, 100), lot=Fraction(1, 1_000))
    feed._edges[:] = edges([one], [(8, 8)], 1)
    return feed


NOW_MS = 1_723_161_256_000


@pytest.mark.parametrize(
    ("wrong", "taken"),
    [
        (Deal(9**15, NOW_MS + 10**12), 1),  # huge, and far ahead: taken, for its price is one
        (Deal(9**15, NOW_MS + 10**12, "60000000000.0"), 0),  # refused
        (Deal(9**15, NOW_MS), 1),
    ],
)
def test_a_trade_of_a_wrong_number_makes_no_repetitions_of_all_that_follow(wrong, taken):
    feed = unconnected(ticks=frozenset({"trades"}))
    texts = [Deal(1, NOW_MS - 2).text, wrong.text]
    assert len(told(feed, texts, NOW_MS * 10**6).of(Kind.TRADE)) == 1 + taken
    waits_ms = 60_001 if taken and wrong.at_ms > NOW_MS else 1
    later = [Deal(2, NOW_MS + waits_ms).text, Deal(3, NOW_MS + waits_ms + 1).text]
    sink = told(feed, [*later, *later], (NOW_MS + waits_ms + 5) * 10**6)
    assert sink.of(Kind.TRADE)["payload"][:, 2].tolist() == [2, 3]
    assert feed._words[-FAULTS:][Fault.DUPLICATE] == 2


def test_a_change_of_a_wrong_number_and_time_is_a_gap_and_no_book_that_stands_still():
    """What came after it was left out as a repetition, on a connection that lived."""
    feed = unconnected(ticks=frozenset({"book"}))

    def change(first: int, last: int, before: int, at_ms: int) -> bytes:
        return (
            f'{{"stream":"btcusdt@depth","data":{{"e":"depthUpdate","E":{at_ms},"T":{at_ms},'
            f'"s":"BTCUSDT","U":{first},"u":{last},"pu":{before},"b":[["100.0","1.0"]],"a":[]}}}}'
        ).encode()

    told(feed, [change(8, 10, 7, NOW_MS - 3)], NOW_MS * 10**6)
    body = b'{"lastUpdateId":10,"bids":[["100.0","1.0"]],"asks":[["101.0","1.0"]]}'
    feed._snapshot(0, Answer(body, 0, 0), Kept())
    far = change(11, 9**15, 10, NOW_MS + 10**12)
    assert len(told(feed, [far], NOW_MS * 10**6).of(Kind.BOOK_DELTA)) == 1
    after = change(12, 13, 11, NOW_MS + 60_001)
    assert Feed.GAP in told(feed, [after], (NOW_MS + 60_005) * 10**6).states()


def test_dials_that_fail_are_tried_again():
    dialect = binance.made_up(steps=4_000)
    with Venue(dialect, speed=1.0) as venue, running(spec_of(venue)) as (_, sink):
        good(sink)
        venue.faults.dial(Dial.REFUSED, Dial.CLOSED)
        venue.drop_all()
        until(lambda: sink.states().count(Feed.RESET) == 3, sink.states)
        good(sink, 2)
        played_to_the_end(venue, sink, known(dialect))
        assert venue.log.live_max == 1
