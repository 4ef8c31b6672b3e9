"""Rows placed in sessions and built into the bars of a clock, chunk by chunk.

A bar is a half-open span of time that closes at its event time. Bars shorter than a day begin at
the session's open and never cross its close, so the last one of a session may be shorter.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from quantdsl.data import times
from quantdsl.data.calendar import Schedule
from quantdsl.data.times import Interval
from quantdsl.events.layout import BAR, EVENT, Kind

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Events = npt.NDArray[np.void]


class Bars(NamedTuple):
    """Bars as whole numbers, [n] each: span in ns, session, prices in ticks, volume in lots."""

    start: Int64s
    end: Int64s
    session: Int64s
    open: Int64s
    high: Int64s
    low: Int64s
    close: Int64s
    volume: Int64s

    @property
    def size(self) -> int:
        return len(self.start)

    def where(self, kept: Bools) -> "Bars":
        return Bars(*(column[kept] for column in self))

    def slice(self, begin: int, end: int | None) -> "Bars":
        return Bars(*(column[begin:end] for column in self))


class Placing(NamedTuple):
    """How a row's time becomes a span: bar length, calendar, and what the time marks."""

    interval: Interval
    schedule: Schedule
    at_close: bool
    dates_only: bool


def place(ts: Int64s, how: Placing) -> tuple[Int64s, Int64s, Int64s, Bools]:
    """Start, end and session of each row, and whether it lies wholly inside one."""
    if not how.interval.is_calendar:
        return _place_fixed(ts, how)
    own_days = how.interval.unit == "d" and not how.schedule.has_borders and not how.dates_only
    if how.schedule.named and not own_days:
        return _place_dates(ts, how)
    if how.interval.unit == "d":
        # A date alone is the day itself, whatever of a bar a time would mark.
        start = ts - times.DAY_NS if how.at_close and not how.dates_only else ts
        end = start + times.DAY_NS
    else:
        start, end = _period(ts, how.interval.unit, how.at_close)
    index, inside = how.schedule.at(end - 1)
    return start, end, index, inside


def _place_fixed(ts: Int64s, how: Placing) -> tuple[Int64s, Int64s, Int64s, Bools]:
    length = how.interval.nominal_ns
    if how.at_close:
        index, inside = how.schedule.at(ts - 1)
        start = ts - length
        if how.schedule.named:
            start = np.maximum(start, how.schedule.open_ns[index])
        return start, ts, index, inside
    if not how.schedule.named:  # midnight cuts no bar, as those of 22:00 to 02:00
        index, inside = how.schedule.at(ts + length - 1)
        return ts, ts + length, index, inside
    index, inside = how.schedule.at(ts)
    opens, closes = how.schedule.open_ns[index], how.schedule.close_ns[index]
    end = ts + length
    # The last bar of a session may be cut short by the close; any other may not cross it.
    end = np.where((end > closes) & ((ts - opens) % length == 0), closes, end)
    return ts, end, index, inside & (end <= closes)


