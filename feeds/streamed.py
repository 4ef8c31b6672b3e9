"""A live feed of a venue that sends snapshots of its books itself: all but the venue's own words.

    subscribe -> batch -> compiled decoder -> events to the session; what is of no market: refusal?
    a book was lost -> subscribe anew, again after a while, at last reconnect
    a thread beside asks for the venue's time, for each connection and then every ten minutes

A Venue says how it is asked and how its messages are read. Coinbase, OKX and Kraken are three.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from typing import ClassVar, TypeVar

import msgspec
import numpy as np
from quantdsl.feeds.edge import CLOCK, OFF, edges, in_our_time, in_words, standing_still, states
from quantdsl.feeds.settle import (
    BOOK,
    DROPPED,
    PASSED,
    PROCESSED,
    QUOTES,
    RECEIVED,
    RESYNC,
    ROW_BYTES,
    ROWS,
    SYNC,
    TALLY,
    TRADES,
    WAITING,
    WORDS,
)

from quantdsl.codegen.decoders import Entry
from quantdsl.data.instrument import Instrument, decimals
from quantdsl.data.ticks import FAULTS, Events, Fault
from quantdsl.data.times import Interval
from quantdsl.errors import FeedError
from quantdsl.events.layout import EVENT, Feed
from quantdsl.live.connection import (
    MESSAGE_BYTES_MAX,
    Batch,
    Connection,
    split,
    stay_connected,
)
from quantdsl.live.feed import FeedSpec, Health, Sink
from quantdsl.live.rest import Answer, VenueClock, get

SYMBOL_BYTES_MAX = 31
_LEVEL_BYTES = 9
"""A level takes at least as many bytes of text."""

BEAT_S = 15.0
"""Silence after which the venue is asked whether it is there."""

SILENT_S_MAX = 30.0
"""Silence after which the connection is given up."""

SNAPSHOT_S_MAX = 5.0
"""A snapshot that was asked for comes sooner, or is asked for again."""

ASKS_MAX = 3
"""Requests for one snapshot before the connection is given up."""

CLOCK_S = 600.0
"""Clocks drift: the venue's time is asked for so often while a connection holds."""

_BITS = {"book": BOOK, "quotes": QUOTES, "trades": TRADES}
_T = TypeVar("_T")


def answer_of(answer: Answer, shape: type[_T], where: str) -> _T:
    """The answer to a request; FeedError where it has not the venue's shape."""
    try:
        return msgspec.json.decode(answer.body, type=shape)
    except msgspec.MsgspecError as error:
        raise FeedError(f"{where}: the venue's answer is not understood: {error}") from None


class Venue(ABC):
    """What a streamed feed has to know of one venue."""

    name: ClassVar[str]
    code: ClassVar[str]
    stream_url: ClassVar[str]
    rest_url: ClassVar[str]
    decode: Entry
    """Of `settle.decoder`."""
    uncounted: ClassVar[bool] = False
    """No change of a book is numbered or verified, so what cannot be read may have been one."""
    keeps: ClassVar[int] = BOOK | QUOTES
    """What is asked for where a book is subscribed to."""
    beat: ClassVar[str] = ""
    """Text of the venue's own ping; empty for that of websockets."""
    levels_max: int = 1 << 12
    message_bytes_max: ClassVar[int] = MESSAGE_BYTES_MAX

    @abstractmethod
    def instrument(self, ask: Callable[..., Answer], symbol: str) -> Instrument:
        """Ask for one instrument: ask(path, name=value, ...)."""

    @abstractmethod
    def subscribe(self, symbols: tuple[str, ...], asked: int) -> list[str]:
        """Texts that subscribe."""

    @abstractmethod
    def resubscribe(self, symbol: str) -> list[str]:
        """Texts that bring a new snapshot of one book."""

    @abstractmethod
    def refusal(self, text: bytes) -> str:
        """What the venue refuses in a message of no market; empty for other talk."""

    clock_path: ClassVar[str]
    clock_step_ms: ClassVar[float] = 1.0
    """The venue's time is told in steps of this, rounded down."""

    @abstractmethod
    def clock_ms(self, body: bytes) -> float:
        """The venue's time, ms since 1970, from the answer of `clock_path`."""


