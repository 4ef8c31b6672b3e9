"""Moments inside sessions at which the core is woken: session borders and the strategy's timers."""

from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from quantdsl.data import times
from quantdsl.data.calendar import Schedule
from quantdsl.errors import ConfigError, LimitError
from quantdsl.events.codes import TimerSide
from quantdsl.events.layout import EVENT, Kind
from quantdsl.events.merge import mark
from quantdsl.limits import MOMENTS

Int64s = npt.NDArray[np.int64]
Events = npt.NDArray[np.void]

Days = Literal[
    "day", "week_start", "week_end", "month_start", "month_end", "year_start", "year_end"
]  # fmt: skip

OPEN, CLOSE = 0, 1


class Timer(msgspec.Struct, frozen=True, kw_only=True):
    """One `at` or `every` of a strategy; exactly one of the four moments is given.

    - `at_s`: seconds after midnight on the session's clock. On a day with an early close a time
      after it moves to the same distance before that close, so `flat_by` also holds on half days.
    - `every_ns`: each multiple of it after the open, the close included.
    - `after_open_ns`, `before_close_ns`: a distance from the session's border.

    One that `closes` ends the bars that are built of ticks, every `every_ns` and with the session;
    its id is the number of their clock.
    """

    id: int
    at_s: int | None = None
    every_ns: int | None = None
    after_open_ns: int | None = None
    before_close_ns: int | None = None
    on: Days = "day"
    tz: str | None = None
    closes: bool = False