def _place_dates(ts: Int64s, how: Placing) -> tuple[Int64s, Int64s, Int64s, Bools]:
    """Bars of a day and longer on a named calendar: from the first open to the last close."""
    schedule = how.schedule
    if how.dates_only:
        day = ts // times.DAY_NS
    else:
        day = times.local_of_utc(ts - int(how.at_close), schedule.tz) // times.DAY_NS
    if how.interval.unit == "d":
        index, known = schedule.of_day(day)
        return schedule.open_ns[index], schedule.close_ns[index], index, known
    start, end = _period(day * times.DAY_NS, how.interval.unit, how.at_close)
    first = np.searchsorted(schedule.day, start // times.DAY_NS, "left")
    last = np.searchsorted(schedule.day, end // times.DAY_NS, "left") - 1
    known = (first <= last) & (last < len(schedule))
    first, last = np.minimum(first, len(schedule) - 1), np.maximum(last, 0)
    return schedule.open_ns[first], schedule.close_ns[last], last, known


def _period(ts: Int64s, unit: str, at_close: bool) -> tuple[Int64s, Int64s]:
    """Start and end of the week, month or year that begins, or with `at_close` ends, at `ts`.

    A date that is the last of its month names the period that it ends, as tables of monthly
    bars have it.
    """
    if unit == "w":
        start = ts - 7 * times.DAY_NS if at_close else ts
        return start, start + 7 * times.DAY_NS
    step = 1 if unit == "mo" else 12
    day_end = (ts // times.DAY_NS + 1) * times.DAY_NS
    closing = _months_later(ts, 0) != _months_later(day_end, 0)
    end_of_day = np.where(closing, day_end, ts)
    back = closing | at_close
    start = np.where(back, _months_later(end_of_day, -step), ts)
    end = np.where(back, end_of_day, _months_later(ts, step))
    return start, end


def _months_later(ts: Int64s, months: int) -> Int64s:
    """The same day some months later, at the latest the month's last; with 0, the month's first."""
    stamp = ts.astype("datetime64[ns]")
    month = stamp.astype("datetime64[M]")
    first = month.astype("datetime64[ns]").astype(np.int64)
    if months == 0:
        return first
    target_month = month + np.timedelta64(months, "M")
    target = target_month.astype("datetime64[ns]").astype(np.int64)
    after = (target_month + np.timedelta64(1, "M")).astype("datetime64[ns]").astype(np.int64)
    return np.minimum(target + (ts - first), after - times.DAY_NS)


class BarBuilder:
    """Builds the bars of one clock from finer ones that come in order of time.

    A finer bar belongs to the bar in which it ends, so nothing of the future enters. A bar is
    given when it is complete: at the first finer bar that ends with it or after it. `missing`
    counts the finer bars that those made could hold and did not, `crossing` those that began in
    an earlier bar.
    """

    def __init__(self, interval: Interval, finer: Interval, schedule: Schedule) -> None:
        self._interval, self._finer, self._schedule = interval, finer, schedule
        self._open_bar: Bars | None = None
        self._spans = schedule.spans(interval.unit) if interval.is_calendar else None
        self.missing = self.crossing = 0
        self._waiting = 0  # finer bars in the open one
        # Weeks and months span nights, in which nothing is missing.
        self._countable = not finer.is_calendar and interval.unit not in ("w", "mo", "y")

    def add(self, bars: Bars) -> Bars:
        """The bars that these complete."""
        if self._interval == self._finer or not bars.size:
            return bars
        new = bars.size
        start, bucket = self._buckets(bars)
        self.crossing += int(np.count_nonzero(bars.start < start))
        bars = bars._replace(start=start)
        if self._open_bar is not None:
            bucket = np.concatenate((self._buckets(self._open_bar)[1], bucket))
            bars = Bars(*map(np.concatenate, zip(self._open_bar, bars, strict=True)))
        first = np.flatnonzero(np.concatenate(([True], bucket[1:] != bucket[:-1])))
        built = _join(bars, first, bucket)
        finer = self._waiting + new
        if bars.end[-1] == bucket[-1]:
            self._open_bar, self._waiting = None, 0
        else:
            in_last = int(np.count_nonzero(bucket[-new:] == bucket[-1]))
            self._waiting = in_last if built.size > 1 else finer
            self._open_bar = built.slice(-1, None)._replace(end=bars.end[-1:])
            built = built.slice(0, -1)
        if self._countable:
            room = -((built.start - built.end) // self._finer.nominal_ns)
            self.missing += int(room.sum()) - (finer - self._waiting)
        return built

    @property
    def unfinished(self) -> bool:
        return self._open_bar is not None

    def _buckets(self, bars: Bars) -> tuple[Int64s, Int64s]:
        if self._spans is not None:
            return self._spans[0][bars.session], self._spans[1][bars.session]
        length = self._interval.nominal_ns
        opens = self._schedule.open_ns[bars.session]
        start = opens + (bars.end - 1 - opens) // length * length
        return start, np.minimum(start + length, self._schedule.close_ns[bars.session])


def _join(bars: Bars, first: Int64s, bucket_end: Int64s) -> Bars:
    """One bar for each group of bars that begins at `first`."""
    last = np.concatenate((first[1:], [bars.size])) - 1
    return Bars(
        bars.start[first],
        bucket_end[first],
        bars.session[last],
        bars.open[first],
        np.maximum.reduceat(bars.high, first),
        np.minimum.reduceat(bars.low, first),
        bars.close[last],
        np.add.reduceat(bars.volume, first),
    )


def to_events(bars: Bars, instrument: int, clock: int) -> Events:
    """The bars as events of this instrument; `side` is the index of the clock."""
    events = np.zeros(bars.size, BAR)
    events["ts_event"] = bars.end
    events["ts_recv"] = bars.start
    events["instrument"] = instrument
    events["kind"] = Kind.BAR
    events["side"] = clock
    for name in ("open", "high", "low", "close", "volume"):
        events[name] = getattr(bars, name)
    return events.view(EVENT)
