"""Recordings of `quantdsl record`: events of a live feed in Parquet files, a folder or one of it.

Prices and sizes stand there in ticks and lots of the venue, and the files say how large those are.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from quantdsl.data.instrument import Instrument, decimals, fraction
from quantdsl.data.table import file_sha256, joined_sha256
from quantdsl.data.ticks import MISSING, Events, Tally
from quantdsl.errors import DataError
from quantdsl.events.arrow import rows_of
from quantdsl.events.layout import EVENT, NO_PRICE, Kind

MARK = b"quantdsl.recording"

_KINDS = (Kind.QUOTE, Kind.TRADE, Kind.BOOK_DELTA, Kind.BOOK_SNAPSHOT, Kind.FEED)
_PRICES = {Kind.QUOTE: (0, 1), Kind.TRADE: (0,), Kind.BOOK_DELTA: (0,)}
_SIZES = {Kind.QUOTE: (2, 3), Kind.TRADE: (1,), Kind.BOOK_DELTA: (1, 4)}


class Recorded(msgspec.Struct, frozen=True):
    """An instrument as a recording names it; tick and lot as decimals or a/b."""

    symbol: str
    venue: str
    tick: str
    lot: str
    currency: str

    def instrument(self) -> Instrument:
        return Instrument(
            symbol=self.symbol,
            venue=self.venue,
            tick=fraction(self.tick, "tick"),
            lot=fraction(self.lot, "lot"),
            currency=self.currency,
            named=frozenset({"tick", "lot", "currency"}),
        )


class _Head(msgspec.Struct, frozen=True):
    feed: str
    instruments: list[Recorded]


def is_recording(path: Path) -> bool:
    """Whether a folder or a file is one of `quantdsl record`."""
    files = _files(path)
    return bool(files) and files[0].suffix == ".parquet" and MARK in _metadata(files[0])


class RecordingReader:
    """The ticks of one instrument of a recording, in order of receipt."""

    has_recv = True

    def __init__(self, path: Path, bad_rows: Literal["stop", "drop"], symbol: str = "") -> None:
        self.name, self._paths = str(path), _files(path)
        head = msgspec.json.decode(_metadata(self._paths[0])[MARK], type=_Head)
        symbols = [one.symbol for one in head.instruments]
        if not symbol and len(symbols) > 1:
            raise DataError(
                f"{path}: holds {', '.join(symbols)}: name one, as in {path}#{symbols[0]}"
            )
        self.symbol = symbol or symbols[0]
        if self.symbol not in symbols:
            raise DataError(f"{path}: holds {', '.join(symbols)} and no {self.symbol}")
        self._index = symbols.index(self.symbol)
        self.instrument = head.instruments[self._index].instrument()
        self.format = f"recording of {head.feed}"
        self.price_digits = decimals(self.instrument.tick) or 0
        self.size_digits = decimals(self.instrument.lot) or 0
        self._tick = int(self.instrument.tick * 10**self.price_digits)
        self._lot = int(self.instrument.lot * 10**self.size_digits)
        self.notes: list[str] = []
        self.tally = Tally(self.name, bad_rows)

    def sha256(self) -> str:
        return joined_sha256([file_sha256(path) for path in self._paths])

    def chunks(self) -> Iterator[Events]:
        """Whole messages as recorded; bars and funding are no ticks and left out."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.tally.clear()
        for path in self._paths:
            try:
                file = pq.ParquetFile(path, page_checksum_verification=True)
                for group in range(file.num_row_groups):
                    rows = rows_of(file.read_row_group(group)).view(EVENT)
                    mine = (rows["instrument"] == self._index) & np.isin(rows["kind"], _KINDS)
                    if mine.any():
                        yield self._in_units(rows[mine])
            except (OSError, pa.ArrowException) as error:
                raise DataError(f"{path}: is damaged: {error}") from None

    def _in_units(self, events: Events) -> Events:
        """Ticks and lots as whole numbers of 10**-digits, as readers give them."""
        payload: Any = events["payload"]
        for kind, columns in _PRICES.items():
            own = events["kind"] == kind
            for column in columns:
                values = payload[own, column]
                payload[own, column] = np.where(values == NO_PRICE, MISSING, values * self._tick)
        for kind, columns in _SIZES.items():
            own = events["kind"] == kind
            for column in columns:
                payload[own, column] *= self._lot
        events["instrument"] = 0
        return events


def _files(path: Path) -> list[Path]:
    return sorted(path.glob("*.parquet")) if path.is_dir() else [path]


def _metadata(path: Path) -> dict[bytes, bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return dict(pq.read_schema(path).metadata or {})
    except (OSError, pa.ArrowException):
        return {}
