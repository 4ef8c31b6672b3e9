"""What a strategy reads of an order book, against the levels that it was fed."""

from collections.abc import Iterable

import pytest

from quantdsl.events.layout import BookSide, Feed
from tests.backtest.tick_runs import (
    checked_strategy,
    delta,
    feed,
    flat_book,
    message,
    run_both,
    snapshot,
    state,
)

HEAD = "strategy S:\n    book depth = 3\n"
UNEVEN = message(
    snapshot(0),
    *(delta(0, BookSide.BID, 9_999 - n, 100 * (n + 1)) for n in range(3)),
    *(delta(0, BookSide.ASK, 10_001 + n, 300 * (n + 1)) for n in range(3)),
)


def read(expressions: Iterable[str], *events: object) -> list[float | int]:
    """The expressions at the last message, -1 for na."""
    listed = list(expressions)
    held = "".join(f"    state f{n} = 0.0\n" for n in range(len(listed)))
    found = "".join(f"        f{n} = {text} ?? -1.0\n" for n, text in enumerate(listed))
    text = f"{HEAD}{held}    on book:\n{found}"
    run, checked = run_both(text, list(events)), checked_strategy(text)
    return [state(run, checked, f"f{n}") for n in range(len(listed))]


FIGURES = {
    "float(bid)": 99.99,
    "mid": 100.0,
    "float(ask_qty)": 300.0,
    "book.imbalance()": (100 - 300) / 400,
    "book.imbalance(levels = 3)": (600 - 1800) / 2400,
    "book.microprice()": 99.99 + 0.02 * 100 / 400,
    "float(book.depth_to(bid - 1 tick))": 300.0,
    "float(book.depth_to(ask + 2 ticks))": 1800.0,
    "float(book.depth_to(snap(mid, nearest)))": 0.0,
    "book.vwap_to_fill(600 shares)": (300 * 100.01 + 300 * 100.02) / 600,
    "book.vwap_to_fill(-200 shares)": (100 * 99.99 + 100 * 99.98) / 200,
    "book.vwap_to_fill(5000 shares)": -1.0,
    "float(book.bid[0])": 99.99,
    "float(book.ask[2])": 100.03,
    "float(book.bid_qty[1])": 200.0,
    "float(book.ask_qty[2])": 900.0,
}


def test_the_figures_of_the_book() -> None:
    assert read(FIGURES, UNEVEN) == pytest.approx(list(FIGURES.values()), rel=1e-12)


def test_a_level_that_is_not_there() -> None:
    thin = message(snapshot(0), delta(0, BookSide.BID, 10, 1), delta(0, BookSide.ASK, 12, 1))
    assert read(["float(book.bid_qty[2])", "float(book.bid[2])"], thin) == [0.0, -1.0]


def test_the_flow_is_that_of_the_last_message() -> None:
    more = delta(1, BookSide.BID, 9_999, 180)
    less = delta(2, BookSide.ASK, 10_001, 250)
    flow = ["float(book.order_flow_imbalance())"]
    assert read(flow, UNEVEN, more) == [80.0]
    assert read(flow, UNEVEN, more, less) == [50.0]


COUNTED = f"""{HEAD}    state ticks = 0
    state lost = 0
    state last = 0.0
    on stale(book):
        lost += 1
    on book:
        ticks += 1
        last = mid
"""


def counted(*events: object) -> tuple[float, ...]:
    run, checked = run_both(COUNTED, list(events)), checked_strategy(COUNTED)
    return tuple(state(run, checked, name) for name in ("ticks", "lost", "last"))


def test_a_message_is_one_tick_and_only_a_valid_book_ticks() -> None:
    crossed = delta(1, BookSide.BID, 10_001, 5)
    mended = delta(2, BookSide.BID, 10_001, 0)
    assert counted(flat_book(0, 9_999, 10_001), crossed) == (1, 0, 100.0)
    assert counted(flat_book(0, 9_999, 10_001), crossed, mended) == (2, 0, 100.0)


def test_after_a_gap_nothing_ticks_until_a_snapshot() -> None:
    start, gap = flat_book(0, 9_999, 10_001), feed(1, Feed.GAP)
    after = delta(2, BookSide.BID, 9_998, 5)
    assert counted(start, gap, after) == (1, 1, 100.0)
    assert counted(start, gap, after, flat_book(3, 10_000, 10_004)) == (2, 1, 100.02)


def test_the_levels_of_a_loop() -> None:
    text = f"""{HEAD}    state hits = 0
    on book when spread <= 2 ticks:
        for i in 0..<3:
            hits += 1 if book.bid_qty[i] > 150 shares else 0
"""
    run, checked = run_both(text, [UNEVEN]), checked_strategy(text)
    assert state(run, checked, "hits") == 2


def test_a_figure_is_evaluated_at_its_own_messages_and_has_history() -> None:
    text = f"""{HEAD}    let near = book.imbalance()
    state before = 0.0
    on book:
        before = near[1]
"""
    run = run_both(text, [UNEVEN, delta(1, BookSide.BID, 9_999, 300)])
    assert state(run, checked_strategy(text), "before") == pytest.approx(-0.5)
