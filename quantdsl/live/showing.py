"""A session as its supervisor and people see it: snapshots of what is on disk."""

import itertools
import math
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from quantdsl.backtest.awaited import answers
from quantdsl.data.instrument import Instrument, decimals
from quantdsl.events.layout import BAR, KilledBy, Kind
from quantdsl.live.feed import LiveFeed
from quantdsl.live.ledger import NONE
from quantdsl.live.strategy import BUCKETS, FIRST_NS, PER_OCTAVE
from quantdsl.live.view import (
    BarRow,
    BookView,
    FeedHealth,
    FillRow,
    Gauge,
    InstrumentView,
    LatencyView,
    Level,
    LogLine,
    Position,
    SignalView,
    Snapshot,
    State,
    StrategyView,
    WorkingOrder,
)

if TYPE_CHECKING:
    from quantdsl.live.session import Session
    from quantdsl.live.strategy import LiveStrategy

Events = npt.NDArray[np.void]
SECOND_NS = 1_000_000_000
PAST_MAX = 2_000
"""Bars that are shown of a time before."""
LEVELS = 12
"""Of each side of a book that are shown."""
_FEED_STATES = {
    "starting": "connecting",
    "connecting": "connecting",
    "syncing": "connecting",
    "waiting": "down",
    "stopped": "ended",
}


class Showing:
    """Makes snapshots; `log` may be called by any thread, `snapshot` by one."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        self.started = self.seen = False
        """Whether the session has caught up; whether a snapshot was made."""
        self.state: State = "starting"
        self.reason = ""
        self.begun = session.now_ns()
        self._seq = itertools.count(1)
        self._fills = itertools.count(1)
        self._lines = itertools.count(1)
        self._bars = itertools.count(1)
        self._log: list[LogLine] = []
        self._lock = threading.Lock()
        self._lost: set[int] = set()
        """Feeds, by their places, that the log says are down or stale."""
        self._charts = [Chart(one) for one in session.strategies]

    def log(self, level: Level, source: str, text: str, number: str = "") -> None:
        """One line of what happened; the number is a command's."""
        said = f"{text} (command {number})" if number else text
        ts = self.session.now_ns()
        with self._lock:
            self._log.append(LogLine(next(self._lines), ts, level, source, said))

    def snapshot(self) -> Snapshot:
        """The session as it is on disk by now; increments since the last one."""
        self.seen = True
        session = self.session
        strategies = session.strategies
        for one in strategies:
            one.acknowledge()
            for _, level, text in one.ledger.said:
                self.log(level, one.name, text)
            one.ledger.said.clear()
        now = session.now_ns()
        views = [self._strategy(one) for one in strategies]
        state, reason = self._state(views)
        positions = [row for one in strategies for row in _positions(one)]
        working = [order for one in strategies for order in _working(one)]
        fills = [self._fill(fill) for one in strategies for fill in _taken(one.ledger.fills)]
        feeds = tuple(health_of(feed) for feed in session.feeds)
        self._tell_of(feeds)
        with self._lock:
            log, self._log = tuple(self._log), []
        return Snapshot(
            seq=next(self._seq),
            ts=now,
            session=session.manifest.name,
            state=state,
            started=self.begun,
            reason=reason,
            folder=str(session.folder),
            build=session.manifest.build[:12],
            resumed=session.resumed,
            events=sum(one.journal.taken.inputs for one in strategies),
            committed=sum(one.journal.committed.inputs for one in strategies),
            currency=session.config.account.currency,
            equity=sum(view.equity for view in views),
            profit=sum(view.profit for view in views),
            profit_today=sum(view.profit_today for view in views),
            drawdown=max(view.drawdown for view in views),
            drawdown_max=max(view.drawdown_max for view in views),
            instruments=tuple(self._instruments()),
            strategies=tuple(views),
            positions=tuple(positions),
            working=tuple(working),
            gauges=tuple(gauge for one in strategies for gauge in _gauges(one)),
            feeds=feeds,
            books=tuple(book for one in strategies for book in _books(one, now)),
            latency=tuple(_latency(one) for one in strategies if any(one.spans.counts)),
            fills=tuple(fills),
            bars=tuple(row for chart in self._charts for row in chart.rows(now, self._bars)),
            log=log,
        )

    def _tell_of(self, feeds: Sequence[FeedHealth]) -> None:
        """A line where a feed is lost, and one where it is there again, however often it dials."""
        for number, feed in enumerate(feeds):
            lost = number in self._lost
            if feed.state in ("down", "stale") and not lost:
                self._lost.add(number)
                why = f": {feed.why}" if feed.why else ""
                self.log("warning", feed.name, f"the feed is {feed.state}{why}")
            elif feed.state == "live" and lost:
                self._lost.discard(number)
                self.log("info", feed.name, "the feed is live again")

    def _state(self, views: list[StrategyView]) -> tuple[State, str]:
        if self.state == "stopped":
            return "stopped", self.reason
        if not self.started:
            away = bool(self.session.venues.away)
            return "starting", "waiting for its venue" if away else "warming up"
        for state in ("active", "reducing", "halted", "starting"):
            for view in views:
                if view.state == state:
                    return state, "" if state == "active" else view.reason
        return "stopped", self.session.why

    def _strategy(self, one: "LiveStrategy") -> StrategyView:
        """It is stopped, not halted, where the session holds it because it ends."""
        view = _strategy(one)
        ends = view.state == "starting" and self.session.stopping.is_set()
        return replace(view, state="stopped", reason=self.session.why) if ends else view

    def _fill(self, fill: FillRow) -> FillRow:
        return FillRow(
            seq=next(self._fills), ts=fill.ts, strategy=fill.strategy, symbol=fill.symbol,
            side=fill.side, quantity=fill.quantity, price=fill.price, fee=fill.fee,
            profit=fill.profit, order=fill.order, maker=fill.maker,
        )  # fmt: skip

    def _instruments(self) -> Iterator[InstrumentView]:
        session = self.session
        seen = set()
        for one in session.strategies:
            for place, terms in zip(one.part.places, one.prepared.data.instruments, strict=True):
                if terms.symbol not in seen:
                    seen.add(terms.symbol)
                    feed = session.feeds[session.manifest.instruments[place].feed].name
                    yield InstrumentView(
                        terms.symbol, decimals(terms.tick) or 0, decimals(terms.lot) or 0,
                        feed, terms.currency,
                    )  # fmt: skip


