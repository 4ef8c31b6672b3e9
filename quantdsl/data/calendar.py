"""Trading sessions as plain arrays: a real calendar library's days, half days and DST included.

The library is slow to import (it brings pandas), so a computed calendar is kept in the user's
cache folder as numbers and the library is asked only once.
"""

import difflib
import hashlib
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from quantdsl.codegen.cache import Cache
from quantdsl.data import times
from quantdsl.errors import SessionError, UnavailableError

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

ALWAYS_OPEN, NO_SESSION = "24/7", "none"
_YEAR_NS = times.DAY_NS * 365 + times.DAY_NS // 4
_YEARS = 10  # a cached calendar covers whole decades, so that few files serve all data


class SessionSpec(msgspec.Struct, frozen=True, kw_only=True):
    """`session "XNYS", start = 10:00`: start and end in seconds after midnight of zone `tz`."""

    calendar: str
    start_s: int | None = None
    end_s: int | None = None
    tz: str | None = None


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions in order of time, [n] each: open and close in ns UTC, `day` in days since 1970.

    `named` is False for the plain UTC days that stand in where a strategy names no session.
    """

    name: str
    tz: str
    day: Int64s
    open_ns: Int64s
    close_ns: Int64s
    named: bool = True

    def __len__(self) -> int:
        return len(self.day)

    @property
    def has_borders(self) -> bool:
        """Whether days begin and end where a market says: no UTC days, with nothing between."""
        return self.named and not (
            self.name == ALWAYS_OPEN and np.array_equal(self.close_ns[:-1], self.open_ns[1:])
        )

    def at(self, ts_ns: Int64s) -> tuple[Int64s, Bools]:
        """The session that holds each time and whether one does; an open belongs, a close not."""
        index = np.searchsorted(self.open_ns, ts_ns, "right") - 1
        inside = (index >= 0) & (ts_ns < self.close_ns[index])
        return index, inside

    def of_day(self, day: Int64s) -> tuple[Int64s, Bools]:
        """The session of each date and whether there is one."""
        index = np.searchsorted(self.day, day, "left")
        last = np.minimum(index, len(self.day) - 1)
        return last, (index < len(self.day)) & (self.day[last] == day)

    def within(self, first_ns: int, last_ns: int) -> "Schedule":
        """The sessions that lie wholly within the span."""
        kept = (self.open_ns >= first_ns) & (self.close_ns <= last_ns)
        return msgspec.structs.replace(
            self, day=self.day[kept], open_ns=self.open_ns[kept], close_ns=self.close_ns[kept]
        )

    def periods(self, unit: str) -> Int64s:
        """A number per session that is equal within one day, week, month or year."""
        if unit == "d":
            return self.day
        if unit == "w":
            return (self.day + 3) // 7  # 1970-01-01 was a Thursday; weeks begin on Monday
        step = {"mo": "M", "y": "Y"}[unit]
        return self.day.astype("datetime64[D]").astype(f"datetime64[{step}]").astype(np.int64)

    def spans(self, unit: str) -> tuple[Int64s, Int64s]:
        """First open and last close of the day, week, month or year of every session."""
        period = self.periods(unit)
        first = np.searchsorted(period, period, "left")
        last = np.searchsorted(period, period, "right") - 1
        return self.open_ns[first], self.close_ns[last]

    def local_close_s(self) -> Int64s:
        """Close of each session in seconds after midnight of its day, on the session's clock."""
        local = times.local_of_utc(self.close_ns, self.tz)
        return (local - self.day * times.DAY_NS) // times.SECOND_NS


