"""The built-in tick market: the same everywhere, whole, and like a stock with a large tick."""

import hashlib

import numpy as np
import pytest

from quantdsl.events.layout import EVENT, MORE, Kind

LEVELS, SESSIONS = 10, 2


def made(seed):
    from quantdsl.feeds.synthetic_ticks import SyntheticTicks  # it is compiled on import

    return np.concatenate(list(SyntheticTicks(0, seed).chunks()))


@pytest.fixture(scope="module")
def events():
    return made(1)


def test_the_same_bytes_on_every_machine(events):
    assert hashlib.sha256(events.tobytes()).hexdigest()[:16] == "98199dd06c795f69"
    again = made(2)
    assert again[:1000].tobytes() != events[:1000].tobytes()


def test_the_book_of_the_messages_is_that_of_the_quotes(events):
    """Built the plainest way from snapshots and deltas, the touch is what each quote says."""
    book: tuple[dict[int, int], dict[int, int]] = ({}, {})
    quotes = 0
    rows = events[:200_000]
    for kind, side, flags, (a, b, c, d, _) in zip(
        rows["kind"].tolist(), rows["side"].tolist(), rows["flags"].tolist(),
        rows["payload"].tolist(), strict=True,
    ):  # fmt: skip
        if kind == Kind.BOOK_SNAPSHOT:
            book[0].clear()
            book[1].clear()
        elif kind == Kind.BOOK_DELTA and b:
            book[side][a] = b
        elif kind == Kind.BOOK_DELTA:
            book[side].pop(a)
        elif kind == Kind.QUOTE:
            quotes += 1
            assert (a, b) == (max(book[0]), min(book[1]))
            assert (c, d) == (book[0][a], book[1][b])
            assert len(book[0]) == len(book[1]) == LEVELS
            assert a < b
        else:
            assert kind == Kind.TRADE
            assert b > 0
            assert flags & MORE == 0
    assert quotes > 10_000


def test_messages_are_whole_and_in_order_of_receipt(events):
    assert events.dtype == EVENT
    assert np.all(np.diff(events["ts_recv"]) >= 0)
    assert np.all(events["ts_recv"] > events["ts_event"])
    within = events["flags"][:-1] & MORE != 0
    assert np.all(np.diff(events["ts_recv"])[within] == 0)
    assert events["flags"][-1] & MORE == 0
    assert np.count_nonzero(events["kind"] == Kind.BOOK_SNAPSHOT) == SESSIONS


def test_it_is_like_a_stock_with_a_large_tick(events):
    quotes = events[events["kind"] == Kind.QUOTE]["payload"]
    spread = quotes[:, 1] - quotes[:, 0]
    assert np.mean(spread == 1) > 0.7
    assert spread.max() < 10
    middle = quotes[:, :2].sum(axis=1) / 2
    assert 100 < np.ptp(middle) < 5_000
    lean = (quotes[:, 2] - quotes[:, 3]) / (quotes[:, 2] + quotes[:, 3])
    assert np.corrcoef(lean[:-10], middle[10:] - middle[:-10])[0, 1] > 0.1
    trades = events[events["kind"] == Kind.TRADE]
    assert 0.4 < np.mean(trades["side"] == 1) < 0.6
    assert np.mean(trades["side"][1:] == trades["side"][:-1]) > 0.6
    silence = np.diff(events["ts_recv"])
    assert np.sort(silence)[-SESSIONS] < 250_000_000
