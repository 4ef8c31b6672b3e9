"""The legs of an atomic block stand or fall together, and with no other block's."""

from tests.backtest.test_same_bits import assert_same
from tests.backtest.tick_runs import flat_book, run_both

TWO_BLOCKS = """\
strategy S:
    bars 5m
    state n = 0
    on bar:
        n += 1
        if n == 3:
            for i in 0..<2:
                atomic:
                    buy((i * 1_000_000 + 1) * 1 shares)
                    buy((i * 1_000_000 + 1) * 1 shares)
    risk:
        max_position = 500 shares
"""


def test_each_turn_of_a_loop_is_a_block_of_its_own() -> None:
    made = assert_same(TWO_BLOCKS, events=50)
    assert made.memory.get("e.positions[0].lots") == 2


LEGS = """strategy S:
    book depth = 5
    state n = 0
    on book:
        n += 1
        if n == 2:
            atomic:
                buy(1 lot, limit = ask)
                buy(2 lots, limit = bid)
                buy({lots} lots, limit = bid)
    risk:
        max_order = 10 lots
"""


def test_on_ticks_no_leg_fills_once_another_is_refused() -> None:
    """The first would take the touch before a cancel could arrive behind it."""
    books = [flat_book(ms, 9_999, 10_001) for ms in range(5)]
    whole, refused = (run_both(LEGS.format(lots=lots), books) for lots in (10, 11))
    assert whole.memory.get("e.positions[0].lots") == 1
    assert whole.memory.get("e.working") == 2
    assert refused.memory.get("e.positions[0].lots") == 0
    assert refused.memory.get("e.working") == 0
