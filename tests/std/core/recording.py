"""A recording of a futures venue as messages of ticks: depth and trades, in order of receipt."""

import gzip
import json
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from quantdsl.events.layout import EVENT, MORE, Aggressor, Kind
from tests.std.book.recordings import path

TICK_PLACES, LOT_PLACES = 1, 3

CLOCK_NS = 1_272_156_851
"""By so much the recorder's clock was behind the venue's."""


def count(text: str, places: int) -> int:
    """A decimal as a count of units of so many places; more places are an error of the test."""
    whole, _, part = text.partition(".")
    assert not part[places:].strip("0"), text
    return int(whole + part[:places].ljust(places, "0"))


@cache
def messages() -> npt.NDArray[np.void]:
    """Every depth message and trade from the snapshot on; prices in 0.1, sizes in 0.001."""
    rows: list[tuple[Any, ...]] = []
    snapshot, waiting = 0, []

    def add(recv: int, ts: int, kind: Kind, parts: list[tuple[int, tuple[int, ...]]]) -> None:
        for n, (side, payload) in enumerate(parts):
            more = MORE if n + 1 < len(parts) else 0
            full = (*payload, *[0] * (5 - len(payload)))
            rows.append((ts, recv, 0, Kind.BOOK_SNAPSHOT if side < 0 else kind, max(side, 0),
                         more, full))

    def levels(data: dict[str, Any], bids: str, asks: str) -> list[tuple[int, tuple[int, ...]]]:
        return [
            (side, (count(price, TICK_PLACES), count(size, LOT_PLACES)))
            for side, of in ((0, bids), (1, asks))
            for price, size in data[of]
        ]

    def depth(recv: int, data: dict[str, Any]) -> None:
        if data["u"] >= snapshot and (parts := levels(data, "b", "a")):
            add(recv, data["T"] * 10**6, Kind.BOOK_DELTA, parts)

    with gzip.open(path("ws/binance_hftbacktest/usdm_btcusdt_20240808.gz"), "rt") as lines:
        for line in lines:
            local, _, text = line.strip().partition(" ")
            message = json.loads(text) if text else {}
            recv, data = int(local or 0) + CLOCK_NS, message.get("data", {})
            if "lastUpdateId" in message:
                snapshot = message["lastUpdateId"]
                begin = [(-1, (snapshot,)), *levels(message, "bids", "asks")]
                add(recv, message["T"] * 10**6, Kind.BOOK_DELTA, begin)
                for held in waiting:
                    depth(recv, held)
            elif data.get("e") == "depthUpdate":
                if snapshot:
                    depth(recv, data)
                else:
                    waiting.append(data)
            elif data.get("e") == "trade" and data.get("X") == "MARKET":
                side = Aggressor.SELLS if data["m"] else Aggressor.BUYS
                payload = (count(data["p"], TICK_PLACES), count(data["q"], LOT_PLACES), data["t"])
                add(recv, data["T"] * 10**6, Kind.TRADE, [(int(side), payload)])
    return np.array(rows, EVENT)
