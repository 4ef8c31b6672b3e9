"""Promise: an update of an order book takes 15 ns, on the recorded depth of a futures venue."""

import numpy as np
import pytest

from tests.std.book import recordings
from tests.std.book.books import ROW, SEAL, Book

NS_PER_UPDATE = 15.0
READS = {
    "microprice": {"n": 3},
    "imbalance": {"n": 5},
    "depth_to": {"side": 1},
    "vwap_to_fill": {"side": 1, "lots": 5_000},
}
CALLS = 10_000
UPDATES = 20_000
"""From the start of the recording on: short enough that a run is seldom interrupted."""


@pytest.fixture(scope="module")
def depth():
    return recordings.binance("usdm_btcusdt")


def test_update(benchmark, depth, full):
    """Depth messages of the recording; each of them ends with the touch that the ticker has."""
    rows = depth.array
    first = int(np.flatnonzero(rows[:, 0] == SEAL)[0]) + 1
    book = Book()
    book.play(rows[:first])
    start = book.words.copy()

    def begin():
        book.words[:] = start

    rest = rows[first : first + UPDATES].reshape(-1)
    sealed = np.zeros((UPDATES, len(ROW)), np.int64)
    given = ("play", book.words, UPDATES, rest, sealed.reshape(-1))
    benchmark.pedantic(book.runner.call, given, setup=begin, rounds=200 if full else 1)
    told = dict(depth.ticker)
    count = int((rows[first : first + UPDATES, 0] == SEAL).sum())
    known = [(told[update], tuple(row[:4])) for update, row in
             zip(depth.ids[1 : count + 1], sealed[:count].tolist(), strict=True) if update in told]
    assert known
    assert all(ticker == ours for ticker, ours in known)
    benchmark.extra_info["updates"] = UPDATES
    if full:
        assert benchmark.stats["median"] / UPDATES * 1e9 <= NS_PER_UPDATE


@pytest.mark.parametrize("name", READS)
def test_read(benchmark, depth, name):
    """One reader of the book as it was after the recording, many times over."""
    book = Book()
    book.play(depth.array)
    args = dict(READS[name])
    if name == "depth_to":
        args["ticks"] = book.read("ask") + 20
    given = np.array([args.get(arg, 0) for arg in ("side", "ticks", "lots", "n")], np.int64)
    rows, out = np.tile(given, CALLS), np.zeros(CALLS, np.int64)
    benchmark(book.runner.call, name, book.words, CALLS, rows, out)
    values = out if name == "depth_to" else out.view(np.float64)
    assert (values == book.read(name, **args)).all()
    assert values[0] == values[0] != 0.0
    benchmark.extra_info["calls"] = CALLS
