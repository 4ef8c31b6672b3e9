"""Durations, dates and zones: what a flag or a config says becomes ns since 1970 in UTC."""

import datetime as dt
import re
from collections.abc import Callable
from functools import lru_cache, partial

import msgspec
import numpy as np
import numpy.typing as npt

from quantdsl.errors import ConfigError
from quantdsl.zones import UTC, zone

Int64s = npt.NDArray[np.int64]

SECOND_NS = 1_000_000_000
DAY_NS = 86_400 * SECOND_NS
FIXED_NS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": SECOND_NS,
    "m": 60 * SECOND_NS,
    "h": 3_600 * SECOND_NS,
}
# The calendar decides how long these are; the nominal length only ranks them.
CALENDAR_NS = {"d": DAY_NS, "w": 7 * DAY_NS, "mo": 30 * DAY_NS, "y": 365 * DAY_NS}

_INTERVAL = re.compile(r"(\d{1,9})\s*(ns|us|ms|s|mo|m|h|d|w|y)")


class Interval(msgspec.Struct, frozen=True):
    """The length of a bar: a fixed time (`5m`) or one calendar unit (`1d`, `1w`, `1mo`, `1y`)."""

    count: int
    unit: str

    @classmethod
    def parse(cls, text: str) -> "Interval":
        """`5m`, `1h`, `1d` ...; ConfigError for anything that is not a bar length."""
        match = _INTERVAL.fullmatch(text.strip())
        if match is None or int(match[1]) == 0:
            raise ConfigError(
                f"{text!r} is not a bar length: write a whole number and one of "
                f"{' '.join([*FIXED_NS, *CALENDAR_NS])}, for example 5m or 1d"
            )
        count, unit = int(match[1]), match[2]
        if unit in CALENDAR_NS:
            if count > 1:
                raise ConfigError(f"bars of {text} are not available: use 1{unit}")
            return cls(1, unit)
        return cls.of_ns(count * FIXED_NS[unit])

    @classmethod
    def of_ns(cls, length_ns: int) -> "Interval":
        """This length in its largest whole unit; what is near a month or a year is one."""
        for unit, low, high in (("d", 1, 1), ("w", 7, 7), ("mo", 28, 31), ("y", 365, 366)):
            if low * DAY_NS <= length_ns <= high * DAY_NS:
                return cls(1, unit)
        unit = next(u for u in reversed(FIXED_NS) if length_ns % FIXED_NS[u] == 0)
        return cls(length_ns // FIXED_NS[unit], unit)

    @property
    def is_calendar(self) -> bool:
        return self.unit in CALENDAR_NS

    @property
    def nominal_ns(self) -> int:
        """The length in ns; of a calendar unit its usual length, fit for comparing only."""
        return self.count * (CALENDAR_NS[self.unit] if self.is_calendar else FIXED_NS[self.unit])

    def __str__(self) -> str:
        return f"{self.count}{self.unit}"


def parse_instant(text: str, tz: str = "") -> int:
    """A date or a time in ISO form, in zone `tz` unless it carries its own, as ns since 1970.

    Without a zone it is UTC.
    """
    try:
        moment = dt.datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise ConfigError(f"{text!r} is not a date: write 2024-01-31 or 2024-01-31T15:30") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone(tz or UTC))
    since = moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return (since.days * 86_400 + since.seconds) * SECOND_NS + since.microseconds * 1_000


def show_instant(ts_ns: int, *, exact: bool = False) -> str:
    """ns since 1970 as `2024-01-31 15:30 UTC`, seconds only where they are not zero.

    Fractions of a second are shown where it is to be `exact`, to the last ns that is not zero.
    """
    moment = dt.datetime.fromtimestamp(ts_ns // SECOND_NS, dt.UTC)
    rest = f"{ts_ns % SECOND_NS:09}".rstrip("0") if exact else ""
    seconds = f":%S.{rest}" if rest else ":%S" if moment.second else ""
    return moment.strftime(f"%Y-%m-%d %H:%M{seconds} UTC")


def exact_instant(ts_ns: int) -> str:
    """ns since 1970 as `parse_instant` takes it, whole microseconds of it."""
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=ts_ns // 1_000)
    return moment.isoformat().replace("+00:00", "Z")


def utc_of_local(local_ns: Int64s, tz: str) -> Int64s:
    """Wall-clock times of zone `tz` as UTC. An hour that occurs twice counts as its first."""
    hours, where = np.unique(local_ns // FIXED_NS["h"], return_inverse=True)
    return local_ns - _offsets(hours, partial(_offset_of_wall, tz))[where]


def local_of_utc(ts_ns: Int64s, tz: str) -> Int64s:
    """Times in UTC as the wall clock of zone `tz` shows them."""
    hours, where = np.unique(ts_ns // FIXED_NS["h"], return_inverse=True)
    return ts_ns + _offsets(hours, partial(_offset_at, tz))[where]


STEADY_HOURS = 6 * 24
"""No zone has changed its clock and changed it back within less since 1970 (Recife took 7 days)."""


def _offsets(hours: Int64s, offset: Callable[[int], int]) -> Int64s:
    """The offset at each of these hours, ascending: asked for at both ends of each stretch of
    STEADY_HOURS, and between them where they differ."""
    if not len(hours):
        return hours
    bounds = np.flatnonzero(np.diff(hours // STEADY_HOURS)) + 1
    begins, ends = np.append(0, bounds), np.append(bounds, len(hours))
    first = np.array([offset(hour) for hour in hours[begins].tolist()])
    last = np.array([offset(hour) for hour in hours[ends - 1].tolist()])
    found = np.repeat(first, ends - begins)
    for stretch in np.flatnonzero(first != last).tolist():
        within = slice(begins[stretch], ends[stretch])
        found[within] = [offset(hour) for hour in hours[within].tolist()]
    return found


# A walk-forward asks for the hours of the same sessions window by window.
@lru_cache(maxsize=65_536)
def _offset_of_wall(tz: str, local_hour: int) -> int:
    # Naive on purpose: this is a reading of a wall clock, and the zone is asked what it means.
    wall = dt.datetime(1970, 1, 1) + dt.timedelta(hours=local_hour)  # noqa: DTZ001
    return _offset_of(wall.replace(tzinfo=zone(tz)))


@lru_cache(maxsize=65_536)
def _offset_at(tz: str, hour: int) -> int:
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=hour)
    return _offset_of(moment.astimezone(zone(tz)))


def _offset_of(moment: dt.datetime) -> int:
    offset = moment.utcoffset()
    assert offset is not None
    return (offset.days * 86_400 + offset.seconds) * SECOND_NS
