"""One order for all that reaches the engines: feeds, sessions and timers, commands.

    feed threads -- push --.
    timer -- advance ------+-- lock --> per strategy: its instants --> journal, then its ring
    commands -- command ---'

What stands in a strategy's journal is what its engine consumes, in that order; it is handed to the
journal before the engine can see it. Times in a stream never go back: a tick that is older than
what was given is given the newest time.

No lane waits for an engine, so that none holds up another: what an engine has no room for stays in
its lane, where newer quotes replace older ones and nothing else is left out. An engine that stands
still, or is too far behind, is halted first; from then on what it misses is counted.
"""

import threading
import time
from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from quantdsl.errors import RingError
from quantdsl.events.layout import EVENT, MORE, Kind
from quantdsl.events.merge import keep, outside
from quantdsl.events.ring import CONSUMED, Ring
from quantdsl.live.backlog import Backlog
from quantdsl.live.clockwork import BarClock, TickClock
from quantdsl.live.straight import NO, enter, fits

Events = npt.NDArray[np.void]
_NONE: Events = np.empty(0, EVENT)
STOOD_S_MAX = 2.0
"""An engine that takes none of the events that wait for it for so long hangs."""
STOOD_WAITED_FOR_S_MAX = 60.0
"""The same where the market itself waits for the engine: nothing is missed meanwhile, and a machine
that is busy with other things can keep a thread from its core for seconds."""
LOOK_S_MAX = 0.05
"""What counts at most of the time between two looks at an engine: a machine that was suspended has
stopped all alike."""
BEHIND_MAX = 1 << 20
"""Events that wait in a lane: ten seconds of the highest rate, 64 MiB."""
BEHIND_WAIT_S = 0.000_05
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
    """What an asynchronous signal says to one request: a value, on a universe one of each
    instrument that it has one of."""

    signal: int
    of_ts: int
    """The instant of its request."""
    instruments: npt.NDArray[np.int64]
    bits: npt.NDArray[np.int64]
    took_ns: int = 0
    """From when the request was sent to when the values were there; 0 until that is known."""


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
        *,
        conflates: bool = False,
        stood_s_max: float = STOOD_S_MAX,
    ) -> None:
        """`conflates`: where its engine is behind, only the newest of several quotes reaches it.
        `stood_s_max`: after so long without taking anything the engine hangs."""
        self.name, self.clock, self.journal = name, clock, journal
        self.places = np.array(places, np.int64)
        self.straight = list(places) == list(range(len(places)))
        self.ticks = isinstance(clock, TickClock)
        if self.ticks:
            self._fits, self._into = fits.ready(), enter.ready()
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
        """Events that are in the journal, and in the ring or on their way into it."""
        self.dropped = 0
        """Events that were left out since `failed`."""
        self.failed = ""
        """Why nothing is sent any more."""
        self.backlog = Backlog(conflates=conflates)
        self._rest = _NONE
        """What is in the journal already and had no room in the ring."""
        self._entered_ts = self.last_ts
        """Of the newest event that is in the journal."""
        self._consumed, self._looked_s, self._stood_s = self._cursor, time.monotonic(), 0.0
        self._stood_s_max = stood_s_max
        self.seen: Callable[[Events], None] = _unseen
        """Is shown what the engine gets, for people's eyes; must be quick and keep no view."""
        self.asked: Callable[[Events], None] = _unseen
        """The same for the worker of asynchronous signals."""

    def feed(self, events: Events) -> None:
        """Whole messages of the session, of any instruments."""
        if self.straight and self.ticks and self._go_straight(events):
            return
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

    def _go_straight(self, events: Events) -> bool:
        """Let ticks in by two compiled calls, where nothing is to be done about any of them."""
        clock, ring = self.clock, self.inbound.words
        assert isinstance(clock, TickClock)
        if self.failed or self.journal.failed or self.behind or self.had_upto is not None:
            return False
        rows, until_ns = events.view(np.int64), min(clock.next_ns, clock.close_ns)
        last: int = self._fits(rows, self.wanted, ring, self.last_ts, clock.open_ns, until_ns)
        if last == NO:
            return False
        self.last_ts = self._entered_ts = last
        self._note(events)
        self._into(rows, ring)
        self._ring.moved(len(events))
        return True

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
            off = ~self.clock.inside(ts)
            kept = ~(off & np.isin(events["kind"], MARKET))
            events = outside(keep(events, kept), off[kept])
        self.send(events)

    def advance(self, now_ns: int) -> None:
        """Time has passed."""
        if isinstance(self.clock, BarClock):
            self.send(self.clock.until(now_ns))
        elif self.clock.next_ns < now_ns:
            self.send(self.clock.due(now_ns))

    def command(self, side: int, bits: int, now_ns: int) -> None:
        """A command, in an instant of its own, before all that waits for room in the ring."""
        self.advance(now_ns)
        bars = isinstance(self.clock, BarClock)
        moment = max(self.last_ts, self.clock.floor if bars else now_ns)
        if self.behind:
            moment = self._entered_ts
        event = np.zeros(1, EVENT)
        event["ts_event"], event["ts_recv"] = moment, now_ns if bars else moment
        event["kind"], event["side"], event["payload"][0, 0] = Kind.COMMAND, side, bits
        if self.behind:
            self._enter(event)
        else:
            self.send(event)

    def answer(self, said: Answer, now_ns: int) -> None:
        """The values of a signal for one request in an instant of their own: so long after that
        of the request as they took, but neither before what was sent nor after the session's
        present."""
        self.advance(now_ns)
        present = self.clock.floor if isinstance(self.clock, BarClock) else now_ns
        events = np.zeros(len(said.bits), EVENT)
        events["ts_event"] = max(self.last_ts, min(said.of_ts + said.took_ns, present))
        events["ts_recv"], events["kind"] = events["ts_event"], Kind.SIGNAL
        events["instrument"] = said.instruments
        events["payload"][:, 0], events["payload"][:, 1] = said.signal, said.of_ts
        events["payload"][:, 2] = said.bits
        events["flags"][:-1] = MORE
        self.send(events)

    def send(self, events: Events) -> None:
        """To the journal and into the ring, or behind what waits for its engine."""
        if not len(events):
            return
        self._notice(self.journal.failed)
        if self.failed:
            self.dropped += len(events)
            return
        self.last_ts = max(self.last_ts, self._time_of(events[-1]))
        if not self.behind:
            self._entered_ts = self.last_ts
            self._enter(events)
            return
        self.backlog.add(events)
        if len(self.backlog) > BEHIND_MAX:
            self._notice(f"the engine is more than {BEHIND_MAX:,} events behind")

    @property
    def behind(self) -> int:
        """Events that wait for room in the ring."""
        return 0 if self.failed else len(self._rest) + len(self.backlog)

    def relieve(self) -> None:
        """Let in what there is room for by now, and notice an engine that stands still."""
        self._notice(self.journal.failed)
        while not self.failed:
            if len(self._rest):
                rest, self._rest = self._rest, _NONE
                self._push(rest)
            room = self.inbound.capacity - self.inbound.waiting
            if len(self._rest) or not len(self.backlog) or room < self.inbound.capacity // 4:
                break
            events = self.backlog.take(room)
            self._entered_ts = self._time_of(events[-1])
            self._enter(events)
        self._look()

    def _enter(self, events: Events) -> None:
        """To the journal, then into the ring as far as there is room."""
        self._note(events)
        if len(self._rest):
            self._rest = np.concatenate((self._rest, events))
        else:
            self._push(events)

    def _note(self, events: Events) -> None:
        """The engine is about to see these."""
        self.journal.inputs(events)
        self.seen(events)
        self.asked(events)
        self.sent_ns = time.monotonic_ns()
        self.count += len(events)

    def _push(self, events: Events) -> None:
        try:
            done = self._ring.push(events)
        except RingError as misused:
            self._notice(str(misused))
            return
        if done < len(events):
            self._rest = events[done:].copy()

    def _time_of(self, event: np.void) -> int:
        """By which the stream is ordered."""
        return int(event["ts_event" if isinstance(self.clock, BarClock) else "ts_recv"])

    @property
    def hangs(self) -> bool:
        """Whether the engine was seen to take nothing for too long although something waits."""
        return self._stood_s > self._stood_s_max

    @property
    def _cursor(self) -> int:
        return int(self.inbound.cells[CONSUMED])

    def _look(self) -> None:
        """How long the engine has taken nothing although something waits."""
        now, cursor = time.monotonic(), self._cursor
        stands = cursor == self._consumed and self.inbound.waiting > 0
        self._stood_s = self._stood_s + min(now - self._looked_s, LOOK_S_MAX) if stands else 0.0
        self._consumed, self._looked_s = cursor, now
        if self.hangs:
            self._notice(f"the engine has taken no event for {self._stood_s_max:g} s")

    def _notice(self, failure: str | None) -> None:
        """Nothing is sent any more, for the first reason that there is; what waits is left out."""
        if failure and not self.failed:
            self.failed = failure
            self.dropped += self.backlog.clear()


