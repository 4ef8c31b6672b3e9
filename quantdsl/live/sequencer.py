"""One order for all that reaches the engines: feeds, sessions and timers, commands.

    feed threads -- push --.
    timer -- advance ------+-- lock --> per strategy: its instants --> journal, then its ring
    commands -- command ---'

What stands in a strategy's journal is what its engine consumes, in that order; it is handed to the
journal before the engine can see it. Times in a stream never go back: a tick that is older than
what was given is given the newest time.
"""

import threading
import time
from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from quantdsl.data.tick_feed import keep
from quantdsl.errors import RingError
from quantdsl.events.layout import EVENT, MORE, Kind
from quantdsl.events.ring import Ring
from quantdsl.live.clockwork import BarClock, TickClock

Events = npt.NDArray[np.void]
FULL_S_MAX = 1.0
"""An engine that takes nothing from its full ring for so long hangs."""
FULL_WAIT_S = 0.000_05
MARKET = (Kind.QUOTE, Kind.TRADE)


def _unseen(_: Events) -> None:
    pass


class Inputs(Protocol):
    """The part of a journal that a sequencer writes."""

    @property
    def failed(self) -> str | None:
        """Why nothing can be written any more."""

    def inputs(self, events: Events) -> None: ...


class Answer(NamedTuple):
    """The value of an asynchronous signal."""

    signal: int
    instrument: int
    """Whose, on a universe."""
    of_ts: int
    """The instant of its request."""
    bits: int
    took_ns: int
    """From when the request was sent to when the value was there."""


class Lane:
    """The way of events to one strategy.

    `places` says for each instrument of the session which of the strategy's it is, -1 for none.
    """

    def __init__(
        self,
        name: str,
        clock: BarClock | TickClock,
        places: Sequence[int],
        kinds: frozenset[Kind],
        journal: Inputs,
        inbound: Ring,
    ) -> None:
        self.name, self.clock, self.journal = name, clock, journal
        self.places = np.array(places, np.int64)
        self.straight = list(places) == list(range(len(places)))
        self.wanted = np.zeros(256, bool)
        self.wanted[[*kinds]] = True
        self.inbound, self._ring = inbound, inbound.producer()
        self.last_ts = np.iinfo(np.int64).min
        """Of the newest event."""
        self.bar_side = 0
        """Of the bars that it is made of; a feed may give several lengths."""
        self.sent_ns = 0
        """When the newest event was sent, by the steady clock."""
        self.had_upto: int | None = None
        """Ticks up to here are in the journal already: a market of its own time tells them again.
        """
        self.count = 0
        self.dropped = 0
        """Events for an engine that had failed."""
        self.failed = ""
        """Why nothing is sent any more."""
        self.seen: Callable[[Events], None] = _unseen
        """Is shown what the engine gets, for people's eyes; must be quick and keep no view."""
        self.asked: Callable[[Events], None] = _unseen
        """The same for the worker of asynchronous signals."""

    def feed(self, events: Events) -> None:
        """Whole messages of the session, of any instruments."""
        kinds = events["kind"]
        if not self.straight:
            own = self.places[events["instrument"]]
            events = events[own >= 0].copy()
            events["instrument"] = own[own >= 0]
            kinds = events["kind"]
        if not self.wanted[kinds].all():
            events = keep(events, self.wanted[kinds])
        if len(events):
            self._bars(events) if isinstance(self.clock, BarClock) else self._ticks(events)

    def _bars(self, events: Events) -> None:
        assert isinstance(self.clock, BarClock)
        kinds = events["kind"]
        bars = (kinds == Kind.BAR) & (events["side"] == self.bar_side)
        for index in np.unique(events["instrument"][bars]).tolist():
            self.clock.add(index, events[bars & (events["instrument"] == index)])
        others = kinds != Kind.BAR
        if others.any():
            self.clock.act(events[others])

    def _ticks(self, events: Events) -> None:
        clock = self.clock
        assert isinstance(clock, TickClock)
        if self.had_upto is not None:
            events = keep(events, events["ts_recv"] > self.had_upto)
            if not len(events):
                return
            self.had_upto = None
        if int(events["ts_recv"][0]) < self.last_ts:
            events = events.copy()
            events["ts_recv"] = np.maximum(events["ts_recv"], self.last_ts)
        while int(events["ts_recv"][-1]) >= clock.next_ns:
            first = int(events["ts_recv"][0])
            self.send(clock.due(first))
            cut = int(np.searchsorted(events["ts_recv"], clock.next_ns, "left"))
            if not cut:  # what is due at this very moment follows the ticks
                cut = int(np.searchsorted(events["ts_recv"], first, "right"))
            self._market(events[:cut])
            events = events[cut:]
            if not len(events):
                return
        self._market(events)

    def _market(self, events: Events) -> None:
        """Ticks of one session; of those outside only the book goes on."""
        assert isinstance(self.clock, TickClock)
        ts = events["ts_recv"]
        if int(ts[0]) < self.clock.open_ns or int(ts[-1]) >= self.clock.close_ns:
            outside = ~self.clock.inside(ts) & np.isin(events["kind"], MARKET)
            events = keep(events, ~outside)
        self.send(events)

    def advance(self, now_ns: int) -> None:
        """Time has passed."""
        if isinstance(self.clock, BarClock):
            self.send(self.clock.until(now_ns))
        elif self.clock.next_ns < now_ns:
            self.send(self.clock.due(now_ns))

    def command(self, side: int, bits: int, now_ns: int) -> None:
        """A command, in an instant of its own behind all that was sent."""
        self.advance(now_ns)
        bars = isinstance(self.clock, BarClock)
        moment = max(self.last_ts, self.clock.floor if bars else now_ns)
        event = np.zeros(1, EVENT)
        event["ts_event"], event["ts_recv"] = moment, now_ns if bars else moment
        event["kind"], event["side"], event["payload"][0, 0] = Kind.COMMAND, side, bits
        self.send(event)

    def answer(self, answers: Sequence[Answer], now_ns: int) -> None:
        """The values of a signal for one request, of each instrument of a universe, in an instant
        of their own: so long after that of the request as they took, but neither before what was
        sent nor after the session's present."""
        self.advance(now_ns)
        present = self.clock.floor if isinstance(self.clock, BarClock) else now_ns
        events = np.zeros(len(answers), EVENT)
        first = answers[0]
        events["ts_event"] = max(self.last_ts, min(first.of_ts + first.took_ns, present))
        events["ts_recv"], events["kind"] = events["ts_event"], Kind.SIGNAL
        events["instrument"] = [one.instrument for one in answers]
        events["payload"][:, :3] = [(one.signal, one.of_ts, one.bits) for one in answers]
        events["flags"][:-1] = MORE
        self.send(events)

    def send(self, events: Events) -> None:
        """To the journal, then into the ring; waits for an engine that is behind."""
        if not len(events):
            return
        self.failed = self.failed or self.journal.failed or ""
        if self.failed:
            self.dropped += len(events)
            return
        last = events[-1]
        bars = isinstance(self.clock, BarClock)
        self.last_ts = max(self.last_ts, int(last["ts_event"] if bars else last["ts_recv"]))
        self.journal.inputs(events)
        self.seen(events)
        self.asked(events)
        self.sent_ns = time.monotonic_ns()
        self.count += len(events)
        sent, since = 0, 0.0
        while True:
            try:
                done = self._ring.push(events[sent:])
            except RingError as misused:
                self.failed = str(misused)
                return
            sent += done
            if sent == len(events):
                return
            since = 0.0 if done else since + FULL_WAIT_S
            if since > FULL_S_MAX:
                self.failed = f"the engine has taken no event for {FULL_S_MAX:g} s"
                return
            time.sleep(FULL_WAIT_S)


