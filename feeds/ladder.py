"""The book of a venue as its adapter holds it: to verify checksums and to see that it is sound.

A ladder has two sides of sorted levels in whole units, the best one last, so that changes near the
touch move little. Keys are prices on the bid side and negated prices on the ask side.
"""

import numpy as np
from quantdsl.feeds.kernels import inner

NO_CHECK, PLAIN_DIGITS, DECIMALS = range(3)
"""How a venue's checksum is made: not at all; of the digits of ten levels a side, asks first
(Kraken); of decimals joined by colons, bid and ask in turn, 25 levels (OKX)."""


def _crc_table() -> "np.ndarray[tuple[int], np.dtype[np.uint32]]":
    """Of CRC-32 as in zlib and Ethernet, polynomial 0xEDB88320, a byte at a time."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0xEDB88320), table >> 1)
    return table


_CRC = _crc_table()


@inner("int64(int64[::1], int64, int64)")
def _place(keys, count, key):
    """The first place whose key is at least `key`; near the touch it is found at once."""
    low, high = 0, count
    step = 1
    while high - step > 0 and keys[high - step] >= key:
        high -= step
        step *= 2
    low = max(0, high - step)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@inner("UniTuple(int64, 3)(int64[::1], int64[::1], int64, int64, int64)")
def set_level(keys, sizes, count, key, size):
    """Sets one level, size 0 takes it away: (levels then, whether it changed, key pushed out or 0).

    A full side gives up its farthest level, or does not take one that lies farther.
    """
    at = _place(keys, count, key)
    if at < count and keys[at] == key:
        if size > 0:
            changed = np.int64(sizes[at] != size)
            sizes[at] = size
            return count, changed, 0
        for one in range(at, count - 1):
            keys[one] = keys[one + 1]
            sizes[one] = sizes[one + 1]
        return count - 1, 1, 0
    if size <= 0:
        return count, 0, 0
    out = 0
    if count == len(keys):
        if at == 0:
            return count, 0, 0
        out = keys[0]
        for one in range(at - 1):
            keys[one] = keys[one + 1]
            sizes[one] = sizes[one + 1]
        at -= 1
    else:
        for one in range(count, at, -1):
            keys[one] = keys[one - 1]
            sizes[one] = sizes[one - 1]
        count += 1
    keys[at] = key
    sizes[at] = size
    return count, 1, out


@inner("boolean(int64[:,::1], int64, int64[:,::1], int64[:,::1], int64[::1])")
def fill(levels, rows, keys, sizes, counts):
    """Replaces both sides by a snapshot, each best first; False where it is not sorted so."""
    counts[:] = 0
    for side in range(2):
        total = 0
        for row in range(rows):
            total += levels[row, 0] == side and levels[row, 2] > 0
        total = min(total, keys.shape[1])
        at = total
        for row in range(rows):
            if levels[row, 0] != side or levels[row, 2] <= 0 or at == 0:
                continue
            key = -levels[row, 1] if side else levels[row, 1]
            if at < total and keys[side, at] <= key:
                return False
            at -= 1
            keys[side, at] = key
            sizes[side, at] = levels[row, 2]
        counts[side] = total
    return True


@inner("int64(int64, int64, boolean, uint8[::1], int64)")
def _write(value, digits, plain, text, at):
    """Writes a number of `digits` decimals: all its digits in a row, or short with its point."""
    if not plain:
        while digits > 0 and value % 10 == 0:
            value //= 10
            digits -= 1
    size, left = 0, value
    while left > 0 or (not plain and size <= digits):
        left //= 10
        size += 1
    size = max(size, 1)
    stop = at + size + (digits > 0 and not plain)
    place, written = stop - 1, 0
    while place >= at:
        if not plain and digits > 0 and written == digits:
            text[place] = 46
            place -= 1
        text[place] = 48 + value % 10
        value //= 10
        written += 1
        place -= 1
    return stop


@inner("int64(int64[:,::1], int64[:,::1], int64[::1], int64[::1], int64, uint8[::1])")
def checksum(keys, sizes, counts, decimals, style, text):
    """CRC-32 of the best levels as the venue makes it; `text` is room for 4,096 bytes.

    `decimals`: of prices and sizes in the ladder, and of both as the venue writes them.
    """
    at = 0
    if style == PLAIN_DIGITS:
        price_zeros = 10 ** max(decimals[2] - decimals[0], 0)
        size_zeros = 10 ** max(decimals[3] - decimals[1], 0)
        for side in (1, 0):
            for level in range(min(10, counts[side])):
                place = counts[side] - 1 - level
                at = _write(abs(keys[side, place]) * price_zeros, 0, True, text, at)
                at = _write(sizes[side, place] * size_zeros, 0, True, text, at)
    else:
        for level in range(25):
            for side in range(2):
                place = counts[side] - 1 - level
                if place < 0:
                    continue
                if at > 0:
                    text[at] = 58
                    at += 1
                at = _write(abs(keys[side, place]), decimals[0], False, text, at)
                text[at] = 58
                at = _write(sizes[side, place], decimals[1], False, text, at + 1)
    crc = np.uint32(0xFFFFFFFF)
    for place in range(at):
        crc = (crc >> np.uint32(8)) ^ _CRC[(crc ^ np.uint32(text[place])) & np.uint32(255)]
    return np.int64(crc ^ np.uint32(0xFFFFFFFF))


@inner("boolean(int64[:,::1], int64[::1])")
def crossed(keys, counts):
    """Whether somebody bids as much as another asks."""
    if counts[0] == 0 or counts[1] == 0:
        return False
    return keys[0, counts[0] - 1] >= -keys[1, counts[1] - 1]
