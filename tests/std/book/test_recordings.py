"""Books rebuilt from what venues sent equal what the same venues said of them."""

from bisect import bisect_right

import pytest

from tests.std.book import recordings
from tests.std.book.books import ROW, Book

MESSAGES = {
    "usdm_btcusdt": 6_547,
    "cm_btcusd_perp": 26_824,
    "spot_btcusdt": 3_449,
    "spot_ethusdt": 3_432,
}
"""Depth messages after the snapshot (REFERENCE.md)."""


@pytest.mark.parametrize("name", MESSAGES)
def test_binance_depth_has_the_touch_of_its_book_ticker(name):
    """The ticker names the touch at each update that changes it, the stream at some of them."""
    depth = recordings.binance(name)
    book = Book()
    sealed = book.play(depth.array)[1:]
    ids = [update for update, _ in depth.ticker]
    told = [depth.ticker[bisect_right(ids, update) - 1][1] for update in depth.ids[1:]]
    assert (depth.gaps, len(sealed)) == (0, MESSAGES[name])
    assert sealed[:, :4].tolist() == [list(touch) for touch in told]
    assert sealed[:, ROW.index("valid")].all()
    assert book.word("sides[0].given_up") == book.word("sides[1].given_up") == 0
