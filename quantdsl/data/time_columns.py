"""Columns of times: epochs, dates, timestamps or text become ns since 1970 in UTC.

    a column -> its form, that of its first value that can be read -> ns, and what is no time

What has a zone where the values before it have none is refused, for the times of such a column are
doubtful; any other value that cannot be read leaves the rest of them as they are.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from quantdsl.data.arrow import plain, present, stored
from quantdsl.data.times import DAY_NS, SECOND_NS, utc_of_local
from quantdsl.errors import DataError

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class TimeTextError(DataError):
    """A value is no time, or not one like those before it; `at` is its place in the column."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


class TimeColumn(msgspec.Struct, frozen=True):
    """Times read; `zoned` says that the file itself fixed them in UTC.

    `faults` says by place what is wrong with those that are there and are no time.
    """

    ns: Int64s
    valid: Bools
    zoned: bool
    faults: Mapping[int, str] = {}

    def in_utc(self, tz: str) -> Int64s:
        """The times where a wall clock is one of this zone."""
        return self.ns if self.zoned or tz == "UTC" else utc_of_local(self.ns, tz)


def parse_times(column: Any, time_format: str | None) -> TimeColumn:
    """As `read_times`, and TimeTextError at the first value that is no time."""
    found = read_times(column, time_format)
    if found.faults:
        at = min(found.faults)
        raise TimeTextError(found.faults[at], at)
    return found


def read_times(column: Any, time_format: str | None) -> TimeColumn:
    """An arrow column of epochs, dates, timestamps or text as ns since 1970.

    Times without a zone are given as their wall clock shows them. DataError where the column holds
    no times at all, TimeTextError where some name their zone and some do not.
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
        return _parse_text(column, time_format)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _parse_epoch(column)
    if pa.types.is_date(kind):
        column = column.cast(pa.timestamp("s" if pa.types.is_date32(kind) else "ms"))
    elif not pa.types.is_timestamp(kind):
        raise DataError(f"the time column holds {kind}, which is not a time")
    unit_ns, zoned = _UNITS_NS[column.type.unit], column.type.tz is not None
    return _counted(stored(column, np.int64), unit_ns, present(column), zoned)


class Blocks:
    """Times of one table that comes in blocks: a later block names a zone as those before it do."""

    def __init__(self, time_format: str | None) -> None:
        self._time_format = time_format
        self._zoned: bool | None = None

    def read(self, column: Any) -> TimeColumn:
        """As `read_times`."""
        found = read_times(column, self._time_format)
        if found.valid.any():
            if self._zoned is None:
                self._zoned = found.zoned
            elif found.zoned != self._zoned:
                at = int(np.argmax(found.valid))
                raise _unlike(str(column[at].as_py()), at, zoned=found.zoned)
        return found


_UNITS_NS = {"s": SECOND_NS, "ms": 1_000_000, "us": 1_000, "ns": 1}


def _counted(units: Int64s, unit_ns: int, valid: Bools, zoned: bool) -> TimeColumn:
    """Numbers of a unit since 1970, but for those that are too many ns."""
    most = np.iinfo(np.int64).max // unit_ns
    far = valid & ((units < -most) | (units > most))
    faults = {at: f"{units[at]} {_FAR}" for at in np.flatnonzero(far).tolist()}
    valid = valid & ~far
    return TimeColumn(np.where(valid, units, 0) * unit_ns, valid, zoned, faults)


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
        return _dates_of_digits(numbers, valid)
    unit = next((ns for limit, ns in _EPOCH_UNITS if first < limit), 1)
    if numbers.dtype == np.int64:
        return _counted(numbers, unit, valid, True)
    # Whole units first, for a float holds today's seconds to a quarter of a microsecond only.
    whole = np.floor(numbers)
    found = _counted(whole.astype(np.int64), unit, valid, True)
    part = np.rint((numbers - whole) * 1e6) * (unit / 1e6)
    return TimeColumn(found.ns + part.astype(np.int64), found.valid, True, found.faults)


# Up to the year 5138 the size of a number tells its unit.
_EPOCH_UNITS = ((1e11, SECOND_NS), (1e14, 1_000_000), (1e17, 1_000))


def _dates_of_digits(digits: Int64s, valid: Bools) -> TimeColumn:
    """20240131 -> the midnight of that day."""
    dates = np.where((digits >= 16_780_101) & (digits <= 22_611_231), digits, 0)
    months = (dates // 10_000 - 1970) * 12 + dates // 100 % 100 - 1
    first_days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    days = first_days + dates % 100 - 1
    month_of = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    date = (dates > 0) & (dates // 100 % 100 <= 12) & (month_of == months)
    faults = {at: f"{digits[at]} {_NO_TIME}" for at in np.flatnonzero(valid & ~date).tolist()}
    valid = valid & date
    return TimeColumn(np.where(valid, days, 0) * DAY_NS, valid, False, faults)


def _parse_text(column: Any, time_format: str | None) -> TimeColumn:
    import pyarrow as pa
    import pyarrow.compute as pc

    if time_format is not None:
        stamps = pc.strptime(column, format=time_format, unit="ns", error_is_null=True)
        why = f"is a time that does not fit time_format {time_format!r}"
        faults = {at: f"{text!r} {why}" for at, text in _unread(column, stamps)}
        return _of_stamps(stamps, "%z" in time_format, faults)
    form, sample = _form(column)
    if form == "epoch":
        numbers = _cast(column, pa.int64())
        why = f"is no number, and {sample!r} is a time as a number"
        found = _parse_epoch(numbers)
        faults = {at: f"{text!r} {why}" for at, text in _unread(column, numbers)}
        return TimeColumn(found.ns, found.valid, found.zoned, faults | dict(found.faults))
    text = _iso(column)
    stamps = _cast(text, pa.timestamp("ns", "UTC" if form == "zoned" else None))
    faults = {
        at: _fault(original, text[at : at + 1], at)
        for at, original in _unread(column, stamps)
    }
    return _of_stamps(stamps, form == "zoned", faults)


def _of_stamps(stamps: Any, zoned: bool, faults: Mapping[int, str]) -> TimeColumn:
    import pyarrow as pa

    return TimeColumn(plain(stamps.cast(pa.int64())), present(stamps), zoned, faults)


_Form = Literal["epoch", "zoned", "wall"]


def _form(column: Any) -> tuple[_Form, str | None]:
    """How the first text that is a time is written, and that text; `wall` where none is one."""
    for at in np.flatnonzero(present(column)).tolist():
        original = column[at].as_py()
        if original.isascii() and original.isdigit() and len(original) != 8:
            return "epoch", original
        zoned = _has_zone(_iso(column[at : at + 1]), "ns")
        if zoned is not None:
            return "zoned" if zoned else "wall", original
    return "wall", None


def _cast(text: Any, kind: Any) -> Any:
    """Text as times or numbers, null where it is none: halved until it is known which."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return pc.cast(text, kind)
    except pa.ArrowInvalid:
        if len(text) == 1:
            return pa.nulls(1, kind)
        half = len(text) // 2
        return pa.concat_arrays([_cast(text[:half], kind), _cast(text[half:], kind)])


