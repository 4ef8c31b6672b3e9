"""Binance spot and USD-M futures live: one connection, several symbols, books spliced and watched.

    socket -> frames -> decode (compiled: all that waits) -> sink
                `-> bars, mark prices, answers: by msgspec
    a helper thread asks for snapshots and for the time, so that no request holds up the stream

Options: `trades` is `trade` (each one) or `aggTrade` (those of one order and price in one).
"""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

import msgspec
import numpy as np
from quantdsl.feeds.binance_messages import (
    BOOK_WORDS,
    DIFF,
    DIGITS,
    FIELDS,
    LEVEL_BYTES,
    OTHER,
    SNAP,
    SYMBOL,
    SYMBOL_END,
    SYNC,
    TRADE,
    TRADE_TIME,
    WAITING,
    message,
    settle,
    splice,
    time_of,
    waits,
)
from quantdsl.feeds.binance_rest import FUTURES, SPOT, Market, Rest, units
from quantdsl.feeds.edge import (
    EDGE_WORDS,
    LOT,
    OFF,
    TICK,
    by_our_clock,
    edges,
    heard,
    in_our_time,
    in_words,
    judge,
    lost,
    standing_still,
    states,
)
from quantdsl.feeds.kernels import byte_at, inner

from quantdsl.codegen.decoders import entry
from quantdsl.data.instrument import Instrument
from quantdsl.data.ticks import FAULTS, Events, Fault
from quantdsl.data.times import Interval
from quantdsl.errors import FeedError
from quantdsl.events.layout import BAR, EVENT, WORDS, Feed, Kind
from quantdsl.live.connection import (
    MESSAGE_BYTES_MAX,
    Backoff,
    Batch,
    Connection,
    split,
    stay_connected,
)
from quantdsl.live.feed import FeedSpec, Health, LiveFeed, Sink, now_ns
from quantdsl.live.fetch import Bars
from quantdsl.live.rest import Answer, VenueClock

PENDING_MAX = 65_536
"""Changes of one book held until its snapshot comes; more, and they are dropped."""

STREAMS_MAX = 1_024
"""The venue's limit for one connection."""

CONNECTION_S_MAX = 24 * 3_600 - 600
"""The venue ends a connection after 24 hours; we do ten minutes before."""

PING_AFTER_S, SILENCE_S_MAX = 20.0, 30.0
LOOK_S = 0.1
"""How often a busy thread looks at the time."""
CLOCK_S = 600.0
_SUBSCRIBE_AT_ONCE = 200
_SUBSCRIBE_S = 0.25
"""The venue takes five messages a second."""

# Words that a batch is called with and answers in; the decoder's fields and the faults follow.
_SIZE, _RECEIVED, _KEEPS_BOOK, _ONLY, _ROW, _OTHERS, _PROCESSED, _IGNORED, _DROPPED = range(9)
_EVENT, _FIRST, _OFFSET, _FIELDS = 9, 10, 11, 12
_FAULTS = _FIELDS + FIELDS
_WORDS = _FAULTS + FAULTS

_SYMBOL_BYTES = 24


@inner("int64(uint8[::1], int64[::1], uint8[:,::1])")
def _index(data, fields, names):
    """Which of our symbols a message is of, -1 where of none."""
    at, size = fields[SYMBOL], fields[SYMBOL_END] - fields[SYMBOL]
    if at < 0 or size >= _SYMBOL_BYTES:
        return -1
    for index in range(len(names)):
        if names[index, size] != 0:
            continue
        offset = 0
        while offset < size and np.int64(names[index, offset]) == byte_at(data, at + offset):
            offset += 1
        if offset == size:
            return index
    return -1


@inner("int64(int64, int64, int64, int64[:,::1], int64[::1], int64[::1], int64[::1])")
def _instrument(kind, last, row, out, book, edge, words):
    """Makes events of what was decoded for one of our instruments: the next row."""
    fields, faults = words[_FIELDS:_FAULTS], words[_FAULTS:]
    received = words[_RECEIVED]
    event = time_of(fields, received)
    followed = book[SYNC] != WAITING
    trade = book[TRADE], book[TRADE_TIME]
    clock_ns = words[_OFFSET]
    settled = settle(kind, last, event, received, clock_ns, out, row, fields, book, faults)
    if settled == row:
        words[_IGNORED] += 1
        return row
    end = judge(out, row, settled, edge, faults)
    if end == row:
        book[TRADE], book[TRADE_TIME] = trade  # one that is refused leaves no number behind
        words[_DROPPED] += 1
        return row
    words[_PROCESSED] += 1
    of_book = kind in (DIFF, SNAP)
    if of_book and out[row, 2] >> 32 & 255 == 12:
        book[SYNC] = WAITING
        lost(edge)
    elif of_book and followed and book[SYNC] == WAITING:
        lost(edge)
    else:
        whole = words[_KEEPS_BOOK] == 0 or book[SYNC] != WAITING
        if event != received or words[_KEEPS_BOOK] == 0:
            # A quote of spot has no time of the venue: where there is a book, that tells it.
            end = heard(out, end, edge, event, received, whole)
    if event != received:
        words[_EVENT] = event
    return end


