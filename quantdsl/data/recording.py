"""Recordings of `quantdsl record`: events of a live feed in Parquet files, a folder or one of it.

Prices and sizes stand there in ticks and lots of the venue, and the files say how large those are.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from quantdsl.data import times
from quantdsl.data.instrument import Instrument, decimals, fraction
from quantdsl.data.rows import Rows
from quantdsl.data.table import file_sha256, joined_sha256
from quantdsl.data.ticks import MISSING, Events, Tally
from quantdsl.errors import DataError
from quantdsl.events.arrow import rows_of
from quantdsl.events.layout import BAR, EVENT, NO_PRICE, Kind

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


class Head(msgspec.Struct, frozen=True):
    """What a recording says of itself."""

    feed: str
    instruments: list[Recorded]
    ticks: bool = True
    """Whether ticks were listened to."""
    bars: str = ""
    """Length of the bars that were, empty for none."""

    def place(self, path: Path, symbol: str) -> int:
        """Which of its instruments is the one of this name; an only one needs none."""
        symbols = [one.symbol for one in self.instruments]
        if not symbol and len(symbols) > 1:
            raise DataError(
                f"{path}: holds {', '.join(symbols)}: name one, as in {path}#{symbols[0]}"
            )
        if symbol and symbol not in symbols:
            raise DataError(f"{path}: holds {', '.join(symbols)} and no {symbol}")
        return symbols.index(symbol or symbols[0])


def is_recording(path: Path) -> bool:
    """Whether a folder or a file is one of `quantdsl record`."""
    files = _files(path)
    return bool(files) and files[0].suffix == ".parquet" and MARK in _metadata(files[0])


def head_of(path: Path) -> Head:
    """What the recording at a path says of itself."""
    return msgspec.json.decode(_metadata(_files(path)[0])[MARK], type=Head)


def known(given: Instrument | None, recorded: Instrument) -> Instrument:
    """What the user says of an instrument, over what a recording says of it."""
    if given is None:
        return recorded
    named = {field: getattr(given, field) for field in given.named}
    return msgspec.structs.replace(recorded, **named, named=recorded.named | given.named)


class RecordedBars:
    """The bars of one instrument of a recording, as rows in order of their open."""

    close_only = dates_only = False
    has_volume = zoned = True

    def __init__(self, path: Path, symbol: str = "") -> None:
        self.name, self._paths = str(path), _files(path)
        head = head_of(path)
        if not head.bars:
            raise DataError(
                f"{path}: is a recording of ticks, and the strategy takes bars\n"
                "help: `quantdsl record --bars 1m` keeps bars, `quantdsl data fetch` gets those of "
                "a venue; beside `trades` or `quotes` a strategy has its bars built of ticks"
            )
        self._index = head.place(path, symbol)
        self.instrument = head.instruments[self._index].instrument()
        self.dropped: Counter[str] = Counter()
        self.first_fault = ""

    def sha256(self) -> str:
        return joined_sha256([file_sha256(path) for path in self._paths])

    def chunks(self) -> Iterator[Rows]:
        """Rows with strictly increasing times; a bar that was told again is counted."""
        self.dropped.clear()
        last_ts = np.iinfo(np.int64).min
        for events in _events(self._paths):
            mine = (events["instrument"] == self._index) & (events["kind"] == Kind.BAR)
            bars = events[mine].view(BAR)
            before = np.maximum.accumulate(np.concatenate(([last_ts], bars["ts_recv"])))
            fresh = bars["ts_recv"] > before[:-1]
            if again := int(np.count_nonzero(~fresh)):
                at = times.show_instant(int(bars["ts_recv"][np.argmin(fresh)]))
                self.first_fault = self.first_fault or f"the bar of {at} was told again"
                self.dropped["told again"] += again
            if fresh.any():
                last_ts = int(before[-1])
                yield self._rows(bars[fresh])

    def _rows(self, bars: Events) -> Rows:
        tick, lot = self.instrument.tick, self.instrument.lot
        open_, high, low, close = (
            bars[name] * tick.numerator / tick.denominator
            for name in ("open", "high", "low", "close")
        )
        volume = bars["volume"] * lot.numerator / lot.denominator
        return Rows(bars["ts_recv"], open_, high, low, close, volume)


class RecordingReader:
    """The ticks of one instrument of a recording, in order of receipt."""

    has_recv, tells = True, frozenset[str]()  # which ticks were kept is not said

    def __init__(self, path: Path, bad_rows: Literal["stop", "drop"], symbol: str = "") -> None:
        self.name, self._paths = str(path), _files(path)
        head = head_of(path)
        self._index = head.place(path, symbol)
        self.instrument = head.instruments[self._index].instrument()
        self.symbol = self.instrument.symbol
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
        self.tally.clear()
        for events in _events(self._paths):
            mine = (events["instrument"] == self._index) & np.isin(events["kind"], _KINDS)
            if mine.any():
                yield self._in_units(events[mine])

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


def _events(paths: Sequence[Path]) -> Iterator[Events]:
    """All that was recorded, a group of rows at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in paths:
        try:
            file = pq.ParquetFile(path, page_checksum_verification=True)
            for group in range(file.num_row_groups):
                yield rows_of(file.read_row_group(group)).view(EVENT)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{path}: is damaged: {error}") from None


def _files(path: Path) -> list[Path]:
    return sorted(path.glob("*.parquet")) if path.is_dir() else [path]


def _metadata(path: Path) -> dict[bytes, bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return dict(pq.read_schema(path).metadata or {})
    except (OSError, pa.ArrowException):
        return {}
