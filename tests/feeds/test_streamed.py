"""Coinbase, OKX and Kraken live: recordings, and what a venue may do wrong (cases D1 to D8).

The decoders are compiled when the first test needs them, not when tests are collected.
"""

import random
import resource
import threading
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from typing import Any

import msgspec
import numpy as np
import pytest

from quantdsl.data.ticks import Fault
from quantdsl.errors import FeedError
from quantdsl.events.layout import EVENT, Feed, Kind
from quantdsl.live.connection import Backoff, Connection, stay_connected
from quantdsl.live.feed import FeedSpec, Health, open_feed
from tests.venues import coinbase, kraken, okx
from tests.venues.faults import Close, Dial, Insert, Instead, Lose, Reset, mutations
from tests.venues.server import Venue
from tests.venues.streamed import ALL, Books, batch, desk, play
from tests.venues.tape import Book
from tests.waiting import WAIT_S, until

DIALECTS: dict[str, Any] = {"okx": okx, "kraken": kraken, "coinbase": coinbase}
COUNTED = ("okx", "kraken")
"""Venues that let a client see that a change of a book is missing."""

@dataclass
class Adapter:
    """One adapter on a desk, and the made-up market that it hears."""

    name: str
    levels: int = 40

    def __post_init__(self) -> None:
        given = {"levels": self.levels} if self.name == "okx" else {}
        self.venue = DIALECTS[self.name].made_up(steps=300, **given)
        self.symbol = self.venue.tape[0].symbol
        # The units of the venue, not those that few steps of a tape happen to show.
        self.units = {"okx": (Fraction(1, 10), Fraction(1, 100)),
                      "kraken": (Fraction(1, 10), Fraction(1, 10**8)),
                      "coinbase": (Fraction(1, 100), Fraction(1, 1000))}[self.name]
        self.books = [one.text for one in self.venue.tape if one.book]

    def desk(self, **spec: Any) -> Any:
        feed = open_feed(FeedSpec(feed=self.name, symbols=(self.symbol,)))
        return desk(feed, {self.symbol: self.units}, **spec)

    def snapshot(self, after: int) -> str:
        """What a subscriber gets once `after` messages of the book were played."""
        dialect = type(self.venue)([one for one in self.venue.tape if one.book][:after])
        dialect.cursor = after
        (text,) = dialect.snapshot(self.symbol)
        return text

    def oracle(self, after: int) -> Book:
        dialect = type(self.venue)([one for one in self.venue.tape if one.book][:after])
        dialect.fold(after)
        found: Book = dialect.books[self.symbol]
        return found

    def sides(self, book: Book) -> Any:
        return book.in_units(*self.units)


@pytest.fixture(scope="module", params=list(DIALECTS))
def adapter(request):
    return Adapter(request.param)


# ---- what the venues sent ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "checked", "trades", "quotes"),
    [("okx", 290, 74, 204), ("kraken", 4_269, 10, 810), ("coinbase", 0, 97, 1_778)],
)
def test_recorded_books_are_those_of_the_venue(name, checked, trades, quotes):
    """All books at the end, every checksum on the way, no fault; trades as the venue has them.

    What earlier batches left in the room for events is read by nobody.
    """
    venue = DIALECTS[name].cryptofeed()
    one = desk(open_feed(FeedSpec(feed=name, symbols=tuple(venue.units))), venue.units)
    earlier = one._out.view(EVENT)
    earlier["kind"], earlier["payload"] = Kind.QUOTE, [10**12, 1, 1, 1, 1]  # crossed, and a jump
    books = Books()
    books.push(play(one, [message.text for message in venue.tape]))
    venue.fold(len(venue.tape))
    for place, (symbol, units) in enumerate(venue.units.items()):
        assert books.sides[place] == venue.books[symbol].in_units(*units)
        assert books.valid[place]
    assert int(one.states[:, _word("CHECKED")].sum()) == checked
    assert (len(books.trades), len(books.quotes)) == (trades, quotes)
    assert not one.faults.any()
    received, processed, passed, dropped = one.tally[:4].tolist()
    assert (received, dropped) == (len(venue.tape), 0)
    assert processed + passed == received


