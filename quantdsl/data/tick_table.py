"""Ticks in tables (CSV, Parquet, Arrow, pandas, polars): quotes, trades or changes of a book.

Which of the three a table holds is told by its columns: bid and ask; price and size; or side,
price and size with a column that marks snapshots. Any column can be mapped by the config.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from quantdsl.data.arrow import plain as values
from quantdsl.data.columns import one_of, plain
from quantdsl.data.rows import place_of, shown_row
from quantdsl.data.table import Table, joined_sha256
from quantdsl.data.ticks import MISSING, Events, Fault, Tally
from quantdsl.data.time_columns import Blocks, TimeColumn, TimeTextError
from quantdsl.errors import DataError
from quantdsl.events.layout import EVENT, MORE, Feed, Kind

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Holds = Literal["quotes", "trades", "book"]

DIGITS = 9
_SCALE = 10.0**DIGITS
_LARGEST = 2.0**62 / _SCALE
_UNTIMED = np.iinfo(np.int64).min  # until it is known where a gap stands

_ALIASES: dict[str, tuple[str, ...]] = {
    "time": (
        "time", "timestamp", "timestamputc", "datetime", "tsevent", "exchangetimestamp", "ts",
        "transacttime", "tradetime", "date", "timeutc", "gmttime", "index", "unixtime",
    ),
    "received": ("tsrecv", "received", "localtimestamp", "localts", "receivetime", "recvtime"),
    "bid": ("bid", "bidprice", "bidpx", "bestbid", "bestbidprice"),
    "ask": ("ask", "askprice", "askpx", "bestask", "bestaskprice", "offer"),
    "bid_size": ("bidsize", "bidsz", "bidqty", "bestbidqty", "bidamount", "bidvolume"),
    "ask_size": ("asksize", "asksz", "askqty", "bestaskqty", "askamount", "askvolume"),
    "price": ("price", "px", "tradeprice"),
    "size": ("size", "qty", "quantity", "amount", "volume"),
    "side": ("side", "aggressor", "takerside", "direction"),
    "maker": ("buyermaker", "isbuyermaker"),
    "id": ("tradeid", "id", "aggtradeid"),
    "sequence": ("sequence", "seq", "updateid"),
    "snapshot": ("issnapshot", "snapshot"),
    "symbol": ("symbol", "ticker", "instrument", "tic"),
}  # fmt: skip
SYMBOLS_SHOWN = 8
_TIMES = {"time", "received"}
_NUMBERS = ("bid", "ask", "bid_size", "ask_size", "price", "size")
_NEEDED: dict[Holds, tuple[str, ...]] = {
    "quotes": ("time", "bid", "ask"),
    "trades": ("time", "price", "size"),
    "book": ("time", "side", "price", "size"),
}
_BUYS, _SELLS = (
    ("b", "buy", "buyer", "bid", "1", "bids"),
    ("s", "sell", "seller", "ask", "a", "-1", "asks"),
)


def find_columns(names: Sequence[str], mapping: Mapping[str, str], where: str) -> dict[str, str]:
    """The columns by field; DataError where the mapping names what is not there."""
    found: dict[str, str] = {}
    for field, name in mapping.items():
        if field not in _ALIASES:
            raise DataError(
                f"{where}: columns.{field}: of ticks a column is one of {_list(_ALIASES)}"
            )
        if name not in names:
            raise DataError(f"{where}: columns.{field} names {name!r}; it has {_list(names)}")
        found[field] = name
    for field, aliases in _ALIASES.items():
        for alias in aliases:
            match = next((n for n in names if plain(n) == alias and n not in found.values()), None)
            if match is not None:
                found.setdefault(field, match)
    return found


def _list(names: Any) -> str:
    return ", ".join(map(str, names))


class TickTableReader:
    """The ticks of one or several tables in order; each row a message, but for a book's.

    Where a column names symbols, the rows of others are counted. Rows of a book with one time are
    one message. `holds` says what the columns mean where they
    could be trades or changes of a book.
    """

    price_digits = size_digits = DIGITS
    tells = frozenset[str]()  # one without rows may be a download that failed

    def __init__(
        self,
        name: str,
        tables: Sequence[Table],
        *,
        symbol: str = "",
        bad_rows: Literal["stop", "drop"] = "stop",
        tz: str = "",
        time_format: str | None = None,
        columns: Mapping[str, str] | None = None,
        holds: Holds | None = None,
    ) -> None:
        self.name, self._tables = name, tables
        self._tz, self._time_format, self._bad_rows = tz or "UTC", time_format, bad_rows
        self._columns = [find_columns(t.columns(), columns or {}, t.name) for t in tables]
        self._holds: Holds = holds or _held(self._columns[0])
        for table, found in zip(tables, self._columns, strict=True):
            missing = [field for field in _NEEDED[self._holds] if field not in found]
            if missing:
                raise DataError(
                    f"{table.name}: {self._holds} need a column for {missing[0]}; it has "
                    f"{_list(table.columns())}\nhelp: name it in the config: "
                    f'columns = {{ {missing[0]} = "NAME" }}'
                )
        self.symbol = self._chosen(symbol)
        self.has_recv = all("received" in found for found in self._columns)
        self.format = f"table of {self._holds if self._holds != 'book' else 'changes of a book'}"
        self.tally = Tally(name, bad_rows)
        self.notes: list[str] = []
        self._snapshots = all("snapshot" in found for found in self._columns)
        if self._holds == "book" and not self._snapshots:
            self.notes.append("no column marks snapshots: the book is empty before the first row")

    def sha256(self) -> str:
        return joined_sha256([table.sha256() for table in self._tables])

    def chunks(self) -> Iterator[Events]:
        """Whole messages in the order of the tables."""
        self.tally.clear()
        state = _BookState()
        for table, columns in zip(self._tables, self._columns, strict=True):
            numbers = [columns[field] for field in _NUMBERS if field in columns]
            text = [name for name in dict.fromkeys(columns.values()) if name not in numbers]
            lost: Counter[str] | None = Counter() if self._bad_rows == "drop" else None
            rows = 0
            moments = {field: Blocks(self._time_format) for field in ("time", "received")}
            for batch in table.batches(text, numbers, lost):
                self._refuse_torn(table, lost)
                events = self._events(batch, columns, table, rows, moments)
                rows += batch.num_rows
                if self._holds == "book":
                    events = state.messages(events)
                if len(events):
                    yield events
            if lost:
                self.tally.note(Fault.UNREADABLE, sum(lost.values()))
        rest = state.rest()
        if len(rest):
            yield rest

    def _events(
        self,
        batch: Any,
        columns: Mapping[str, str],
        table: Table,
        rows: int,
        moments: Mapping[str, Blocks],
    ) -> Events:
        """A row an event, after `rows` of the table; a snapshot has its mark in the last word."""
        stamps = {
            field: _times(moments[field], batch.column(columns[field]), table, rows)
            for field in ("time", "received")
            if field == "time" or self.has_recv
        }
        fine = {field: column.valid for field, column in stamps.items()}
        events = np.zeros(batch.num_rows, EVENT)
        events["ts_event"] = events["ts_recv"] = stamps["time"].in_utc(self._tz)
        if self.has_recv:
            events["ts_recv"] = stamps["received"].in_utc(self._tz)
        payload = events["payload"]
        for at, field in enumerate(_PAYLOAD[self._holds]):
            if field not in columns:
                continue
            if field in ("id", "sequence"):
                payload[:, at] = _identity(batch.column(columns[field]))
            else:
                real = values(batch.column(columns[field]), null=np.nan)
                payload[:, at], fine[field] = _fixed(real, missing=field in ("bid", "ask"))
        if self._holds == "quotes":
            events["kind"] = Kind.QUOTE
            for price, size, name in ((0, 2, "bid_size"), (1, 3, "ask_size")):
                nobody = (payload[:, price] == 0) & (payload[:, size] == 0)
                payload[nobody, price] = MISSING
                if name not in columns:
                    payload[~nobody, size] = MISSING
        else:
            events["kind"] = Kind.TRADE if self._holds == "trades" else Kind.BOOK_DELTA
            events["side"], fine["side"] = self._sides(batch, columns)
        if self._holds == "book" and self._snapshots:
            marks = _truths(batch.column(columns["snapshot"]))
            payload[:, 4] = marks
        own: Bools = self._own(batch, columns)
        self.tally.note(Fault.UNKNOWN_INSTRUMENT, int(np.count_nonzero(~own)))
        valid: Bools = np.logical_and.reduce(list(fine.values())) | ~own
        if not valid.all():
            at = int(np.argmin(valid))
            field = next(field for field, known in fine.items() if not known[at])
            told = f"= {batch.column(columns[field])[at].as_py()}"
            if field in stamps:
                told = stamps[field].fault(at) or "is empty"
                if self._bad_rows == "stop" and not fine[field].any():
                    # To leave out all rows mends nothing.
                    raise DataError(f"{place_of(table, rows + at)}: {columns[field]}: {told}")
            first = f"{shown_row(table, rows + at)}: {columns[field]} {told}"
            self.tally.note(Fault.UNREADABLE, int(np.count_nonzero(~valid)), first)
            timed: Bools = np.logical_and.reduce([fine[f] for f in fine.keys() & _TIMES])
            own &= self._harmless(events, ~valid, timed)
        return events[own]

    def _harmless(self, events: Events, bad: Bools, timed: Bools) -> Bools:
        """Empties bad quotes and makes gaps of bad changes of a book; which rows stay.

        A change that is left out would leave a book that is not the venue's and counts as whole.
        """
        if self._holds == "quotes":
            events["payload"][bad] = (MISSING, MISSING, 0, 0, 0)
            return ~bad | timed
        if self._holds == "trades":
            return ~bad
        events["kind"][bad], events["side"][bad] = Kind.FEED, Feed.GAP
        events["payload"][bad, :4] = (Fault.UNREADABLE, 0, 0, 0)
        events["ts_event"][~timed] = events["ts_recv"][~timed] = _UNTIMED
        return np.ones(len(bad), bool)

    def _refuse_torn(self, table: Table, lost: Counter[str] | None) -> None:
        """DataError where a line of a book's changes is lost, for nobody knows after which row."""
        if lost and self._holds == "book":
            raise DataError(
                f"{table.name}: {getattr(table, 'first_torn', '') or 'a line'}: a change of the "
                "book is lost, and where the book is wrong from cannot be told\n"
                "help: mend that line or take it out, and let a snapshot follow it"
            )

    def _chosen(self, symbol: str) -> str:
        """The symbol whose rows are read: the one asked for, or the only one of the first rows;
        empty where the table names none."""
        import pyarrow.compute as pc

        held = dict[str, None]()
        for table, columns in zip(self._tables, self._columns, strict=True):
            if "symbol" in columns:
                first = next(iter(table.batches([columns["symbol"]], [])), None)
                if first is not None:
                    held |= dict.fromkeys(pc.unique(_symbols(first, columns)).to_pylist())
        if len(held) > 1 and symbol not in held:
            listed = _list(list(held)[:SYMBOLS_SHOWN])
            raise DataError(
                f"{self.name}: has no symbol {symbol!r}; it holds {listed}"
                if symbol
                else f"{self.name}: holds {len(held)} symbols ({listed}): "
                f"{one_of(next(iter(held)))}"
            )
        return symbol if symbol in held else next(iter(held), "")

    def _own(self, batch: Any, columns: Mapping[str, str]) -> Bools:
        import pyarrow.compute as pc

        if "symbol" not in columns:
            return np.ones(batch.num_rows, bool)
        told = pc.equal(_symbols(batch, columns), self.symbol)
        own: Bools = told.to_numpy(zero_copy_only=False)
        return own

    def _sides(self, batch: Any, columns: Mapping[str, str]) -> tuple[Any, Bools]:
        """Aggressor of a trade (0 unknown, 1 buys, 2 sells), or side of a book, and which are."""
        n = batch.num_rows
        field = next((f for f in ("side", "maker") if f in columns), None)
        if field is None:
            return np.zeros(n, np.uint8), np.ones(n, bool)
        if field == "maker":
            return np.where(_truths(batch.column(columns["maker"])), 2, 1), np.ones(n, bool)
        words = _words(batch.column(columns["side"]))
        buys, sells = np.isin(words, _BUYS), np.isin(words, _SELLS)
        if self._holds == "book":
            return sells.astype(np.uint8), buys | sells
        return np.where(buys, 1, np.where(sells, 2, 0)), np.ones(n, bool)