class StreamedFeed:
    """A `LiveFeed`; see quantdsl/live/feed.py."""

    def __init__(self, spec: FeedSpec, venue: Venue) -> None:
        self.name, self.symbols = spec.feed, spec.symbols
        self.health = Health(name=spec.feed)
        self._spec, self._venue = spec, venue
        for one in (venue.decode, split, in_our_time):
            one.ready()
        if spec.bars:
            raise FeedError(
                f"the feed {spec.feed} brings quotes, trades and books, no bars of {spec.bars[0]}\n"
                "help: let the strategy listen to its ticks, or take bars from the feed binance"
            )
        for symbol in spec.symbols:
            if not symbol.isascii() or not 0 < len(symbol) <= SYMBOL_BYTES_MAX:
                raise FeedError(f"{symbol!r} is no symbol of {venue.code}")
        self._asked = sum(_BITS[one] for one in spec.ticks if one in _BITS)
        self.desk: Desk | None = None

    def instruments(self) -> list[Instrument]:
        found = [self._venue.instrument(self._ask, symbol) for symbol in self.symbols]
        self.desk = Desk(self._venue, self._spec, self._asked, found)
        self._set_clock(self._clock())
        return found

    def history(self, symbol: str, interval: Interval, since_ns: int) -> Events:  # noqa: ARG002
        return np.empty(0, EVENT)

    def run(self, sink: Sink, stop: Event) -> None:
        assert self.desk is not None, "instruments() comes first"
        desk = self.desk

        def serve(connection: Connection) -> None:
            # Anew for each connection: meanwhile a machine may have slept, or long compiled.
            clock = _ClockBeside(self._clock, self._set_clock)
            service = _Service(self._venue, self._spec, desk, self.health, sink, connection, clock)
            service.run(stop)

        stay_connected(self._dial, serve, self.health, stop)

    def _dial(self) -> Connection:
        return Connection(
            self._spec.stream_url or self._venue.stream_url,
            ca_file=self._spec.ca_file,
            message_bytes_max=self._venue.message_bytes_max,
        )

    def _ask(self, path: str, **query: str) -> Answer:
        url = (self._spec.rest_url or self._venue.rest_url) + path
        return get(url, query, ca_file=self._spec.ca_file)

    def _clock(self) -> VenueClock:
        """One question for the venue's time; FeedError where the answer is none.

        It is never taken to be later than it is: by a venue that is ahead, what happened there
        would be older than it is, and orders would be long on their way.
        """
        answer = self._ask(self._venue.clock_path)
        try:
            theirs_ns = int(self._venue.clock_ms(answer.body) * 1e6)
        except (msgspec.MsgspecError, KeyError, IndexError, TypeError, ValueError) as error:
            raise FeedError(f"{self._venue.code}: its clock is not understood: {error}") from None
        return answer.clock(theirs_ns, int(self._venue.clock_step_ms * 1e6))

    def _set_clock(self, clock: VenueClock) -> None:
        self.health.clock_offset_ns, self.health.clock_error_ns = clock
        assert self.desk is not None, "instruments() makes it"
        self.desk.edges[:, CLOCK] = clock.offset_ns


class _ClockBeside:
    """Asks for the venue's time on a thread of its own, so that no answer holds up the stream."""

    def __init__(self, ask: Callable[[], VenueClock], take: Callable[[VenueClock], None]) -> None:
        self._ask, self._take = ask, take
        self._asked_s = -np.inf
        self._found: list[VenueClock] = []

    def look(self, now_s: float) -> None:
        """Take an answer that came, and ask where it is time to; called by the feed's thread."""
        if self._found:
            self._take(self._found.pop())
        if now_s - self._asked_s >= CLOCK_S:
            self._asked_s = now_s
            Thread(target=self._answer, name="clock of a venue", daemon=True).start()

    def _answer(self) -> None:
        with suppress(FeedError):  # the estimate before stands
            self._found.append(self._ask())


