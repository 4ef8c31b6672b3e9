"""The ticks of a run: many recorded sources become one stream in order of receipt.

    reader -> scan -> judge, ticks and lots -> merge with sessions and timers

The order is that of ts_recv and stable: at one instant bars that are built of ticks close first,
then come splits, dividends and funding, a session's open, the instruments as declared, each message
whole, then timers, then the session's close. Memory is bounded: a few blocks of each source are
held at a time.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from msgspec import structs

from quantdsl.data.actions import Actions
from quantdsl.data.calendar import Schedule, schedule_of
from quantdsl.data.events import Data, open_data
from quantdsl.data.feed import split_source
from quantdsl.data.instrument import Instrument, Limits, check_exact, limits, money_digits
from quantdsl.data.latency import Latencies
from quantdsl.data.many import grouped, named
from quantdsl.data.recording import RecordingReader, known
from quantdsl.data.session_data import SessionData
from quantdsl.data.signals import answered
from quantdsl.data.spec import DataSpec
from quantdsl.data.table import joined_sha256
from quantdsl.data.tick_bars import TickBars, chart_length_ns
from quantdsl.data.tick_feed import KEPT_EVENTS_MAX, KINDS, TickFeed
from quantdsl.data.tick_formats import Opening, open_ticks
from quantdsl.data.ticks import TickReader
from quantdsl.data.timers import Clockwork
from quantdsl.data.times import Interval
from quantdsl.data.universe import Told
from quantdsl.errors import ConfigError, DataError
from quantdsl.events.layout import BAR, NO_PRICE, Kind
from quantdsl.events.merge import Merge, cut, in_turns, keep, outside

Events = npt.NDArray[np.void]
Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
_INT64 = np.iinfo(np.int64)


def open_run_data(spec: DataSpec) -> "Data | TickData":
    """The data of a run on bars or, where the strategy listens to ticks, of one on ticks."""
    return open_tick_data(spec) if spec.ticks else open_data(spec)


def open_tick_data(spec: DataSpec) -> "TickData":
    """The ticks of a run, scanned and ready to stream; DataError or ConfigError if unusable."""
    if "book" in spec.ticks and spec.start is not None:
        raise ConfigError(
            "data.from would cut a book off from its snapshot\nhelp: use --from, which starts "
            "trading there and lets the book be built before"
        )
    return TickData(spec, [open_tick_feed(spec, index) for index in range(len(spec.instruments))])


def open_tick_feed(spec: DataSpec, index: int) -> TickFeed:
    """The feed of one instrument of a run on ticks; without a source the built-in tick market."""
    source = spec.instruments[index]
    venue, _, symbol = source.symbol.rpartition(":")
    if source.source is None:
        reader = _built_in(spec, index)
        symbol = symbol or reader.symbol
    else:
        path, ticker = split_source(source.source)
        opening = Opening(
            path,
            symbol=ticker or symbol,
            bad_rows=spec.bad_rows,
            tz=spec.tz,
            time_format=spec.time_format,
            columns=tuple(spec.columns.items()),
        )
        reader = open_ticks(opening, spec.format)
        if ticker and reader.symbol not in ("", ticker):
            raise DataError(f"{path}: holds {reader.symbol} and no {ticker}")
        symbol = symbol or ticker or ""
    share = KEPT_EVENTS_MAX // len(spec.instruments)
    own = source.instrument
    if isinstance(reader, RecordingReader):
        own = known(own, reader.instrument)
    return TickFeed(
        reader, symbol, venue, own, spec.feed_latency_ns, share, clock_shift_ns=spec.clock_shift_ns
    )


def _built_in(spec: DataSpec, index: int) -> TickReader:
    from quantdsl.feeds.synthetic_ticks import SyntheticTicks

    calendar = spec.session.calendar if spec.session is not None else None
    reader: TickReader = SyntheticTicks(index, spec.seed, calendar)
    return reader


class TickData:
    """The ticks of one run; what it has in common with `events.Data` is read in the same way.

    `notes` that count what was bad or left out are complete once `chunks()` has been exhausted.
    """

    clocks: tuple[Interval, ...] = ()

    def __init__(self, spec: DataSpec, feeds: list[TickFeed]) -> None:
        self.spec, self.feeds = spec, feeds
        self.instruments: list[Instrument] = [feed.instrument for feed in feeds]
        self.money_digits = money_digits(self.instruments)
        for feed in feeds:
            one, scan = feed.instrument, feed.scan
            check_exact(one, scan.price_max, scan.volume_max, self.money_digits)
        self._check_kinds()
        self.span = (min(feed.first_ts for feed in feeds), max(feed.last_ts for feed in feeds))
        self.rows = sum(feed.scan.count for feed in feeds)
        self.schedule: Schedule = schedule_of(spec.session, *self.span)
        self.clockwork = Clockwork(self.schedule, spec.timers, spec.end)
        self.actions = Actions(
            spec.actions, self.instruments, self.money_digits, self.schedule, self.span
        )
        self.latencies = Latencies(spec.latencies, self.instruments, self.span)
        self.counts: Counter[str] = Counter()

    def _check_kinds(self) -> None:
        """DataError where what the strategy listens to is not in the data, nor could be."""
        for feed in self.feeds:
            for name in sorted(self.spec.ticks):
                there = name in feed.reader.tells
                if not there and not any(feed.scan.kinds[kind] for kind in KINDS[name]):
                    held = [
                        n for n, kinds in KINDS.items() if any(feed.scan.kinds[k] for k in kinds)
                    ]
                    way = f"name a folder that holds a file of its {name} as well, with rows in it"
                    if name == "book" and feed.reader.format == "table of trades":
                        way += "; a table of a book's changes has a column 'snapshot' (true, false)"
                    raise DataError(
                        f"{feed.name}: holds {', '.join(held)}, and the strategy asks for {name}\n"
                        f"help: {way}"
                    )

    @property
    def sha256(self) -> str:
        """One hash of all data: of the file itself where there is one only."""
        hashes = [feed.reader.sha256() for feed in self.feeds]
        return joined_sha256([*hashes, *self.actions.hashes(), *self.latencies.hashes()])

    @property
    def name(self) -> str:
        """What was read, for people."""
        return named(list(dict.fromkeys(feed.name for feed in self.feeds)))

    has_volume = True

    @property
    def notes(self) -> list[str]:
        """What was inferred, assumed and left out, one line each, without repeats; what holds
        alike of many instruments in one line."""
        lines = []
        for feed in self.feeds:
            lines += [*feed.facts(), feed.instrument.statement(), *feed.counted()]
        lines += self.actions.statement() + self.latencies.statement()
        if not self.schedule.named:
            lines.append("no session: every hour counts, and a day ends at midnight UTC")
        lines += [f"{what}: {count:,}" for what, count in self.counts.items() if count]
        return grouped(lines)

    def said_of_time(self) -> list[str]:
        """What was assumed of the times."""
        return [line for feed in self.feeds for line in feed.said_of_time()]

    def limits(self, instrument: int) -> Limits:
        """Largest price, position and the money of one tick of one lot, proven to stay exact."""
        feed = self.feeds[instrument]
        return limits(feed.instrument, feed.scan.price_max, self.money_digits)

    def until(self, end_ns: int) -> "TickData":
        """The same data, cut off at `end_ns`."""
        return TickData(structs.replace(self.spec, end=end_ns), self.feeds)

    def chunks(self) -> Iterator[Events]:
        """Arrays of layout.EVENT in order of receipt, about 65,536 each, whole messages only."""
        self.counts.clear()
        chunks = self.actions.held(_Stream(self).chunks())
        awaited = self.spec.awaited
        yield from chunks if awaited is None else answered(chunks, awaited, "ts_recv")

    @property
    def quoted(self) -> bool:
        """Whether `middles` are those of quotes, of every instrument."""
        return all(feed.scan.kinds[Kind.QUOTE] for feed in self.feeds)

    def middles(self, instrument: int, moments: Int64s) -> Float64s:
        """The middle in ticks at each moment of the venue's time, NaN before the first.

        It is that of the last quote with both sides, or the last price where there are no quotes.
        After the last one there is none either.
        """
        feed = self.feeds[instrument]
        quotes = feed.scan.kinds[Kind.QUOTE] > 0
        kind = Kind.QUOTE if quotes else Kind.TRADE
        found = np.full(len(moments), np.nan)
        end = _INT64.min
        for events in feed.chunks(instrument, frozenset({kind})):
            own = events[events["kind"] == kind]
            payload = own["payload"]
            if quotes:
                known = (payload[:, 0] != NO_PRICE) & (payload[:, 1] != NO_PRICE)
                own, payload = own[known], payload[known]
            middle = (payload[:, 0] + payload[:, 1]) / 2 if quotes else payload[:, 0] * 1.0
            fill_in(found, moments, own["ts_event"], middle)
            if len(own):
                end = max(end, int(own["ts_event"].max()))
        found[moments > end] = np.nan
        return found

    def bars_table(self, instrument: int = 0) -> npt.NDArray[np.void]:
        """Bars of one instrument for the chart: of its trades, or of the middle of its quotes."""
        feed = self.feeds[instrument]
        kind = Kind.TRADE if feed.scan.kinds[Kind.TRADE] else Kind.QUOTE
        bars = TickBars(chart_length_ns(self.span))
        for events in feed.chunks(instrument, frozenset({kind})):
            bars.add(events[events["kind"] == kind])
        return bars.table(instrument).view(BAR)


def fill_in(found: Float64s, moments: Int64s, ts: Int64s, middle: Float64s) -> None:
    """Set `found` to the last of `middle` at or before each moment that these times reach."""
    if len(ts):
        ts = np.maximum.accumulate(ts)
        late = moments >= ts[0]
        found[late] = middle[np.searchsorted(ts, moments[late], "right") - 1]


RunData = Data | TickData | SessionData


def _in_order(one: Events, other: Events) -> Events:
    both = np.concatenate([one, other])
    return both[np.argsort(both["ts_recv"], kind="stable")]


class _Stream:
    """One pass over the ticks: reads each feed a chunk at a time and merges what is certain."""

    def __init__(self, data: TickData) -> None:
        self._data = data
        n = len(data.feeds)
        # Lanes in the order of one instant.
        self._timer_lane, self._close_lane, self._late_open_lane = n + 3, n + 4, n + 5
        self._merge = Merge(n + 6, "ts_recv")
        self._merge.push(1, _in_order(data.actions.events, data.latencies.events))
        changes = data.spec.changes
        self._told = Told(changes, data.schedule) if changes else None
        self._sessions: set[int] = set()
        self._last_session = -1  # whose opens, timers and close are in the stream already
        self._kinds = frozenset(kind for name in data.spec.ticks for kind in KINDS[name])

    def chunks(self) -> Iterator[Events]:
        data = self._data
        sources = [feed.chunks(i, self._kinds or None) for i, feed in enumerate(data.feeds)]

        def add(index: int, events: Events) -> int:
            self._merge.push(index + 3, self._inside(events))
            return int(events["ts_recv"][-1])

        for before in in_turns(sources, add):
            for given in self._given(before):
                yield from cut(given)

    def _inside(self, events: Events) -> Events:
        """Without what lies after the end, and without quotes and trades outside the sessions.

        The book goes on outside them, for without those changes it would be wrong within; what is
        OUTSIDE moves it, and no clock of a strategy ticks.
        """
        data, ts = self._data, events["ts_recv"]
        session, inside = data.schedule.at(ts)
        first = _INT64.min if data.spec.start is None else data.spec.start
        last = _INT64.max if data.spec.end is None else data.spec.end
        within = (ts >= first) & (ts < last)
        found = np.unique(session[inside & within])
        self._sessions.update(found[found > self._last_session].tolist())
        of_market = ~np.isin(events["kind"], (Kind.QUOTE, Kind.TRADE))
        kept = within & (inside | of_market)
        left_out = int(np.count_nonzero(~kept))
        data.counts["ticks outside the sessions or the span, left out"] += left_out
        return outside(keep(events, kept), (~inside)[kept])

    def _given(self, before_ns: int | None) -> Iterator[Events]:
        """Everything received before `before_ns`, in pieces of whole messages."""
        data, merge = self._data, self._merge
        opens = data.schedule.open_ns
        ready = sorted(s for s in self._sessions if before_ns is None or opens[s] < before_ns)
        self._sessions.difference_update(ready)
        self._last_session = max([self._last_session, *ready])
        sessions = np.array(ready, np.int64)
        clockwork = data.clockwork
        first, last = data.span

        def spanned(timers: Events) -> Events:
            return timers[(timers["ts_recv"] >= first) & (timers["ts_recv"] <= last)]

        merge.push(0, spanned(clockwork.closings(sessions)))
        first_of = clockwork.opens(sessions, joined=False)
        merge.push(2, first_of if self._told is None else self._told.before(first_of, sessions))
        merge.push(self._timer_lane, spanned(clockwork.timers(sessions)))
        merge.push(self._close_lane, clockwork.closes(sessions))
        merge.push(self._late_open_lane, clockwork.opens(sessions, joined=True))
        return merge.take(before_ns)
