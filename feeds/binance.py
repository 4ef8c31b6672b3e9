"""Recordings of Binance's streams: depth, bookTicker, trade and one depth snapshot, as text.

A line is `<time of receipt, ns> <JSON>`; the JSON is a message of a combined stream, a bare
message, or the answer to a request for a snapshot, as binance_messages.py understands them.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from quantdsl.feeds.binance_messages import (
    ABSENT,
    BOOK_WORDS,
    DIGITS,
    FIELDS,
    LEVEL_BYTES,
    SNAP,
    SYMBOL,
    SYMBOL_END,
    SYNC,
    WAITING,
    message,
    settle,
    single,
    splice,
    time_of,
    waits,
)
from quantdsl.feeds.kernels import head, inner, whole_number

from quantdsl.codegen.decoders import entry
from quantdsl.data.table import file_sha256
from quantdsl.data.ticks import FAULTS, Events, Fault, Tally, Window
from quantdsl.errors import DataError
from quantdsl.events.layout import EVENT, MORE, WORDS, Kind

_PENDING_MAX = 65_536
"""Messages held until a snapshot says which of them count; more, and the oldest are dropped."""
SYMBOLS_SHOWN = 8

# Words of the decoder's state.
_TAKEN, _OUT, _LINES, _STOP, _BAD_LINE, _STATE_WORDS = range(6)


_OWN = "int64[:,::1], int64[::1], int64[::1], int64[::1], int64[::1], uint8[::1]"


@inner("boolean(uint8[::1], int64[::1], uint8[::1])")
def _of_another(text, fields, symbol):
    """Whether the message names another symbol; one that names none is the file's own."""
    at, size = fields[SYMBOL], len(symbol)
    if at == ABSENT or size == 0:
        return False
    offset = 0
    if fields[SYMBOL_END] - at == size:
        while offset < size and text[at + offset] == symbol[offset]:
            offset += 1
    return offset < size


@inner(f"void(uint8[::1], int64, int64, {_OWN})")
def _line(text, at, end, out, state, book, faults, fields, symbol):
    """Decodes text[at:end] into `out`; a fault leaves a FEED gap where a book may be hurt."""
    row = state[_OUT]
    local, at = whole_number(text, at, end)
    kind, last = -1, row
    if at > 0:
        kind, last = message(text, at, end, out, row, fields)
    else:
        local = np.int64(0)
    if kind >= 0 and _of_another(text, fields, symbol):
        faults[Fault.UNKNOWN_INSTRUMENT.value] += 1
        return
    if kind >= 0:
        event = time_of(fields, local)
        state[_OUT] = settle(kind, last, event, local, 0, out, row, fields, book, faults)
        state[_STOP] = np.int64(kind == SNAP)
        return
    faults[Fault.UNREADABLE.value] += 1
    if state[_BAD_LINE] == 0:
        state[_BAD_LINE] = state[_LINES]
    if book[SYNC] != WAITING:
        out[row, 0] = out[row, 1] = local
        single(out, row, head(0, 12, 2, 0), 0, 0, 0, 0, 0)
        state[_OUT] = row + 1
    book[SYNC] = WAITING


@entry(f"void(uint8[::1], boolean, {_OWN})")
def _decode(text, final, out, state, book, faults, fields, symbol):
    """Whole lines of `text` into `out`, up to and with the first snapshot."""
    at, end = 0, len(text)
    state[_OUT] = 0
    state[_STOP] = 0
    while at < end and state[_STOP] == 0:
        stop = at
        while stop < end and text[stop] != 10:
            stop += 1
        if stop == end and not final:
            break
        state[_LINES] += 1
        last = stop
        while last > at and text[last - 1] <= 32:
            last -= 1
        if last > at:
            _line(text, at, last, out, state, book, faults, fields, symbol)
        at = stop + 1
    state[_TAKEN] = min(at, end)


class BinanceReader:
    """The messages of one symbol of a recording; `symbol` chooses it where there are several.

    Those of others are counted. See the module for what is understood and how it begins.
    """

    format = "Binance stream recording"
    price_digits = size_digits = DIGITS
    has_recv, tells = True, frozenset[str]()  # which of its streams were kept is not said

    def __init__(self, path: Path, bad_rows: Literal["stop", "drop"], symbol: str = "") -> None:
        self._path, self.name = path, str(path)
        symbols = _symbols(path)
        if len(symbols) > 1 and symbol not in symbols:
            held = ", ".join(symbols[:SYMBOLS_SHOWN])
            raise DataError(
                f"{path}: has no symbol {symbol!r}; it holds {held}"
                if symbol
                else f"{path}: holds {len(symbols)} symbols ({held}): choose one as in "
                f"{path}#{symbols[0]}"
            )
        self.symbol = symbol if symbol in symbols else next(iter(symbols), "")
        self._own = np.frombuffer(self.symbol.encode(), np.uint8).copy()
        self.notes: list[str] = []
        self.tally = Tally(self.name, bad_rows)

    def sha256(self) -> str:
        return file_sha256(self._path)

    def chunks(self) -> Iterator[Events]:
        """Whole messages in the order of the file, times as recorded."""
        self.tally.clear()
        window = Window(self._path)
        state, fields = np.zeros(_STATE_WORDS, np.int64), np.zeros(FIELDS, np.int64)
        book = np.zeros(BOOK_WORDS, np.int64)
        pending: list[Events] = []
        held = snapshots = 0
        while window.fill():
            out = np.empty((len(window.bytes) // LEVEL_BYTES + 16, WORDS), np.int64)
            faults = np.zeros(FAULTS, np.int64)
            waiting = book[SYNC] == WAITING
            _decode(window.bytes, window.ended, out, state, book, faults, fields, self._own)
            window.take(int(state[_TAKEN]))
            self.tally.note_all(faults, f"line {state[_BAD_LINE]}")
            events = out[: state[_OUT]].view(EVENT).reshape(-1)
            if state[_STOP]:
                snapshots += 1
                at = int(np.flatnonzero(events["kind"] == Kind.BOOK_SNAPSHOT)[-1])
                events, snapshot = events[:at], events[at:]
            if waiting or book[SYNC] == WAITING:
                held_back = waits(events)
                if held_back.any():
                    pending.append(events[held_back])
                    held += int(np.count_nonzero(events[held_back]["flags"] & MORE == 0))
                    events = events[~held_back]
                while held > _PENDING_MAX:
                    lost = int(np.count_nonzero(pending.pop(0)["flags"] & MORE == 0))
                    held -= lost
                    self.tally.note(Fault.NO_SNAPSHOT, lost)
            if len(events):
                yield events
            if state[_STOP]:
                yield snapshot
                spliced, older = splice(pending, book, int(snapshot["ts_recv"][0]))
                self.tally.note(Fault.NO_SNAPSHOT, older)
                self.tally.note(Fault.GAP, int(book[SYNC] == WAITING))
                if len(spliced):
                    yield spliced
                pending, held = [], 0
        self.tally.note(Fault.NO_SNAPSHOT, held)
        if held and not snapshots:
            self.notes[:] = ["the recording holds no snapshot, so its changes build no book"]


def _symbols(path: Path) -> list[str]:
    """The symbols that the first megabyte of messages names, in order."""
    window = Window(path)
    window.fill()
    found = re.findall(rb'"s":"([^"]*)"', window.bytes.tobytes())
    return [name.decode("ascii", "replace") for name in dict.fromkeys(found)]
