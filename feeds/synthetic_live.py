"""The built-in markets as a live feed: invented bars or ticks, in a time of their own.

The clock starts within a session, with history before it, so a session can begin at any hour.
"""

from collections.abc import Iterator
from fractions import Fraction
from threading import Event
from typing import Any

import numpy as np
from quantdsl.feeds.bars_of_ticks import AsBars, bars_until, shortest, with_bars
from quantdsl.feeds.simulated_time import SimulatedTime
from quantdsl.feeds.synthetic import SyntheticReader
from quantdsl.feeds.synthetic_ticks import SyntheticTicks

from quantdsl.data.calendar import ALWAYS_OPEN, SessionSpec, schedule_of
from quantdsl.data.instrument import Instrument
from quantdsl.data.ticks import Events
from quantdsl.data.times import DAY_NS, Interval, parse_instant
from quantdsl.errors import FeedError
from quantdsl.events.layout import BAR, EVENT, Action, Kind
from quantdsl.live.feed import FeedSpec, Health, Sink

MINUTE = Interval.parse("1m")
FIRST, LAST = parse_instant("2022-01-01"), parse_instant("2023-12-31")
HISTORY_SHARE = 0.6
"""Of the sessions: those lie before the start."""
AFTER_OPEN_NS = 300 * 1_000_000_000
BAR_S = 0.1
"""Real time between two bars of the finest clock that a strategy has."""
TICK_SPEED = 10.0
FUNDING_NS = DAY_NS // 3
FUNDING_RATE = (1, 10_000)


def feed(spec: FeedSpec) -> "SyntheticBars | SyntheticBook":
    """The feed for what a session asks: of ticks if its strategies listen to any, else of bars."""
    return SyntheticBook(spec) if spec.ticks - {"funding"} else SyntheticBars(spec)


def _options(spec: FeedSpec) -> dict[str, Any]:
    return spec.chosen(seed=1, speed=0.0, calendar="")