def _taken(fills: list[FillRow]) -> list[FillRow]:
    taken = fills.copy()
    fills.clear()
    return taken


def _working(one: "LiveStrategy") -> Iterator[WorkingOrder]:
    """Its orders that are on disk, each with what stands before it now."""
    known = one.known()
    one.ledger.keep(known.keys())
    lots = {terms.symbol: float(terms.lot) for terms in one.ledger.instruments}
    for number, order in sorted(one.ledger.working.items()):
        ahead = known.get(number, math.inf)
        shown = ahead * lots[order.symbol] if math.isfinite(ahead) else None
        yield replace(order, ahead=shown)


def _money(one: "LiveStrategy", path: str) -> float:
    return one.word(path) / 10.0**one.prepared.data.money_digits


def _strategy(one: "LiveStrategy") -> StrategyView:
    state, why = one.state
    equity, peak = _money(one, "e.equity"), max(_money(one, "e.metrics.peak"), 1e-9)
    exposure = sum(abs(row.value) for row in _positions(one))
    return StrategyView(
        name=one.name,
        state=state,  # type: ignore[arg-type]
        reason=why,
        symbols=tuple(instrument.symbol for instrument in one.prepared.data.instruments),
        equity=equity,
        cash=_money(one, "e.cash"),
        profit=equity - _money(one, "e.metrics.equity_first"),
        profit_today=equity - _money(one, "e.metrics.equity_day"),
        drawdown=max(0.0, 1 - equity / peak),
        drawdown_max=_drawdown_max(one),
        exposure=exposure,
        orders=one.ledger.orders,
        rejected=one.ledger.rejected,
        fills=one.ledger.filled,
        behind=one.lane.behind,
        conflated=one.lane.backlog.conflated,
        left_out=one.lane.dropped,
        signals=tuple(_signals(one)),
    )