class Sequencer:
    """Gives each strategy its events in one order; may be called by any thread.

    What fails in the lane of one strategy ends that lane, and no other notices.
    """

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.lanes, self.lock = lanes, threading.Lock()
        self.held: list[Events] | None = None
        """While strategies are warmed up: what feeds have pushed meanwhile."""

    def _each(self, lanes: Sequence[Lane], act: Callable[[Lane], None]) -> None:
        for lane in lanes:
            try:
                act(lane)
            except Exception as failure:
                lane.failed = lane.failed or f"{type(failure).__name__}: {failure}"

    def push(self, events: Events) -> None:
        """Whole messages of a feed; copied before this returns."""
        with self.lock:
            if self.held is not None:
                self.held.append(events.copy())
                return
            self._each(self.lanes, lambda lane: lane.feed(events))

    def hold(self) -> None:
        """Keep what feeds push from now on until `release`."""
        with self.lock:
            self.held = []

    def release(self) -> None:
        """Give what was held, and from now on all as it comes."""
        with self.lock:
            held, self.held = self.held or [], None
            for events in held:
                self._each(self.lanes, methodcaller("feed", events))

    def advance(self, now_ns: int) -> None:
        """Time has passed: sessions and timers, and bars that were waited for."""
        with self.lock:
            if self.held is None:
                self._each(self.lanes, lambda lane: lane.advance(now_ns))

    def answer(self, lane: Lane, answers: Sequence[Answer], now_ns: int) -> None:
        """What a strategy's worker answers to one request; of what was asked for in warming up
        nothing is wanted."""
        with self.lock:
            if self.held is None:
                self._each([lane], lambda lane: lane.answer(answers, now_ns))

    def command(self, lanes: Sequence[Lane], side: int, bits: int, now_ns: int) -> None:
        """A command to some of the strategies."""
        with self.lock:
            self._each(lanes, lambda lane: lane.command(side, bits, now_ns))
