"""Rows of a table as checked numpy columns: bad ones stop the run or are left out and counted."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from quantdsl.data import times
from quantdsl.data.arrow import plain
from quantdsl.data.columns import Columns, one_of, recognise
from quantdsl.data.many import COLUMN
from quantdsl.data.table import Table, joined_sha256
from quantdsl.data.time_columns import Blocks, TimeColumn, TimeTextError
from quantdsl.errors import DataError

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

SLACK = 1e-9
"""Relative noise allowed in computed prices: rounding to ticks removes it."""

PRICE_MIN, PRICE_MAX, VOLUME_MAX = 1e-9, 1e12, 1e18
"""No market quotes beyond these; what does is damage."""


class Rows(NamedTuple):
    """Times in ns (as in the file: open or close) and prices in quote currency; volume in units."""

    ts: Int64s
    open: Float64s
    high: Float64s
    low: Float64s
    close: Float64s
    volume: Float64s

    @property
    def size(self) -> int:
        return len(self.ts)

    def where(self, kept: Bools) -> "Rows":
        numbers = (column[kept] for column in self[1:])
        return Rows(self.ts[kept], *numbers)


class Reader(Protocol):
    """Rows in order of time that can be read any number of times, and what was found in them."""

    name: str
    close_only: bool
    has_volume: bool
    zoned: bool
    dates_only: bool
    dropped: Counter[str]
    first_fault: str

    def chunks(self) -> Iterator[Rows]: ...

    def sha256(self) -> str: ...


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How the tables of one instrument are to be read."""

    columns: Mapping[str, str] = {}
    ticker: str | None = None
    tz: str = "UTC"
    time_format: str | None = None
    bad_rows: Literal["stop", "drop"] = "stop"


def _chosen_by(columns: Columns, ticker: str | None) -> bool:
    """Whether another ticker would read other rows or another column of the table."""
    wide = columns.close_only and columns.close.strip().upper() == (ticker or "").upper()
    return columns.symbol is not None or wide


