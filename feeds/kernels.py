"""What decoders share: numbers out of text and bytes, the head of an event, a table of orders.

Everything here is compiled by numba when a decoder first calls it; importing it costs that
library's import, so only decoders do. Prices and sizes stay whole numbers from the first digit.
"""

import numpy as np
import numpy.typing as npt
from numba import njit

Int64s = npt.NDArray[np.int64]

UNREADABLE = -1
"""Position that a number parser gives where there is no number, or one that 64 bits do not hold."""

_WHOLE_MAX = (2**63 - 10) // 10


@njit(nogil=True, inline="always")
def head(instrument: int, kind: int, side: int, flags: int) -> int:
    """The packed third word of an event."""
    return instrument | kind << 32 | side << 40 | flags << 48


@njit(nogil=True)
def whole_number(text, at: int, end: int):
    """(value, position behind it) of a whole number that may have a sign, else UNREADABLE."""
    negative = at < end and text[at] == 45
    at += negative
    first, value = at, 0
    while at < end:
        digit = np.int64(text[at]) - 48
        if digit < 0 or digit > 9:
            break
        if value > _WHOLE_MAX:
            return 0, UNREADABLE
        value = value * 10 + digit
        at += 1
    if at == first:
        return 0, UNREADABLE
    return (-value if negative else value), at


@njit(nogil=True)
def fixed_point(text, at: int, end: int, digits: int, rounded: bool = False):
    """(value in units of 10**-digits, position behind it) of a plain decimal, else UNREADABLE.

    Digits beyond `digits` must be zeros, so that nothing is lost unseen; `rounded` rounds them, as
    for a time that went through a float on its way into the file.
    """
    negative = at < end and text[at] == 45
    at += negative
    first, value, seen, point, up = at, 0, 0, False, 0
    while at < end:
        byte = np.int64(text[at])
        if byte == 46 and not point:
            point = True
        elif 48 <= byte <= 57:
            if point:
                seen += 1
            if seen <= digits:
                if value > _WHOLE_MAX:
                    return 0, UNREADABLE
                value = value * 10 + (byte - 48)
            elif rounded:
                up = np.int64(byte >= 53) if seen == digits + 1 else up
            elif byte != 48:
                return 0, UNREADABLE
        else:
            break
        at += 1
    if at == first + point:
        return 0, UNREADABLE
    while seen < digits:
        if value > _WHOLE_MAX:
            return 0, UNREADABLE
        value *= 10
        seen += 1
    value += up
    return (-value if negative else value), at


@njit(nogil=True)
def big_endian(data, at: int, size: int) -> int:
    """The unsigned number of `size` bytes, at most 8, most significant first."""
    value = np.uint64(0)
    for offset in range(size):
        value = (value << np.uint64(8)) | np.uint64(data[at + offset])
    return np.int64(value)


# A table of orders is [size, 5] with size a power of two: key, price, lots, side, instrument.
# Key 0 is an empty place, for no venue numbers an order so.
ORDER_COLUMNS = 5
KEY, PRICE, LOTS, SIDE, OWNER = range(ORDER_COLUMNS)


@njit(nogil=True)
def place_of(table, key: int) -> int:
    """The row of this order, or the empty row where it would stand."""
    mask = len(table) - 1
    at = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & mask
    while table[at, 0] != 0 and table[at, 0] != key:
        at = (at + 1) & mask
    return at


@njit(nogil=True)
def forget(table, at: int) -> None:
    """Empty row `at` and close the hole, so that a search never meets a gap in its way."""
    mask = len(table) - 1
    hole = at
    while True:
        at = (at + 1) & mask
        if table[at, 0] == 0:
            break
        home = np.uint64(table[at, 0]) * np.uint64(0x9E3779B97F4A7C15)
        wanted = np.int64(home >> np.uint64(20)) & mask
        if ((at - wanted) & mask) >= ((at - hole) & mask):
            table[hole] = table[at]
            hole = at
    table[hole, 0] = 0


@njit(nogil=True)
def _rehash(old, new) -> None:
    for row in range(len(old)):
        if old[row, 0] != 0:
            new[place_of(new, old[row, 0])] = old[row]


def order_table(size: int = 1 << 14) -> Int64s:
    """An empty table for `size` places; a power of two."""
    return np.zeros((size, ORDER_COLUMNS), np.int64)


def with_room(table: Int64s, held: int, more: int) -> Int64s:
    """The table, or a larger one with the same orders, that takes `more` and stays half empty."""
    size = len(table)
    while (held + more) * 2 > size:
        size *= 2
    if size == len(table):
        return table
    grown = order_table(size)
    _rehash(table, grown)
    return grown
