"""Books rebuilt from what venues sent equal what the same venues said of them (REFERENCE.md)."""

import gzip
import json
import math
import zlib
from bisect import bisect_right

import numpy as np
import pytest

from tests.std.book import recordings
from tests.std.book.books import CLEAR, NONE, ROW, SEAL, SET, Book

MESSAGES = {
    "usdm_btcusdt": 6_547,
    "cm_btcusd_perp": 26_824,
    "spot_btcusdt": 3_449,
    "spot_ethusdt": 3_432,
}
"""Depth messages after the snapshot."""


@pytest.mark.parametrize("name", MESSAGES)
def test_binance_depth_has_the_touch_of_its_book_ticker(name):
    """The ticker names the touch at each update that changes it, the stream at some of them."""
    depth = recordings.binance(name)
    book = Book()
    sealed = book.play(depth.array)[1:]
    ids = [update for update, _ in depth.ticker]
    told = [depth.ticker[bisect_right(ids, update) - 1][1] for update in depth.ids[1:]]
    assert len(sealed) == MESSAGES[name]
    assert sealed[:, :4].tolist() == [list(touch) for touch in told]
    assert sealed[:, ROW.index("valid")].all()
    assert book.word("sides[0].given_up") == book.word("sides[1].given_up") == 0


def test_lobster_levels_equal_the_published_rows():
    """After each of 999 messages the ten best levels of both sides are those of the file."""
    folder = "book/lobster/AAPL_2012-06-21_"
    found = recordings.of_book(recordings.events(f"{folder}message_10_first999.csv"))
    table = np.loadtxt(recordings.DATA / f"{folder}orderbook_10_first999.csv", np.int64,
                       delimiter=",")
    book, tick = Book(), 100
    ends = np.flatnonzero(recordings.last(found)) + 1
    numbers = found["payload"][ends - 1, 2]
    done = 0
    for number, row in enumerate(table, 1):
        if number in numbers:
            end = int(ends[np.flatnonzero(numbers == number)[-1]])
            book.play(recordings.rows(found[done:end], tick))
            done = end
        for side, at in ((1, 0), (0, 2)):
            ours = [(book.read("level_ticks", side, n=n) * tick, book.read("level_lots", side, n=n))
                    for n in range(10)]
            assert ours == list(zip(row[at::4].tolist(), row[at + 1 :: 4].tolist(), strict=True))
    assert done == len(found)


def test_single_orders_of_a_future_cross_only_in_the_auction_before_the_open():
    """CME ESH4, 2023-12-25: no unknown order; crossed 891 times, from 22:39:55 to 23:00 UTC."""
    found = recordings.of_book(
        recordings.events("book/l3/esh4-glbx-mdp3-20231225.mbo.dbn.zst"))
    book = Book(orders=1 << 16)
    rows = recordings.rows(found, 250_000_000, orders=True)
    touch = book.play_orders(rows)[rows[:, 0] == 0]
    crossed = (touch[:, 0] > touch[:, 2]) & (touch[:, 0] != NONE) & (touch[:, 2] != NONE)
    assert (int(crossed.sum()), book.word("crossed"), book.word("locked")) == (891, 891, 0)
    times = found["ts_event"][recordings.last(found)][crossed].astype("datetime64[ns]")
    assert times.min() >= np.datetime64("2023-12-25T22:39:55")
    assert times.max() < np.datetime64("2023-12-25T23:00:00")
    assert (book.orders_word("unknown"), book.orders_word("unkept")) == (0, 0)
    assert book.word("valid") == 1


# ---- Kraken: a checksum of the ten best levels with each message -------------------------------


def count(text):
    """Digits of a decimal, its point and leading zeros left out: what the checksum is made of."""
    return int(text.replace(".", ""))


def kraken():
    """(pair, snapshot?, (side, price, size) of each level, checksum or none) of each message."""
    path = recordings.DATA / "ws/cryptofeed/KRAKEN.ws.50.0.gz"
    if not path.exists():
        pytest.skip("the recording is not here")
    with gzip.open(path, "rt") as lines:
        for line in lines:
            text = line.partition(": ")[2]
            message = json.loads(text) if text.startswith("[") else []
            if not message or not str(message[-2]).startswith("book"):
                continue
            levels, checksum = [], None
            for part in message[1:-2]:
                checksum = part.get("c", checksum)
                levels += [(int(key[0] == "a"), count(price), count(size))
                           for key in part if key != "c" for price, size, *_ in part[key]]
            yield message[-1], "as" in message[1], levels, checksum


def test_kraken_books_have_the_checksum_of_each_message():
    """4,269 messages of ten pairs; the venue keeps a thousand levels a side, we all of them."""
    books, ticks, checked = {}, {}, 0
    messages = list(kraken())
    for pair, _, levels, _ in messages:
        ticks[pair] = math.gcd(ticks.get(pair, 0), *(price for _, price, _ in levels))
    for pair, snapshot, levels, checksum in messages:
        tick = ticks[pair]
        if pair not in books:
            # One pair is priced to 1e-8: its tenth level may lie millions of ticks away.
            books[pair] = Book(1 << 22 if tick == 1 else 1 << 14)
        book = books[pair]
        rows = [(CLEAR, 0, 0, 0)] * snapshot
        rows += [(SET, side, price // tick, size) for side, price, size in levels]
        book.play([*rows, (SEAL, 0, 0, 0)])
        if checksum is not None:
            text = "".join(
                str(book.read("level_ticks", side, n=n) * tick)
                + str(book.read("level_lots", side, n=n))
                for side in (1, 0) for n in range(10))
            assert zlib.crc32(text.encode()) == int(checksum), (pair, checked)
            checked += 1
    assert (len(books), checked) == (10, 4_269)
