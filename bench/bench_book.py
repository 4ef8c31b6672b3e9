"""Promise: an update of an order book takes 15 ns, on the recorded depth of a futures venue."""

import time

import numpy as np
import pytest

from tests.std.book import recordings
from tests.std.book.books import CLEAR, ROW, SEAL, SET, Book

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


DEEP = {
    "microprice": {"n": 40},
    "imbalance": {"n": 20},
    "depth_to": {"side": 1, "ticks": 100_132},
    "vwap_to_fill": {"side": 1, "lots": 60_000},
}
ROUNDS = 30


@pytest.mark.parametrize("name", DEEP)
def test_sums_of_the_ladder_in_wide_registers(benchmark, name, full):
    """A book with lots at every tick, its best levels in one word: the same function in wide
    registers and one word at a time, turn about in one process; `scalar_ratio` is how many times
    as long the second takes.
    """
    forms = {wide: Book(wide=wide) for wide in (True, False)}
    lots = np.random.default_rng(1).integers(1, 1000, (500, 2)).tolist()
    rows = [(CLEAR, 0, 0, 0)]
    for k, (bid, ask) in enumerate(lots):
        rows += [(SET, 0, 99_968 - k, bid), (SET, 1, 100_032 + k, ask)]
    calls = CALLS if full else 10
    given = np.array([DEEP[name].get(arg, 0) for arg in ("side", "ticks", "lots", "n")], np.int64)
    took: dict[bool, list[float]] = {wide: [] for wide in forms}
    told = {wide: np.zeros(calls, np.int64) for wide in forms}

    def both():
        for wide, book in forms.items():
            begun = time.perf_counter()
            book.runner.call(name, book.words, calls, np.tile(given, calls), told[wide])
            took[wide].append(time.perf_counter() - begun)

    for book in forms.values():
        book.play([*rows, (SEAL, 0, 0, 0)])
    benchmark.pedantic(both, rounds=ROUNDS if full else 1)
    assert (told[True] == told[False]).all()
    assert told[True][0] != 0
    benchmark.extra_info["scalar_ratio"] = float(np.median(took[False]) / np.median(took[True]))
