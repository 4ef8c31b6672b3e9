"""Rows that grow at their end."""

import numpy as np

from quantdsl.backtest.rows import START_WORDS, Rows


def test_the_free_end_is_as_long_as_asked_for_and_keeps_what_is_there() -> None:
    rows = Rows(3)
    rows.free(2)[:] = range(6)
    rows.add(1)
    assert rows.free(4).tolist()[:3] == [3, 4, 5]
    assert len(rows.free(4)) == 4 * 3
    more = rows.free(START_WORDS)
    assert len(more) == START_WORDS * 3
    more[:3] = 7
    rows.add(1)
    assert np.array_equal(rows.all(), [[0, 1, 2], [7, 7, 7]])