class SyntheticBars:
    """One-minute bars, `speed` times as fast as they were; by itself as fast as gives a strategy
    ten bars of its finest clock a second."""

    def __init__(self, spec: FeedSpec) -> None:
        self.name, self.symbols, self._spec = spec.feed, spec.symbols, spec
        self.health = Health(name=spec.feed)
        options = _options(spec)
        calendar = options["calendar"] or ALWAYS_OPEN
        last = FIRST + 180 * DAY_NS if calendar == ALWAYS_OPEN else LAST
        self._sessions = schedule_of(SessionSpec(calendar=calendar), FIRST, last).within(
            FIRST, last
        )
        self._seed = options["seed"]
        self._lot = Fraction(1, 1000) if calendar == ALWAYS_OPEN else Fraction(1)
        start = int(self._sessions.open_ns[round(len(self._sessions) * HISTORY_SHARE)])
        finest = min((Interval.parse(text).nominal_ns for text in spec.bars), default=60 * 10**9)
        if finest % MINUTE.nominal_ns:
            raise FeedError(
                f"{spec.feed}: the invented market has bars of one minute, and {spec.bars[0]} "
                "cannot be built from them\nhelp: take bars of whole minutes"
            )
        speed = options["speed"] or finest / BAR_S / 1e9
        self.time = SimulatedTime(start + AFTER_OPEN_NS, speed)
        self._bars: list[Events] | None = None

    def instruments(self) -> list[Instrument]:
        """Invented: a tick of a cent, lots of one or, around the clock, of a thousandth."""
        self._all()  # now: later a feed's thread and the session's ask for them at once
        return [
            Instrument(symbol=symbol, lot=self._lot, named=frozenset({"tick", "lot"}))
            for symbol in self.symbols
        ]

    def bar_interval(self, symbol: str) -> Interval:  # noqa: ARG002 (all have the same)
        """The length of the bars it gives."""
        return MINUTE

    def now_ns(self) -> int:
        """The time in this market."""
        return self.time.now_ns()

    def seek(self, after_ns: int) -> None:
        """Go on behind a moment."""
        self.time = SimulatedTime(after_ns, self.time.speed)

    def history(self, symbol: str, interval: Interval, since_ns: int) -> Events:
        """Bars before the time it is now."""
        assert interval == MINUTE
        own = self._all()[self.symbols.index(symbol)]
        chosen: Events = own[(own["ts_recv"] >= since_ns) & (own["ts_event"] <= self.now_ns())]
        return chosen

    def run(self, sink: Sink, stop: Event) -> None:
        """Give each bar when it closes, until `stop`."""
        everything = np.concatenate([*self._all(), *self._funding()])
        everything = everything[everything["ts_event"] > self.now_ns()]
        everything = everything[np.argsort(everything["ts_event"], kind="stable")]
        moments, first = np.unique(everything["ts_event"], return_index=True)
        ends = np.append(first[1:], len(everything))
        self.health.state = "live"
        self.time.begin()
        for moment, begin, end in zip(moments.tolist(), first.tolist(), ends.tolist(), strict=True):
            if not self.time.reach(moment, stop):
                break
            sink.push(everything[begin:end])
            self.time.given(moment)
            self.health.received += end - begin
            self.health.processed += end - begin
            self.health.last_recv_ns = self.health.last_event_ns = moment
        self.health.state = "stopped"
        self.health.reason = "" if stop.is_set() else "the invented market has ended"

    def _all(self) -> list[Events]:
        """Every bar of each instrument."""
        if self._bars is None:
            count, made = len(self.symbols), []
            for index in range(count):
                strays = index % 2 == 0 and index + 1 < count
                reader = SyntheticReader(index, self._seed, self._sessions, strays=strays)
                (rows,) = reader.chunks()
                bars = np.zeros(rows.size, BAR)
                bars["ts_recv"], bars["ts_event"] = rows.ts, rows.ts + MINUTE.nominal_ns
                bars["instrument"], bars["kind"] = self._spec.first + index, Kind.BAR
                for name in ("open", "high", "low", "close"):
                    bars[name] = np.rint(getattr(rows, name) * 100)
                bars["volume"] = np.rint(rows.volume * float(1 / self._lot))
                made.append(bars.view(EVENT))
            self._bars = made
        return self._bars

    def _funding(self) -> list[Events]:
        """A payment every eight hours, where that is asked for."""
        if "funding" not in self._spec.ticks:
            return []
        opens, closes = self._sessions.open_ns[0], self._sessions.close_ns[-1]
        moments = np.arange(-(-opens // FUNDING_NS), closes // FUNDING_NS) * FUNDING_NS
        found = []
        for index in range(len(self.symbols)):
            events = np.zeros(len(moments), EVENT)
            events["ts_event"] = events["ts_recv"] = moments
            events["instrument"], events["kind"] = self._spec.first + index, Kind.CORPORATE
            events["side"], events["payload"][:, :2] = Action.FUNDING, FUNDING_RATE
            found.append(events)
        return found


class SyntheticBook:
    """Order books, quotes and trades, ten times as fast as they were if no speed is asked for.

    Strategies on bars have those of its trades, and no history before its first tick.
    """

    def __init__(self, spec: FeedSpec) -> None:
        self.name, self.symbols, self._spec = spec.feed, spec.symbols, spec
        self.health = Health(name=spec.feed)
        options = _options(spec)
        seed, calendar = options["seed"], options["calendar"] or None
        self._sources = [SyntheticTicks(k, seed, calendar) for k in range(len(spec.symbols))]
        self._bars = shortest(spec.feed, spec.bars)
        speed = options["speed"] or TICK_SPEED
        self.time = SimulatedTime(self._sources[0].start_ns, speed)

    def instruments(self) -> list[Instrument]:
        """Invented: a tick of a cent and lots of one."""
        return [
            Instrument(symbol=symbol, named=frozenset({"tick", "lot"})) for symbol in self.symbols
        ]

    def now_ns(self) -> int:
        """The time in this market."""
        return self.time.now_ns()

    def seek(self, after_ns: int) -> None:
        """Go on behind a moment."""
        self.time = SimulatedTime(after_ns, self.time.speed)

    def bar_interval(self, symbol: str) -> Interval:  # noqa: ARG002 (all have the same)
        """The length of the bars it gives."""
        assert self._bars is not None
        return self._bars

    def history(self, symbol: str, interval: Interval, since_ns: int) -> Events:
        """Bars that closed before the time it is now."""
        ticks = self._chunks(self.symbols.index(symbol))
        return bars_until(ticks, interval, Kind.TRADE, since_ns, self.now_ns())

    def run(self, sink: Sink, stop: Event) -> None:
        """Give each message when it arrives, until `stop`."""
        chunks = [self._chunks(index) for index in range(len(self._sources))]
        if self._bars is not None:
            chunks = [with_bars(one, self._bars, Kind.TRADE) for one in chunks]
            sink = AsBars(sink, self._bars)
        if self.time.play(chunks, "ts_recv", sink, stop, self.health):
            self.health.reason = "the invented market has ended"

    def _chunks(self, index: int) -> Iterator[Events]:
        for events in self._sources[index].chunks():
            events["instrument"] = self._spec.first + index
            yield events
