"""Columns of times: epochs, dates, timestamps or text become ns since 1970 in UTC.

    a column -> its form, that of its first value that can be read -> ns, and what is no time

What has a zone where the values before it have none is refused, for the times of such a column are
doubtful; any other value that cannot be read leaves the rest of them as they are.
"""

from collections.abc import Callable
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

    `unread` are those that are there and are no time, and `why` says of a place of one what is
    wrong: of many only the first is ever told, and to word all of them takes minutes.
    """

    ns: Int64s
    valid: Bools
    zoned: bool
    unread: Bools
    why: Callable[[int], str]

    def fault(self, at: int) -> str | None:
        """What is wrong with a value; None where nothing is, or it is empty."""
        return self.why(at) if self.unread[at] else None

    def in_utc(self, tz: str) -> Int64s:
        """The times where a wall clock is one of this zone."""
        return self.ns if self.zoned or tz == "UTC" else utc_of_local(self.ns, tz)


def parse_times(column: Any) -> TimeColumn:
    """As `read_times` of a table whose form of times nobody can name, and TimeTextError at the
    first value that is no time."""
    found = read_times(column, None)
    if found.unread.any():
        at = int(np.argmax(found.unread))
        raise TimeTextError(found.why(at).removesuffix(_FORM_NAMED), at)
    return found


def read_times(column: Any, time_format: str | None) -> TimeColumn:
    """An arrow column of epochs, dates, timestamps or text as ns since 1970.

    Times without a zone are given as their wall clock shows them. DataError where the column holds
    no times at all, TimeTextError where some name their zone and some do not.
    """
    found = _read(column, time_format)
    begin = found.valid & (np.abs(found.ns) < DAY_NS)  # in whichever zone a 0 was written
    if not begin.any():  # as nearly always: nothing is copied
        return found
    others = found.ns[found.valid & ~begin]
    if not len(others) or np.abs(others).min() <= _NEAR_NS or others.min() < 0 < others.max():
        return found
    return TimeColumn(
        np.where(begin, 0, found.ns),
        found.valid & ~begin,
        found.zoned,
        found.unread | begin,
        lambda at: _BEGIN if begin[at] else found.why(at),
    )


def _read(column: Any, time_format: str | None) -> TimeColumn:
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
    valid = valid & ~far
    ns = np.where(valid, units, 0) * unit_ns
    return TimeColumn(ns, valid, zoned, far, lambda at: f"{units[at]} {_FAR}")


def _parse_epoch(column: Any) -> TimeColumn:
    """Numbers since 1970; s, ms, us or ns by their size, and 20240131 is a date."""
    import pyarrow as pa

    valid = present(column)
    if pa.types.is_integer(column.type):
        numbers = plain(column).astype(np.int64)
    else:
        real = plain(column).astype(np.float64)
        valid = valid & ~np.isnan(real)
        beyond = valid & ~(np.abs(real) < 2.0**63)
        valid = valid & ~beyond
        numbers = np.where(valid, real, 0.0)
    first, size = _sizes(numbers[valid])
    if 19_000_101 <= first <= 22_000_101 and numbers.dtype == np.int64:
        return _dates_of_digits(numbers, valid)
    unit = next((ns for limit, ns in _EPOCH_UNITS if size < limit), 1)
    if numbers.dtype == np.int64:
        return _counted(numbers, unit, valid, True)
    # Whole units first, for a float holds today's seconds to a quarter of a microsecond only.
    whole = np.floor(numbers)
    found = _counted(whole.astype(np.int64), unit, valid, True)
    part = np.rint((numbers - whole) * 1e6) * (unit / 1e6)
    return TimeColumn(
        found.ns + part.astype(np.int64),
        found.valid,
        True,
        found.unread | beyond,
        lambda at: f"{real[at]:.15g} {_FAR}",
    )


def _sizes(numbers: Any) -> tuple[float, float]:
    """Sizes of the first number that is not 0 and of the first that tells its unit, else of that.

    A 0, a -1 or the like at the top tells nothing.
    """
    first = abs(float(numbers[0])) if len(numbers) else 0.0
    if first < _TELLING:
        sizes = np.abs(numbers.astype(np.float64))
        first = next(iter(sizes[sizes != 0]), 0.0)
        return first, next(iter(sizes[sizes >= _TELLING]), first)
    return first, first


_TELLING = 1e8  # 1973 in seconds, and the first days of 1970 in any smaller unit
# Up to the year 5138 the size of a number tells its unit.
_EPOCH_UNITS = ((1e11, SECOND_NS), (1e14, 1_000_000), (1e17, 1_000))


def _dates_of_digits(digits: Int64s, valid: Bools) -> TimeColumn:
    """20240131 -> the midnight of that day."""
    dates = np.where((digits >= 16_780_101) & (digits <= 22_611_231), digits, 0)
    months = (dates // 10_000 - 1970) * 12 + dates // 100 % 100 - 1
    first_days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    days = first_days + dates % 100 - 1
    month_of = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    month = dates // 100 % 100
    date = (month >= 1) & (month <= 12) & (month_of == months)
    ns = np.where(valid & date, days, 0) * DAY_NS
    return TimeColumn(ns, valid & date, False, valid & ~date, lambda at: f"{digits[at]} {_NO_TIME}")


def _parse_text(column: Any, time_format: str | None) -> TimeColumn:
    import pyarrow as pa
    import pyarrow.compute as pc

    if time_format is not None:
        stamps = pc.strptime(column, format=time_format, unit="ns", error_is_null=True)
        reason = f"is a time that does not fit time_format {time_format!r}"
        return _of_stamps(column, stamps, "%z" in time_format, _worded(column, reason))
    form, sample = _form(column)
    if form is None:
        nothing = pa.nulls(len(column), pa.timestamp("ns"))
        return _of_stamps(column, nothing, False, lambda at: _fault(column, at))
    if form == "epoch":
        numbers = _cast(column, pa.int64(), form)
        found = _parse_epoch(numbers)
        no_number = _worded(column, f"is no number, and {sample!r} is a time as a number")
        unread = present(column) & ~found.valid
        return TimeColumn(
            found.ns,
            found.valid,
            found.zoned,
            unread,
            lambda at: found.fault(at) or no_number(at),
        )
    text = _iso(column)
    stamps = _cast(text, pa.timestamp("ns", "UTC" if form == "zoned" else None), form)
    read = _of_stamps(column, stamps, form == "zoned", lambda at: _fault(column, at))
    _refuse_other_zone(column, text, read)
    return read


def _of_stamps(column: Any, stamps: Any, zoned: bool, why: Callable[[int], str]) -> TimeColumn:
    import pyarrow as pa

    valid = present(stamps)
    ns, unread = plain(stamps.cast(pa.int64())), present(column) & ~valid
    return TimeColumn(ns, valid, zoned, unread, why)


def _worded(column: Any, reason: str) -> Callable[[int], str]:
    return lambda at: f"{column[at].as_py()!r} {reason}"


_Form = Literal["epoch", "zoned", "wall"]

_ISO = (
    r"(167[7-9]|16[89]\d|1[7-9]\d\d|2[01]\d\d|22[0-5]\d|226[0-2])"
    r"-((0[1-9]|1[0-2])-(0[1-9]|[12]\d)|(0[13-9]|1[0-2])-30|(0[13578]|1[02])-31)"
    r"([ T]([01]\d|2[0-3])(:?[0-5]\d(:?[0-5]\d(\.\d{1,9})?)?)?)?"
)
_SHAPES: dict[_Form, str] = {
    "epoch": r"^(-?\d+|0[xX][0-9a-fA-F]+)$",
    "wall": f"^{_ISO}$",
    "zoned": f"^{_ISO}(Z|[+-]\\d\\d(:?\\d\\d)?)$",
}
"""What each form's text looks like where it can be read, but for February 29 of a common year."""


