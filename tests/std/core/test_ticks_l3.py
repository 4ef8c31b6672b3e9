"""Single orders of a book (L3) on the venue: the touch is theirs, and our places in the queue."""

import pytest

from quantdsl.check.library import book_sizes
from quantdsl.events.layout import Aggressor, BookSide, Kind
from tests.std.core.tick_core import ON_BOOK, Event, TickCore, trade

SINGLE = ON_BOOK | frozenset(book_sizes(ladder=256, far=64, orders=64).items())


def order(number: int, side: BookSide, price: int, lots: int) -> Event:
    """An order of the book as it is now."""
    return (Kind.BOOK_DELTA, int(side), price, 0, 0, number, lots)


@pytest.mark.parametrize("interpreted", [False, True])
def test_an_order_joins_the_queue_of_single_orders(interpreted: bool) -> None:
    core = TickCore({}, sizes=SINGLE, interpreted=interpreted)
    standing = [order(1, BookSide.BID, 999, 4), order(2, BookSide.BID, 999, 6),
                order(3, BookSide.ASK, 1001, 5)]
    core.message(1, [(Kind.BOOK_SNAPSHOT, 0, 0), *standing],
                 [{"verb": "buy", "lots": 3, "limit": 999, "line": 1}])
    assert (core.get("venues[0].bid"), core.get("venues[0].ask")) == (999, 1001)
    joined = core.message(3, [order(4, BookSide.BID, 999, 2)])
    assert [(r[0], *r[3:7]) for r in joined] == [("ACK", 1, 3, 999, 10)]
    core.message(4, [order(1, BookSide.BID, 998, 4)])  # it leaves the level: 8 are left there
    assert core.get("resting[0].ahead") == 8.0
    core.message(5, [trade(999, 6, Aggressor.SELLS), order(2, BookSide.BID, 999, 0)])
    assert core.get("resting[0].ahead") == 2.0
    filled = core.message(6, [trade(999, 4, Aggressor.SELLS), order(4, BookSide.BID, 999, 0)])
    assert [(r[0], r[4], r[5]) for r in filled] == [("FILL", 2, 999)]
    core.message(7, [(Kind.BOOK_DELTA, 1, 1001, 0, 0, 3, 0)])
    assert not core.get("venues[0].valid")


def test_a_table_of_orders_that_is_full_makes_the_book_not_valid() -> None:
    core = TickCore({}, sizes=SINGLE)
    core.message(1, [(Kind.BOOK_SNAPSHOT, 0, 0), order(1, BookSide.ASK, 1001, 5),
                     *(order(n, BookSide.BID, 990, 1) for n in range(2, 40))])
    assert core.get("venues[0].valid")
    core.message(2, [order(n, BookSide.BID, 991, 1) for n in range(40, 90)])
    assert not core.get("venues[0].valid")