def test_quotes_alone_come_from_coinbases_ticker():
    venue = coinbase.cryptofeed()
    feed = open_feed(FeedSpec(feed="coinbase", symbols=tuple(venue.units)))
    one = desk(feed, venue.units, ticks=frozenset({"quotes"}))
    events = play(one, [message.text for message in venue.tape])
    assert np.count_nonzero(events["kind"] == Kind.QUOTE) == 107
    assert not np.isin(events["kind"], (Kind.BOOK_DELTA, Kind.TRADE)).any()


def _word(name: str) -> int:
    found: int = getattr(import_module("quantdsl.feeds.settle"), name)
    return found


# ---- D1: something is missing ------------------------------------------------------------------


@pytest.mark.parametrize("name", COUNTED)
@pytest.mark.parametrize("lost", [1, 2, 200])
def test_d1_a_gap_is_seen_at_once_and_a_snapshot_mends_it(name, lost):
    """OKX: by the next message. Kraken: by the first whose ten best levels are not ours."""
    adapter, begun = Adapter(name), 50
    one, books = adapter.desk(), Books()
    books.push(play(one, adapter.books[:begun]))
    assert books.sides[0] == adapter.sides(adapter.oracle(begun))
    place = begun + lost
    if name == "kraken":
        ours = adapter.oracle(begun)
        while True:
            for side, level in kraken.changes_of(adapter.books[place]):
                ours.set(side, level[0], level[1])
            if kraken.checksum(ours) != kraken.checksum(adapter.oracle(place + 1)):
                break
            place += 1
    books.push(play(one, adapter.books[begun + lost : place]))
    assert books.valid[0]
    books.push(play(one, [adapter.books[place]]))
    assert (books.valid[0], books.good[0]) == (False, False)
    counts = one.faults[Fault.GAP], one.faults[Fault.CHECKSUM]
    assert tuple(counts) == ((1, 0) if name == "okx" else (0, 1))
    later = play(one, adapter.books[place + 1 : place + 9])
    assert not len(later), "a book that is not known changes for nobody"
    assert one.faults[Fault.NO_SNAPSHOT] == 8
    books.push(play(one, [adapter.snapshot(place + 9), *adapter.books[place + 9 : place + 19]]))
    assert books.sides[0] == adapter.sides(adapter.oracle(place + 19))
    assert (books.valid[0], books.good[0]) == (True, True)
    assert [state for _, state in books.feed] == [Feed.GOOD, Feed.GAP, Feed.GOOD]


def test_d1_what_coinbase_lets_one_see():
    """Matches are counted; a book that crosses, or whose time runs backward, is given up."""
    adapter = Adapter("coinbase")
    one, books = adapter.desk(), Books()
    matches = [m.text for m in adapter.venue.tape if m.channel == "matches"]
    books.push(play(one, [adapter.books[0], matches[0], matches[2]]))
    assert one.faults[Fault.GAP] == 1
    assert books.valid[0]
    books.push(play(one, [adapter.books[9], adapter.books[5]]))
    assert (books.valid[0], one.faults[Fault.BACKWARD]) == (False, 1)
    books.push(play(one, [adapter.snapshot(20)]))
    top = adapter.oracle(20).levels(1, 1)[0][0]
    text = adapter.books[20].replace("[[", f'[["buy","{top}","1.000"],[', 1)
    books.push(play(one, [text]))
    assert (books.valid[0], one.faults[Fault.CROSSED]) == (False, 1)


# ---- D2, D3: in any order ----------------------------------------------------------------------


