"""Lean's days of ticks: `tick/SYMBOL/YYYYMMDD_quote.zip` and `_trade.zip`, equity and forex.

A line begins with the ms since midnight in the market's zone (New York). Equity: trades are
`ms, price, size, exchange, condition, suspicious`, quotes `ms, bid, size, ask, size, exchange,
condition, suspicious` with zeros for a side that did not change, prices times 10,000. Forex quotes
are `ms, bid, ask` in the price itself. What Lean marks as suspicious is left out and counted.

Quotes of equities are those of single exchanges, side by side: the last one told of each side
stands, whosever it is, so that crossed ones are frequent. They are counted, as everywhere.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np

from quantdsl.data import times
from quantdsl.data.arrow import plain
from quantdsl.data.table import file_sha256, open_bytes
from quantdsl.data.ticks import MISSING, Events, Fault, Tally
from quantdsl.errors import DataError
from quantdsl.events.layout import EVENT, Kind

ZONE = "America/New_York"
_SCALE = 10_000  # of an equity's price
_NAMES: dict[tuple[str, int], tuple[str, ...]] = {
    ("trade", 6): ("ms", "price", "size", "exchange", "condition", "suspicious"),
    ("quote", 8): (
        "ms", "bid", "bid_size", "ask", "ask_size", "exchange", "condition", "suspicious",
    ),
    ("quote", 3): ("ms", "bid", "ask"),
}  # fmt: skip
_TEXT = ("exchange", "condition")


class LeanReader:
    """The ticks of one zip archive; see the module for its lines."""

    format = "Lean ticks"
    price_digits, size_digits = 9, 0
    has_recv, tells = False, frozenset[str]()  # all of them may be suspicious

    def __init__(self, path: Path, bad_rows: Literal["stop", "drop"]) -> None:
        self._path, self.name, self.symbol = path, str(path), path.parent.name.upper()
        self.tally, self.notes = Tally(self.name, bad_rows), list[str]()
        date, _, self._kind = path.name.removesuffix(".zip").partition("_")
        day = np.array([times.parse_instant(f"{date[:4]}-{date[4:6]}-{date[6:]}")])
        self._midnight = int(times.utc_of_local(day, ZONE)[0])

    def sha256(self) -> str:
        return file_sha256(self._path)

    def chunks(self) -> Iterator[Events]:
        """A message a line, in the order of the file; Lean tells no time of receipt."""
        import pyarrow as pa
        import pyarrow.csv as pc

        self.tally.clear()
        columns = open_bytes(self._path).read(4096).partition(b"\n")[0].count(b",") + 1
        names = _NAMES.get((self._kind, columns))
        if names is None:
            raise DataError(f"{self._path}: has {columns} columns, which no ticks of Lean have")
        types = {name: pa.string() if name in _TEXT else pa.float64() for name in names}
        touch = np.array([MISSING, MISSING, 0, 0])
        read = pc.ReadOptions(column_names=list(names), block_size=4 << 20)
        convert = pc.ConvertOptions(column_types=types)
        try:
            for batch in pc.open_csv(open_bytes(self._path), read, convert_options=convert):
                trades = self._kind == "trade"
                events = self._trades(batch) if trades else self._quotes(batch, touch)
                if "suspicious" in names:
                    bad = plain(batch.column("suspicious"), null=1.0) != 0.0
                    self.tally.note(Fault.SUSPICIOUS, int(np.count_nonzero(bad)))
                    events = events[~bad]
                if len(events):
                    yield events
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(f"{self._path}: is damaged: {error}") from None

    def _events(self, batch: Any, kind: Kind) -> Events:
        events = np.zeros(batch.num_rows, EVENT)
        ms = plain(batch.column("ms"), null=np.nan)
        events["ts_event"] = self._midnight + np.rint(ms * 1e6).astype(np.int64)
        events["ts_recv"] = events["ts_event"]
        events["kind"] = kind
        return events

    def _trades(self, batch: Any) -> Events:
        events = self._events(batch, Kind.TRADE)
        events["payload"][:, 0] = _prices(batch, "price", _SCALE)
        events["payload"][:, 1] = plain(batch.column("size"), null=0.0).astype(np.int64)
        return events

    def _quotes(self, batch: Any, touch: Any) -> Events:
        """Each side as it was last told; `touch` carries both over to the next block."""
        events = self._events(batch, Kind.QUOTE)
        sized = "bid_size" in batch.schema.names
        for side, name in enumerate(("bid", "ask")):
            price = _prices(batch, name, _SCALE if sized else 1)
            size = np.full(len(price), MISSING)
            if sized:
                size = plain(batch.column(f"{name}_size"), null=0.0).astype(np.int64)
            told = np.concatenate(([True], price != 0))
            last = np.maximum.accumulate(np.where(told, np.arange(len(told)), 0))
            price = np.concatenate((touch[side : side + 1], price))[last]
            size = np.concatenate((touch[side + 2 : side + 3], size))[last]
            touch[side], touch[side + 2] = price[-1], size[-1]
            events["payload"][:, side], events["payload"][:, side + 2] = price[1:], size[1:]
        return events


def _prices(batch: Any, name: str, scale: int) -> Any:
    """A column of prices in units of 10**-9."""
    values = plain(batch.column(name), null=0.0)
    return np.rint(values * (10**9 // scale)).astype(np.int64)