def _times(moments: Blocks, column: Any, table: Table, rows: int) -> TimeColumn:
    try:
        return moments.read(column)
    except TimeTextError as fault:
        raise DataError(f"{place_of(table, rows + fault.at)}: {fault}") from None
    except DataError as error:
        raise DataError(f"{table.name}: {error}") from None


_PAYLOAD: dict[Holds, tuple[str, ...]] = {
    "quotes": ("bid", "ask", "bid_size", "ask_size", "sequence"),
    "trades": ("price", "size", "id"),
    "book": ("price", "size", "sequence"),
}


class _BookState:
    """Rows of a book as messages: those of one time together, snapshots begun where they begin."""

    def __init__(self) -> None:
        self._held: Events = np.empty(0, EVENT)
        self._begun = self._in_snapshot = False

    def messages(self, rows: Events) -> Events:
        """All messages that are known to be whole."""
        rows = _at_times(np.concatenate((self._held, rows)))
        if not len(rows):
            return rows
        last = _same(rows, len(rows) - 1)
        self._held = rows[last:]
        return self._marked(rows[:last])

    def rest(self) -> Events:
        rows, self._held = self._held, self._held[:0]
        return self._marked(rows)

    def _marked(self, rows: Events) -> Events:
        if not len(rows):
            return rows
        snapshot = rows["payload"][:, 4] != 0
        for gap in np.flatnonzero(rows["kind"] == Kind.FEED):  # a snapshot with a gap is one still
            snapshot[gap] |= snapshot[gap - 1] if gap else self._in_snapshot
        before = np.concatenate(([self._in_snapshot], snapshot[:-1]))
        begins = snapshot & ~before
        begins[0] |= not self._begun
        self._begun, self._in_snapshot = True, bool(snapshot[-1])
        rows = rows.copy()
        rows["payload"][:, 4] = 0
        changes = np.append(np.any(_identities(rows)[1:] != _identities(rows)[:-1], axis=1), True)
        changes[:-1] |= begins[1:]
        rows["flags"] = np.where(changes, 0, MORE)
        at = np.flatnonzero(begins)
        heads = rows[at]
        heads["kind"], heads["side"], heads["flags"] = Kind.BOOK_SNAPSHOT, 0, MORE
        heads["payload"] = 0
        return np.insert(rows, at, heads)