@dataclass
class Walk:
    """Random deliveries of one tape; what the adapter believes is compared after each."""

    adapter: Adapter
    seed: int

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.count = 60
        self.snapshots = [self.adapter.snapshot(n) for n in range(1, self.count + 1)]
        self.states = [self.adapter.sides(self.adapter.oracle(n)) for n in range(1, self.count + 1)]
        self.desk = self.adapter.desk(ticks=frozenset({"book"}))

    def one(self, losses: bool) -> int:
        """Begins somewhere, before or behind the snapshot's place; how many books were compared."""
        rng, compared, books = self.rng, 0, Books()
        self.desk.forget_books()
        self.desk.states[:] = 0
        at = 1 + rng.randrange(self.count - 8)
        early = max(0, at - rng.randrange(4))
        order = list(range(early, at + 1))
        assert not len(play(self.desk, [self.adapter.books[n] for n in order if n]))
        books.push(play(self.desk, [self.snapshots[at]]))
        last = at
        for place in range(at + 1, at + 6):
            draw = rng.random()
            if draw < 0.1 and losses:
                continue
            texts = [self.adapter.books[place]]
            if draw > 0.9:
                texts *= 2
            elif draw > 0.8:
                texts.append(self.adapter.books[rng.randrange(max(1, at - 3), place)])
            for text in texts:
                books.push(play(self.desk, [text]))
                if self.desk.states[0, _RESYNC]:
                    self.desk.states[0, _RESYNC] = 0
                    assert not books.valid[0]
                    books.push(play(self.desk, [self.snapshots[place]]))
                last = place
                assert books.valid[0]
                assert books.sides[0] == self.states[last], (self.seed, at, place)
                compared += 1
        return compared


_RESYNC = 8


def test_d2_ten_thousand_interleavings_of_snapshot_and_changes():
    """OKX: losses, repetitions, old messages; after each message the book is the oracle's."""
    assert _word("RESYNC") == _RESYNC
    walk = Walk(Adapter("okx", levels=6), 2)
    assert sum(walk.one(losses=True) for _ in range(10_000)) > 45_000


@pytest.mark.parametrize("name", ["kraken", "coinbase"])
def test_d3_repetitions_and_old_messages_never_move_a_book_back(name):
    adapter = Adapter(name)
    one, books, rng = adapter.desk(ticks=frozenset({"book"})), Books(), random.Random(3)
    states = [adapter.sides(adapter.oracle(n)) for n in range(1, 200)]
    books.push(play(one, adapter.books[:2]))
    for place in range(2, 199):
        old = rng.randrange(max(1, place - 4), place)
        texts = [adapter.books[place]] * 2 + [adapter.books[old]] * (rng.random() < 0.2)
        for text in texts:
            books.push(play(one, [text]))
            if not books.valid[0]:
                books.push(play(one, [adapter.snapshot(place + 1)]))
            if name == "coinbase" or text is not adapter.books[old]:
                assert books.sides[0] == states[place], place
            else:  # Kraken's checksum covers ten levels a side; an old one below is not seen
                ours, true = books.sides[0], states[place]
                assert sorted(ours[0])[-10:] == sorted(true[0])[-10:]
                assert sorted(ours[1])[:10] == sorted(true[1])[:10]
                books.push(play(one, [adapter.snapshot(place + 1)]))


def _trades_of(adapter: Adapter) -> list[str]:
    return [m.text for m in adapter.venue.tape if m.channel in ("trades", "trade", "matches")]


def _changed_trade(adapter: Adapter, text: str, **new: str) -> str:
    found = msgspec.json.decode(text)
    one = found["data"][0] if adapter.name == "okx" else found
    names = {"number": "tradeId", "time": "ts", "price": "px"} if adapter.name == "okx" else {
        "number": "trade_id", "time": "time", "price": "price"}
    for what, value in new.items():
        one[names[what]] = int(value) if names[what] == "trade_id" else value
    return msgspec.json.encode(found).decode()


AFTER_NS = 2 * 10**18
"""When a message is received whose number and time are wrong; nothing of the tape is so late."""