class RowReader:
    """The good rows of some tables, in order of time; readable any number of times.

    After a full reading `dropped` counts the bad rows by reason, `first_fault` tells of the first
    one, `empty` counts the cells without a number of a wide table, and `zoned`, `dates_only`,
    `close_only` and `has_volume` describe what was found.
    """

    def __init__(self, name: str, tables: Sequence[Table], reading: Reading) -> None:
        self._tables, self._reading = tables, reading
        self._columns = [
            recognise(table.columns(), reading.columns, reading.ticker, table.name)
            for table in tables
        ]
        self.name = _with_column(name, self._columns[0])
        self.close_only = self._columns[0].close_only
        self.by_ticker = all(_chosen_by(columns, reading.ticker) for columns in self._columns)
        self.has_volume = all(columns.volume is not None for columns in self._columns)
        self.zoned = True
        self.dates_only = True
        self.dropped: Counter[str] = Counter()
        self.first_fault = ""
        self.empty = 0

    def sha256(self) -> str:
        """SHA-256 of the file, or of the hashes of several."""
        return joined_sha256([table.sha256() for table in self._tables])

    def chunks(self) -> Iterator[Rows]:
        """Rows with strictly increasing times; DataError names file and row of a bad one."""
        self.dropped.clear()
        self.empty = 0
        last_ts = np.iinfo(np.int64).min
        for table, columns in zip(self._tables, self._columns, strict=True):
            row = 0
            seen: set[str] = set()
            moments = Blocks(self._reading.time_format)
            text = [name for name in (columns.time, columns.clock, columns.symbol) if name]
            dropped = self.dropped if self._reading.bad_rows == "drop" else None
            for batch in table.batches(text, _numbers(columns), dropped):
                chosen = self._chosen(batch, columns, seen, table.name)
                whose = columns.symbol if seen or self._reading.ticker else None
                rows = self._good(batch, columns, chosen, whose, table, row, last_ts, moments)
                row += batch.num_rows
                if rows.size:
                    last_ts = int(rows.ts[-1])
                    yield rows
            torn = getattr(table, "first_torn", "")
            if torn and not self.first_fault:
                self.first_fault = f"{table.name}: wrong number of cells: {torn}"
            unread = getattr(table, "first_unread", "")
            if unread and unread not in self.first_fault:
                self.first_fault += f"; {unread}"
            if row and self._reading.ticker and columns.symbol and not self._ticker_in(seen):
                raise DataError(
                    f"{table.name}: has no row of {self._reading.ticker!r}; its column "
                    f"{columns.symbol!r} holds {', '.join(sorted(seen)[:8])}"
                )

    def _ticker_in(self, seen: set[str]) -> bool:
        return (self._reading.ticker or "").upper() in {one.upper() for one in seen}

    def _chosen(self, batch: Any, columns: Columns, seen: set[str], where: str) -> Bools | None:
        """Which rows belong to the instrument, None for all of them; those that do not say whose
        they are may."""
        if columns.wide:
            there: Bools = ~np.isnan(plain(batch.column(columns.close), null=np.nan))
            self.empty += int(np.count_nonzero(~there))
            return there
        if columns.symbol is None:
            return None
        import pyarrow.compute as pc

        names = pc.cast(batch.column(columns.symbol), "string")
        seen.update(name for name in pc.unique(names).to_pylist() if name and name.strip())
        ticker = self._reading.ticker
        if ticker is not None:
            return plain(pc.equal(pc.utf8_upper(names), ticker.upper())) | ~_named(names)
        if len(seen) > 1:
            raise DataError(
                f"{where}: holds several instruments ({', '.join(sorted(seen)[:8])}): "
                f"{one_of(min(seen))}"
            )
        return None

    def _good(
        self,
        batch: Any,
        columns: Columns,
        chosen: Bools | None,
        symbol: str | None,
        table: Table,
        first_row: int,
        last_ts: int,
        moments: Blocks,
    ) -> Rows:
        rows, stamps = self._columns_of(batch, columns, table, first_row, moments)
        places = np.arange(rows.size) if chosen is None else np.flatnonzero(chosen)
        if chosen is not None:
            rows = rows.where(chosen)
        if not rows.size:
            return rows
        time_valid = stamps.valid[places]
        # A column that names nobody says nothing of anyone's rows.
        whose = _named(batch.column(symbol))[places] if symbol else time_valid
        fine = time_valid & whose & _consistent(rows)
        before = np.maximum.accumulate(
            np.concatenate(([last_ts], np.where(fine, rows.ts, last_ts)))
        )[:-1]
        fine &= rows.ts > before
        if fine.all():
            return rows

        def reason(at: int) -> tuple[str, str]:
            if not time_valid[at]:
                fault = stamps.fault(int(places[at]))
                return (NO_TIME, "its time is empty") if fault is None else (UNREAD, fault)
            if not whose[at]:
                return "no symbol", f"its {symbol} is empty"
            return _reason(rows, before, at)

        at = int(np.argmin(fine))
        place = first_row + int(places[at])
        where = f"{_with_column(table.name, columns)}: {shown_row(table, place)}"
        fault = f"{where}: {': '.join(reason(at))}"
        joined = place == 0 and bool(time_valid[at]) and int(rows.ts[at]) <= last_ts
        if self._reading.bad_rows == "stop":
            if not time_valid.any():
                raise DataError(fault)  # to leave out all rows mends nothing
            raise DataError(f"{fault}. {PARTS if joined else _advice(rows)}")
        if joined or _newest_first(rows):
            fault = f"{fault}. {PARTS if joined else NEWEST_FIRST}"
        self.first_fault = self.first_fault or fault
        unread = int(np.count_nonzero(stamps.unread[places]))
        empty = int(np.count_nonzero(~time_valid)) - unread
        self.dropped += Counter({UNREAD: unread, NO_TIME: empty})
        self.dropped.update(reason(at)[0] for at in np.flatnonzero(~fine & time_valid).tolist())
        return rows.where(fine)

    def _columns_of(
        self, batch: Any, columns: Columns, table: Table, first_row: int, moments: Blocks
    ) -> tuple[Rows, TimeColumn]:
        try:
            stamps = moments.read(_time_text(batch, columns))
        except TimeTextError as fault:
            raise DataError(f"{place_of(table, first_row + fault.at)}: {fault}") from None
        except DataError as error:
            raise DataError(f"{table.name}: {error}") from None
        self.zoned &= stamps.zoned or not stamps.valid.any()
        self.dates_only &= bool(np.all(stamps.ns % times.DAY_NS == 0))
        ts = stamps.ns if self.dates_only else stamps.in_utc(self._reading.tz)

        def numbers(name: str) -> Float64s:
            return plain(batch.column(name), null=np.nan)

        close = numbers(columns.close)
        open_, high, low = (
            numbers(name) if name else close for name in (columns.open, columns.high, columns.low)
        )
        volume = numbers(columns.volume) if columns.volume else np.zeros(len(close))
        return Rows(ts, open_, high, low, close, volume), stamps