def _at_times(rows: Events) -> Events:
    """Gaps without a time at that of the row before them, or at the first one there is."""
    timed = rows["ts_recv"] != _UNTIMED
    if timed.all():
        return rows
    near = np.maximum.accumulate(np.where(timed, np.arange(len(rows)), -1))
    near[near < 0] = np.argmax(timed)
    for field in ("ts_event", "ts_recv"):
        rows[field] = rows[field][near]
    found: Events = rows[timed | timed.any()]
    return found


def _identities(rows: Events) -> Int64s:
    return np.stack((rows["ts_event"], rows["ts_recv"]), axis=1)


def _same(rows: Events, at: int) -> int:
    """The first row of the message that row `at` belongs to."""
    equal = np.all(_identities(rows) == _identities(rows)[at], axis=1)
    return int(len(rows) - np.argmin(equal[::-1])) if not equal.all() else 0


def _held(columns: Mapping[str, str]) -> Holds:
    if "bid" in columns and "ask" in columns:
        return "quotes"
    return "book" if "snapshot" in columns else "trades"


def _fixed(real: npt.NDArray[np.float64], *, missing: bool) -> tuple[Int64s, Bools]:
    """Decimals in units of 10**-DIGITS; the shortest decimal of a float is what was meant."""
    known = np.isfinite(real) & (np.abs(real) < _LARGEST)
    units = np.rint(np.where(known, real, 0.0) * _SCALE).astype(np.int64)
    if missing:
        units[np.isnan(real)] = MISSING
        known |= np.isnan(real)
    return units, known


def _identity(column: Any) -> Int64s:
    import pyarrow as pa

    if not pa.types.is_integer(column.type):
        return np.zeros(len(column), np.int64)
    return values(column).astype(np.int64)


def _words(column: Any) -> npt.NDArray[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pc.utf8_lower(pc.utf8_trim_whitespace(pc.cast(column, pa.string())))
    return np.array(pc.fill_null(text, "").to_pylist(), dtype=object).astype(str)


def _symbols(batch: Any, columns: Mapping[str, str]) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.fill_null(pc.cast(batch.column(columns["symbol"]), pa.string()), "")


def _truths(column: Any) -> Bools:
    return np.isin(_words(column), ("true", "1", "yes", "t"))
