"""Durations, dates and time columns: what a file or a flag says becomes ns since 1970 in UTC."""

import datetime as dt
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import numpy.typing as npt

from quantdsl.data.arrow import plain, present, stored
from quantdsl.errors import ConfigError, DataError
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
    place = zone(tz)
    hours, where = np.unique(local_ns // FIXED_NS["h"], return_inverse=True)
    return local_ns - _offsets(hours, lambda hour: _offset_ns(place, hour))[where]


def local_of_utc(ts_ns: Int64s, tz: str) -> Int64s:
    """Times in UTC as the wall clock of zone `tz` shows them."""
    place = zone(tz)
    hours, where = np.unique(ts_ns // FIXED_NS["h"], return_inverse=True)
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

    def offset(hour: int) -> int:
        return _offset_of((epoch + dt.timedelta(hours=hour)).astimezone(place))

    return ts_ns + _offsets(hours, offset)[where]


STEADY_HOURS = 6 * 24
"""No zone has changed its clock and changed it back within less since 1970 (Recife took 7 days)."""


def _offsets(hours: Int64s, offset: Callable[[int], int]) -> Int64s:
    """The offset at each of these hours, ascending: asked for at both ends of each stretch of
    STEADY_HOURS, and between them where they differ."""
    found = np.empty(len(hours), np.int64)
    bounds = np.flatnonzero(np.diff(hours // STEADY_HOURS)) + 1
    bounds = np.concatenate(([0], bounds, [len(hours)])) if len(hours) else bounds
    for begin, end in pairwise(bounds.tolist()):
        first, last = offset(int(hours[begin])), offset(int(hours[end - 1]))
        found[begin:end] = first
        if first != last:
            found[begin:end] = [offset(hour) for hour in hours[begin:end].tolist()]
    return found


def _offset_ns(place: ZoneInfo, local_hour: int) -> int:
    # Naive on purpose: this is a reading of a wall clock, and the zone is asked what it means.
    wall = dt.datetime(1970, 1, 1) + dt.timedelta(hours=local_hour)  # noqa: DTZ001
    return _offset_of(wall.replace(tzinfo=place))


def _offset_of(moment: dt.datetime) -> int:
    offset = moment.utcoffset()
    assert offset is not None
    return (offset.days * 86_400 + offset.seconds) * SECOND_NS


class TimeTextError(DataError):
    """A text is no time, or not one like those before it; `at` is its place in the column."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


class TimeColumn(msgspec.Struct, frozen=True):
    """Parsed times; `zoned` says that the file itself fixed them in UTC."""

    ns: Int64s
    valid: npt.NDArray[np.bool_]
    zoned: bool


def parse_times(column: Any, time_format: str | None) -> TimeColumn:
    """An arrow column of epochs, dates, timestamps or text as ns since 1970.

    Times without a zone are given as their wall clock shows them. DataError names the value that
    is none of these.
    """
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        column = column.cast(pa.string())
        kind = column.type
    if pa.types.is_string(kind):
        column, zoned = _parse_text(column, time_format)
    elif pa.types.is_timestamp(kind):
        zoned = kind.tz is not None
        valid = present(column)
        counted = np.where(valid, stored(column, np.int64), 0)
        most = _INT64_MAX // _UNITS_NS[kind.unit]
        if ((-most <= counted) & (counted <= most)).all():
            return TimeColumn(counted * _UNITS_NS[kind.unit], valid, zoned)
    elif pa.types.is_date(kind):
        zoned = False
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _parse_epoch(column)
    else:
        raise DataError(f"the time column holds {kind}, which is not a time")
    import pyarrow.compute as pc

    try:
        stamps = pc.cast(column, pa.timestamp("ns", "UTC" if zoned else None))
    except pa.ArrowInvalid as error:
        raise DataError(f"a time {_FAR}: {error}") from None
    return TimeColumn(plain(stamps.cast(pa.int64())), present(stamps), zoned)


_UNITS_NS = {"s": SECOND_NS, "ms": 1_000_000, "us": 1_000, "ns": 1}
_INT64_MAX = np.iinfo(np.int64).max


def _parse_epoch(column: Any) -> TimeColumn:
    """Numbers since 1970; s, ms, us or ns by their size, and 20240131 is a date."""
    import pyarrow as pa

    valid = present(column)
    if pa.types.is_integer(column.type):
        numbers = plain(column).astype(np.int64)
    else:
        real = plain(column).astype(np.float64)
        valid = valid & (np.abs(real) < 2.0**63)
        numbers = np.where(valid, real, 0.0)
    first = float(abs(numbers[valid][0])) if valid.any() else 0.0
    if 19_000_101 <= first <= 22_000_101 and numbers.dtype == np.int64:
        return TimeColumn(_days_of_digits(numbers) * DAY_NS, valid, False)
    unit = next((ns for limit, ns in _EPOCH_UNITS if first < limit), 1)
    if numbers.dtype == np.int64:
        return TimeColumn(numbers * unit, valid, True)
    # Whole units first, for a float holds today's seconds to a quarter of a microsecond only.
    whole = np.floor(numbers)
    part = np.rint((numbers - whole) * 1e6) * (unit / 1e6)
    return TimeColumn(whole.astype(np.int64) * unit + part.astype(np.int64), valid, True)


# Up to the year 5138 the size of a number tells its unit.
_EPOCH_UNITS = ((1e11, SECOND_NS), (1e14, 1_000_000), (1e17, 1_000))


def _days_of_digits(digits: Int64s) -> Int64s:
    """20240131 -> days since 1970."""
    months = (digits // 10_000 - 1970) * 12 + digits // 100 % 100 - 1
    first_days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    days: Int64s = first_days + digits % 100 - 1
    return days


def _parse_text(column: Any, time_format: str | None) -> tuple[Any, bool]:
    """Text as an arrow timestamp and whether it carried a zone."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if time_format is not None:
        try:
            return pc.strptime(column, format=time_format, unit="ns"), "%z" in time_format
        except pa.ArrowInvalid as error:
            raise DataError(f"a time does not fit time_format {time_format!r}: {error}") from None
    sample = next((value for value in column.to_pylist() if value), None)
    if sample is None:
        return column.cast(pa.timestamp("ns")), False
    if sample.isascii() and sample.isdigit() and len(sample) != 8:
        try:
            epochs = _parse_epoch(pc.cast(column, pa.int64()))
        except pa.ArrowInvalid as error:
            raise DataError(f"{sample!r} is a time as a number, and not all are: {error}") from None
        return pa.array(epochs.ns, mask=~epochs.valid).cast(pa.timestamp("ns", "UTC")), True
    text = _iso(column)
    for zoned in (False, True):
        try:
            return pc.cast(text, pa.timestamp("ns", "UTC" if zoned else None)), zoned
        except pa.ArrowInvalid:
            continue
    raise _fault(column, text)


def _iso(column: Any) -> Any:
    """20240131 and 2024/01/31, 2024.01.31 rewritten to the form of ISO 8601, the rest untouched."""
    import pyarrow.compute as pc

    text = pc.utf8_trim_whitespace(column)
    text = pc.replace_substring_regex(text, r"^(\d{4})[./](\d{2})[./](\d{2})", r"\1-\2-\3")
    return pc.replace_substring_regex(text, r"^(\d{4})(\d{2})(\d{2})(\s|T|$)", r"\1-\2-\3\4")


def _fault(column: Any, text: Any) -> TimeTextError:
    """The first text that cannot be read, or has a zone where those before have none."""
    first: bool | None = None
    for at, (original, value) in enumerate(zip(column.to_pylist(), text.to_pylist(), strict=True)):
        zoned = _has_zone(value, "ns")
        if zoned is None:
            far = _has_zone(value, "s") is not None
            return TimeTextError(f"{original!r} {_FAR if far else _NO_TIME}", at)
        if value is not None and first is not None and zoned != first:
            return TimeTextError(
                f"{original!r} has {'a' if zoned else 'no'} zone and the times before it have "
                f"{'none' if zoned else 'one'}: give all of them the same form",
                at,
            )
        first = first if value is None else zoned
    raise AssertionError("each of the times can be read")


_FAR = "lies outside the years 1678 to 2261"
_NO_TIME = (
    "is not a time that can be read without doubt: use ISO 8601 (2024-01-31 15:30) or name its "
    'form, as in time_format = "%m/%d/%Y"'
)


def _has_zone(text: str | None, unit: str) -> bool | None:
    """Whether a time names its zone; None where it is no time that this unit can count."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for zoned in (False, True):
        try:
            pc.cast(pa.array([text], pa.string()), pa.timestamp(unit, "UTC" if zoned else None))
            return zoned
        except pa.ArrowInvalid:
            continue
    return None
