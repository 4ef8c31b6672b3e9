"""Single orders (L3) against queues kept as Python lists."""

import random

import pytest

from tests.std.book.books import CLEAR, NONE, SEAL, SET, Book

Row = tuple[int, int, int, int]
SEALED, SNAPSHOT = (0, 0, 0, 0), (-1, 0, 0, 0)


class Queues:
    """A list of orders at each price, first come first served."""

    def __init__(self) -> None:
        self.levels: dict[tuple[int, int], list[list[int]]] = {}
        self.where: dict[int, tuple[int, int]] = {}

    def set(self, id_: int, side: int, ticks: int, lots: int) -> tuple[int, int, int]:
        """Returns (price the order left or shrank at, lots that left it, lots ahead of it now)."""
        old = self.where.get(id_)
        was, removed = NONE, 0
        if old is not None:
            queue = self.levels[old]
            entry = next(order for order in queue if order[0] == id_)
            was, removed = old[1], entry[1]
            if old == (side, ticks) and 0 < lots <= entry[1]:
                removed, entry[1] = entry[1] - lots, lots
                return was, removed, self.ahead(id_)
            queue.remove(entry)
            del self.where[id_]
        if lots > 0:
            self.levels.setdefault((side, ticks), []).append([id_, lots])
            self.where[id_] = side, ticks
        return was, removed, self.ahead(id_)

    def ahead(self, id_: int) -> int:
        if id_ not in self.where:
            return 0
        queue = self.levels[self.where[id_]]
        at = [order[0] for order in queue].index(id_)
        return sum(lots for _, lots in queue[:at])

    def best(self, side: int) -> tuple[int, int]:
        prices = [p for (s, p), queue in self.levels.items() if s == side and queue]
        if not prices:
            return NONE, 0
        price = (max, min)[side](prices)
        return price, sum(lots for _, lots in self.levels[side, price])


def orders(seed: int, count: int) -> list[Row]:
    """Orders added, moved, cut, enlarged and removed, some of them never seen before."""
    rng = random.Random(seed)
    rows: list[Row] = [SNAPSHOT]
    for _ in range(count):
        id_ = rng.randint(1, 60) * 7_919 + 2**40
        side = id_ % 2
        ticks = 1_000 + (rng.randint(1, 8) if side else -rng.randint(1, 8))
        rows.append((id_, side, ticks, rng.choice((0, rng.randint(1, 9), rng.randint(1, 900)))))
        if rng.random() < 0.3:
            rows.append(SEALED)
    return rows


@pytest.mark.parametrize("seed", range(10))
def test_orders_and_their_places_are_those_of_queues(seed):
    rows = orders(seed, 1_500)
    book, queues = Book(256, 64, 128), Queues()
    for row, (was, removed, turn, ahead) in zip(rows, book.play_orders(rows), strict=True):
        if row == SEALED:
            assert (was, removed, turn, ahead) == (*queues.best(0), *queues.best(1))
        elif row[0] > 0:
            assert (was, removed, ahead) == queues.set(*row)
    for (side, ticks), queue in queues.levels.items():
        assert book.read("lots_at", side, ticks) == sum(lots for _, lots in queue)


@pytest.mark.parametrize("seed", range(4))
def test_the_queue_before_an_order_of_ours_falls_by_what_leaves_it(seed):
    """Ours is not in the venue's stream: the lots of those who were there before it are counted."""
    rows = orders(seed, 600)
    book, queues = Book(256, 64, 128), Queues()
    side, ticks, first = seed % 2, 1_003 if seed % 2 else 997, 300
    ahead, joined, before = 0, 0, []
    for at, row in enumerate(rows):
        book.play_orders([row])
        if row[0] > 0:
            old = {id_: lots for id_, lots in queues.levels.get((side, ticks), []) if id_ in before}
            queues.set(*row)
            if at > first:
                ahead -= book.left_ahead(side, ticks, joined)
            kept = dict(queues.levels.get((side, ticks), []))
            # Whoever came back or grew has lost the place before ours.
            before = [id_ for id_ in before if kept.get(id_, 0) and kept[id_] <= old[id_]
                      and not (row[0] == id_ and row[3] > old[id_])]
        if at == first:
            joined = book.orders_word("turns") + 1
            ahead = book.read("lots_at", side, ticks)
            before = [id_ for id_, _ in queues.levels.get((side, ticks), [])]
        assert ahead == sum(lots for id_, lots in queues.levels.get((side, ticks), [])
                            if id_ in before)
    assert at > first


def test_interpreter_and_machine_code_leave_the_same_words():
    rows = orders(3, 150)
    compiled, interpreted = Book(256, 64, 128), Book(256, 64, 128, interpreted=True)
    assert (compiled.play_orders(rows) == interpreted.play_orders(rows)).all()
    assert (compiled.words == interpreted.words).all()
    assert (compiled.orders == interpreted.orders).all()


def test_a_full_table_makes_the_book_invalid_until_a_snapshot():
    book = Book(256, 64, 16)
    both = [(1, 0, 10, 5), (2, 1, 12, 5)]
    book.play_orders([SNAPSHOT, *both, SEALED])
    assert book.word("valid") == 1
    book.play_orders([*((k, 0, 9, 1) for k in range(3, 20)), SEALED])
    assert book.word("valid") == 0
    book.play_orders([SNAPSHOT, *both, SEALED])
    assert book.word("valid") == 1


def test_levels_and_orders_mix():
    """Who stands before others at a level that came as one number is not known, its lots are."""
    book = Book(256, 64, 16)
    book.play([(CLEAR, 0, 0, 0), (SET, 0, 10, 100), (SEAL, 0, 0, 0)])
    book.play_orders([(5, 0, 10, 7), SEALED])
    assert book.read("lots_at", 0, 10) == 107