@pytest.mark.parametrize("name", ["okx", "coinbase"])
@pytest.mark.parametrize("new", [
    {"number": "9" * 15}, {"number": "9" * 15, "price": "12345678900.0"},
    {"number": "9" * 15, "time": "far"},
])  # fmt: skip
def test_d3_a_trade_of_a_wrong_number_makes_no_repetitions_of_all_that_follow(name, new):
    adapter = Adapter(name)
    one, books, texts = adapter.desk(ticks=frozenset({"trades"})), Books(), _trades_of(adapter)
    one.edges[:, import_module("quantdsl.feeds.edge").CLOCK] = 0
    far = {"okx": "9" * 15, "coinbase": "2250-01-01T00:00:00.000000Z"}[name]
    new = new | ({"time": far} if "time" in new else {})
    books.push(play(one, texts[:2], AFTER_NS))
    books.push(play(one, [_changed_trade(adapter, texts[2], **new)], AFTER_NS))
    first = len(books.trades)
    assert first == 2 + ("price" not in new)
    # Its time is remembered as one that its receipt allows, so what is later counts again.
    later = {"okx": str(2 * 10**12 + 61_000), "coinbase": "2033-05-18T03:34:21.000000Z"}[name]
    again = [_changed_trade(adapter, texts[3], time=later)] if "time" in new else texts[3:4]
    books.push(play(one, [*again, *again], AFTER_NS + 61 * 10**9))
    assert len(books.trades) == first + 1
    assert one.faults[Fault.DUPLICATE] == 1


def test_d3_a_change_of_a_wrong_time_makes_not_all_that_follow_run_backward():
    adapter = Adapter("coinbase")
    one, books = adapter.desk(ticks=frozenset({"book"})), Books()
    one.edges[:, import_module("quantdsl.feeds.edge").CLOCK] = 0

    def timed(place: int, time: str) -> str:
        found = msgspec.json.decode(adapter.books[place]) | {"time": time}
        return msgspec.json.encode(found).decode()

    books.push(play(one, [*adapter.books[:3], timed(3, "2250-01-01T00:00:00.0Z")], AFTER_NS))
    assert books.valid[0]
    books.push(play(one, [timed(4, "2033-05-18T03:33:21.0Z")], AFTER_NS))
    assert not books.valid[0]
    books.push(play(one, [adapter.snapshot(5)], AFTER_NS))
    books.push(play(one, [timed(5, "2033-05-18T03:34:21.0Z")], AFTER_NS + 61 * 10**9))
    assert books.valid[0]


def test_d3_a_sequence_that_begins_anew_without_a_snapshot_is_a_gap():
    adapter = Adapter("okx")
    one, books = adapter.desk(), Books()
    books.push(play(one, adapter.books[:100]))
    found = msgspec.json.decode(adapter.books[100])
    found["data"][0] |= {"prevSeqId": 3, "seqId": 5}
    books.push(play(one, [msgspec.json.encode(found).decode()]))
    assert (books.valid[0], one.faults[Fault.GAP]) == (False, 1)


# ---- D6, D7: what is no market data -------------------------------------------------------------


def test_d6_damaged_messages_are_dropped_and_counted(adapter):
    """3,000 mutations between sound messages: no exception, no bad number. bench_live_decode.py
    holds that none makes a pause."""
    one, books = adapter.desk(), Books()
    corpus = [message.text.encode() for message in adapter.venue.tape[:200]]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number, text in zip(range(3_000), mutations(6, corpus), strict=False):
        waiting, place = batch([text], number), 0
        place, events = one.decode(waiting, 0)
        books.push(events)
        assert place in (0, 1)
    received, processed, passed, dropped = one.tally[:4].tolist()
    assert dropped > 1_000
    assert received == processed + passed + dropped
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10
    books.push(play(one, [adapter.snapshot(50), *adapter.books[50:60]]))
    assert books.sides[0] == adapter.sides(adapter.oracle(60))


def _price_changed(adapter: Adapter, text: str, price: str) -> str:
    """The message with another price in its first level."""
    found = msgspec.json.decode(text)
    if adapter.name == "okx":
        part = found["data"][0]
        (part["asks"] or part["bids"])[0][:2] = price, "1"
    elif adapter.name == "kraken":
        next(iter(found[1].values()))[0][:2] = price, "1.00000000"
    else:
        found["changes"][0][1:] = price, "1"
    return msgspec.json.encode(found).decode()


