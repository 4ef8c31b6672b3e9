"""JSON in place, for decoders: where the values of an object lie, without reading them.

Text is a message as bytes. What is not plain ASCII in these venues' messages is damage, and so is
a key that comes twice. Nothing recurses, so that no depth of brackets can do harm.
"""

import numpy as np
from quantdsl.feeds.kernels import UNREADABLE, fixed_point, inner

OFF_STEP = -2
"""Position that `decimal` gives for a sound number of more digits than a price or size may have."""


def named(key: str) -> int:
    """What `word` gives for this text: its length and its first seven bytes."""
    packed = len(key)
    for byte in key.encode("ascii").ljust(7, b"\0")[:7]:
        packed = packed << 8 | byte
    return packed


@inner("int64(uint8[::1], int64, int64)")
def word(text, at, end):
    """Length and first seven bytes of text[at:end] as one number."""
    packed = min(end - at, 127)
    for place in range(at, at + 7):
        packed = packed << 8 | (np.int64(text[place]) if place < end else 0)
    return packed


@inner("int64(uint8[::1], int64, int64)")
def string_end(text, at, end):
    """Where the string whose first byte is at `at` has its closing quote, or UNREADABLE."""
    while at < end:
        byte = text[at]
        if byte == 34:
            return at
        if byte < 32 or byte > 126:
            return UNREADABLE
        at += 2 if byte == 92 else 1
    return UNREADABLE


@inner("int64(uint8[::1], int64, int64)")
def blank(text, at, end):
    """The next position that holds no white space."""
    while at < end and (text[at] == 32 or 9 <= text[at] <= 13):
        at += 1
    return at


@inner("int64(uint8[::1], int64, int64)")
def behind_value(text, at, end):
    """The position behind the value that begins at `at`, or UNREADABLE."""
    depth = 0
    while at < end:
        byte = text[at]
        if byte == 34:
            at = string_end(text, at + 1, end)
            if at < 0:
                return UNREADABLE
            at += 1
        elif byte == 123 or byte == 91:
            depth += 1
            at += 1
        elif byte == 125 or byte == 93:
            depth -= 1
            if depth < 0:
                return UNREADABLE
            at += 1
        elif depth == 0:
            start = at
            while at < end and 32 < text[at] < 127 and text[at] != 44:
                if text[at] == 125 or text[at] == 93:
                    break
                at += 1
            return at if at > start else UNREADABLE
        else:
            if byte < 32 or byte > 126:
                return UNREADABLE
            at += 1
        if depth == 0:
            return at
    return UNREADABLE


@inner("int64(uint8[::1], int64, int64, Array(int64, 1, 'C', True), int64[::1])")
def fields(text, at, end, names, places):
    """Writes to `places` where the value of each of `names` begins in the object at `at`, or -1.

    The position behind the object, or UNREADABLE where it is none or a name comes twice.
    """
    for one in range(len(names)):
        places[one] = -1
    if at >= end or text[at] != 123:
        return UNREADABLE
    at = blank(text, at + 1, end)
    if at < end and text[at] == 125:
        return at + 1
    while at < end and text[at] == 34:
        stop = string_end(text, at + 1, end)
        if stop < 0:
            return UNREADABLE
        key = word(text, at + 1, stop)
        at = blank(text, stop + 1, end)
        if at >= end or text[at] != 58:
            return UNREADABLE
        at = blank(text, at + 1, end)
        for one in range(len(names)):
            if names[one] == key:
                if places[one] >= 0:
                    return UNREADABLE
                places[one] = at
        at = behind_value(text, at, end)
        if at < 0:
            return UNREADABLE
        at = blank(text, at, end)
        if at >= end:
            return UNREADABLE
        if text[at] == 125:
            return at + 1
        if text[at] != 44:
            return UNREADABLE
        at = blank(text, at + 1, end)
    return UNREADABLE


@inner("UniTuple(int64, 2)(uint8[::1], int64, int64, int64)")
def decimal(text, at, end, digits):
    """(value in units of 10**-digits, position behind) of a quoted or bare decimal.

    UNREADABLE where there is none, OFF_STEP where it has digits beyond `digits`.
    """
    quoted = at < end and text[at] == 34
    value, stop = fixed_point(text, at + quoted, end, digits, False)
    if stop < 0:
        value, stop = fixed_point(text, at + quoted, end, digits, True)
        if stop >= 0:
            return 0, OFF_STEP
        return 0, UNREADABLE
    if quoted:
        if stop >= end or text[stop] != 34:
            return 0, UNREADABLE
        stop += 1
    return value, stop


@inner("UniTuple(int64, 2)(uint8[::1], int64, int64, int64[:,::1], int64, int64, int64[::1])")
def levels(text, at, end, out, row, side, digits):
    """Reads `[[price, size, ...], ...]`: (next row, position behind it, UNREADABLE or OFF_STEP).

    Rows are side, price, size and the position behind the size; what follows is passed over.
    """
    if at >= end or text[at] != 91:
        return row, UNREADABLE
    at = blank(text, at + 1, end)
    while at < end and text[at] != 93:
        if text[at] == 44:
            at = blank(text, at + 1, end)
        start = at
        if at >= end or text[at] != 91:
            return row, UNREADABLE
        price, at = decimal(text, blank(text, at + 1, end), end, digits[0])
        if at < 0:
            return row, at
        at = blank(text, at, end)
        if at >= end or text[at] != 44:
            return row, UNREADABLE
        size, at = decimal(text, blank(text, at + 1, end), end, digits[1])
        if at < 0:
            return row, at
        place = at
        at = behind_value(text, start, end)
        if at < 0 or row >= len(out):
            return row, UNREADABLE
        out[row, 0] = side
        out[row, 1] = price
        out[row, 2] = size
        out[row, 3] = place
        row += 1
        at = blank(text, at, end)
    if at >= end:
        return row, UNREADABLE
    return row, at + 1


@inner("int64(uint8[::1], int64, int64)")
def _part(text, at, size):
    """A part of a date: so many digits, or UNREADABLE."""
    value = 0
    for place in range(at, at + size):
        digit = np.int64(text[place]) - 48
        if digit < 0 or digit > 9:
            return UNREADABLE
        value = value * 10 + digit
    return value


@inner("int64(uint8[::1], int64, int64)")
def utc_ns(text, at, end):
    """ns since 1970 of `"2021-04-17T16:43:37.075687Z"`, or UNREADABLE (no year before 1970)."""
    if at + 21 > end or text[at] != 34 or text[at + 11] != 84:
        return UNREADABLE
    year, month, day = _part(text, at + 1, 4), _part(text, at + 6, 2), _part(text, at + 9, 2)
    hour, minute = _part(text, at + 12, 2), _part(text, at + 15, 2)
    second, place = _part(text, at + 18, 2), at + 21
    if min(hour, minute, second) < 0:
        return UNREADABLE
    if year < 1970 or not 1 <= month <= 12 or not 1 <= day <= 31 or hour > 23:
        return UNREADABLE
    # Days of the civil calendar, with March as the first month of a year of 400-year eras.
    year -= month <= 2
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    days = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    nanos = 0
    if text[place - 1] == 46:
        nanos, stop = fixed_point(text, place - 1, end, 9, True)
        if stop < 0:
            return UNREADABLE
    return ((days * 24 + hour) * 60 + minute) * 60_000_000_000 + second * 1_000_000_000 + nanos
