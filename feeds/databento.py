"""Databento's DBN files: single orders (mbo), best quotes with trades (mbp-1, tbbo) and trades.

The records' layout and the file's head come from Databento's own library, `databento-dbn`, so a
change of the format is theirs to know. A file of many instruments is read one symbol at a time.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from quantdsl.feeds.kernels import head, inner, put
from quantdsl.feeds.order_table import forget, order_table, place_of, with_room

from quantdsl.codegen.decoders import entry
from quantdsl.data.table import file_sha256
from quantdsl.data.ticks import FAULTS, MISSING, ORDERS, Events, Fault, Tally, Window
from quantdsl.errors import DataError, UnavailableError
from quantdsl.events.layout import EVENT, MORE, WORDS, Kind

PRICE_DIGITS, SIZE_DIGITS = 9, 0

_LAST, _SNAPSHOT, _MAYBE_BAD = 128, 32, 4
"""Flags of a record: the last of its message, part of a snapshot, the book may be wrong."""

_HELD, _IN_SNAPSHOT, _SEEN = range(3)
_MAGIC = b"DBN"
_EVENTS_A_RECORD = 2

# DBN's own letters: add, cancel, modify, trade, clear; bid, ask.
_ADD, _CANCEL, _MODIFY, _TRADE, _CLEAR = (ord(letter) for letter in "ACMTR")
_BID, _ASK = ord("B"), ord("A")


@inner("int64(int64, int64, int64, int64, int64, int64[:,::1], int64[::1], int64[::1])")
def _after(action, order, price, size, side, table, state, faults):
    """The order's lots after the record, -1 where the book does not know it; keeps the table."""
    at = place_of(table, order)
    if table[at, 0] == 0:
        if action == _CANCEL:
            faults[Fault.UNKNOWN_ORDER.value] += 1
            return -1
        state[_HELD] += 1
        table[at, 0], table[at, 2] = order, 0
    left = max(0, table[at, 2] - size) if action == _CANCEL else size
    table[at, 1], table[at, 2], table[at, 3] = price, left, side
    if left == 0:
        forget(table, at)
        state[_HELD] -= 1
    return left


_COLUMNS = ", ".join(["uint8[::1]"] * 2 + ["int64[::1]"] * 7)


@entry(f"int64({_COLUMNS}, int64[:,::1], int64[:,::1], int64[::1], int64[::1])")
def _orders(action, sides, flags, event, recv, order, price, size, sequence,
            out, table, state, faults):  # fmt: skip
    """Records of single orders as events, each with its record's number of a message: rows made."""
    at = 0
    first = 0
    for one in range(len(action)):
        kind, number, ts = action[one], sequence[one], event[one]
        side = np.int64(sides[one] == _ASK)
        snapshot = flags[one] & _SNAPSHOT != 0
        if not snapshot and state[_IN_SNAPSHOT] and at > first:
            # Not every file marks the end of the snapshot that it begins with.
            out[at - 1, 2] &= ~(np.int64(MORE) << 48)
            first = at
        if flags[one] & _MAYBE_BAD:
            put(out, at, ts, recv[one], head(0, 12, 2, MORE), 0, 0, number, 0, 0)
            faults[Fault.GAP.value] += 1
            at += 1
        elif kind == _CLEAR or (snapshot and state[_IN_SNAPSHOT] == 0):
            for row in range(len(table)):
                table[row, 0] = 0
            state[_HELD] = 0
            put(out, at, recv[one], recv[one], head(0, 5, 0, MORE), number, 0, 0, 0, 0)
            at += 1
        state[_IN_SNAPSHOT] = np.int64(snapshot)
        if snapshot:
            ts = recv[one]  # what stands there stood there; it happens now
        if kind == _TRADE:
            taker = 1 if sides[one] == _BID else 2 if sides[one] == _ASK else 0
            word = head(0, 3, taker, MORE)
            put(out, at, ts, recv[one], word, price[one], size[one], number, number, 0)
            at += 1
        elif kind in (_ADD, _CANCEL, _MODIFY):
            left = _after(kind, order[one], price[one], size[one], side, table, state, faults)
            if left >= 0:
                word = head(0, 4, side, MORE)
                put(out, at, ts, recv[one], word, price[one], 0, number, order[one], left)
                at += 1
        if flags[one] & _LAST and at > first:
            # A message is had when its last record is.
            for row in range(first, at):
                out[row, 1] = recv[one]
            out[at - 1, 2] &= ~(np.int64(MORE) << 48)
            first = at
    if at > first:
        out[at - 1, 2] &= ~(np.int64(MORE) << 48)
    return at