@entry(
    "void(uint8[::1], int64[:,::1], int64[:,::1], int64[:,::1], int64[:,::1], uint8[:,::1], "
    "int64[::1])"
)
def decode(data, spans, out, books, edges, names, words):
    """All messages of a batch into events; the places of those not understood here go to spans."""
    row, others = 0, 0
    fields = words[_FIELDS:_FAULTS]
    for number in range(words[_SIZE]):
        at, end = spans[number, 0], spans[number, 1]
        kind, last = message(data, at, end, out, row, fields)
        if kind == OTHER:
            spans[others, 0], spans[others, 1] = at, end
            others += 1
            continue
        if kind < 0:
            words[_FAULTS + Fault.UNREADABLE.value] += 1
            words[_DROPPED] += 1
            continue
        index = words[_ONLY] if kind == SNAP else _index(data, fields, names)
        if index < 0:
            words[_FAULTS + Fault.UNKNOWN_INSTRUMENT.value] += 1
            words[_DROPPED] += 1
            continue
        end = _instrument(kind, last, row, out, books[index], edges[index], words)
        for one in range(row, end):
            out[one, 2] |= words[_FIRST] + index
            if out[one, 2] >> 32 & 255 != Kind.BOOK_DELTA.value or out[one, 6] == 0:
                by_our_clock(out, one, words[_OFFSET])  # what waits for a snapshot is spliced first
        row = end
    words[_ROW], words[_OTHERS] = row, others


class _Bar(msgspec.Struct):
    opened: int = msgspec.field(name="t")
    closed: int = msgspec.field(name="T")
    interval: str = msgspec.field(name="i")
    open: str = msgspec.field(name="o")
    high: str = msgspec.field(name="h")
    low: str = msgspec.field(name="l")
    close: str = msgspec.field(name="c")
    volume: str = msgspec.field(name="v")
    final: bool = msgspec.field(name="x")


class _Data(msgspec.Struct):
    kind: str = msgspec.field(name="e", default="")
    symbol: str = msgspec.field(name="s", default="")
    bar: _Bar | None = msgspec.field(name="k", default=None)
    rate: str = msgspec.field(name="r", default="")
    due: int = msgspec.field(name="T", default=0)


class _Other(msgspec.Struct):
    """A message that is not decoded in bulk: a bar, a mark price, an answer."""

    data: _Data | None = None
    error: msgspec.Raw = msgspec.Raw(b"")
    code: int = 0
    msg: str = ""


