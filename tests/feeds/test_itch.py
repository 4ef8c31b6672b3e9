"""ITCH against a decoder of its own, written here from the specification, and real packets."""

import gzip
import json
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantdsl.data.tick_formats import Opening, open_ticks
from quantdsl.data.ticks import Fault
from quantdsl.errors import DataError
from quantdsl.events.layout import Kind

SIMULATED = "itch/ritch_ex20101224.TEST_ITCH_50.gz"
E4 = 1e4


def plainly(raw: bytes, stock: str) -> tuple[Counter[str], dict[int, list[int]], int, int]:
    """Messages by type, the stock's live orders, its hidden volume, changes of unknown orders."""
    from quantdsl.feeds.itch import LENGTHS  # it compiles its decoder

    counts: Counter[str] = Counter()
    live: dict[int, list[int]] = {}
    owner: dict[int, str] = {}
    at = volume = unknown = 0
    while at < len(raw):
        kind = chr(raw[at + 2])
        body = raw[at + 2 : at + 2 + LENGTHS[kind]]
        at += 2 + LENGTHS[kind]
        counts[kind] += 1
        if kind == "R":
            owner[struct.unpack(">H", body[1:3])[0]] = body[11:19].decode().strip()
        if owner.get(struct.unpack(">H", body[1:3])[0]) != stock:
            continue
        order = struct.unpack(">Q", body[11:19])[0]
        if kind in "AF":
            live[order] = [body[19], *struct.unpack(">I8sI", body[20:36])[::2]]
        elif kind == "P":
            volume += struct.unpack(">I", body[20:24])[0]
        elif kind in "EXDU" and order not in live:
            unknown += 1
        elif kind in "EX":
            live[order][1] -= struct.unpack(">I", body[19:23])[0]
            if live[order][1] <= 0:
                del live[order]
        elif kind == "D":
            del live[order]
        elif kind == "U":
            side = live.pop(order)[0]
            renewed, size, price = struct.unpack(">QII", body[19:35])
            live[renewed] = [side, size, price]
    return counts, live, volume, unknown


def book_of(events: Any) -> dict[int, list[int]]:
    live: dict[int, list[int]] = {}
    for side, (price, _, _, order, size) in zip(
        events["side"].tolist(), events["payload"].tolist(), strict=True
    ):
        if size:
            live[order] = [ord("BS"[side]), size, price]
        else:
            live.pop(order, None)
    return live


@pytest.mark.parametrize("stock", ["ALC", "BOB", "CHAR"])
def test_counts_and_book_of_an_independent_decoder(stock: str, shared_data: Path) -> None:
    path = shared_data / SIMULATED
    known = json.loads((shared_data / "expected/feed_expectations.json").read_text())[SIMULATED]
    reader = open_ticks(Opening(path, symbol=stock))
    events = np.concatenate(list(reader.chunks()))
    counts, live, volume, unknown = plainly(gzip.decompress(path.read_bytes()), stock)
    assert reader.messages == dict(counts) == known["counts"]
    assert book_of(events[events["kind"] == Kind.BOOK_DELTA]) == live
    assert reader.tally.counts[Fault.UNKNOWN_ORDER] == unknown
    trades = events[events["kind"] == Kind.TRADE]["payload"]
    assert trades[trades[:, 4] == 0, 1].sum() == volume == known["end_state"][stock]["P_volume"]
    assert len(live) == known["end_state"][stock]["live_orders"]
    best = max(price for side, _, price in live.values() if side == ord("B"))
    assert best / E4 == known["end_state"][stock]["best_bid"]


@pytest.mark.parametrize(
    ("name", "messages"),
    [
        ("AddOrderNoMpidAttributionMessage", {"A": 1}),
        ("MarketParticipantPositionMessage", {"L": 1}),
        ("NetOrderImbalanceIndicatorMessage", {"I": 1}),
        ("OrderDeleteMessage", {"D": 1}),
        ("OrderExecutedMessage", {"E": 1}),
        ("OrderReplaceMessage", {"U": 1}),
        ("StockTradingActionMessage", {"H": 1}),
        ("Multiple.Packets", {"A": 36, "D": 1, "F": 2}),
    ],
)
def test_real_packets(name: str, messages: dict[str, int], shared_data: Path) -> None:
    path = shared_data / f"itch/omi_pcap/Nasdaq.Equities.TotalView.Itch.v5.0_{name}.pcap"
    reader = open_ticks(Opening(path))
    events = list(reader.chunks())
    assert reader.messages == messages
    added = [e for block in events for e in block if e["kind"] == Kind.BOOK_DELTA]
    if name.startswith("AddOrder"):
        assert reader.symbol == "IVOO"
        assert added[0]["payload"].tolist() == [873_900, 0, 1, 23_508_286, 1_600]
        # 2023-08-22 09:29:59.999894278 in New York.
        assert added[0]["ts_event"] == 1_692_710_999_999_894_278


def test_a_cut_message_is_told_and_a_file_without_a_day_is_refused(tmp_path: Path) -> None:
    added = b"A" + struct.pack(">HHHIQsI8sI", 7, 0, 0, 1, 5, b"B", 100, b"KO      ", 600_000)
    added = added[:5] + b"\0\0" + added[5:]
    whole = struct.pack(">H", len(added)) + added
    system = struct.pack(">H", 12) + b"S" + bytes(10) + b"O"
    path = tmp_path / "20240102.NASDAQ_ITCH50"
    path.write_bytes(system + whole + whole[:-5])
    with pytest.raises(DataError, match="message 3: message cut off"):
        list(open_ticks(Opening(path)).chunks())
    reader = open_ticks(Opening(path, bad_rows="drop"))
    assert sum(len(block) for block in reader.chunks()) == 2
    assert reader.tally.counts[Fault.TRUNCATED] == 1
    path.write_bytes(system + whole[:1] + whole[1:2] + b"?" + whole[3:])
    with pytest.raises(DataError, match="message 2: message not understood"):
        list(open_ticks(Opening(path)).chunks())
    other = tmp_path / "day.itch"
    other.write_bytes(system + whole)
    with pytest.raises(DataError, match="put the date into the file's name"):
        open_ticks(Opening(other))