class DatabentoReader:
    """The messages of one instrument of a DBN file; `symbol` chooses where it holds several."""

    format = "Databento DBN"
    price_digits, size_digits = PRICE_DIGITS, SIZE_DIGITS
    has_recv = True

    def __init__(self, path: Path, bad_rows: Literal["stop", "drop"], symbol: str = "") -> None:
        self._path, self.name = path, str(path)
        self.tally = Tally(self.name, bad_rows)
        self.notes: list[str] = []
        meta, self._begin = _metadata(path)
        self._schema = str(meta.schema)
        self._record = _record_of(self._schema, path)
        symbols = list(meta.mappings)
        if symbol and symbol not in symbols and len(symbols) > 1:
            raise DataError(f"{path}: has no symbol {symbol!r}; it holds {', '.join(symbols[:8])}")
        if not symbol and len(symbols) > 1:
            raise DataError(
                f"{path}: holds {len(symbols)} symbols ({', '.join(symbols[:8])}): choose one as "
                f"in {path}#{symbols[0]}"
            )
        self.symbol = symbol if symbol in symbols else next(iter(symbols), "")
        known = meta.mappings.get(self.symbol, [])
        self._ids = np.array([int(span["symbol"]) for span in known], np.uint32)
        self.format, self.tells = f"Databento DBN, {self._schema}", _TELLS[self._schema]

    def sha256(self) -> str:
        return file_sha256(self._path)

    def chunks(self) -> Iterator[Events]:
        """Whole messages in order of receipt."""
        self.tally.clear()
        window, state = Window(self._path), np.zeros(3, np.int64)
        table = order_table()
        begin, size = self._begin, self._record.itemsize
        while window.fill():
            if begin:
                window.take(begin)
                begin = 0
                continue
            count = len(window.bytes) // size
            records = window.bytes[: count * size].view(self._record)
            if count and np.any(records["length"] * 4 != size):
                at = int(np.argmax(records["length"] * 4 != size))
                self.tally.note(
                    Fault.UNREADABLE, 1, f"byte {window.offset + at * size} of the unpacked file"
                )
                return  # without lengths to trust nothing after it can be found
            if not window.ended:
                records = self._whole_messages(records)
            elif len(window.bytes) % size:
                self.tally.note(Fault.TRUNCATED, 1, "its end")
            if not len(records) and not window.ended:
                continue
            kept = self._chosen(records)
            table = with_room(table, int(state[0]), len(kept))
            events = self._decode(kept, table, state)
            taken = len(records) * size
            window.take(len(window.bytes) if window.ended else taken)
            if len(events):
                yield events

    def _whole_messages(self, records: Any) -> Any:
        """The records up to the last end of a message; of trades each is one."""
        if self._schema == "trades":
            return records
        ends = np.flatnonzero(records["flags"] & _LAST)
        return records[: int(ends[-1]) + 1] if len(ends) else records[:0]

    def _chosen(self, records: Any) -> Any:
        if not len(self._ids):
            return records
        own = np.isin(records["instrument_id"], self._ids)
        self.tally.note(Fault.UNKNOWN_INSTRUMENT, int(np.count_nonzero(~own)))
        return records[own]

    def _decode(self, records: Any, table: npt.NDArray[np.int64], state: Any) -> Events:
        column = {name: _plain(records[name]) for name in records.dtype.names}
        if self._schema != "mbo":
            return _quotes(column, self._schema)
        out = np.empty((len(records) * _EVENTS_A_RECORD, WORDS), np.int64)
        faults = np.zeros(FAULTS, np.int64)
        names = "action side flags ts_event ts_recv order_id price size sequence".split()
        rows = _orders(*(column[name] for name in names), out, table, state, faults)
        self.tally.note_all(faults)
        return out[:rows].view(EVENT).reshape(-1)


