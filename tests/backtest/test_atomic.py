"""The legs of an atomic block stand or fall together, and with no other block's."""

from tests.backtest.test_same_bits import assert_same

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
