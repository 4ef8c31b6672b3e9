"""How large each order was in the end: by its last change, or by what it filled or had to fill."""

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from quantdsl.events.layout import Kind

Int64s = npt.NDArray[np.int64]
Structs = npt.NDArray[np.void]

CHANGED, SIZED_AT_FILL, TOUCHES, TRAILS = 1, 2, 4, 8
"""Flags of an ORDER record: new terms, a size that is an estimate, what meets its trigger."""


class OrderSizes(Struct, frozen=True):
    """Signed lots of each order: its size, 0 where nobody knows it, and what of it filled."""

    asked: Int64s
    filled: Int64s


def order_sizes(rows: Structs, records: Structs) -> OrderSizes:
    """The sizes of orders as `last_terms` tells them, by all records of their run.

    An exit is as large as the position is when it fills, an order sized at its fill as large as
    what its money buys there; what they were sent with is nothing, or an estimate. A change to
    fewer lots than had filled by then came too late.
    """
    done = _lots_of(records[records["kind"] == Kind.FILL], rows["a"])
    left = _lots_of(records[records["kind"] == Kind.CANCEL], rows["a"])
    sent = rows["kind"] == Kind.ORDER
    at_fill = sent & (rows["flags"] & SIZED_AT_FILL != 0)
    known = at_fill | (np.abs(done) > np.abs(rows["b"]))
    asked = np.where(rows["b"] == 0, left, rows["b"])
    return OrderSizes(np.where(known & (done != 0), done, asked), done)


def changed(rows: Structs) -> npt.NDArray[np.bool_]:
    """Of each record, whether it gives new terms to an order that was sent before."""
    news: npt.NDArray[np.bool_] = (rows["kind"] == Kind.ORDER) & (rows["flags"] & CHANGED != 0)
    return news


def last_terms(rows: Structs) -> Structs:
    """One row an order: the one that sent it, with the prices and the size it was last given."""
    changes = changed(rows)
    kept: Structs = rows[~changes].copy()
    place = {number: at for at, number in enumerate(kept["a"].tolist())}
    for change in rows[changes]:
        at = place[int(change["a"])]
        kept["c"][at], kept["d"][at] = change["c"], change["d"]
        kept["b"][at] = change["b"] if kept["b"][at] else 0  # an exit is as large as it fills
    return kept


def _lots_of(rows: Structs, order_numbers: Int64s) -> Int64s:
    """The sum of the rows' signed lots for each order."""
    total: dict[int, int] = {}
    for number, lots in zip(rows["a"].tolist(), rows["b"].tolist(), strict=True):
        total[number] = total.get(number, 0) + lots
    return np.array([total.get(number, 0) for number in order_numbers.tolist()], np.int64)
