"""The book of std against a book of Python dicts, as machine code and interpreted."""

import random

import numpy as np
import pytest

from tests.std.book.books import CLEAR, LOSE, NONE, ROW, SEAL, SET, Book
from tests.std.book.plain import Plain, close, replay

Row = tuple[int, int, int, int]
SMALL = (256, 256)
"""A ring and a table that random messages leave, cross and fill."""


def messages(seed: int, count: int, *, wander: int, reach: int, far: float = 0.05) -> list[Row]:
    """A market whose touch wanders by up to `wander` ticks a message, levels within `reach`."""
    rng = random.Random(seed)
    rows: list[Row] = [(CLEAR, 0, 0, 0)]
    known: tuple[set[int], set[int]] = (set(), set())
    mid = 10_000
    for _ in range(count):
        mid += rng.randint(-wander, wander)
        if rng.random() < 0.004:
            mid += rng.choice((-1, 1)) * rng.randint(300, 3_000)
        for _ in range(rng.randint(1, 6)):
            side = rng.randint(0, 1)
            away = rng.randint(1, reach) if rng.random() > far else rng.randint(reach, 5_000)
            ticks = mid - away if side == 0 else mid + away
            lots = rng.choice((0, 1, rng.randint(1, 10**6)))
            if known[side] and rng.random() < 0.4:
                ticks, lots = rng.choice(sorted(known[side])), 0
            rows.append((SET, side, ticks, lots))
            (known[side].add if lots else known[side].discard)(ticks)
        if rng.random() < 0.8:  # a venue does not leave a book crossed
            top, low = mid + rng.randint(-1, 1), mid
            for side, crossed in ((0, {p for p in known[0] if p >= top}),
                                  (1, {p for p in known[1] if p <= low})):
                rows += [(SET, side, p, 0) for p in sorted(crossed)]
                known[side].difference_update(crossed)
        rows.append((SEAL, 0, 0, 0))
        if rng.random() < 0.002:
            rows.append((rng.choice((CLEAR, LOSE)), 0, 0, 0))
            if rows[-1][0] == CLEAR:
                known[0].clear()
                known[1].clear()
    return rows


CASES = {
    "quiet": {"wander": 1, "reach": 20},
    "wandering": {"wander": 12, "reach": 60},
    "wide": {"wander": 3, "reach": 700, "far": 0.2},
    "jumping": {"wander": 400, "reach": 40},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(8))
def test_touch_validity_and_flow_are_those_of_a_dict_book(case, seed):
    rows = messages(seed, 400, **CASES[case])
    book = Book(256, 16_384)
    assert book.play(rows).tolist() == [list(row) for row in replay(rows, SEAL)]
    assert book.word("sides[0].given_up") == book.word("sides[1].given_up") == 0


@pytest.mark.parametrize("case", CASES)
def test_interpreter_and_machine_code_leave_the_same_words(case):
    rows = messages(99, 60, **CASES[case])
    compiled, interpreted = Book(*SMALL), Book(*SMALL, interpreted=True)
    assert (compiled.play(rows) == interpreted.play(rows)).all()
    assert (compiled.words == interpreted.words).all()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("interpreted", [False, True], ids=["machine", "interpreter"])
def test_what_is_read_after_each_message(case, interpreted):
    rows = messages(7, 12 if interpreted else 150, **CASES[case])
    far = 256 if interpreted else 16_384
    book, plain, since = Book(256, far, interpreted=interpreted), Plain(), 0
    rng = random.Random(5)
    for at, (op, *rest) in enumerate(rows):
        if op != SEAL:
            plain.apply(op, *rest)
            continue
        plain.seal()
        book.play(rows[since : at + 1])
        since = at + 1
        compare(book, plain, rng)


