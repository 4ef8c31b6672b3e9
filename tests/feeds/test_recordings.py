"""Decoders against the venues' own figures, on real recordings (REFERENCE.md of the data)."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantdsl.data.tick_formats import Opening, open_ticks
from quantdsl.events.layout import MORE, Kind

BINANCE = ("usdm_btcusdt", "cm_btcusd_perp", "spot_btcusdt", "spot_ethusdt")
E8, E9 = 1e8, 1e9


def decoded(path: Path) -> tuple[Any, Any]:
    reader = open_ticks(Opening(path))
    return reader, np.concatenate(list(reader.chunks()))


def of(events: Any, kind: Kind) -> Any:
    return events[events["kind"] == kind]


def expected(shared_data: Path, path: str) -> dict[str, Any]:
    return json.loads((shared_data / "expected/feed_expectations.json").read_text())[path]


def ends(events: Any) -> int:
    return int(np.count_nonzero(events["flags"] & MORE == 0))


def levels(events: Any) -> tuple[dict[int, int], dict[int, int]]:
    """The book that L2 deltas leave, by price, built the plainest way."""
    book: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for kind, side, (price, size, *_) in zip(
        events["kind"].tolist(), events["side"].tolist(), events["payload"].tolist(), strict=True
    ):
        if kind == Kind.BOOK_SNAPSHOT:
            book[0].clear()
            book[1].clear()
        elif kind == Kind.BOOK_DELTA and size:
            book[side][price] = size
        elif kind == Kind.BOOK_DELTA:
            book[side].pop(price, None)
    return book


def orders(events: Any) -> dict[int, tuple[int, int, int]]:
    """The orders that L3 deltas leave: number -> side, price, size."""
    held: dict[int, tuple[int, int, int]] = {}
    for kind, side, (price, _, _, number, size) in zip(
        events["kind"].tolist(), events["side"].tolist(), events["payload"].tolist(), strict=True
    ):
        if kind == Kind.BOOK_SNAPSHOT:
            held.clear()
        elif kind == Kind.BOOK_DELTA and size:
            held[number] = (side, price, size)
        elif kind == Kind.BOOK_DELTA:
            held.pop(number, None)
    return held


def touch(held: dict[int, tuple[int, int, int]]) -> list[list[float]]:
    bid = max(price for side, price, _ in held.values() if side == 0)
    ask = min(price for side, price, _ in held.values() if side == 1)
    return [
        [price / E9, sum(n for s, p, n in held.values() if (s, p) == (side, price))]
        for side, price in ((0, bid), (1, ask))
    ]


@pytest.mark.parametrize("name", BINANCE)
def test_binance_trades_and_final_book(name: str, shared_data: Path) -> None:
    path = f"ws/binance_hftbacktest/{name}_20240808.gz"
    known = expected(shared_data, path)
    reader, events = decoded(shared_data / path)
    trades = of(events, Kind.TRADE)
    assert len(trades) == known["counts"]["trade"]
    assert len(of(events, Kind.QUOTE)) == known["counts"]["bookTicker"]
    assert trades["payload"][:, 1].sum() / E8 == pytest.approx(known["trade_qty_sum"], rel=1e-12)
    assert np.count_nonzero(trades["side"] == 1) == known["taker_buys"]
    assert np.count_nonzero(trades["side"] == 2) == known["taker_sells"]
    assert trades["payload"][:, 0].min() / E8 == known["trade_price_min"]
    assert trades["payload"][:, 0].max() / E8 == known["trade_price_max"]
    # The snapshot is a message too.
    assert ends(of(events, Kind.BOOK_DELTA)) == known["depth_applied"] + 1
    assert not reader.tally.dropped
    bids, asks = levels(events)
    assert (len(bids), len(asks)) == (known["final_bid_levels"], known["final_ask_levels"])
    bid, ask = max(bids), min(asks)
    assert [bid / E8, bids[bid] / E8] == known["final_best_bid"]
    assert [ask / E8, asks[ask] / E8] == known["final_best_ask"]


def test_binance_receipt_is_late_by_what_hftbacktest_adds(shared_data: Path) -> None:
    """Its converter keeps depth and trades; of those the quickest took -1,272,156,851 ns."""
    _, events = decoded(shared_data / "ws/binance_hftbacktest/usdm_btcusdt_20240808.gz")
    kept = events[np.isin(events["kind"], (Kind.TRADE, Kind.BOOK_DELTA))]
    assert int((kept["ts_recv"] - kept["ts_event"]).min()) == -1_272_156_851


def test_lobster_counts(shared_data: Path) -> None:
    path = "book/lobster/AAPL_2012-06-21_34200000_37800000_message_50.csv.gz"
    known = expected(shared_data, path)
    _, events = decoded(shared_data / path)
    trades = of(events, Kind.TRADE)
    visible = trades[trades["payload"][:, 4] != 0]
    assert (len(visible), len(trades) - len(visible)) == (known["types"]["4"], known["types"]["5"])
    assert visible["payload"][:, 1].sum() == known["visible_exec_shares"]
    assert visible["payload"][:, 0].min() / 1e4 == known["exec_price_min"]
    assert visible["payload"][:, 0].max() / 1e4 == known["exec_price_max"]


def test_lobster_book_equals_the_published_rows(shared_data: Path) -> None:
    """After each message the ten best levels of both sides are those of the book file."""
    folder = shared_data / "book/lobster"
    _, events = decoded(folder / "AAPL_2012-06-21_message_10_first999.csv")
    rows = np.loadtxt(folder / "AAPL_2012-06-21_orderbook_10_first999.csv", np.int64, delimiter=",")
    numbers = np.where(events["kind"] == Kind.TRADE, events["payload"][:, 3], 0)
    deltas = events["kind"] == Kind.BOOK_DELTA
    numbers[deltas] = events["payload"][deltas, 2]
    numbers[events["kind"] == Kind.BOOK_SNAPSHOT] = 1
    book: tuple[dict[int, int], dict[int, int]] = ({}, {})
    at = 0
    for number, row in enumerate(rows, 1):
        while at < len(events) and numbers[at] == number:
            if deltas[at]:
                price, size = (int(word) for word in events["payload"][at, :2])
                book[events["side"][at]][price] = size
            at += 1
        for side, sign in ((0, -1), (1, 1)):
            stand = {price: size for price, size in book[side].items() if size}
            best = sorted(stand.items(), key=lambda level: sign * level[0])[:10]
            assert best == [tuple(pair) for pair in _side(row, side)]
    assert at == len(events)


def _side(row: Any, side: int) -> list[list[int]]:
    """Price and size of the levels of one side of a row of a book file."""
    return row.reshape(-1, 4)[:, 2 * (1 - side) : 2 * (1 - side) + 2].tolist()


@pytest.mark.parametrize(
    "name",
    [
        "esh4-glbx-mdp3-20231225.mbo.dbn.zst",
        "ESM4_mbo_2024-05-08T00-00-00_2024-05-08T00-00-02.dbn.zst",
    ],
)
def test_databento_orders(name: str, shared_data: Path) -> None:
    pytest.importorskip("databento_dbn")
    known = expected(shared_data, f"book/l3/{name}")
    reader, events = decoded(shared_data / "book/l3" / name)
    trades = of(events, Kind.TRADE)
    assert len(trades) == known["actions"]["T"]
    if "trade_volume" in known:
        assert trades["payload"][:, 1].sum() == known["trade_volume"]
    assert reader.tally.counts.total() == known["unknown_order_ids"] == 0
    held = orders(events)
    assert len(held) == known["live_orders_end"]
    assert touch(held) == [known["end_best_bid"], known["end_best_ask"]]
    assert np.all(np.diff(events["ts_recv"]) >= 0)


def test_databento_quotes_and_trades(shared_data: Path) -> None:
    pytest.importorskip("databento_dbn")
    folder = shared_data / "ticks/databento"
    _, quotes = decoded(folder / "ESU4_mbp-1_2024-07-01T23-58_2024-07-02T00-02.dbn.zst")
    _, trades = decoded(folder / "ESU4_trades_2024-07-01T23-58_2024-07-02T00-02.dbn.zst")
    assert len(quotes) == 2_288
    assert len(trades) == 120
    assert np.array_equal(of(quotes, Kind.TRADE)["payload"], trades["payload"])