def utc_days(first_ns: int, last_ns: int, name: str = NO_SESSION) -> Schedule:
    """Every UTC day from the one of `first_ns` to the one of `last_ns`, as sessions."""
    day = np.arange(first_ns // times.DAY_NS, last_ns // times.DAY_NS + 1, dtype=np.int64)
    return Schedule(
        name=name,
        tz="UTC",
        day=day,
        open_ns=day * times.DAY_NS,
        close_ns=(day + 1) * times.DAY_NS,
        named=name != NO_SESSION,
    )


def schedule_of(spec: SessionSpec | None, first_ns: int, last_ns: int) -> Schedule:
    """The sessions that touch the span, with a margin of a year for month and year ends."""
    margin = 400 * times.DAY_NS
    if spec is None:
        return utc_days(first_ns - times.DAY_NS, last_ns + margin)
    if spec.calendar == ALWAYS_OPEN:
        base = utc_days(first_ns - times.DAY_NS, last_ns + margin, ALWAYS_OPEN)
    else:
        base = _exchange(spec.calendar, first_ns - margin, last_ns + margin)
    if spec.start_s is None and spec.end_s is None:
        return base
    return _narrowed(base, spec)


def _narrowed(base: Schedule, spec: SessionSpec) -> Schedule:
    """Sessions with the user's own hours; an early close of the exchange still counts."""
    tz = spec.tz or base.tz
    midnight = base.day * times.DAY_NS
    open_ns, close_ns = base.open_ns, base.close_ns
    if spec.start_s is not None:
        open_ns = times.utc_of_local(midnight + spec.start_s * times.SECOND_NS, tz)
    if spec.end_s is not None:
        own = times.utc_of_local(midnight + spec.end_s * times.SECOND_NS, tz)
        closes = base.local_close_s()
        early = closes < np.median(closes)
        close_ns = np.where(early, np.minimum(own, close_ns), own)
    kept = open_ns < close_ns
    if not kept.any():
        raise SessionError(f"session {spec.calendar}: start lies after end on every day")
    return Schedule(
        name=base.name, tz=tz, day=base.day[kept], open_ns=open_ns[kept], close_ns=close_ns[kept]
    )


class _Sessions(msgspec.Struct, forbid_unknown_fields=True):
    """A computed calendar as the cache keeps it."""

    tz: str
    day: list[int]
    open_ns: list[int]
    close_ns: list[int]


def _exchange(name: str, first_ns: int, last_ns: int) -> Schedule:
    first, last = (1970 + ts // _YEAR_NS for ts in (first_ns, last_ns))
    first = first // _YEARS * _YEARS
    last = (last // _YEARS + 1) * _YEARS - 1
    sessions = _cached(name, first, last)
    day = np.array(sessions.day, np.int64)
    open_ns, close_ns = np.array(sessions.open_ns, np.int64), np.array(sessions.close_ns, np.int64)
    near = (close_ns >= first_ns) & (open_ns <= last_ns)
    if not near.any():
        raise SessionError(
            f"calendar {name} has no session between {times.show_instant(first_ns)} and "
            f"{times.show_instant(last_ns)}"
        )
    return Schedule(
        name=name, tz=sessions.tz, day=day[near], open_ns=open_ns[near], close_ns=close_ns[near]
    )


def _cached(name: str, first_year: int, last_year: int) -> _Sessions:
    label = f"calendar {name} {first_year} {last_year} {library_stamp()}"
    key = hashlib.sha256(label.encode()).hexdigest()
    cache = Cache()
    kept = cache.get(key)
    if kept is not None:
        return msgspec.json.decode(kept, type=_Sessions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library's own use of pandas is not the user's affair
        sessions = _compute(name, first_year, last_year)
    cache.put(key, msgspec.json.encode(sessions))
    return sessions


def library_stamp() -> int:
    """When the library's code was installed; its version would cost ten times the look-up."""
    library = find_spec("exchange_calendars")
    if library is None or library.origin is None:
        raise UnavailableError("sessions need the package exchange_calendars: install it with pip")
    return Path(library.origin).stat().st_mtime_ns


def hold_known(name: str) -> None:
    """SessionError where a setting names a session of no calendar."""
    if name in ("", NO_SESSION, ALWAYS_OPEN):
        return
    import exchange_calendars as xc

    known = sorted(xc.get_calendar_names(include_aliases=True))
    if name not in known:
        near = difflib.get_close_matches(name.upper(), known, 1, 0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise SessionError(
            f"calendar {name!r} is not known{hint}\n"
            f"help: names are exchange codes such as XNYS, XLON, CMES, or {ALWAYS_OPEN}"
        )


def _compute(name: str, first_year: int, last_year: int) -> _Sessions:
    """Sessions of these years from the calendar library, as far as it knows them."""
    import exchange_calendars as xc

    hold_known(name)
    kind = xc.get_calendar(name)
    start, end = f"{first_year}-01-01", f"{last_year}-12-31"
    low, high = kind.bound_min(), kind.bound_max()
    start = start if low is None else max(start, str(low.date()))
    end = end if high is None else min(end, str(high.date()))
    calendar = xc.get_calendar(name, start=start, end=end)

    def ns(column: Any) -> list[int]:
        found: list[int] = column.to_numpy("datetime64[ns]").astype(np.int64).tolist()
        return found

    days = np.asarray(calendar.sessions.to_numpy("datetime64[D]")).astype(np.int64)
    opens, closes = calendar.opens.dt.tz_localize(None), calendar.closes.dt.tz_localize(None)
    return _Sessions(str(calendar.tz), days.tolist(), ns(opens), ns(closes))