class Sequencer:
    """Gives each strategy its events in one order; may be called by any thread.

    What fails in the lane of one strategy ends that lane, and no other notices.
    """

    def __init__(self, lanes: Sequence[Lane], *, waits: bool = False) -> None:
        """`waits`: the feeds have a time of their own, which stands still for slow engines."""
        self.lanes, self.waits, self.lock = lanes, waits, threading.Lock()
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
        if self.waits:
            self._catch_up()

    def _catch_up(self) -> None:
        """Until nothing waits; an engine that hangs ends its lane, for which nothing waits then."""
        while self.behind:
            time.sleep(BEHIND_WAIT_S)
            self.relieve()

    @property
    def behind(self) -> bool:
        """Whether events wait for an engine."""
        return any(lane.behind for lane in self.lanes)

    def relieve(self) -> None:
        """Let engines have what they have room for by now; to be called often."""
        with self.lock:
            self._each(self.lanes, Lane.relieve)

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

    def finish(self, now_ns: int) -> None:
        """All that happened by now has reached its engine: no command overtakes any of it."""
        self.advance(now_ns)
        self._catch_up()

    def answer(self, lane: Lane, said: Answer, now_ns: int) -> None:
        """What a strategy's worker answers to one request; of what was asked for in warming up
        nothing is wanted."""
        with self.lock:
            if self.held is None:
                self._each([lane], lambda lane: lane.answer(said, now_ns))

    def command(self, lanes: Sequence[Lane], side: int, bits: int, now_ns: int) -> None:
        """A command to some of the strategies."""
        with self.lock:
            self._each(lanes, lambda lane: lane.command(side, bits, now_ns))