def _quotes(column: dict[str, npt.NDArray[Any]], schema: str) -> Events:
    """Trades, and the best quote after each other record; a message ends with its flag."""
    trades = column["action"] == _TRADE
    events = np.zeros(len(trades), EVENT)
    events["ts_event"], events["ts_recv"] = column["ts_event"], column["ts_recv"]
    events["kind"] = np.where(trades, Kind.TRADE, Kind.QUOTE)
    taker = np.where(column["side"] == _BID, 1, np.where(column["side"] == _ASK, 2, 0))
    events["side"] = np.where(trades, taker, 0)
    payload, number = events["payload"], column["sequence"]
    for at, name in enumerate(("price", "size")):
        payload[trades, at] = column[name][trades]
    payload[trades, 2] = payload[trades, 3] = number[trades]
    if schema == "trades":
        return events
    for at, name in enumerate(("bid_px_00", "ask_px_00", "bid_sz_00", "ask_sz_00")):
        payload[~trades, at] = column[name][~trades]
    payload[~trades, 4] = number[~trades]
    ends = column["flags"] & _LAST != 0
    if len(ends) and schema == "mbp-1":
        ends[-1] = True
        # A message is had when its last record is.
        last = np.flatnonzero(ends)[np.searchsorted(np.flatnonzero(ends), np.arange(len(ends)))]
        events["ts_recv"] = column["ts_recv"][last]
        events["flags"] = np.where(ends, 0, MORE)
    return events


def _plain(column: Any) -> npt.NDArray[Any]:
    """A column as int64; letters and flags as bytes. No price is MISSING already."""
    if column.dtype.kind == "S":
        return np.ascontiguousarray(column).view(np.uint8)
    return np.ascontiguousarray(column.astype(np.int64))


assert MISSING == 2**63 - 1  # DBN writes the same number where there is no price


def _library() -> Any:
    try:
        import databento_dbn
    except ImportError:
        raise UnavailableError(
            "Databento files need Databento's own library: pip install 'quantdsl-engine[databento]'"
        ) from None
    return databento_dbn


def _metadata(path: Path) -> tuple[Any, int]:
    """The file's head and where the records begin."""
    library, window = _library(), Window(path)
    window.fill()
    first = window.bytes[:8].tobytes()
    size = 8 + int.from_bytes(first[4:8], "little")
    if len(first) < 8 or not first.startswith(_MAGIC):
        raise DataError(f"{path}: is no DBN file: its first bytes are {first.hex(' ')}")
    if size > len(window.bytes):
        raise DataError(
            f"{path}: its head says that it is {size:,} bytes long, and {len(window.bytes):,} are "
            "there: it is cut off, or its bytes are in the wrong order"
        )
    try:
        return library.Metadata.decode(window.bytes[:size].tobytes()), size
    except Exception as error:  # the library raises its own kinds
        raise DataError(f"{path}: its head is damaged: {error}") from None


_TELLS: dict[str, frozenset[str]] = {
    "mbo": ORDERS,
    "mbp-1": frozenset({"quotes", "trades"}),
    "tbbo": frozenset({"quotes", "trades"}),
    "trades": frozenset({"trades"}),
}


def _record_of(schema: str, path: Path) -> np.dtype[Any]:
    library = _library()
    records = {
        "mbo": library.MBOMsg,
        "mbp-1": library.MBP1Msg,
        "tbbo": library.MBP1Msg,
        "trades": library.TradeMsg,
    }
    if schema not in records:
        raise DataError(
            f"{path}: holds the schema {schema}, and quantdsl reads {', '.join(records)}"
        )
    return np.dtype(records[schema]._dtypes)
