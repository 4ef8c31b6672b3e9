"""Single orders of a book (L3) on the venue: the touch is theirs, and our places in the queue."""

import random

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
    core.message(4, [order(1, BookSide.BID, 998, 4)])  # it leaves the level, and stood before us
    assert core.get("resting[0].ahead") == 6.0
    core.message(5, [order(4, BookSide.BID, 999, 1)])  # this one stands behind us
    assert core.get("resting[0].ahead") == 6.0
    core.message(6, [trade(999, 4, Aggressor.SELLS), order(2, BookSide.BID, 999, 2)])
    assert core.get("resting[0].ahead") == 2.0  # what the trade took is not counted twice
    core.message(7, [order(2, BookSide.BID, 999, 5)])  # it asks for more and goes behind us
    assert core.get("resting[0].ahead") == 0.0
    filled = core.message(8, [trade(999, 2, Aggressor.SELLS)])
    assert [(r[0], r[4], r[5]) for r in filled] == [("FILL", 2, 999)]
    core.message(9, [(Kind.BOOK_DELTA, 1, 1001, 0, 0, 3, 0)])
    assert not core.get("venues[0].valid")


@pytest.mark.parametrize("interpreted", [False, True])
def test_after_a_snapshot_all_that_is_in_it_stands_ahead(interpreted: bool) -> None:
    """As far as more did not stand ahead before; who joins later stands behind."""
    core = TickCore({}, sizes=SINGLE, interpreted=interpreted)
    standing = [order(1, BookSide.BID, 999, 4), order(3, BookSide.ASK, 1001, 5)]
    core.message(1, [(Kind.BOOK_SNAPSHOT, 0, 0), *standing],
                 [{"verb": "buy", "lots": 3, "limit": 999, "line": 1}])
    core.message(3, [order(2, BookSide.BID, 999, 2)])
    core.message(4, [(Kind.BOOK_SNAPSHOT, 0, 0), *standing, order(2, BookSide.BID, 999, 2)])
    assert core.get("resting[0].ahead") == 4.0
    core.message(5, [order(5, BookSide.BID, 999, 7)])
    core.message(6, [order(5, BookSide.BID, 999, 0)])
    assert core.get("resting[0].ahead") == 4.0
    core.message(7, [order(1, BookSide.BID, 999, 0)])
    assert core.get("resting[0].ahead") == 0.0


@pytest.mark.parametrize("seed", range(6))
def test_the_place_in_the_queue_is_that_of_a_plain_list(seed: int) -> None:
    """Random orders of others join, shrink, grow and leave around ours; nobody trades."""
    rng = random.Random(seed)
    core = TickCore({}, sizes=SINGLE)
    queue: list[list[int]] = []  # [number, lots], the first is served first; ours is number 0
    first = [[n, rng.randrange(1, 9)] for n in range(1, 6)]
    core.message(1, [(Kind.BOOK_SNAPSHOT, 0, 0), order(99, BookSide.ASK, 1001, 5),
                     *(order(n, BookSide.BID, 999, lots) for n, lots in first)],
                 [{"verb": "buy", "lots": 3, "limit": 999, "line": 1}])
    queue = [*first, [0, 0]]
    for ts in range(3, 60):
        others = [one for one in queue if one[0]]
        if rng.random() < 0.4 or not others:
            one = [100 + ts, rng.randrange(1, 9)]
            queue.append(one)
        else:
            one = rng.choice(others)
            lots = rng.choice([0, max(one[1] - rng.randrange(1, 4), 0), one[1] + 2])
            queue = [other for other in queue if other is not one or lots]
            if lots > one[1]:
                queue = [*(other for other in queue if other is not one), one]
            one[1] = lots
        core.message(ts, [order(one[0], BookSide.BID, 999, one[1])])
        place = [number for number, _ in queue].index(0)
        assert core.get("resting[0].ahead") == float(sum(lots for _, lots in queue[:place])), ts


def test_a_table_of_orders_that_is_full_makes_the_book_not_valid() -> None:
    core = TickCore({}, sizes=SINGLE)
    core.message(1, [(Kind.BOOK_SNAPSHOT, 0, 0), order(1, BookSide.ASK, 1001, 5),
                     *(order(n, BookSide.BID, 990, 1) for n in range(2, 40))])
    assert core.get("venues[0].valid")
    core.message(2, [order(n, BookSide.BID, 991, 1) for n in range(40, 90)])
    assert not core.get("venues[0].valid")