class Desk:
    """The arrays of a feed, made once, and the compiled decoder over them."""

    def __init__(self, venue: Venue, spec: FeedSpec, asked: int,
                 instruments: list[Instrument]) -> None:
        size, depth = len(instruments), venue.levels_max if asked & venue.keeps else 1
        digits = [(decimals(one.tick) or 0, decimals(one.lot) or 0) for one in instruments]
        symbols = np.zeros((size, SYMBOL_BYTES_MAX + 1), np.uint8)
        for row, symbol in zip(symbols, spec.symbols, strict=True):
            text = symbol.encode("ascii")
            row[: len(text) + 1] = np.frombuffer(bytes([len(text)]) + text, np.uint8)
        self.states = np.zeros((size, WORDS), np.int64)
        self.keys = np.zeros((size, 2, depth), np.int64)
        self.sizes = np.zeros((size, 2, depth), np.int64)
        self.counts = np.zeros((size, 2), np.int64)
        self.edges = edges(instruments, digits, spec.good_messages_min)
        self.faults = np.zeros(FAULTS, np.int64)
        self.tally = np.zeros(TALLY, np.int64)
        self._decimals = np.array([one * 2 for one in digits], np.int64)
        room = np.empty((venue.message_bytes_max // _LEVEL_BYTES + 1, 4), np.int64)
        self._out = np.empty((venue.message_bytes_max // ROW_BYTES + 64, 8), np.int64)
        self._books = (
            symbols, self.states, self.keys, self.sizes, self.counts, self._decimals, self.edges,
            room, self.faults, np.zeros(32, np.int64), np.zeros(4096, np.uint8),
        )  # fmt: skip
        self._decode, self._uncounted = venue.decode.ready(), venue.uncounted
        self._first, self._asked = spec.first, asked

    def decode(self, batch: Batch, at: int) -> tuple[int, Events]:
        """Messages from `at` on: the next one, of no market unless the room was full; events."""
        out = self._out
        at = self._decode(batch.data, batch.spans, batch.size, at, batch.recv_ns, self._first,
                          self._asked, self._uncounted, self._books, out, self.tally)
        return at, out[: self.tally[ROWS]].view(EVENT).reshape(-1)

    def forget_books(self) -> None:
        """No book is known any more; trades stay counted."""
        self.states[:, SYNC] = WAITING
        self.states[:, RESYNC] = 0
        self.counts[:] = 0


class _Service:
    """One connection, from subscribing until it ends."""

    def __init__(self, venue: Venue, spec: FeedSpec, desk: Desk, health: Health, sink: Sink,
                 connection: Connection, clock: _ClockBeside) -> None:
        self._venue, self._spec, self._desk, self._clock = venue, spec, desk, clock
        self._health, self._sink, self._connection = health, sink, connection
        self._asks = [0] * len(spec.symbols)
        self._asked_s = [0.0] * len(spec.symbols)
        self._beat_s = time.monotonic()
        self._bytes = 0

    def run(self, stop: Event) -> None:
        """FeedError where the connection is of no use any more."""
        desk, health = self._desk, self._health
        desk.forget_books()
        health.state = "syncing"
        asked = sum(_BITS[one] for one in self._spec.ticks if one in _BITS)
        for text in self._venue.subscribe(self._spec.symbols, asked):
            self._connection.send(text)
        now_s = time.monotonic()
        for one in range(len(self._asked_s)):
            self._asked_s[one] = now_s if asked & self._venue.keeps else np.inf
        last_ns = health.last_recv_ns
        try:
            while not stop.is_set():
                batch = self._connection.receive()
                last_ns = max(last_ns, batch.recv_ns)
                self._take(batch)
                self._watch(batch.recv_ns)
        finally:
            everyone = range(len(self._spec.symbols))
            self._push(states(desk.edges, everyone, Feed.RESET, last_ns, self._spec.first))

    def _take(self, batch: Batch) -> None:
        at = 0
        while at < batch.size:
            at, events = self._desk.decode(batch, at)
            if len(events):
                self._health.last_event_ns = int(events["ts_event"][-1])
                in_our_time(events.view(np.int64), self._health.clock_offset_ns)
                self._push(events)
            elif at < batch.size:
                start, stop = batch.spans[at].tolist()
                self._talk(batch.data[start:stop].tobytes())
                at += 1
        if batch.size:
            self._count(batch.recv_ns)

    def _talk(self, text: bytes) -> None:
        """A message of no market: an answer or a heartbeat; a refusal ends the connection."""
        try:
            refused = self._venue.refusal(text)
        except msgspec.MsgspecError:
            self._desk.faults[Fault.UNREADABLE] += 1
            self._desk.tally[RECEIVED] += 1
            self._desk.tally[DROPPED] += 1
            return
        if refused:
            raise FeedError(f"{self._connection.url}: the venue refuses: {refused}")

    def _count(self, recv_ns: int) -> None:
        health, tally = self._health, self._desk.tally
        health.received, health.processed = int(tally[RECEIVED]), int(tally[PROCESSED])
        health.ignored, health.dropped = int(tally[PASSED]), int(tally[DROPPED])
        health.bytes_received += self._connection.bytes_received - self._bytes
        self._bytes = self._connection.bytes_received
        health.last_recv_ns = recv_ns
        health.latency_ns = recv_ns + health.clock_offset_ns - health.last_event_ns
        health.faults = in_words(self._desk.faults)
        health.gaps = sum(int(self._desk.faults[one]) for one in _GAPS)

    def _watch(self, now_ns: int) -> None:
        """What has to be done because time passed or a book was lost."""
        desk, now_s = self._desk, time.monotonic()
        self._clock.look(now_s)
        silent_s = self._connection.silent_s()
        if silent_s > SILENT_S_MAX:
            raise FeedError(f"{self._connection.url}: nothing came for {silent_s:.0f} s")
        if max(silent_s, now_s - self._beat_s) > BEAT_S:
            self._beat_s = now_s
            if self._venue.beat:
                self._connection.send(self._venue.beat)
            else:
                self._connection.ping()
        still = standing_still(desk.edges, now_ns, self._spec.stale_ns_max)
        if still:
            self._push(states(desk.edges, still, Feed.STALE, now_ns, self._spec.first))
            self._health.stales += len(still)
        off = bool((desk.edges[:, OFF] != 0).any())
        if not off:
            self._health.state = "live"
        elif still or self._health.state == "live":
            self._health.state = "stale" if still else "syncing"
        for one in range(len(self._asked_s)):
            self._ask_again(one, now_s)

    def _ask_again(self, one: int, now_s: float) -> None:
        """Subscribe anew to a lost book: at once the first time, then after SNAPSHOT_S_MAX."""
        state = self._desk.states[one]
        if state[SYNC] != WAITING:
            self._asks[one] = 0
            return
        late = now_s - self._asked_s[one] > SNAPSHOT_S_MAX
        if not late and not (state[RESYNC] and self._asks[one] == 0):
            return
        if self._asks[one] == ASKS_MAX:
            symbol = self._spec.symbols[one]
            raise FeedError(f"{self._connection.url}: no snapshot of {symbol} came")
        state[RESYNC] = 0
        self._asks[one] += 1
        self._asked_s[one] = now_s
        self._health.resyncs += 1
        for text in self._venue.resubscribe(self._spec.symbols[one]):
            self._connection.send(text)

    def _push(self, events: Events) -> None:
        self._sink.push(events)


_GAPS = (Fault.GAP, Fault.CHECKSUM, Fault.CROSSED, Fault.BACKWARD)
