"""LOBSTER message files, and the order book file beside one where there is one.

A line is `seconds after midnight in New York, type, order id, size, price * 10000, direction`.
Alone, a message file gives single orders (L3); those that stood before its first line are not
known, so changes of them are counted and change no book. With its `orderbook` file the book
is that of the file instead, as levels (L2): after each message the levels that changed.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from quantdsl.feeds.kernels import (
    UNREADABLE,
    byte_at,
    digits_behind,
    fixed_point,
    head,
    inlined,
    inner,
    put,
)
from quantdsl.feeds.order_table import forget, order_table, place_of, with_room

from quantdsl.codegen.decoders import entry
from quantdsl.data import times
from quantdsl.data.table import file_sha256, joined_sha256
from quantdsl.data.ticks import FAULTS, ORDERS, Events, Fault, Tally, Window
from quantdsl.errors import DataError
from quantdsl.events.layout import EVENT, MORE, WORDS, Kind

ZONE = "America/New_York"
PRICE_DIGITS, SIZE_DIGITS = 4, 0

_NAME = re.compile(r"(?P<symbol>.+?)_(?P<date>\d{4}-\d{2}-\d{2})_.*message", re.IGNORECASE)
_LINE_BYTES = 12  # at least; a line makes two events at most
_EMPTY = 9_999_999_999
"""Price by which a book file marks a level that is not there (negative on the bid side)."""

_GOOD, _BLANK, _BAD, _CUT = range(4)
"""What a line is: six numbers, nothing, something else, or not there to its end."""

_TAKEN, _OUT, _LINES, _HELD, _BAD_LINE, _LAST = range(6)


@inner("boolean(uint8[::1], int64, int64, int64[::1])")
def _numbers(text, at, end, row):
    """Six numbers of a message line into `row`; whether they are there."""
    for column in range(6):
        row[column], at = fixed_point(text, at, end, 9 if column == 0 else 0, column == 0)
        if at < 0:
            return False
        if column < 5:
            if at >= end or text[at] != 44:
                return False
            at += 1
    return True


@inlined("int64(uint8[::1], int64, int64, int64[::1])")
def _usual(text, at, end, row):
    """The end of a line in the form that LOBSTER gives nearly all of them, its numbers in `row`;
    UNREADABLE for any other, good or bad."""
    seconds, point = digits_behind(text, at, end, 0)
    if point == at or point - at > 9 or point >= end or byte_at(text, point) != 46:
        return UNREADABLE
    fraction, at = digits_behind(text, point + 1, end, 0)
    if at - point != 10:
        return UNREADABLE
    row[0] = seconds * 1_000_000_000 + fraction
    for column in range(1, 6):
        if at >= end or byte_at(text, at) != 44:
            return UNREADABLE
        first = at + 1
        negative = column == 5 and first < end and byte_at(text, first) == 45
        first += negative
        value, at = digits_behind(text, first, end, 0)
        if at == first or at - first > 18:
            return UNREADABLE
        row[column] = -value if negative else value
    return at if at < end and byte_at(text, at) == 10 else UNREADABLE


@inner("UniTuple(int64, 2)(uint8[::1], int64, boolean, int64[::1])")
def _line(text, at, final, row):
    """(end of the line from `at` on, what it is), its numbers in `row`."""
    end = len(text)
    stop = _usual(text, at, end, row)
    if stop >= 0:
        return stop, _GOOD
    stop = at
    while stop < end and byte_at(text, stop) != 10:
        stop += 1
    if stop == end and not final:
        return stop, _CUT
    last = stop
    while last > at and byte_at(text, last - 1) <= 32:
        last -= 1
    if last == at:
        return stop, _BLANK
    return stop, _GOOD if _numbers(text, at, last, row) else _BAD


@inner("Tuple((int64, boolean))(int64[::1], int64[:,::1], int64[::1], int64[::1])")
def _change(row, table, state, faults):
    """(lots of the order after the message, whether the book knows it); keeps the table."""
    kind, order, size = row[1], row[2], row[3]
    at = place_of(table, order)
    if kind == 1:
        state[_HELD] += table[at, 0] == 0
        table[at, 0], table[at, 1], table[at, 2] = order, row[4], size
        return size, True
    if table[at, 0] == 0:
        faults[Fault.UNKNOWN_ORDER.value] += 1
        return 0, False
    left = 0 if kind == 3 else max(0, table[at, 2] - size)
    table[at, 2] = left
    if left == 0:
        forget(table, at)
        state[_HELD] -= 1
    return left, True


@inner("int64(int64[::1], int64, int64[:,::1], int64, int64[:,::1], int64[::1], int64[::1])")
def _events(row, midnight, out, at, table, state, faults):
    """The events of one message from `at` on: the next row, or -1 where it has no meaning."""
    ts, kind, order = midnight + row[0], row[1], row[2]
    side = np.int64(row[5] < 0)
    number = state[_LINES]
    if kind == 7:
        put(out, at, ts, ts, head(0, 12, np.int64(row[4] == -1), 0), row[4], 0, number, 0, 0)
        return at + 1
    if kind < 1 or kind > 6 or (row[5] != 1 and row[5] != -1) or order < 0:
        return -1
    if kind >= 4:
        # Who takes stands on the other side of the resting order; of an auction nobody knows.
        taker = 0 if kind == 6 else 1 + np.int64(row[5] > 0)
        resting = order if kind == 4 else 0
        put(out, at, ts, ts, head(0, 3, taker, 0), row[4], row[3], number, number, resting)
        at += 1
        if kind > 4:
            return at
    left, known = _change(row, table, state, faults)
    if known:
        if kind == 4:
            out[at - 1, 2] |= np.int64(MORE) << 48
        put(out, at, ts, ts, head(0, 4, side, 0), row[4], 0, number, order, left)
        at += 1
    return at


@entry("void(uint8[::1], boolean, int64, int64[:,::1], int64[:,::1], int64[::1], int64[::1])")
def _decode(text, final, midnight, out, table, state, faults):
    at, end, row = 0, len(text), np.zeros(6, np.int64)
    state[_OUT] = 0
    while at < end and state[_HELD] * 2 < len(table):
        stop, found = _line(text, at, final, row)
        if found == _CUT:
            break
        state[_LINES] += 1
        if found != _BLANK:
            out_at = -1
            if found == _GOOD:
                out_at = _events(row, midnight, out, state[_OUT], table, state, faults)
            if out_at >= 0:
                state[_OUT] = out_at
            else:
                faults[Fault.UNREADABLE.value] += 1
                if state[_BAD_LINE] == 0:
                    state[_BAD_LINE] = state[_LINES]
                if state[_LAST]:
                    put(
                        out,
                        state[_OUT],
                        state[_LAST],
                        state[_LAST],
                        head(0, 12, 2, 0),
                        0,
                        0,
                        0,
                        0,
                        0,
                    )
                    state[_OUT] += 1
            state[_LAST] = midnight + row[0] if out_at >= 0 else state[_LAST]
        at = stop + 1
    state[_TAKEN] = min(at, end)


@entry("boolean(uint8[::1], boolean, int64, int64[:,::1], int64[::1])")
def _rows(text, final, columns, out, state):
    """Lines of whole numbers into rows of `out`; False where a line has not that many."""
    at, end = 0, len(text)
    state[_OUT] = 0
    good = True
    while at < end and state[_OUT] < len(out):
        stop = at
        while stop < end and text[stop] != 10:
            stop += 1
        if stop == end and not final:
            break
        begin = at
        for column in range(columns):
            value, next_at = fixed_point(text, begin, stop, 0, False)
            if next_at < 0 or (column + 1 < columns and (next_at >= stop or text[next_at] != 44)):
                return False
            out[state[_OUT], column] = value
            begin = next_at + 1
        state[_OUT] += 1
        at = stop + 1
    state[_TAKEN] = min(at, end)
    return good


@inner("int64(int64[::1], int64[::1], int64, int64, int64, int64[:,::1], int64)")
def _differences(before, after, side, ts, number, out, at):
    """Deltas that make the levels `before` of one side those of `after`: the next row.

    A book file shows the best levels only. A price that left its view because better ones came
    is taken away, for nothing tells what becomes of it there.
    """
    levels = len(after) // 4
    offset = 2 * (1 - side)
    for level in range(levels):
        price = before[4 * level + offset]
        if abs(price) >= _EMPTY:
            continue
        stays = False
        for other in range(levels):
            stays = stays or after[4 * other + offset] == price
        if not stays:
            put(out, at, ts, ts, head(0, 4, side, MORE), price, 0, number, 0, 0)
            at += 1
    for level in range(levels):
        price, size = after[4 * level + offset], after[4 * level + offset + 1]
        if abs(price) >= _EMPTY:
            continue
        same = False
        for other in range(levels):
            known = before[4 * other + offset] == price
            same = same or (known and before[4 * other + offset + 1] == size)
        if not same:
            put(out, at, ts, ts, head(0, 4, side, MORE), price, size, number, 0, 0)
            at += 1
    return at


@entry("void(uint8[::1], boolean, int64, int64[:,::1], int64[::1], int64[::1])")
def _trades(text, final, midnight, out, state, faults):
    """A row a line: its TRADE, or its time alone. Stops at a line that cannot be understood."""
    at, end, row = 0, len(text), np.zeros(6, np.int64)
    made, nobody = np.zeros((2, 8), np.int64), np.zeros((4, 5), np.int64)
    uncounted = np.zeros(len(faults), np.int64)  # a book file knows all orders
    state[_OUT] = 0
    while at < end and state[_OUT] < len(out) and state[_BAD_LINE] == 0:
        stop, found = _line(text, at, final, row)
        if found == _CUT:
            break
        state[_LINES] += 1
        good = found == _GOOD
        if good and row[1] >= 4:
            good = _events(row, midnight, made, 0, nobody, state, uncounted) >= 0
        if not good:
            state[_BAD_LINE] = state[_LINES]
            faults[Fault.UNREADABLE.value] += 1
            break
        trade = 4 <= row[1] <= 6
        for word in range(8):
            out[state[_OUT], word] = made[0, word] if trade else 0
        out[state[_OUT], 0] = midnight + row[0]
        state[_OUT] += 1
        at = stop + 1
    state[_TAKEN] = min(at, end)


@entry("int64(int64[:,::1], int64[:,::1], int64[::1], int64, int64[:,::1])")
def _levels(trades, books, before, number, out):
    """The trades and, after each line, what the row of the book file changed: rows made."""
    at = 0
    for one in range(len(trades)):
        number += 1
        ts, first = trades[one, 0], at
        if trades[one, 2] != 0:
            for word in range(8):
                out[at, word] = trades[one, word]
            out[at, 2] |= np.int64(MORE) << 48
            at += 1
        if before[0] == 0:
            put(out, at, ts, ts, head(0, 5, 0, MORE), number, 0, 0, 0, 0)
            at += 1
            for column in range(len(before)):
                before[column] = _EMPTY
        for side in range(2):
            at = _differences(before, books[one], side, ts, number, out, at)
        for column in range(len(before)):
            before[column] = books[one, column]
        if at > first:
            out[at - 1, 2] &= ~(np.int64(MORE) << 48)
    return at


class LobsterReader:
    """The messages of one LOBSTER file; see the module for what the book file adds."""

    format = "LOBSTER messages"
    price_digits, size_digits = PRICE_DIGITS, SIZE_DIGITS
    has_recv, tells = False, ORDERS

    def __init__(self, path: Path, bad_rows: Literal["stop", "drop"]) -> None:
        named = _NAME.match(path.name)
        if named is None:
            raise DataError(
                f"{path}: holds LOBSTER messages, whose date stands in the file's name alone: name "
                "it as LOBSTER does, AAPL_2012-06-21_34200000_57600000_message_10.csv"
            )
        self._path, self.name, self.symbol = path, str(path), named["symbol"]
        day = np.array([times.parse_instant(named["date"])])
        self._midnight = int(times.utc_of_local(day, ZONE)[0])
        self._book = book_file(path)
        self.tally = Tally(self.name, bad_rows)
        self.notes = [
            f"the book is that of {self._book.name}, level by level"
            if self._book is not None
            else "orders that stood before the first message are not in the book"
        ]

    def sha256(self) -> str:
        paths = [self._path] if self._book is None else [self._path, self._book]
        return joined_sha256([file_sha256(path) for path in paths])

    def chunks(self) -> Iterator[Events]:
        """Whole messages in the order of the file; LOBSTER tells no time of receipt."""
        self.tally.clear()
        return self._orders() if self._book is None else self._by_level(self._book)

    def _orders(self) -> Iterator[Events]:
        window, state = Window(self._path), np.zeros(6, np.int64)
        table, begun = order_table(), False
        while window.fill():
            out = np.empty((len(window.bytes) // _LINE_BYTES * 2 + 16, WORDS), np.int64)
            faults = np.zeros(FAULTS, np.int64)
            table = with_room(table, int(state[_HELD]), len(table) // 4)
            _decode(window.bytes, window.ended, self._midnight, out, table, state, faults)
            window.take(int(state[_TAKEN]))
            self.tally.note_all(faults, f"line {state[_BAD_LINE]}")
            events = out[: state[_OUT]].view(EVENT).reshape(-1)
            if len(events) and not begun:
                begun = True
                yield _empty_book(int(events["ts_event"][0]))
            if len(events):
                yield events

    def _by_level(self, book: Path) -> Iterator[Events]:
        lines, rows = Window(self._path), Window(book)
        state, counted = np.zeros(6, np.int64), np.zeros(6, np.int64)
        first = rows.bytes if rows.fill() else np.empty(0, np.uint8)
        columns = first.tobytes().partition(b"\n")[0].count(b",") + 1
        before = np.zeros(columns, np.int64)
        while lines.fill():
            trades = np.zeros((len(lines.bytes) // _LINE_BYTES + 1, WORDS), np.int64)
            faults, number = np.zeros(FAULTS, np.int64), int(state[_LINES])
            _trades(lines.bytes, lines.ended, self._midnight, trades, state, faults)
            lines.take(int(state[_TAKEN]))
            self.tally.note_all(faults, f"line {state[_BAD_LINE]}")
            trades = trades[: state[_OUT]]
            while len(trades) and rows.fill():
                books = np.empty((len(trades), columns), np.int64)
                good = _rows(rows.bytes, rows.ended, columns, books, counted)
                if not good:
                    raise DataError(f"{book}: row {number + counted[_OUT] + 1} is no book row")
                done = int(counted[_OUT])
                rows.take(int(counted[_TAKEN]))
                out = np.empty((done * (columns + 2), WORDS), np.int64)
                made = _levels(trades[:done], books[:done], before, number, out)
                trades, number = trades[done:], number + done
                yield out[:made].view(EVENT).reshape(-1)
            if len(trades):
                raise DataError(f"{book}: ends at row {number}, before the messages do")
            if state[_BAD_LINE]:
                return


def _empty_book(ts: int) -> Events:
    event = np.zeros(1, EVENT)
    event["ts_event"] = event["ts_recv"] = ts
    event["kind"] = Kind.BOOK_SNAPSHOT
    return event


def book_file(path: Path) -> Path | None:
    """The order book file that LOBSTER wrote with this one, where it lies beside it."""
    book = path.with_name(path.name.replace("message", "orderbook"))
    return book if book != path and book.is_file() else None
