"""Sessions, timers and the bars of every clock as time passes.

What the data layer does for a backtest in one go, from the same calendar and the same builders of
bars, pushed instead of pulled: so a session sees the instants that a backtest of its data sees.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from quantdsl.data.aggregate import Bars, Placing, place
from quantdsl.data.calendar import Schedule
from quantdsl.data.events import BarStream
from quantdsl.data.timers import OPEN, Clockwork, Timer
from quantdsl.data.times import Interval
from quantdsl.data.universe import Told
from quantdsl.events.codes import TimerSide
from quantdsl.events.layout import BAR, EVENT, Kind

Events = npt.NDArray[np.void]
NEVER = np.iinfo(np.int64).max
BEFORE_ALL = np.iinfo(np.int64).min


class BarClock:
    """Instants of a strategy on bars.

    An instant is given once every instrument has its bar, or `wait_ns` after it was due. Nothing
    at or before `floor` is given: that has been. What comes too late for its instant is counted,
    and belongs to coarser bars that are not complete yet. `told` is what is known of the
    instruments of a universe, which each session's opening tells.
    """

    def __init__(
        self,
        schedule: Schedule,
        timers: tuple[Timer, ...],
        clocks: Sequence[Interval],
        finer: Sequence[Interval],
        *,
        wait_ns: int,
        begin_ns: int,
        floor: int = BEFORE_ALL,
        sync_all: bool = False,
        told: Told | None = None,
    ) -> None:
        self.stream = BarStream(
            Clockwork(schedule, timers), clocks, finer, sync_all=sync_all, told=told
        )
        self.schedule, self.finer, self.wait_ns, self.floor = schedule, finer, wait_ns, floor
        self.placing = [Placing(one, schedule, at_close=False, dates_only=False) for one in finer]
        self.reached = [begin_ns] * len(finer)
        """When the newest bar of each instrument closed."""
        self.session = _session_at(schedule, begin_ns)
        self.late = self.outside = 0

    def add(self, index: int, events: Events) -> None:
        """Closed bars of one instrument, oldest first; those that it had before are left out."""
        bars = events.view(BAR)
        start, end, session, inside = place(bars["ts_recv"].copy(), self.placing[index])
        new = end > self.reached[index]
        if not new.any():
            return
        self.late += int(np.count_nonzero(new & (end <= self.floor)))
        self.outside += int(np.count_nonzero(new & ~inside))
        self.reached[index] = int(end[-1])
        names = ("open", "high", "low", "close", "volume")
        own = Bars(start, end, session, *(bars[name].copy() for name in names))
        self.stream.add(index, own.where(new & inside))

    def act(self, events: Events) -> None:
        """Funding and the like: after the bars that end then, or at once where that has been."""
        actions = events.copy()
        actions["ts_event"] = np.maximum(actions["ts_event"], self.floor + 1)
        self.stream.act(actions)

    def missing(self, now_ns: int) -> list[bool]:
        """Of which instruments a bar is so late that it should be asked for."""
        at = np.array(self.reached, np.int64)
        session, inside = self.schedule.at(at)
        following = np.minimum(session + 1, len(self.schedule) - 1)
        start = np.where(inside, at, self.schedule.open_ns[following])
        return [
            now_ns > begin + own.nominal_ns + self.wait_ns // 2
            for begin, own in zip(start.tolist(), self.finer, strict=True)
        ]

    def until(self, now_ns: int) -> Events:
        """All that is certain by now, in order, instants marked."""
        certain = min(
            max(min(now_ns, reached + own.nominal_ns - 1), now_ns - self.wait_ns)
            for reached, own in zip(self.reached, self.finer, strict=True)
        )
        if certain <= self.floor:
            return np.empty(0, EVENT)
        upto = int(np.searchsorted(self.schedule.open_ns, certain, "right"))
        if upto > self.session:
            self.stream.enter(np.arange(self.session, upto))
            self.session = upto
        events = np.concatenate([np.empty(0, EVENT), *self.stream.until(certain + 1)])
        floor, self.floor = self.floor, certain
        return events[events["ts_event"] > floor]


class TickClock:
    """Session borders and timers among ticks, and which ticks lie within a session.

    A timer that was due before `begin_ns` does not fire any more. `told` is as in BarClock.
    """

    def __init__(
        self,
        schedule: Schedule,
        timers: tuple[Timer, ...],
        *,
        begin_ns: int,
        floor: int = BEFORE_ALL,
        told: Told | None = None,
    ) -> None:
        self.clockwork, self.schedule, self.floor = Clockwork(schedule, timers), schedule, floor
        self._told = told
        self.session, self._begin_ns = _session_at(schedule, begin_ns), begin_ns
        self._queue = np.empty(0, EVENT)
        self.next_ns = self._opens()
        """Nothing is due before."""
        self.open_ns = self.close_ns = BEFORE_ALL

    def _opens(self) -> int:
        """When the next session opens."""
        opens = self.schedule.open_ns
        return int(opens[self.session]) if self.session < len(opens) else NEVER

    def due(self, before_ns: int) -> Events:
        """All that happens before a moment, and at it what closes bars or opens the session."""
        while self._opens() <= before_ns:
            self._enter()
        ts = self._queue["ts_event"]
        end = int(np.searchsorted(ts, before_ns, "left"))
        while end < len(ts) and ts[end] == before_ns and _comes_first(self._queue[end]):
            end += 1
        given, self._queue = self._queue[:end], self._queue[end:]
        queued = int(self._queue["ts_event"][0]) if len(self._queue) else NEVER
        self.next_ns = min(queued, self._opens())
        return given[given["ts_event"] > self.floor]

    def _enter(self) -> None:
        one = np.array([self.session])
        opens = self.clockwork.opens(one, joined=False)
        lanes = (
            self._since(self.clockwork.closings(one)),
            opens if self._told is None else self._told.before(opens, one),
            self._since(self.clockwork.timers(one)),
            self.clockwork.closes(one),
            self.clockwork.opens(one, joined=True),
        )
        events = np.concatenate([self._queue, *lanes])
        self._queue = events[np.argsort(events["ts_event"], kind="stable")]
        self.open_ns = int(self.schedule.open_ns[self.session])
        self.close_ns = int(self.schedule.close_ns[self.session])
        self.session += 1

    def _since(self, timers: Events) -> Events:
        return timers[timers["ts_event"] >= self._begin_ns]

    def inside(self, ts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether a session holds each time; `due` has been asked up to there."""
        found: npt.NDArray[np.bool_] = (ts >= self.open_ns) & (ts < self.close_ns)
        return found


def _session_at(schedule: Schedule, moment_ns: int) -> int:
    """The session that holds what follows a moment, or else the next one."""
    return int(np.searchsorted(schedule.close_ns, moment_ns + 1, "right"))


def _comes_first(event: np.void) -> bool:
    """Whether it comes before the ticks of its instant."""
    if event["kind"] == Kind.TRAIT:
        return True
    if event["kind"] == Kind.TIMER:
        return bool(event["side"] == TimerSide.CLOSES)
    return bool(event["kind"] == Kind.SESSION and event["side"] == OPEN)