class BinanceLive:
    """One of the venue's markets. See LiveFeed."""

    def __init__(self, spec: FeedSpec, market: Market) -> None:
        for one in (split, in_our_time):
            one.ready()
        self._decode = decode.ready()
        self.spec, self.market = spec, market
        self.name, self.symbols = market.name, spec.symbols
        self.health = Health(name=spec.feed)
        self.rest = Rest(market, spec.rest_url, spec.ca_file)
        self._url = f"{(spec.stream_url or market.stream_url).rstrip('/')}/stream"
        self._streams = self._wanted()
        self._book = "book" in spec.ticks
        count = len(spec.symbols)
        self._books = np.zeros((count, BOOK_WORDS), np.int64)
        self._edges = np.zeros((count, EDGE_WORDS), np.int64)
        self._names = np.zeros((count, _SYMBOL_BYTES), np.uint8)
        for row, symbol in zip(self._names, spec.symbols, strict=True):
            row[: len(symbol)] = np.frombuffer(symbol.encode(), np.uint8)
        self._words = np.zeros(_WORDS, np.int64)
        self._words[_FIRST], self._words[_KEEPS_BOOK] = spec.first, self._book
        self._out = np.empty((MESSAGE_BYTES_MAX // LEVEL_BYTES + 16_384, WORDS), np.int64)
        self._events: Events = self._out.view(EVENT).reshape(-1)
        self._pending: list[list[Events]] = [[] for _ in spec.symbols]
        self._asked: list[Future[Answer] | None] = [None] * count
        self._not_before = [0.0] * count
        self._patience = [Backoff() for _ in spec.symbols]
        self._funding: dict[str, tuple[int, str]] = {}
        self._decoder = msgspec.json.Decoder(_Other)

    def _wanted(self) -> list[str]:
        """The names of the streams that are subscribed to; FeedError where they cannot be."""
        spec = self.spec
        trades = spec.chosen(trades=self.market.trades)["trades"]
        if trades not in ("trade", "aggTrade"):
            raise FeedError(
                f"the option 'trades' of the feed {self.name} is {trades!r} but must be 'trade' or "
                "'aggTrade'"
            )
        if "funding" in spec.ticks and self.market is SPOT:
            raise FeedError(f"{self.name}: spot pays no funding; binance_futures does")
        kinds = {
            "book": "depth@100ms", "quotes": "bookTicker", "trades": trades,
            "funding": "markPrice@1s",
        }  # fmt: skip
        names = [kinds[one] for one in sorted(spec.ticks)] + [f"kline_{one}" for one in spec.bars]
        for symbol in spec.symbols:
            if not (symbol.isalnum() and symbol.isascii() and len(symbol) < _SYMBOL_BYTES):
                raise FeedError(f"{self.name}: {symbol!r} is no symbol such as BTCUSDT")
        found = [f"{symbol.lower()}@{name}" for symbol in spec.symbols for name in names]
        if not 0 < len(found) <= STREAMS_MAX:
            raise FeedError(
                f"{self.name}: {len(found)} streams are asked for; a connection carries 1 to "
                f"{STREAMS_MAX}: name fewer symbols, or a second feed"
            )
        return found

    def instruments(self) -> list[Instrument]:
        found = self.rest.instruments(self.spec.symbols)
        digits = [(DIGITS, DIGITS)] * len(found)
        self._edges[:] = edges(found, digits, self.spec.good_messages_min)
        self._set_clock(self.rest.clock())
        return found

    def history(self, symbol: str, interval: Interval, since_ns: int) -> Events:
        at = self.symbols.index(symbol)
        pages = self.rest.bars(symbol, interval, since_ns, now_ns() + self.health.clock_offset_ns)
        return np.concatenate(
            [np.empty(0, EVENT), *(self._bars(at, page, interval.nominal_ns) for page in pages)]
        )

    def run(self, sink: Sink, stop: Event) -> None:
        assert self._edges[:, TICK].all(), "instruments() comes first"
        with ThreadPoolExecutor(1, f"{self.name} requests") as helper:
            stay_connected(
                lambda: Connection(self._url, ca_file=self.spec.ca_file),
                lambda connection: self._serve(connection, sink, stop, helper),
                self.health,
                stop,
            )
            helper.shutdown(wait=False, cancel_futures=True)

    # ---- one connection -------------------------------------------------------------------

    def _serve(
        self, connection: Connection, sink: Sink, stop: Event, helper: ThreadPoolExecutor
    ) -> None:
        self._begin(connection, sink, stop)
        try:
            self._receive(connection, sink, stop, helper)
        finally:
            self._count()

    def _receive(
        self, connection: Connection, sink: Sink, stop: Event, helper: ThreadPoolExecutor
    ) -> None:
        """Until `stop`, or until the connection has served its time."""
        began = looked = clock_set = time.monotonic()
        # Anew for each connection: meanwhile a machine may have slept, or long compiled.
        clock: Future[VenueClock] | None = helper.submit(self.rest.clock)
        while not stop.is_set():
            batch = connection.receive()
            if batch.size:
                self._take(batch, sink)
            now = time.monotonic()
            if batch.size and now - looked < LOOK_S:
                continue
            looked = now
            self._look(connection, sink)
            if self._book:
                self._snapshots(sink, helper, now)
            if clock is not None and clock.done():
                if clock.exception() is None:
                    self._set_clock(clock.result())
                clock = None
            if now - clock_set > CLOCK_S:
                clock, clock_set = helper.submit(self.rest.clock), now
            if now - began > CONNECTION_S_MAX:
                return

    def _begin(self, connection: Connection, sink: Sink, stop: Event) -> None:
        """All instruments are off and their books unknown; then the subscriptions."""
        self._books[:, SYNC] = WAITING
        self._pending = [[] for _ in self.symbols]
        self._asked = [None] * len(self.symbols)
        everyone = range(len(self.symbols))
        sink.push(states(self._edges, everyone, Feed.RESET, now_ns(), self.spec.first))
        self.health.state = "syncing"
        for at in range(0, len(self._streams), _SUBSCRIBE_AT_ONCE):
            names = self._streams[at : at + _SUBSCRIBE_AT_ONCE]
            request = {"method": "SUBSCRIBE", "params": names, "id": at + 1}
            connection.send(msgspec.json.encode(request).decode())
            if at + _SUBSCRIBE_AT_ONCE < len(self._streams):
                stop.wait(_SUBSCRIBE_S)

    def _look(self, connection: Connection, sink: Sink) -> None:
        """What is told by the time and not by a message."""
        health, now = self.health, now_ns()
        self._count()
        silent = standing_still(self._edges, now, self.spec.stale_ns_max)
        if silent:
            health.stales += len(silent)
            sink.push(states(self._edges, silent, Feed.STALE, now, self.spec.first))
        off = bool(self._edges[:, OFF].any())
        stood = now - health.last_recv_ns > self.spec.stale_ns_max
        health.state = ("stale" if stood else "syncing") if off else "live"
        health.bytes_received = connection.bytes_received
        quiet = connection.silent_s()
        if quiet > SILENCE_S_MAX:
            raise FeedError(f"{connection.url}: nothing was heard for {quiet:.0f} s")
        if quiet > PING_AFTER_S:
            connection.ping()

    def _count(self) -> None:
        """What the decoder counted, for all to see."""
        health, words = self.health, self._words
        health.processed, health.ignored = int(words[_PROCESSED]), int(words[_IGNORED])
        health.dropped, health.last_event_ns = int(words[_DROPPED]), int(words[_EVENT])
        if health.last_event_ns:  # quotes of spot carry no time
            took = health.last_recv_ns - health.last_event_ns
            health.latency_ns = took + health.clock_offset_ns
        health.faults = in_words(words[_FAULTS:])
        health.gaps = int(words[_FAULTS + Fault.GAP.value])

    def _take(self, batch: Batch, sink: Sink) -> None:
        words, health = self._words, self.health
        words[_SIZE], words[_RECEIVED], words[_ONLY] = batch.size, batch.recv_ns, -1
        self._decode(
            batch.data, batch.spans, self._out, self._books, self._edges, self._names, words
        )
        rows = int(words[_ROW])
        if rows:
            events = self._events[:rows]
            if self._book and not self._books[:, SYNC].all():
                events = self._hold(events)
            if len(events):
                sink.push(events)
        health.received += batch.size
        health.last_recv_ns = batch.recv_ns
        if words[_OTHERS]:
            for at, end in batch.spans[: words[_OTHERS]].tolist():
                self._other(bytes(batch.data[at:end]), batch.recv_ns, sink)

    # ---- books ----------------------------------------------------------------------------

    def _hold(self, events: Events) -> Events:
        """Keeps the changes that wait for a snapshot; the rest."""
        held = waits(events)
        if not held.any():
            return events
        for at in np.unique(events["instrument"][held]).tolist():
            index = at - self.spec.first
            pending = self._pending[index]
            pending.append(events[held & (events["instrument"] == at)])
            if sum(map(len, pending)) > PENDING_MAX:
                pending.clear()
        return events[~held]

    def _snapshots(self, sink: Sink, helper: ThreadPoolExecutor, now: float) -> None:
        """Asks for the snapshots that are missing, and takes those that came."""
        for at, symbol in enumerate(self.symbols):
            asked = self._asked[at]
            if asked is None:
                missing = self._books[at, SYNC] == WAITING and self._pending[at]
                if missing and now >= self._not_before[at]:
                    self._asked[at] = helper.submit(self.rest.depth, symbol)
                    self._not_before[at] = now + self._patience[at].next_s()
            elif asked.done():
                self._asked[at] = None
                failed = asked.exception()
                if failed is None:
                    self._snapshot(at, asked.result(), sink)
                else:
                    self.health.reason = str(failed)
                    wait_s = failed.retry_s if isinstance(failed, FeedError) else 0.0
                    self._not_before[at] = max(self._not_before[at], now + wait_s)

    def _snapshot(self, at: int, answer: Answer, sink: Sink) -> None:
        """The book from here on, as far as what waited follows the snapshot."""
        words, received = self._words, now_ns()
        data = np.frombuffer(bytearray(answer.body), np.uint8)
        if len(data) > MESSAGE_BYTES_MAX:
            words[_FAULTS + Fault.UNREADABLE.value] += 1
            return
        words[_SIZE], words[_RECEIVED], words[_ONLY] = 1, received, at
        self.health.received += 1
        spans = np.array([[0, len(data)]], np.int64)
        self._decode(data, spans, self._out, self._books, self._edges, self._names, words)
        events = self._events[: words[_ROW]]
        if not len(events) or events["kind"][0] != Kind.BOOK_SNAPSHOT:
            return
        sink.push(events)
        clock_ns = self.health.clock_offset_ns
        spliced, older = splice(self._pending[at], self._books[at], received, clock_ns)
        spliced["instrument"] = self.spec.first + at
        words[_FAULTS + Fault.NO_SNAPSHOT.value] += older
        self._pending[at] = []
        if self._books[at, SYNC] == WAITING:
            words[_FAULTS + Fault.GAP.value] += 1
            self._edges[at, OFF] = 1
        else:
            self.health.resyncs += 1
            self._patience[at] = Backoff()
        if len(spliced):
            in_our_time(spliced.view(np.int64), clock_ns)
            sink.push(spliced)

    # ---- what is not decoded in bulk ------------------------------------------------------

    def _other(self, text: bytes, received: int, sink: Sink) -> None:
        words = self._words
        try:
            found = self._decoder.decode(text)
            events = self._events_of(found, received)
        except (msgspec.DecodeError, RecursionError, ValueError, OverflowError):
            words[_FAULTS + Fault.UNREADABLE.value] += 1
            words[_DROPPED] += 1
            return
        if found.error or found.code:
            said = f"{found.code} {found.msg}".strip() if found.code else bytes(found.error)
            raise FeedError(f"{self._url}: the venue refuses: {said!r}")
        words[_PROCESSED if len(events) else _IGNORED] += 1
        if len(events):
            sink.push(events)

    def _events_of(self, found: _Other, received: int) -> Events:
        data, nothing = found.data, np.empty(0, EVENT)
        if data is None or data.symbol not in self.symbols:
            return nothing
        at = self.symbols.index(data.symbol)
        bar = data.bar
        if bar is not None and bar.final and bar.interval in self.spec.bars:
            prices = (bar.open, bar.high, bar.low, bar.close, bar.volume)
            columns = [np.array([units(one)], np.int64) for one in prices]
            page = Bars(np.array([bar.opened * 1_000_000]), *columns)
            length = (bar.closed + 1 - bar.opened) * 1_000_000
            return self._bars(at, page, length, self.spec.bars.index(bar.interval))
        if data.kind != "markPriceUpdate" or "funding" not in self.spec.ticks:
            return nothing
        due, rate = self._funding.get(data.symbol, (data.due, data.rate))
        self._funding[data.symbol] = data.due, data.rate
        if data.due <= due or not rate:
            return nothing
        events = np.zeros(1, EVENT)
        events["instrument"], events["kind"], events["side"] = (
            self.spec.first + at, Kind.CORPORATE, 2,
        )  # fmt: skip
        events["ts_event"], events["ts_recv"] = due * 1_000_000, received
        events["payload"][0, :2] = units(rate), 10**DIGITS
        return events

    def _bars(self, at: int, page: Bars, length_ns: int, side: int = 0) -> Events:
        """Bars in ticks and lots; a price off the tick is rounded down, as a trade there is."""
        events = np.zeros(len(page.open_ns), BAR)
        events["instrument"], events["kind"] = self.spec.first + at, Kind.BAR
        events["side"] = side
        events["ts_event"], events["ts_recv"] = page.open_ns + length_ns, page.open_ns
        for name in ("open", "high", "low", "close"):
            events[name] = getattr(page, name) // self._edges[at, TICK]
        events["volume"] = page.volume // self._edges[at, LOT]
        found: Events = events.view(EVENT)
        return found

    def _set_clock(self, clock: VenueClock) -> None:
        self.health.clock_offset_ns, self.health.clock_error_ns = clock
        self._words[_OFFSET] = self.health.clock_offset_ns


def spot(spec: FeedSpec) -> LiveFeed:
    """Binance spot."""
    return BinanceLive(spec, SPOT)


def futures(spec: FeedSpec) -> LiveFeed:
    """Binance USD-M futures."""
    return BinanceLive(spec, FUTURES)
