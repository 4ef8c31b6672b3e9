"""A table of orders for decoders of single orders: what stands in the book under each number.

It is [size, 5] with size a power of two: number, price, lots, side, instrument; open addressing,
searched onwards from an order's home. Number 0 is an empty place, for no venue numbers an order so.
"""

import numpy as np
import numpy.typing as npt
from quantdsl.feeds.kernels import inner

from quantdsl.codegen.decoders import entry

Int64s = npt.NDArray[np.int64]

ORDER_COLUMNS = 5


@inner("int64(int64[:,::1], int64)")
def place_of(table, key: int) -> int:
    """The row of this order, or the empty row where it would stand."""
    mask = len(table) - 1
    at = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & mask
    while table[at, 0] != 0 and table[at, 0] != key:
        at = (at + 1) & mask
    return at


@inner("void(int64[:,::1], int64)")
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
            for column in range(ORDER_COLUMNS):
                table[hole, column] = table[at, column]
            hole = at
    table[hole, 0] = 0


@entry("void(int64[:,::1], int64[:,::1])")
def _rehash(old, new) -> None:
    for row in range(len(old)):
        if old[row, 0] != 0:
            at = place_of(new, old[row, 0])
            for column in range(ORDER_COLUMNS):
                new[at, column] = old[row, column]


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