def _looks(text: Any, shape: str) -> Any:
    import pyarrow.compute as pc

    return pc.match_substring_regex(text, shape)


def _form(column: Any) -> tuple[_Form | None, str | None]:
    """How the first text that is a time is written, and that text; None where none is one."""
    for part in (column[:_HEAD], column):
        text = _iso(part)
        numbers = plain(_looks(part, r"^(\d{1,7}|\d{9,})$")) & plain(_looks(part, "[1-9]"))
        stamps = plain(_looks(text, _SHAPES["wall"])) | plain(_looks(text, _SHAPES["zoned"]))
        for at in np.flatnonzero(numbers | stamps).tolist():
            if numbers[at]:
                return "epoch", part[at].as_py()
            zoned = _has_zone(text[at : at + 1], "ns")
            if zoned is not None:
                return "zoned" if zoned else "wall", part[at].as_py()
    return None, None


_HEAD = 64  # rows that nearly always tell the form, so that not all are looked at for it


def _cast(text: Any, kind: Any, form: _Form) -> Any:
    """Text as times or numbers, null where it is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return pc.cast(text, kind)
    except pa.ArrowInvalid:
        alike = pc.if_else(_looks(text, _SHAPES[form]), text, pa.scalar(None, text.type))
        return _halved(alike, kind)


def _halved(text: Any, kind: Any) -> Any:
    """The few that look like one and are none, as February 29 may, are found by halving."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return pc.cast(text, kind)
    except pa.ArrowInvalid:
        if len(text) == 1:
            return pa.nulls(1, kind)
        half = len(text) // 2
        return pa.concat_arrays([_halved(text[:half], kind), _halved(text[half:], kind)])


