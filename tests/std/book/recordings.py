"""Decoded recordings as rows for `Book.play` and `Book.play_orders`."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantdsl.data.tick_formats import Opening, open_ticks
from quantdsl.events.layout import MORE, Kind
from tests.std.book.books import CLEAR, SEAL, SET

DATA = Path(__file__).parents[4] / "shared" / "data"
SNAPSHOT, SEALED = (-1, 0, 0, 0), (0, 0, 0, 0)
"""Of single orders; as books._play_orders reads them."""


def path(name: str) -> Path:
    """A recording, or the test is skipped."""
    if not (DATA / name).exists():
        pytest.skip(f"the recording {name} is not here")
    return DATA / name


@cache
def events(name: str) -> Any:
    """All events of a recording, prices and sizes as the decoder has them."""
    return np.concatenate(list(open_ticks(Opening(path(name))).chunks()))


def of_book(found: Any) -> Any:
    """Snapshots and deltas."""
    return found[np.isin(found["kind"], (Kind.BOOK_SNAPSHOT, Kind.BOOK_DELTA))]


def last(found: Any) -> Any:
    """Where messages end."""
    return found["flags"] & MORE == 0


def rows(found: Any, tick: int = 1, lot: int = 1, *, orders: bool = False) -> np.ndarray:
    """A row an event and one for each end of a message; `tick` and `lot` divide what is decoded."""
    ends, payload = last(found), found["payload"]
    cleared = found["kind"] == Kind.BOOK_SNAPSHOT
    assert not (payload[~cleared, 0] % tick).any()
    at = np.arange(len(found)) + np.cumsum(ends) - ends
    out = np.zeros((len(found) + int(ends.sum()), 4), np.int64)
    if orders:
        out[at] = np.column_stack(
            [payload[:, 3], found["side"], payload[:, 0] // tick, payload[:, 4] // lot])
        out[at[cleared]] = SNAPSHOT
    else:
        size = payload[:, 1] // lot
        out[at] = np.column_stack(
            [np.full(len(found), SET), found["side"], payload[:, 0] // tick, size])
        out[at[cleared]] = (CLEAR, 0, 0, 0)
        out[at[ends] + 1, 0] = SEAL
    return out


@dataclass
class Depth:
    """A depth stream from its snapshot on, and what the venue says of the touch."""

    array: np.ndarray
    ids: list[int]  # update id of each message, the snapshot first
    ticker: list[tuple[int, tuple[int, ...]]]


BINANCE = {
    "usdm_btcusdt": (10**7, 10**5),
    "cm_btcusd_perp": (10**7, 10**8),
    "spot_btcusdt": (10**6, 1),
    "spot_ethusdt": (10**6, 1),
}
"""Tick and lot in units of 1e-8."""


@cache
def binance(name: str) -> Depth:
    """The decoder has spliced the stream on its snapshot."""
    found = events(f"ws/binance_hftbacktest/{name}_20240808.gz")
    tick, lot = BINANCE[name]
    book = of_book(found)
    ids = np.where(book["kind"] == Kind.BOOK_DELTA, book["payload"][:, 2], book["payload"][:, 0])
    quotes = found[found["kind"] == Kind.QUOTE]["payload"]
    touch = quotes[:, [0, 2, 1, 3]] // (tick, lot, tick, lot)
    ticker = list(zip(quotes[:, 4].tolist(), map(tuple, touch.tolist()), strict=True))
    return Depth(rows(book, tick, lot), ids[last(book)].tolist(), ticker)