def compare(book: Book, plain: Plain, rng: random.Random) -> None:
    """All readers against the plain book; levels as far as the ring surely reaches."""
    top = [plain.best(side)[0] for side in (0, 1)]
    assert book.read("bid") == (top[0] if plain.valid else NONE)
    assert book.read("ask") == (top[1] if plain.valid else NONE)
    for side in (0, 1):
        levels = plain.levels(side)
        ticks = rng.choice(levels)[0] if levels else 5
        ticks += rng.choice((0, 0, 1, -1, 40, -40))
        assert book.read("lots_at", side, ticks) == plain.sides[side].get(ticks, 0)
        assert book.read("depth_to", side, ticks) == plain.depth_to(side, ticks)
        assert book.read("knows", side, ticks)
        # Half of the ring, less the word by which it follows, lies behind the best price.
        near = [x for x in levels if abs(x[0] - top[side]) < 256 // 2 - 64]
        for n, (price, lots) in enumerate(near[:12]):
            assert book.read("level_ticks", side, n=n) == price
            assert book.read("level_lots", side, n=n) == lots
        amount = rng.randint(1, max(2, sum(lots for _, lots in near)))
        ours = book.read("vwap_to_fill", side, lots=amount)
        assert close(ours, plain.vwap(side, amount)) or amount > sum(x[1] for x in near)
        assert book.read("level_ticks", side, n=-1) == NONE
    n = min(len([x for x in plain.levels(side) if abs(x[0] - top[side]) < 64]) for side in (0, 1))
    if n > 0:
        n = rng.randint(1, n)
        assert close(book.read("imbalance", n=n), plain.imbalance(n))
        assert close(book.read("microprice", n=n), plain.microprice(n))


def test_nothing_is_known_before_a_snapshot():
    book = Book(*SMALL)
    row = dict(zip(ROW, book.play([(SET, 0, 10, 1), (SET, 1, 12, 1), (SEAL, 0, 0, 0)])[0],
                   strict=True))
    assert (row["bid"], row["ask"], row["valid"]) == (10, 12, 0)
    assert book.read("bid") == NONE
    assert np.isnan(book.read("microprice", n=1))


@pytest.mark.parametrize(("bid", "ask", "word"), [(10, 10, "locked"), (11, 10, "crossed")])
def test_crossed_and_locked_books_are_not_valid_while_they_are(bid, ask, word):
    book = Book(*SMALL)
    seal = (SEAL, 0, 0, 0)
    rows = book.play([(CLEAR, 0, 0, 0), (SET, 0, bid, 1), (SET, 1, ask, 1), seal,
                      (SET, 0, bid, 0), (SET, 0, 9, 3), seal])
    assert rows[:, ROW.index("valid")].tolist() == [0, 1]
    assert book.word(word) == 1


def test_a_gap_holds_until_a_snapshot():
    book = Book(*SMALL)
    seal = (SEAL, 0, 0, 0)
    both = [(SET, 0, 10, 1), (SET, 1, 12, 1), seal]
    rows = book.play([(CLEAR, 0, 0, 0), *both, (LOSE, 0, 0, 0), *both, seal, (CLEAR, 0, 0, 0),
                      *both])
    assert rows[:, ROW.index("valid")].tolist() == [1, 0, 0, 1]


@pytest.mark.parametrize("side", [0, 1])
def test_a_full_table_gives_up_the_worst_levels_and_says_so(side):
    """Near the touch all stays exact; beyond the horizon nothing is known, and that is known."""
    book, plain, rng = Book(*SMALL), Plain(), random.Random(3)
    sign = -1 if side == 0 else 1
    rows = [(CLEAR, 0, 0, 0)]
    away = [*range(1, 200), *rng.sample(range(200, 100_000), 2_000)]
    rng.shuffle(away)
    rows += [(SET, side, 500_000 + sign * k, k) for k in away]
    rows += [(SEAL, 0, 0, 0)]
    for op, *rest in rows[:-1]:
        plain.apply(op, *rest)
    book.play(rows)
    horizon = sign * book.word(f"sides[{side}].horizon")
    kept = [p for p in plain.sides[side] if sign * p < sign * horizon]
    assert book.word(f"sides[{side}].given_up") == len(plain.sides[side]) - len(kept) > 1_000
    assert len(kept) > 199
    assert book.word(f"sides[{side}].hidden") < 192
    for ticks, lots in plain.sides[side].items():
        known = ticks in kept
        assert book.read("knows", side, ticks) == known
        assert book.read("lots_at", side, ticks) == (lots if known else 0)
    assert book.read("depth_to", side, kept[0]) == plain.depth_to(side, kept[0])
    assert book.word("valid") == 1
    # Where all that is known has gone, the best price is not known either.
    book.play([*((SET, side, p, 0) for p in kept), (SEAL, 0, 0, 0)])
    assert book.word("valid") == 0
    book.play([(CLEAR, 0, 0, 0), (SEAL, 0, 0, 0)])
    assert book.word("valid") == 1
    assert book.read("knows", side, 500_000 + sign * 99_000)