@pytest.mark.parametrize(
    ("price", "fault"),
    [("-5.0", Fault.PRICE), ("0", Fault.PRICE), ("1000.00001", Fault.OFF_TICK), ("x", None),
     ("1e5", None), ("NaN", None), ("99999999999999999999999", None)],
)
def test_d7_a_level_that_is_none_makes_the_book_worthless(adapter, price, fault):
    one, books = adapter.desk(), Books()
    books.push(play(one, [adapter.snapshot(50)]))
    books.push(play(one, [_price_changed(adapter, adapter.books[50], price)]))
    assert not books.valid[0]
    counts = {Fault(n): int(one.faults[n]) for n in np.flatnonzero(one.faults)}
    # A checksum, where there is one, fails before a price is looked at.
    expected = {fault} if fault else {Fault.UNREADABLE}
    assert set(counts) in ({Fault.CHECKSUM}, expected, {Fault.CROSSED}), counts


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [("price", "0", Fault.PRICE), ("price", "-1.0", Fault.PRICE), ("size", "0", Fault.SIZE),
     ("size", "-1", Fault.SIZE), ("price", "12345678900.0", Fault.JUMP)],
)
def test_d7_a_trade_that_is_none_is_left_out(adapter, field, value, fault):
    one, books = adapter.desk(ticks=frozenset({"trades"})), Books()
    texts = _trades_of(adapter)
    books.push(play(one, texts[:1]))
    found = msgspec.json.decode(texts[1])
    if adapter.name == "okx":
        found["data"][0]["px" if field == "price" else "sz"] = value
    elif adapter.name == "kraken":
        found[1][0][0 if field == "price" else 1] = value
    else:
        found[field] = value
    books.push(play(one, [msgspec.json.encode(found).decode(), *texts[2:4]]))
    assert len(books.trades) == 3
    assert one.faults[fault] == 1


def test_d7_an_instrument_that_nobody_asked_for_is_dropped(adapter):
    one = adapter.desk()
    play(one, [adapter.snapshot(50)])
    assert not len(play(one, [adapter.books[50].replace(adapter.symbol, "ELSE")]))
    assert one.faults[Fault.UNKNOWN_INSTRUMENT] == 1
    assert one.tally[3] == 1


# ---- over a network: D4, D5, D8 -----------------------------------------------------------------


class Running:
    """A feed on a thread against a test venue, and the books of its sink.

    The tape is played to a connection that has sent all its subscriptions. An instrument is stale
    after an hour unless a test says otherwise, so that a slow machine makes none stale.
    """

    def __init__(self, venue: Venue, name: str, symbols: tuple[str, ...], **spec: Any) -> None:
        spec = {"ticks": ALL, "good_messages_min": 2, "stale_ns_max": 3600 * 10**9} | spec
        self.feed = open_feed(FeedSpec(
            feed=name, symbols=symbols, stream_url=venue.stream_url + "/ws/v5/public",
            rest_url=venue.rest_url, ca_file=venue.ca_file, **spec))
        self.books, self._stop = Books(), threading.Event()
        self.instruments = self.feed.instruments()
        venue.texts_min = 2  # the book and the trades
        self._thread = threading.Thread(
            target=self.feed.run, args=(self.books, self._stop), daemon=True)

    def __enter__(self) -> "Running":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()

    def until(self, what: Any) -> None:
        until(what, lambda: (self.feed.health, self.books.feed, self.books.good))


@pytest.fixture
def hurried(monkeypatch):
    """Waits of a hundredth of a second between dials."""
    monkeypatch.setattr(Backoff, "FIRST_S", 0.01)


def test_a_session_of_a_venue_from_subscribing_to_the_end(adapter):
    """D8 too: played as fast as it is read, every message is processed or counted; none is lost."""
    dialect = type(adapter.venue)(adapter.venue.tape)
    with (
        Venue(dialect) as venue,
        Running(venue, adapter.name, (adapter.symbol,), first=7) as run,
    ):
        (found,) = run.instruments
        assert (found.symbol, found.tick) == (adapter.symbol, adapter.units[0])
        health = run.feed.health
        run.until(lambda: health.received >= _sent(adapter))
        assert (health.dropped, health.gaps, health.connects) == (0, 0, 1)
        assert health.processed + health.ignored == health.received == _sent(adapter)
        assert health.state == "live"
        assert health.last_event_ns > 0
        tick, lot = found.tick, found.lot
        assert run.books.sides[7] == adapter.oracle(len(adapter.books)).in_units(tick, lot)
    assert (health.state, venue.log.live_max) == ("stopped", 1)
    assert run.books.feed[-1] == (7, Feed.RESET)