UNREAD, NO_TIME = "time not understood", "no time"


def place_of(table: Table, row: int) -> str:
    """A row as the user finds it, with the name of its file."""
    return f"{table.name}: {shown_row(table, row)}"


def shown_row(table: Table, row: int) -> str:
    """A row by its number from 1 on, and in a text by its line."""
    line = f" (line {row + 1 + table.header_rows})" if table.header_rows else ""
    return f"row {row + 1}{line}"


PARTS = (
    "The files of a folder are parts of one table, in order of name: where each is of an "
    "instrument of its own, name one file."
)
LEAVE_OUT = (
    "Mend the file, or leave bad rows out and count them with --bad-rows drop, or data.bad_rows of "
    "a config."
)
NEWEST_FIRST = "The rows run from new to old: sort the file by time."


def _with_column(name: str, columns: Columns) -> str:
    """What messages call a table; of a wide one the column too."""
    return f"{name}{COLUMN}{columns.close}" if columns.wide else name


def _named(symbols: Any) -> Bools:
    """Which cells of a column of symbols say one."""
    import pyarrow.compute as pc

    return plain(pc.not_equal(pc.utf8_trim_whitespace(pc.cast(symbols, "string")), ""))


def _newest_first(rows: Rows) -> bool:
    return rows.size > 2 and bool(np.all(rows.ts[1:] < rows.ts[:-1]))


def _advice(rows: Rows) -> str:
    if _newest_first(rows):
        return NEWEST_FIRST
    return LEAVE_OUT


def _numbers(columns: Columns) -> list[str]:
    given = (columns.open, columns.high, columns.low, columns.close, columns.volume)
    return [name for name in given if name is not None]


def _time_text(batch: Any, columns: Columns) -> Any:
    """The time column, joined with the time of day where that stands in a second column."""
    column = batch.column(columns.time)
    if columns.clock is None:
        return column
    import pyarrow.compute as pc

    clock = pc.cast(batch.column(columns.clock), "string")
    return pc.binary_join_element_wise(pc.cast(column, "string"), clock, " ")


def _consistent(rows: Rows) -> Bools:
    """Rows whose prices are in range and within low to high, and volume not negative."""
    with np.errstate(over="ignore"):  # what overflows is out of range as well
        top = rows.high * (1.0 + SLACK)
        bottom = rows.low * (1.0 - SLACK)
    inside = (bottom <= rows.open) & (rows.open <= top)
    inside &= (bottom <= rows.close) & (rows.close <= top) & (rows.low <= top)
    inside &= (rows.low >= PRICE_MIN) & (rows.high <= PRICE_MAX)
    inside &= (rows.volume >= 0.0) & (rows.volume <= VOLUME_MAX)
    return inside


def _reason(rows: Rows, before: Int64s, at: int) -> tuple[str, str]:
    """The kind of fault of row `at`, whose time is known, and its figures."""
    prices = {name: float(getattr(rows, name)[at]) for name in Rows._fields[1:]}
    shown = ", ".join(f"{name} {value:.15g}" for name, value in prices.items())
    if any(np.isnan(value) for value in prices.values()):
        return "missing value", shown
    if any(np.isinf(value) for value in prices.values()):
        return "infinite value", shown
    if not 0.0 <= prices["volume"] <= VOLUME_MAX:
        return "volume negative or beyond 1e18", shown
    if min(prices[name] for name in ("open", "high", "low", "close")) <= 0.0:
        return "price not positive", shown
    if rows.low[at] < PRICE_MIN or rows.high[at] > PRICE_MAX:
        return f"price outside {PRICE_MIN:g} to {PRICE_MAX:g}", shown
    if not _consistent(rows)[at]:
        return "prices outside low to high", shown
    now, earlier = (times.show_instant(int(ts)) for ts in (rows.ts[at], before[at]))
    if rows.ts[at] == before[at]:
        return "duplicate time", f"{now} stands there twice"
    return "backward time", f"{now} comes after {earlier}"