def _iso(column: Any) -> Any:
    """20240131 and 2024/01/31, 2024.01.31 rewritten to the form of ISO 8601, the rest untouched."""
    import pyarrow.compute as pc

    text = pc.utf8_trim_whitespace(column)
    text = pc.replace_substring_regex(text, r"^(\d{4})[./](\d{2})[./](\d{2})", r"\1-\2-\3")
    return pc.replace_substring_regex(text, r"^(\d{4})(\d{2})(\d{2})(\s|T|$)", r"\1-\2-\3\4")


def _fault(column: Any, at: int) -> str:
    """Why the text at a place is no time."""
    text = column[at : at + 1]
    far = _has_zone(_iso(text), "s") is not None
    return f"{text[0].as_py()!r} {_FAR if far else _NO_TIME}"


def _refuse_other_zone(column: Any, text: Any, read: TimeColumn) -> None:
    """TimeTextError where one that was not read is a time and names a zone unlike the others."""
    if not read.unread.any():
        return
    alike = plain(_looks(text, _SHAPES["wall" if read.zoned else "zoned"]))
    for at in np.flatnonzero(read.unread & alike).tolist():
        if _has_zone(text[at : at + 1], "ns") is not None:
            raise _unlike(column[at].as_py(), at, zoned=not read.zoned)


def _unlike(original: str, at: int, *, zoned: bool) -> TimeTextError:
    """A time that names a zone where those before it name none, or the other way round."""
    return TimeTextError(
        f"{original!r} has {'a' if zoned else 'no'} zone and the times before it have "
        f"{'none' if zoned else 'one'}: give all of them the same form",
        at,
    )


_NEAR_NS = 366 * DAY_NS
"""How near to the begin of 1970 other times are where that begin is one of them, if they do not lie
on both sides of it."""
_BEGIN = "the begin of 1970, or 0, far from all other times here: it stands for one that is missing"
_FAR = "lies outside the years 1678 to 2261"
_FORM_NAMED = ' or name its form, as in time_format = "%m/%d/%Y"'
_NO_TIME = (
    "is not a time that can be read without doubt: use ISO 8601 (2024-01-31 15:30)" + _FORM_NAMED
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
