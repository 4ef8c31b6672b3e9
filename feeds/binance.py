"""Recordings of Binance's streams: depth, bookTicker, trade and one depth snapshot, as text.

A line is `<time of receipt, ns> <JSON>`; the JSON is a message of a combined stream
(`{"stream": ..., "data": {...}}`), a bare message, or the answer to a request for a snapshot
(`lastUpdateId`, `bids`, `asks`). Spot and futures (`pu`, `T`) are told apart by the messages.

The book begins by the venue's rule: a change whose last id `u` lies before the snapshot is
dropped, the first one kept must reach over it (spot `U <= id + 1 <= u`, futures `U <= id <= u`),
and each one after that must follow the last (spot `U == u + 1`, futures `pu == u`). Where one is
missing the book is invalid until the next snapshot.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from quantdsl.feeds.kernels import UNREADABLE, fixed_point, head, inner, kernel, whole_number

from quantdsl.data.table import file_sha256
from quantdsl.data.ticks import FAULTS, Events, Fault, Tally, Window
from quantdsl.events.layout import EVENT, MORE, WORDS, Feed, Kind

DIGITS = 8
"""Decimals of every price and size; Binance writes no more."""

_LEVEL_BYTES = 10
"""A level takes at least as many bytes of text (`["1","0"],`), so a block bounds its events."""

_PENDING_MAX = 65_536
"""Messages held until a snapshot says which of them count; more, and the oldest are dropped."""

# Words of the decoder's state.
_TAKEN, _OUT, _LINES, _SYNC, _LAST, _SNAPSHOT, _STOP, _BAD_LINE = range(8)
_WAITING, _FIRST, _FOLLOWING = range(3)
"""_SYNC: no snapshot yet; the first change after one is awaited; changes follow each other."""

_DIFF, _SNAP, _QUOTE, _TRADE, _OTHER = range(5)


@inner("UniTuple(int64, 2)(uint8[::1], int64, int64, int64[:,::1], int64, int64)")
def _levels(text, at, end, out, row, side):
    """Reads `[["price","size"],...]` into rows from `row` on: (next row, position) or UNREADABLE.

    A level that is not two decimals is no level, and then the whole message is worth nothing.
    """
    at += 1
    while at < end and text[at] != 93:
        if text[at] == 44:
            at += 1
        if at + 2 >= end or text[at] != 91 or text[at + 1] != 34:
            return row, UNREADABLE
        price, at = fixed_point(text, at + 2, end, DIGITS, False)
        if at < 0 or at + 3 >= end or text[at] != 34 or text[at + 1] != 44 or text[at + 2] != 34:
            return row, UNREADABLE
        size, at = fixed_point(text, at + 3, end, DIGITS, False)
        if at < 0 or at + 1 >= end or text[at] != 34 or text[at + 1] != 93:
            return row, UNREADABLE
        at += 2
        out[row, 2] = head(0, 4, side, MORE)
        out[row, 3] = price
        out[row, 4] = size
        out[row, 6] = 0
        out[row, 7] = 0
        row += 1
    if at >= end:
        return row, UNREADABLE
    return row, at + 1


# Fields of a message, by their place in the array that `_message` fills.
_E, _T, _U1, _U2, _PU, _ID, _TRADE_ID, _MAKER = range(8)
_PRICE, _SIZE, _BID, _ASK, _BID_SIZE, _ASK_SIZE, _FIELDS = range(8, 15)
_ABSENT = -(2**63)


@inner("int64(uint8[::1], int64, int64)")
def _field_of(text, at, end):
    """The field that the key text[at:end] names, -1 for others. `b` and `a` are told by value."""
    size = end - at
    first = text[at]
    if size == 1:
        for key, field in (
            (69, _E), (84, _T), (85, _U1), (117, _U2), (116, _TRADE_ID), (109, _MAKER),
            (112, _PRICE), (113, _SIZE), (98, _BID), (97, _ASK), (66, _BID_SIZE), (65, _ASK_SIZE),
        ):  # fmt: skip
            if first == key:
                return field
    elif size == 2 and first == 112 and text[at + 1] == 117:
        return _PU
    elif size == 12 and first == 108 and text[at + 11] == 100:
        return _ID
    elif size == 4 and first == 98 and text[at + 1] == 105:
        return _BID
    elif size == 4 and first == 97 and text[at + 1] == 115:
        return _ASK
    return -1


@inner("int64(int64[::1], boolean, boolean)")
def _kind_of(fields, has_levels, has_stream):
    if has_levels:
        if fields[_ID] != _ABSENT:
            return _SNAP
        return _DIFF if fields[_U1] != _ABSENT and fields[_U2] != _ABSENT else -1
    if fields[_BID] != _ABSENT and fields[_ASK] != _ABSENT:
        known = fields[_BID_SIZE] != _ABSENT and fields[_ASK_SIZE] != _ABSENT
        return _QUOTE if known and fields[_U2] != _ABSENT else -1
    if fields[_PRICE] != _ABSENT and fields[_SIZE] != _ABSENT and fields[_MAKER] != _ABSENT:
        return _TRADE
    return _OTHER if has_stream or fields[_E] == _ABSENT else -1


@inner("UniTuple(int64, 2)(uint8[::1], int64, int64, int64[:,::1], int64, int64[::1])")
def _message(text, at, end, out, row, fields):
    """Reads one JSON message: (kind, next row), kind -1 where it cannot be understood."""
    for field in range(_FIELDS):
        fields[field] = _ABSENT
    first, depth = row, 0
    has_levels, has_stream = False, False
    while at < end:
        byte = text[at]
        if byte == 123:
            depth += 1
        elif byte == 125:
            depth -= 1
        elif byte == 34:
            start = at + 1
            at = start
            while at < end and text[at] != 34:
                at += 1
            stop = at
            at += 1
            if at >= end or text[at] != 58:
                return -1, first
            at += 1
            if at >= end:
                return -1, first
            field = _field_of(text, start, stop)
            byte = text[at]
            if byte == 91:
                if field != _BID and field != _ASK:
                    return _OTHER, first
                row, at = _levels(text, at, end, out, row, np.int64(field == _ASK))
                if at < 0:
                    return -1, first
                has_levels = True
                continue
            if byte == 123:
                has_stream = True
                continue
            if byte == 34:
                if field >= _PRICE:
                    fields[field], at = fixed_point(text, at + 1, end, DIGITS, False)
                    if at < 0 or at >= end or text[at] != 34:
                        return -1, first
                else:
                    at += 1
                    while at < end and text[at] != 34:
                        at += 1
            elif byte == 116 or byte == 102:
                if field == _MAKER:
                    fields[_MAKER] = np.int64(byte == 116)
                while at < end and text[at] != 44 and text[at] != 125:
                    at += 1
                continue
            elif 0 <= field < _PRICE:
                fields[field], at = whole_number(text, at, end)
                if at < 0:
                    return -1, first
                continue
            else:
                while at < end and text[at] != 44 and text[at] != 125:
                    at += 1
                continue
        at += 1
    if depth != 0:
        return -1, first
    return _kind_of(fields, has_levels, has_stream), row


@inner("void(int64[:,::1], int64, int64, int64, int64, int64, int64, int64)")
def _single(out, row, word, a, b, c, d, e):
    out[row, 2] = word
    out[row, 3] = a
    out[row, 4] = b
    out[row, 5] = c
    out[row, 6] = d
    out[row, 7] = e


@inner("int64(int64[::1], int64[::1], int64[::1])")
def _follows(state, fields, faults):
    """What becomes of a change of the book: 1 kept, 0 dropped, -1 another is missing before it."""
    first, last, before = fields[_U1], fields[_U2], fields[_PU]
    futures = before != _ABSENT
    if state[_SYNC] == _WAITING:
        return 1
    if state[_SYNC] == _FIRST:
        snapshot = state[_SNAPSHOT]
        if last < snapshot + np.int64(not futures):
            faults[Fault.NO_SNAPSHOT.value] += 1
            return 0
        good = first <= snapshot + np.int64(not futures)
    else:
        good = before == state[_LAST] if futures else first == state[_LAST] + 1
    if not good:
        faults[Fault.GAP.value] += 1
        state[_SYNC] = _WAITING
        return -1
    state[_SYNC] = _FOLLOWING
    state[_LAST] = last
    return 1


@inner("int64(int64[:,::1], int64, int64, int64)")
def _shifted(out, row, last, sequence):
    """Makes room for the BOOK_SNAPSHOT in front of its levels: the next row."""
    for one in range(last, row, -1):
        for word in range(8):
            out[one, word] = out[one - 1, word]
        out[one, 5] = sequence
    _single(out, row, head(0, 5, 0, MORE), sequence, 0, 0, 0, 0)
    return last + 1


@inner("void(uint8[::1], int64, int64, int64[:,::1], int64[::1], int64[::1], int64[::1])")
def _line(text, at, end, out, state, faults, fields):
    """Decodes text[at:end] into `out`; a fault leaves a FEED gap where a book may be hurt."""
    row = state[_OUT]
    local, at = whole_number(text, at, end)
    kind, last = -1, row
    if at > 0:
        kind, last = _message(text, at, end, out, row, fields)
    else:
        local = np.int64(0)
    event = local
    if kind >= 0 and fields[_T] != _ABSENT:
        event = fields[_T] * 1_000_000
    elif kind >= 0 and fields[_E] != _ABSENT:
        event = fields[_E] * 1_000_000
    gap = False
    if kind == -1:
        faults[Fault.UNREADABLE.value] += 1
        if state[_BAD_LINE] == 0:
            state[_BAD_LINE] = state[_LINES]
        gap = state[_SYNC] != _WAITING
        state[_SYNC] = _WAITING
    elif kind == _OTHER:
        return
    elif kind == _TRADE:
        word = head(0, 3, 2 if fields[_MAKER] == 1 else 1, 0)
        number = max(fields[_TRADE_ID], 0)
        _single(out, row, word, fields[_PRICE], fields[_SIZE], number, 0, 0)
        last = row + 1
    elif kind == _QUOTE:
        sizes = fields[_BID_SIZE], fields[_ASK_SIZE]
        _single(out, row, head(0, 2, 0, 0), fields[_BID], fields[_ASK], *sizes, fields[_U2])
        last = row + 1
    elif kind == _SNAP:
        state[_SNAPSHOT] = fields[_ID]
        state[_STOP] = 1
        last = _shifted(out, row, last, fields[_ID])
    elif last == row:
        return  # a change that changes nothing
    else:
        fate = _follows(state, fields, faults)
        gap = fate < 0
        if fate == 0:
            return
        for one in range(row, last):
            out[one, 5] = fields[_U2]
        if state[_SYNC] == _WAITING:
            # The splice needs the first id and the one before; it clears both words.
            for one in range(row, last):
                out[one, 6] = fields[_U1]
                out[one, 7] = fields[_PU]
    if gap:
        out[row, 0] = event
        out[row, 1] = local
        _single(out, row, head(0, 12, 2, 0), 0, 0, max(fields[_U2], 0), 0, 0)
        state[_OUT] = row + 1
        return
    for one in range(row, last):
        out[one, 0] = event
        out[one, 1] = local
    if last > row:
        out[last - 1, 2] &= ~(np.int64(MORE) << 48)
    state[_OUT] = last


@kernel("void(uint8[::1], boolean, int64[:,::1], int64[::1], int64[::1], int64[::1])")
def _decode(text, final, out, state, faults, fields):
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
            _line(text, at, last, out, state, faults, fields)
        at = stop + 1
    state[_TAKEN] = min(at, end)


class BinanceReader:
    """The messages of one recording. See the module for what is understood and how it begins."""

    format = "Binance stream recording"
    price_digits = size_digits = DIGITS
    has_recv = True

    def __init__(self, path: Path, bad_rows: Literal["stop", "drop"]) -> None:
        self._path, self.name = path, str(path)
        self.symbol = _symbol(path)
        self.notes: list[str] = []
        self.tally = Tally(self.name, bad_rows)

    def sha256(self) -> str:
        return file_sha256(self._path)

    def chunks(self) -> Iterator[Events]:
        """Whole messages in the order of the file, times as recorded."""
        self.tally.clear()
        window = Window(self._path)
        state, fields = np.zeros(8, np.int64), np.zeros(_FIELDS, np.int64)
        pending: list[Events] = []
        held = snapshots = 0
        while window.fill():
            out = np.empty((len(window.bytes) // _LEVEL_BYTES + 16, WORDS), np.int64)
            faults = np.zeros(FAULTS, np.int64)
            waiting = state[_SYNC] == _WAITING
            _decode(window.bytes, window.ended, out, state, faults, fields)
            window.take(int(state[_TAKEN]))
            self._note(faults, state)
            events = out[: state[_OUT]].view(EVENT).reshape(-1)
            if state[_STOP]:
                snapshots += 1
                at = int(np.flatnonzero(events["kind"] == Kind.BOOK_SNAPSHOT)[-1])
                events, snapshot = events[:at], events[at:]
            if waiting or state[_SYNC] == _WAITING:
                # A change that still has its first id waits for a snapshot.
                waits = (events["kind"] == Kind.BOOK_DELTA) & (events["payload"][:, 3] != 0)
                if waits.any():
                    pending.append(events[waits])
                    held += int(np.count_nonzero(events[waits]["flags"] & MORE == 0))
                    events = events[~waits]
                while held > _PENDING_MAX:
                    lost = int(np.count_nonzero(pending.pop(0)["flags"] & MORE == 0))
                    held -= lost
                    self.tally.note(Fault.NO_SNAPSHOT, lost)
            if len(events):
                yield events
            if state[_STOP]:
                yield snapshot
                spliced = self._splice(pending, state, int(snapshot["ts_recv"][0]))
                if len(spliced):
                    yield spliced
                pending, held = [], 0
        self.tally.note(Fault.NO_SNAPSHOT, held)
        if held and not snapshots:
            self.notes[:] = ["the recording holds no snapshot, so its changes build no book"]

    def _note(self, faults: npt.NDArray[np.int64], state: npt.NDArray[np.int64]) -> None:
        for fault in Fault:
            where = f"line {state[_BAD_LINE]}" if fault is Fault.UNREADABLE else ""
            self.tally.note(fault, int(faults[fault]), where)

    def _splice(self, pending: list[Events], state: npt.NDArray[np.int64], now: int) -> Events:
        """Changes received before the snapshot that go beyond it, as received with it."""
        state[_SYNC] = _FIRST
        if not pending:
            return np.empty(0, EVENT)
        events = np.concatenate(pending)
        last, first, before = (events["payload"][:, n].copy() for n in (2, 3, 4))
        spot = before[0] == _ABSENT
        kept = last >= state[_SNAPSHOT] + int(spot)
        ends = events["flags"] & MORE == 0
        self.tally.note(Fault.NO_SNAPSHOT, int(np.count_nonzero(ends & ~kept)))
        events, ends = events[kept], ends[kept]
        if not len(events):
            return events
        last, first, before = last[kept][ends], first[kept][ends], before[kept][ends]
        follows = first[1:] == last[:-1] + 1 if spot else before[1:] == last[:-1]
        if first[0] > state[_SNAPSHOT] + int(spot) or not follows.all():
            self.tally.note(Fault.GAP, 1)
            state[_SYNC] = _WAITING
            return _gap(now, int(last[-1]))
        events["payload"][:, 3:] = 0
        events["ts_recv"] = now
        state[_SYNC], state[_LAST] = _FOLLOWING, last[-1]
        return events


def _gap(ts: int, sequence: int) -> Events:
    event = np.zeros(1, EVENT)
    event["ts_event"] = event["ts_recv"] = ts
    event["kind"], event["side"] = Kind.FEED, Feed.GAP
    event["payload"][0, 2] = sequence
    return event


def _symbol(path: Path) -> str:
    """The symbol of the first message that names one; empty where none does."""
    window = Window(path, 1 << 16)
    window.fill()
    _, found, rest = window.bytes.tobytes().partition(b'"s":"')
    return rest.split(b'"', 1)[0].decode("ascii", "replace") if found else ""