def test_the_venues_time_is_asked_for_with_each_connection(adapter, hurried):
    """What was estimated when the feed was opened is as old as it took to compile, or as a night:
    orders were seconds on their way, and a maker's were refused as too many."""
    with (
        Venue(type(adapter.venue)(adapter.venue.tape), speed=1.0) as venue,
        Running(venue, adapter.name, (adapter.symbol,)) as run,
    ):
        health = run.feed.health
        for connection in (1, 2):
            health.clock_offset_ns, health.clock_error_ns = 123, 0
            if connection == 2:
                venue.drop_all()
            run.until(lambda n=connection: health.connects == n and health.clock_error_ns)
            assert health.clock_offset_ns != 123
            assert (health.clock_error_ns > 10**9) == (adapter.name == "kraken")  # whole seconds


def _sent(adapter: Adapter) -> int:
    """Messages of the tape that a client of all ticks asked for: no ticker beside a book."""
    return sum(one.channel != "ticker" for one in adapter.venue.tape)


@pytest.mark.parametrize("name", COUNTED)
def test_d1_over_the_network_a_lost_book_is_asked_for_again(name):
    adapter = Adapter(name)
    dialect = type(adapter.venue)(adapter.venue.tape)
    with Venue(dialect) as venue:
        venue.faults.at(40, Lose(25))
        venue.hold_before(len(dialect.tape) - 50)
        with Running(venue, adapter.name, (adapter.symbol,)) as run:
            run.until(lambda: run.feed.health.resyncs and run.books.valid.get(0))
            venue.resume()
            run.until(lambda: venue.cursor == len(dialect.tape))
            run.until(lambda: run.books.valid.get(0) and run.books.good.get(0))
            run.until(lambda: run.books.sides[0] == adapter.sides(adapter.oracle(9**9)))
        assert venue.log.live_max == 1
    assert run.feed.health.gaps >= 1
    assert run.feed.health.connects == 1


def test_d4_silence_with_heartbeats_is_stale_until_good_messages_come(adapter):
    dialect = type(adapter.venue)(adapter.venue.tape)
    with Venue(dialect, speed=0, ping_s=0.05) as venue:
        venue.hold_before(60)
        with Running(venue, adapter.name, (adapter.symbol,), stale_ns_max=400_000_000) as run:
            run.until(lambda: (0, Feed.STALE) in run.books.feed)
            run.until(lambda: run.feed.health.state == "stale")
            venue.resume()
            run.until(lambda: len(run.books.feed) >= 3)
    states = [state for _, state in run.books.feed]
    assert states[:3] == [Feed.GOOD, Feed.STALE, Feed.GOOD]
    assert run.feed.health.connects == 1


def test_d4_the_venues_time_that_stands_still_is_stale(adapter):
    """One message again and again is no news, whatever it says."""
    from quantdsl.feeds.edge import standing_still

    one = adapter.desk(good_messages_min=1)
    play(one, [adapter.snapshot(50), *adapter.books[50:55]], 1_000)
    for now in range(1_000, 9_000, 1_000):
        play(one, [adapter.books[54]], now)
    assert standing_still(one.edges, 9_000, 5_000) == [0]
    assert standing_still(one.edges, 5_000, 5_000) == []


@pytest.mark.parametrize("how", list(Dial))
def test_d5_every_way_to_fail_a_dial_ends_in_a_connection(hurried, monkeypatch, how):
    """Dials are the same for all; one adapter stands for them. Two that would never end are given
    up soon, the others have all the time they need."""
    from quantdsl.feeds import streamed

    bounds_s = iter([WAIT_S if how is Dial.CLOSED else 0.5] * 2)
    monkeypatch.setattr(streamed, "Connection", lambda url, **given: Connection(
        url, dial_s_max=next(bounds_s, WAIT_S), **given))
    adapter = Adapter("okx")
    dialect = type(adapter.venue)(adapter.venue.tape)
    with Venue(dialect) as venue:
        run = Running(venue, adapter.name, (adapter.symbol,))
        venue.faults.dial(how, how)
        with run:
            run.until(lambda: run.books.good.get(0))
        assert venue.log.live_max == 1
        assert len(venue.log.dials_s) >= 4  # one for the instruments, one for the clock
        assert run.feed.health.connects == 1 + 2 * (how is Dial.CLOSED)