class Clockwork:
    """The session and timer events of a schedule, made for those sessions that are asked for.

    Plain UTC days are no sessions: the core knows their borders by itself. No timer fires at
    `end_ns` or after it.
    """

    def __init__(
        self, schedule: Schedule, timers: tuple[Timer, ...], end_ns: int | None = None
    ) -> None:
        self.schedule, self._named = schedule, schedule.named
        self._end_ns = np.iinfo(np.int64).max if end_ns is None else end_ns
        self._timers = tuple(timer for timer in timers if not timer.closes)
        self._closing = tuple(timer for timer in timers if timer.closes)
        self._moments = [
            (timer.id, self._of(timer)) for timer in self._timers if timer.every_ns is None
        ]
        for timer in self._timers:
            self._fits(timer)
        # Where a session opens in the instant in which the last one closed, the close comes first.
        self._joined = np.zeros(len(schedule), bool)
        self._joined[1:] = schedule.open_ns[1:] == schedule.close_ns[:-1]

    def begins(self, moments: Int64s) -> npt.NDArray[np.bool_]:
        """Which of these moments open a session that does not follow the last close at once."""
        opens = self.schedule.open_ns[~self._joined]
        if not len(opens):
            return np.zeros(len(moments), bool)
        nearest = np.minimum(np.searchsorted(opens, moments), len(opens) - 1)
        return np.equal(opens[nearest], moments)

    def opens(self, sessions: Int64s, *, joined: bool) -> Events:
        """Opens of sessions that do, or do not, follow the last close at once.

        Their payload is what times of day refer to: the session's midnight, open and close.
        """
        chosen = sessions[self._joined[sessions] == joined] if self._named else sessions[:0]
        schedule = self.schedule
        events = _events(schedule.open_ns[chosen], Kind.SESSION, side=OPEN)
        midnight = times.utc_of_local(schedule.day[chosen] * times.DAY_NS, schedule.tz)
        moments = midnight, schedule.open_ns[chosen], schedule.close_ns[chosen]
        for at, moment in enumerate(moments):
            events["payload"][:, at] = moment
        return events

    def closes(self, sessions: Int64s) -> Events:
        chosen = sessions if self._named else sessions[:0]
        return _events(self.schedule.close_ns[chosen], Kind.SESSION, side=CLOSE)

    def timers(self, sessions: Int64s) -> Events:
        """Timer events in order of time, then of id; `payload[0]` is the id."""
        found = []
        for timer_id, moments in self._moments:
            ts = moments[sessions]
            found.append(_events(ts[ts >= 0], Kind.TIMER, timer=timer_id))
        found.extend(
            _events(self._every(timer, sessions), Kind.TIMER, timer=timer.id)
            for timer in self._timers
            if timer.every_ns is not None
        )
        if not found:
            return np.empty(0, EVENT)
        events = np.concatenate(found)
        events = events[events["ts_event"] < self._end_ns]
        return events[np.lexsort((events["payload"][:, 0], events["ts_event"]))]

    def closings(self, sessions: Int64s) -> Events:
        """What closes bars of time that are built of ticks, in order; all of one time at once.

        They come before all else of their time: a tick at the end of a bar belongs to the next.
        """
        found = [np.empty(0, EVENT)]
        for timer in self._closing:
            ends = self.schedule.close_ns[sessions]
            moments = np.union1d(self._every(timer, sessions), ends)
            moments = moments[moments < self._end_ns]
            found.append(_events(moments, Kind.TIMER, side=TimerSide.CLOSES, timer=timer.id))
        events = np.concatenate(found)
        return mark(events[np.lexsort((-events["payload"][:, 0], events["ts_event"]))])

    def missed(self, came: npt.NDArray[np.bool_]) -> dict[str, int]:
        """How often each timer of chosen days was due on a day that did not come, between those
        that did, as it is written."""
        reached = np.flatnonzero(came)
        if not reached.size:
            return {}
        within = slice(int(reached[0]), int(reached[-1]) + 1)
        moments = dict(self._moments)
        return {
            f"{_show(timer)} on {timer.on}": int(
                np.count_nonzero((moments[timer.id][within] >= 0) & ~came[within])
            )
            for timer in self._timers
            if timer.on != "day"
        }

    def inside_bars(self, interval: times.Interval) -> list[str]:
        """The timers that fire between the open and the close of a bar, as they are written."""
        moments = dict(self._moments)
        return [
            _show(timer)
            for timer in self._timers
            if self._fires_inside(timer, moments.get(timer.id), interval)
        ]

    def _fires_inside(self, timer: Timer, moments: Int64s | None, interval: times.Interval) -> bool:
        opens, closes = self.schedule.open_ns, self.schedule.close_ns
        if moments is None:  # its first moment of each session is inside a bar if any is
            assert timer.every_ns is not None
            if not interval.is_calendar:
                return timer.every_ns % interval.nominal_ns != 0
            first = opens + timer.every_ns
            moments = np.where(first <= closes, first, -1)
        if interval.is_calendar:
            begins, ends = self.schedule.spans(interval.unit)
            return bool(np.any((moments > begins) & (moments < ends)))
        fires = (moments > opens) & (moments < closes)
        return bool(np.any((moments - opens)[fires] % interval.nominal_ns))

    def _of(self, timer: Timer) -> Int64s:
        """The moment of a timer in each session, -1 where it does not fire."""
        schedule = self.schedule
        if timer.after_open_ns is not None:
            ts = schedule.open_ns + timer.after_open_ns
        elif timer.before_close_ns is not None:
            ts = schedule.close_ns - timer.before_close_ns
        else:
            assert timer.at_s is not None
            ts = self._at(timer.at_s, timer.tz or schedule.tz)
        inside = self._inside(ts)
        if not inside.any():
            raise ConfigError(
                f"{_show(timer)} lies outside every session of {schedule.name}: "
                "it would never happen"
            )
        return np.where(inside & self._chosen(timer.on), ts, -1)

    def _fits(self, timer: Timer) -> None:
        """ConfigError where an `every` is longer than each session: it counts from their opens."""
        schedule = self.schedule
        if timer.every_ns is None or len(schedule) == 0:
            return
        if timer.every_ns > (schedule.close_ns - schedule.open_ns).max():
            whose = f"session of {schedule.name}" if schedule.named else "day of UTC"
            raise ConfigError(
                f"{_show(timer)} counts from each open and is longer than every {whose}: "
                "it would never happen\n"
                "help: 'at 15:45 on week_end' or 'on month_end' comes once in many days"
            )

    def _at(self, at_s: int, tz: str) -> Int64s:
        schedule = self.schedule
        clock = schedule.day * times.DAY_NS + at_s * times.SECOND_NS
        ts = times.utc_of_local(clock, tz)
        if not schedule.named:
            return ts
        # A session that begins the evening before has its evening on the day before its date.
        outside = np.flatnonzero(~self._inside(ts))
        evening = ts.copy()
        evening[outside] = times.utc_of_local(clock[outside] - times.DAY_NS, tz)
        ts = np.where(self._inside(evening), evening, ts)
        closes = schedule.local_close_s()
        usual = int(np.sort(closes)[len(closes) // 2])
        moved = schedule.close_ns - (usual - at_s) * times.SECOND_NS
        late = (ts > schedule.close_ns) & (closes < usual) & (at_s <= usual)
        return np.where(late, moved, ts)

    def _inside(self, ts: Int64s) -> npt.NDArray[np.bool_]:
        return (self.schedule.open_ns <= ts) & (ts <= self.schedule.close_ns)

    def _chosen(self, on: Days) -> npt.NDArray[np.bool_]:
        """The first or last session of each week, month or year."""
        chosen = np.ones(len(self.schedule), bool)
        if on == "day":
            return chosen
        unit, _, side = on.partition("_")
        period = self.schedule.periods({"week": "w", "month": "mo", "year": "y"}[unit])
        changes = period[1:] != period[:-1]
        if side == "start":
            chosen[1:], chosen[0] = changes, False
        else:
            chosen[:-1], chosen[-1] = changes, False
        return chosen

    def _every(self, timer: Timer, sessions: Int64s) -> Int64s:
        """Its moments in these sessions; LimitError where they are too many."""
        assert timer.every_ns is not None
        every_ns = timer.every_ns
        opens, closes = self.schedule.open_ns[sessions], self.schedule.close_ns[sessions]
        counts = (closes - opens) // every_ns
        if counts.sum() > MOMENTS:
            raise LimitError(
                f"{_show(timer)} comes {int(counts.sum()):,} times within sessions of the data, "
                f"more than {MOMENTS}\n"
                "help: take a longer time, or what comes with the data: 'on bar' or 'on quote'"
            )
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        moments: Int64s = np.repeat(opens, counts) + (within + 1) * every_ns
        return moments


def _show(timer: Timer) -> str:
    if timer.at_s is not None:
        return f"at {timer.at_s // 3600:02d}:{timer.at_s // 60 % 60:02d}"
    if timer.after_open_ns is not None:
        return _from_border("session_open +", timer.after_open_ns)
    if timer.every_ns is not None:
        days, rest = divmod(timer.every_ns, times.DAY_NS)  # 30d would be a month's interval
        return f"every {times.Interval.of_ns(timer.every_ns) if rest else f'{days}d'}"
    return _from_border("session_close -", timer.before_close_ns or 0)


def _from_border(border: str, distance_ns: int) -> str:
    return f"{border} {times.Interval.of_ns(distance_ns)}" if distance_ns else border[:-2]


def _events(ts: Int64s, kind: Kind, *, side: int = 0, timer: int = 0) -> Events:
    events = np.zeros(len(ts), EVENT)
    events["ts_event"] = events["ts_recv"] = ts
    events["kind"] = kind
    events["side"] = side
    events["payload"][:, 0] = timer
    return events