def _signals(one: "LiveStrategy") -> Iterator[SignalView]:
    worker = one.worker
    device = "" if worker is None else worker.where
    took_us = 0.0 if worker is None else worker.took_median_ns() / 1_000
    for found in answers(one.prepared.checked, one.memory):
        mean_us, most_us = found.age_mean_ns / 1_000, found.age_most_ns / 1_000
        counts = (found.asked, found.ready, found.stale, found.dropped)
        yield SignalView(found.name, *counts, mean_us, most_us, device, took_us)


def _drawdown_max(one: "LiveStrategy") -> float:
    """The deepest so far: of those that are over, or the one that lasts."""
    peak, trough = (one.word(f"e.metrics.{name}") for name in ("peak", "trough"))
    deepest = one.word("e.metrics.dd_drop") / max(one.word("e.metrics.dd_peak"), 1)
    return max(deepest, (peak - trough) / max(peak, 1))


def _positions(one: "LiveStrategy") -> Iterator[Position]:
    for index, terms in enumerate(one.prepared.data.instruments):
        held = one.ledger.holdings[index]
        if not held.lots and not held.realised:
            continue
        mark = one.word(f"e.market[{index}].mark") * float(terms.tick)
        quantity, price = held.lots * float(terms.lot), held.ticks * float(terms.tick)
        per_point = float(terms.multiplier)
        yield Position(
            strategy=one.name, symbol=terms.symbol, quantity=quantity,
            price=price if held.lots else 0.0, mark=mark, value=quantity * mark * per_point,
            unrealised=quantity * (mark - price) * per_point if held.lots else 0.0,
            realised=held.realised,
        )  # fmt: skip


def _gauges(one: "LiveStrategy") -> Iterator[Gauge]:
    limits, currency = one.config.limits, one.config.account.currency
    values = [abs(row.value) for row in _positions(one)]
    equity = _money(one, "e.equity")
    broken = one.ledger.broken if one.word("e.watch.killed") & KilledBy.LIMIT else ""
    rows = (
        ("daily_loss", _money(one, "e.metrics.equity_day") - equity, limits.daily_loss),
        ("drawdown", _money(one, "e.metrics.peak") - equity, limits.drawdown),
        ("position_value", max(values, default=0.0), limits.position_value),
        ("gross_value", sum(values), limits.gross_value),
    )
    for name, value, limit in rows:
        yield Gauge(name, max(0.0, value), float(limit or 0.0), currency, one.name, name == broken)


def _books(one: "LiveStrategy", now: int) -> Iterator[BookView]:
    """The best of both sides, where a strategy listens to ticks."""
    if not one.on_ticks:
        return
    for index, terms in enumerate(one.prepared.data.instruments):
        at, tick, lot = f"e.venues[{index}]", float(terms.tick), float(terms.lot)
        words = {name: one.word(f"{at}.{name}") for name in _TOUCH}
        last = words["last_price"]
        yield BookView(
            symbol=terms.symbol,
            bids=_levels(one, index, 0) or _touch(words["bid"], words["bid_lots"], tick, lot),
            asks=_levels(one, index, 1) or _touch(words["ask"], words["ask_lots"], tick, lot),
            ts=now,
            valid=bool(words["valid"]),
            last=last * tick if last < NONE else None,
            last_side="buy" if words["last_lots"] > 0 else "sell",
        )


def _touch(ticks: int, lots: int, tick: float, lot: float) -> tuple[tuple[float, float], ...]:
    return ((ticks * tick, lots * lot),) if abs(ticks) < NONE else ()


def _levels(one: "LiveStrategy", index: int, side: int) -> tuple[tuple[float, float], ...]:
    """The best levels of one side of the book that the core keeps; none where it keeps none.

    Read while the engine writes: for people's eyes.
    """
    if not one.memory.has("books"):
        return ()
    at = f"e.books[{index}].sides[{side}]"
    best, stop = one.word(f"{at}.best"), one.word(f"{at}.stop")
    if best >= stop:
        return ()
    ring = one.memory.view(f"{at}.lots")
    keys = np.arange(best, min(stop, best + len(ring)))
    lots = ring[keys & (len(ring) - 1)]
    there = np.flatnonzero(lots)[:LEVELS]
    terms = one.prepared.data.instruments[index]
    sign = -1 if side == 0 else 1
    return tuple(
        (sign * int(keys[k]) * float(terms.tick), int(lots[k]) * float(terms.lot))
        for k in there.tolist()
    )