@pytest.mark.parametrize("how", [Reset(), Close(1001), Close(1012, linger_s=5.0)])
def test_d5_a_connection_that_ends_is_made_anew_with_a_fresh_book(adapter, hurried, how):
    dialect = type(adapter.venue)(adapter.venue.tape)
    with Venue(dialect) as venue:
        for at in (30, 60, 90):
            venue.faults.at(at, how)
        with Running(venue, adapter.name, (adapter.symbol,)) as run:
            run.until(lambda: run.feed.health.connects == 4)
            run.until(lambda: run.books.sides.get(0) == adapter.sides(adapter.oracle(9**9)))
            run.until(lambda: run.books.good[0])
        assert len(venue.log.streams_s) == 4
        subscribed = [text for text in venue.log.texts if "book" in text or "level2" in text]
        assert len(subscribed) >= 4
    # A connection that ended while it subscribed had nothing to take back.
    assert 1 <= [state for _, state in run.books.feed].count(Feed.RESET) <= 4
    assert run.books.feed[-1] == (0, Feed.RESET)


def test_d5_ten_thousand_lost_connections_wait_longer_and_leave_nothing():
    """Delays grow by 1.618 up to 30 s, and no clock is waited for."""
    waits: list[float] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0.0)
            return len(waits) >= 10_000 and (self.set() or True)

    def dial() -> Connection:
        raise FeedError("nobody listens")

    stop, threads = Stop(), threading.active_count()
    stay_connected(dial, lambda _: None, Health(name="x"), stop, Backoff(seed=5))
    assert len(waits) == 10_000
    for number, wait in enumerate(waits):
        base = min(1.618**min(number, 50), 30.0)
        assert base / 2 <= wait <= base
    assert threading.active_count() <= threads


def test_d6_garbage_on_the_wire_is_counted_and_no_more(adapter):
    dialect = type(adapter.venue)(adapter.venue.tape)
    with Venue(dialect, speed=0) as venue:
        for at, text in enumerate(("{", "[" * 100_000, '{"a":1,"a":2}', "\x00", "9" * 60_000)):
            venue.faults.at(30 + at, Insert(text))
        venue.faults.at(50, Instead(lambda text: text[: len(text) // 2]))
        with Running(venue, adapter.name, (adapter.symbol,)) as run:
            run.until(lambda: venue.cursor == len(dialect.tape))
            run.until(lambda: run.books.valid.get(0)
                      and run.books.sides[0] == adapter.sides(adapter.oracle(9**9)))
    health = run.feed.health
    assert (health.connects, health.dropped >= 5) == (1, True)


def test_a_feed_that_is_stopped_reads_no_more_than_twice(adapter, monkeypatch):
    """Each read and the farewell are bounded, so that this is what makes its end come soon."""
    from quantdsl.feeds import streamed

    reads: list[bool] = []

    class Counted(Connection):
        def receive(self) -> Any:
            reads.append(run._stop.is_set())
            return super().receive()

    monkeypatch.setattr(streamed, "Connection", Counted)
    dialect = type(adapter.venue)(adapter.venue.tape)
    with Venue(dialect) as venue:
        run = Running(venue, adapter.name, (adapter.symbol,))
        with run:
            run.until(lambda: run.books.good.get(0))
    assert len(reads) > sum(reads) <= 1
    assert run.feed.health.connects == 1


def test_a_symbol_that_the_venue_does_not_list_is_refused_with_its_words(adapter):
    dialect = type(adapter.venue)(adapter.venue.tape)
    with Venue(dialect) as venue, pytest.raises(FeedError, match=r"NO-SUCH|HTTP 404"):
        Running(venue, adapter.name, ("NO-SUCH",))


def test_bars_are_refused_before_anything_is_asked(adapter):
    with pytest.raises(FeedError, match="no bars of 1m"):
        open_feed(FeedSpec(feed=adapter.name, symbols=("A",), bars=("1m",)))