def _unread(column: Any, values: Any) -> list[tuple[int, str]]:
    """The texts that are there and became no value, by place."""
    lost = present(column) & ~present(values)
    return [(at, column[at].as_py()) for at in np.flatnonzero(lost).tolist()]


def _iso(column: Any) -> Any:
    """20240131 and 2024/01/31, 2024.01.31 rewritten to the form of ISO 8601, the rest untouched."""
    import pyarrow.compute as pc

    text = pc.utf8_trim_whitespace(column)
    text = pc.replace_substring_regex(text, r"^(\d{4})[./](\d{2})[./](\d{2})", r"\1-\2-\3")
    return pc.replace_substring_regex(text, r"^(\d{4})(\d{2})(\d{2})(\s|T|$)", r"\1-\2-\3\4")


def _fault(original: str, text: Any, at: int) -> str:
    """Why a text is no time; TimeTextError where it is one and names a zone unlike others."""
    zoned = _has_zone(text, "ns")
    if zoned is None:
        far = _has_zone(text, "s") is not None
        return f"{original!r} {_FAR if far else _NO_TIME}"
    raise _unlike(original, at, zoned=zoned)


def _unlike(original: str, at: int, *, zoned: bool) -> TimeTextError:
    """A time that names a zone where those before it name none, or the other way round."""
    return TimeTextError(
        f"{original!r} has {'a' if zoned else 'no'} zone and the times before it have "
        f"{'none' if zoned else 'one'}: give all of them the same form",
        at,
    )


_FAR = "lies outside the years 1678 to 2261"
_NO_TIME = (
    "is not a time that can be read without doubt: use ISO 8601 (2024-01-31 15:30) or name its "
    'form, as in time_format = "%m/%d/%Y"'
)


def _has_zone(text: Any, unit: str) -> bool | None:
    """Whether a text, a column of one, is a time with a zone; None where it is no time that this
    unit can count."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for zoned in (False, True):
        try:
            pc.cast(text, pa.timestamp(unit, "UTC" if zoned else None))
            return zoned
        except pa.ArrowInvalid:
            continue
    return None
