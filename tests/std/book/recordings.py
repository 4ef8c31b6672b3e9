"""The recordings of REFERENCE.md as rows for `Book.play`: one plain reader a format, for tests."""

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.std.book.books import CLEAR, SEAL, SET

DATA = Path(__file__).parents[4] / "shared" / "data"
Row = tuple[int, int, int, int]
SEALED, SNAPSHOT = (SEAL, 0, 0, 0), (CLEAR, 0, 0, 0)
Levels = Iterable[list[str]]


def path(name: str) -> Path:
    """A recording, or the test is skipped."""
    if not (DATA / name).exists():
        pytest.skip(f"the recording {name} is not here")
    return DATA / name


def count(text: str, places: int) -> int:
    """A decimal as a count of units of so many places; more places are an error of the test."""
    whole, _, part = text.partition(".")
    assert not part[places:].strip("0"), text
    return int(whole + part[:places].ljust(places, "0"))


@dataclass
class Scale:
    """Decimal places of one tick and one lot."""

    tick: int
    lot: int

    def levels(self, bids: Levels, asks: Levels) -> Iterator[Row]:
        for side, levels in ((0, bids), (1, asks)):
            for price, size, *_ in levels:
                yield SET, side, count(price, self.tick), count(size, self.lot)

    def touch(self, bid: str, bid_size: str, ask: str, ask_size: str) -> tuple[int, ...]:
        return (count(bid, self.tick), count(bid_size, self.lot),
                count(ask, self.tick), count(ask_size, self.lot))


@dataclass
class Depth:
    """A depth stream spliced on its snapshot, and what the venue says of the touch."""

    rows: list[Row] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)  # update id of each sealed message
    ticker: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    gaps: int = 0

    @property
    def array(self) -> np.ndarray:
        return np.array(self.rows, np.int64)


BINANCE = {
    "usdm_btcusdt": Scale(1, 3),
    "cm_btcusd_perp": Scale(1, 0),
    "spot_btcusdt": Scale(2, 8),
    "spot_ethusdt": Scale(2, 8),
}


@cache
def binance(name: str) -> Depth:
    """By the venue's rule: drop what the snapshot has, then each message follows the one before."""
    scale, made = BINANCE[name], Depth()
    diffs: list[dict[str, Any]] = []
    snapshot: dict[str, Any] = {}
    file = path(f"ws/binance_hftbacktest/{name}_20240808.gz")
    with gzip.open(file, "rt") as lines:
        for line in lines:
            text = line.strip().partition(" ")[2]
            message = json.loads(text) if text else {}
            data = message.get("data", {})
            if "lastUpdateId" in message:
                snapshot = message
            elif data.get("e") == "depthUpdate":
                diffs.append(data)
            elif "B" in data and "b" in data:
                made.ticker.append(
                    (data["u"], scale.touch(data["b"], data["B"], data["a"], data["A"])))
    made.rows.append(SNAPSHOT)
    made.rows += scale.levels(snapshot["bids"], snapshot["asks"])
    made.rows.append(SEALED)
    made.ids.append(snapshot["lastUpdateId"])
    futures = "pu" in diffs[0]
    for diff in diffs:
        if diff["u"] < made.ids[0] or (not futures and diff["u"] == made.ids[0]):
            continue
        first = len(made.ids) == 1
        follows = diff["pu"] == made.ids[-1] if futures else diff["U"] == made.ids[-1] + 1
        made.gaps += not (follows or (first and diff["U"] <= made.ids[0] + 1))
        made.rows += scale.levels(diff["b"], diff["a"])
        made.rows.append(SEALED)
        made.ids.append(diff["u"])
    return made