def _latency(one: "LiveStrategy") -> LatencyView:
    upto = [FIRST_NS * 2 ** (k / PER_OCTAVE) for k in range(BUCKETS)]
    counts = np.array(one.spans.counts)
    reached = np.cumsum(counts) / counts.sum()
    p50, p90, p99, p999 = (
        min(upto[int(np.searchsorted(reached, share))], float(one.spans.longest_ns))
        for share in (0.5, 0.9, 0.99, 0.999)
    )
    return LatencyView(
        f"{one.name}: event to journal", tuple(upto), tuple(one.spans.counts),
        p50, p90, p99, p999, float(one.spans.longest_ns),
    )  # fmt: skip


_TOUCH = "bid bid_lots ask ask_lots valid last_price last_lots".split()


def health_of(feed: LiveFeed) -> FeedHealth:
    """The counters of a feed as the session shows them."""
    own = feed.health
    return FeedHealth(
        name=feed.name,
        symbols=feed.symbols,
        state=_FEED_STATES.get(own.state, own.state),  # type: ignore[arg-type]
        # One that is connected keeps what ended the connection before: that is over.
        why="" if own.state in ("live", "stale") else own.reason,
        messages=own.received,
        events=own.processed,
        bytes=own.bytes_received,
        gaps=own.gaps,
        resyncs=own.resyncs,
        reconnects=max(0, own.connects - 1),
        bad=own.dropped,
        rejected=sum(own.faults.values()),
        last_recv=own.last_recv_ns,
        delay_ns=max(own.latency_ns, 0),  # by clocks that agree to a millisecond or so
        clock_offset_ns=own.clock_offset_ns,
    )


class Chart:
    """Bars of one strategy's instruments: those it gets, or on ticks one a second of its middle."""

    def __init__(self, one: "LiveStrategy") -> None:
        self.one = one
        self._lock = threading.Lock()
        self._new: list[BarRow] = []
        self._forming: dict[int, list[float]] = {}
        self._second = 0
        if not one.on_ticks:
            one.lane.seen = self._see
            for segment in one.had():
                self._see(segment.inputs())
            del self._new[:-PAST_MAX]

    def _see(self, events: Events) -> None:
        bars = events[(events["kind"] == Kind.BAR) & (events["side"] == 0)].view(BAR)
        if not len(bars):
            return
        known = self.one.prepared.data.instruments
        with self._lock:
            for bar in bars[-PAST_MAX:]:
                self._new.append(_row(known[bar["instrument"]], bar))

    def rows(self, now: int, numbers: "itertools.count[int]") -> list[BarRow]:
        """What has come since the last call."""
        if self.one.on_ticks:
            self._sample(now)
        with self._lock:
            new, self._new = self._new, []
        return [
            BarRow(
                next(numbers), r.ts, r.symbol, r.open, r.high, r.low, r.close, r.volume, r.closed
            )
            for r in new
        ]

    def _sample(self, now: int) -> None:
        second = now // SECOND_NS
        for index, terms in enumerate(self.one.prepared.data.instruments):
            at = f"e.venues[{index}]"
            if not self.one.word(f"{at}.valid"):
                continue
            ticks = (self.one.word(f"{at}.bid") + self.one.word(f"{at}.ask")) / 2
            price = ticks * float(terms.tick)
            bar = self._forming.get(index)
            if bar is not None and second != self._second:
                self._add(terms, self._second, bar, closed=True)
                bar = None
            bar = [price, price, price, price] if bar is None else bar
            bar[1], bar[2], bar[3] = max(bar[1], price), min(bar[2], price), price
            self._forming[index] = bar
            self._add(terms, second, bar, closed=False)
        self._second = second

    def _add(self, terms: Instrument, second: int, bar: list[float], *, closed: bool) -> None:
        with self._lock:
            self._new.append(
                BarRow(
                    0, second * SECOND_NS, terms.symbol, bar[0], bar[1], bar[2], bar[3], 0.0, closed
                )
            )


def _row(one: Instrument, bar: "np.void") -> BarRow:
    tick = float(one.tick)
    return BarRow(
        0, int(bar["ts_recv"]), one.symbol, float(bar["open"] * tick), float(bar["high"] * tick),
        float(bar["low"] * tick), float(bar["close"] * tick), float(bar["volume"] * one.lot),
    )  # fmt: skip
