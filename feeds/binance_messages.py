"""Binance's messages of market data as events: one decoder for recordings and for live streams.

Understood are changes of a book (`depthUpdate`), its snapshot (`lastUpdateId`, `bids`, `asks`),
`bookTicker`, `trade` and `aggTrade`, as a message of a combined stream
(`{"stream": ..., "data": {...}}`) or bare. Spot and futures (`pu`, `T`) are told apart by the
messages. Prices and sizes are whole numbers of 10**-DIGITS.

The book begins by the venue's rule: a change whose last id `u` lies before the snapshot is
dropped, the first one kept must reach over it (spot `U <= id + 1 <= u`, futures `U <= id <= u`),
and each one after that must follow the last (spot `U == u + 1`, futures `pu == u`); one of futures
that follows the snapshot itself (`pu == id`) is as good, for ids leap. Where one is
missing the book is invalid until the next snapshot. What was received before is told from a
sequence that began anew by the venue's time: a repetition is no younger than what it repeats.
"""

import numpy as np
from quantdsl.feeds.edge import AHEAD_NS_MAX, remembered
from quantdsl.feeds.kernels import (
    UNREADABLE,
    byte_at,
    fixed_point,
    head,
    inlined,
    inner,
    whole_number,
)

from quantdsl.data.ticks import Events, Fault, Int64s
from quantdsl.events.layout import EVENT, MORE, Feed, Kind

DIGITS = 8
"""Decimals of every price and size; Binance writes no more."""

LEVEL_BYTES = 10
"""A level takes at least as many bytes of text (`["1","0"],`), so a text bounds its events."""

# Words of a book: one row for each instrument.
SYNC, LAST, LAST_TIME, SNAPSHOT, QUOTE, QUOTE_TIME, TRADE, TRADE_TIME, BOOK_WORDS = range(9)
WAITING, FIRST, FOLLOWING = range(3)
"""SYNC: no snapshot yet; the first change after one is awaited; changes follow each other."""

DIFF, SNAP, BEST, DEAL, OTHER = range(5)
"""What a message is."""

# Fields of a message, by their place in the array that `message` fills.
_E, _T, _U1, _U2, _PU, _ID, _TRADE_ID, _MAKER = range(8)
_PRICE, _SIZE, _BID, _ASK, _BID_SIZE, _ASK_SIZE, SYMBOL, SYMBOL_END, FIELDS = range(8, 17)
ABSENT = -(2**63)


@inner("UniTuple(int64, 2)(uint8[::1], int64, int64, int64[:,::1], int64, int64)")
def _levels(text, at, end, out, row, side):
    """Reads `[["price","size"],...]` into rows from `row` on: (next row, position) or UNREADABLE.

    A level that is not two decimals is no level, and then the whole message is worth nothing.
    """
    at += 1
    while at < end and byte_at(text, at) != 93:
        if byte_at(text, at) == 44:
            at += 1
        if at + 2 >= end or byte_at(text, at) != 91 or byte_at(text, at + 1) != 34:
            return row, UNREADABLE
        price, at = fixed_point(text, at + 2, end, DIGITS, False)
        if at < 0 or at + 3 >= end or byte_at(text, at) != 34 or byte_at(text, at + 1) != 44:
            return row, UNREADABLE
        if byte_at(text, at + 2) != 34:
            return row, UNREADABLE
        size, at = fixed_point(text, at + 3, end, DIGITS, False)
        if at < 0 or at + 1 >= end or byte_at(text, at) != 34 or byte_at(text, at + 1) != 93:
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


_LETTERS = np.full(128, -1, np.int64)
"""The field that a key of one letter names. `b` and `a` are told by value."""
for _letter, _field in zip(
    "ETUutmpqbaBAs",
    (_E, _T, _U1, _U2, _TRADE_ID, _MAKER, _PRICE, _SIZE, _BID, _ASK, _BID_SIZE, _ASK_SIZE, SYMBOL),
    strict=True,
):
    _LETTERS[ord(_letter)] = _field


@inlined("int64(uint8[::1], int64, int64)")
def _field_of(text, at, end):
    """The field that the key text[at:end] names, -1 for others."""
    size = end - at
    first = byte_at(text, at)
    if size == 1:
        return _LETTERS[first & 127]
    if size == 2 and first == 112 and byte_at(text, at + 1) == 117:
        return _PU
    if size == 12 and first == 108 and byte_at(text, at + 11) == 100:
        return _ID
    if size == 4 and first == 98 and byte_at(text, at + 1) == 105:
        return _BID
    if size == 4 and first == 97 and byte_at(text, at + 1) == 115:
        return _ASK
    return -1


@inner("int64(int64[::1], boolean, boolean)")
def _kind_of(fields, has_levels, has_stream):
    if has_levels:
        if fields[_ID] != ABSENT:
            return SNAP
        return DIFF if fields[_U1] != ABSENT and fields[_U2] != ABSENT else -1
    if fields[_BID] != ABSENT and fields[_ASK] != ABSENT:
        known = fields[_BID_SIZE] != ABSENT and fields[_ASK_SIZE] != ABSENT
        return BEST if known and fields[_U2] != ABSENT else -1
    if fields[_PRICE] != ABSENT and fields[_SIZE] != ABSENT and fields[_MAKER] != ABSENT:
        return DEAL
    return OTHER if has_stream or fields[_E] == ABSENT else -1


@inlined("int64(uint8[::1], int64, int64, int64, int64[::1])")
def _text_value(text, at, end, field, fields):
    """Reads the string behind the quote at `at` as the field asks: position of its last quote."""
    if _PRICE <= field < SYMBOL:
        fields[field], at = fixed_point(text, at + 1, end, DIGITS, False)
        return at if at >= 0 and at < end and byte_at(text, at) == 34 else UNREADABLE
    at += 1
    start = at
    while at < end and byte_at(text, at) != 34:
        at += 1
    if field == SYMBOL:
        fields[SYMBOL], fields[SYMBOL_END] = start, at
    return at


@inlined("int64(uint8[::1], int64, int64, int64, int64[::1])")
def _plain_value(text, at, end, field, fields):
    """Reads a number, true, false or null as the field asks: the position behind it."""
    byte = byte_at(text, at)
    if byte == 116 or byte == 102:
        if field == _MAKER:
            fields[_MAKER] = np.int64(byte == 116)
    elif field == _ASK:  # `a` of an aggregate of trades is its number
        fields[_TRADE_ID], at = whole_number(text, at, end)
        return at
    elif 0 <= field < _PRICE:
        fields[field], at = whole_number(text, at, end)
        return at
    while at < end and byte_at(text, at) != 44 and byte_at(text, at) != 125:
        at += 1
    return at


@inner("UniTuple(int64, 2)(uint8[::1], int64, int64, int64[:,::1], int64, int64[::1])")
def message(text, at, end, out, row, fields):
    """Reads one JSON message: (kind, next row), kind -1 where it cannot be understood."""
    for field in range(FIELDS):
        fields[field] = ABSENT
    first, depth = row, 0
    has_levels, has_stream = False, False
    while at < end:
        byte = byte_at(text, at)
        if byte == 123:
            depth += 1
        elif byte == 125:
            depth -= 1
        elif byte == 34:
            start = at + 1
            at = start
            while at < end and byte_at(text, at) != 34:
                at += 1
            stop = at
            at += 1
            if at + 1 >= end or byte_at(text, at) != 58:
                return -1, first
            at += 1
            field = _field_of(text, start, stop)
            byte = byte_at(text, at)
            if byte == 91:
                if field != _BID and field != _ASK:
                    return OTHER, first
                row, at = _levels(text, at, end, out, row, np.int64(field == _ASK))
                has_levels = True
            elif byte == 123:
                has_stream = True
            elif byte == 34:
                at = _text_value(text, at, end, field, fields)
                at += at >= 0
            else:
                at = _plain_value(text, at, end, field, fields)
            if at < 0:
                return -1, first
            continue
        at += 1
    if depth != 0:
        return -1, first
    return _kind_of(fields, has_levels, has_stream), row


@inner("void(int64[:,::1], int64, int64, int64, int64, int64, int64, int64)")
def single(out, row, word, a, b, c, d, e):
    """Writes an event but for its times."""
    out[row, 2] = word
    out[row, 3] = a
    out[row, 4] = b
    out[row, 5] = c
    out[row, 6] = d
    out[row, 7] = e


@inner("int64(int64[::1], int64[::1], int64, int64, int64[::1])")
def _follows(book, fields, event, kept, faults):
    """What becomes of a change of the book: 1 kept, 0 dropped, -1 another is missing before it.

    `kept` is its time as it is `remembered`.
    """
    first, last, before = fields[_U1], fields[_U2], fields[_PU]
    futures = before != ABSENT
    if book[SYNC] == WAITING:
        return 1
    if book[SYNC] == FIRST:
        snapshot = book[SNAPSHOT]
        if last < snapshot + np.int64(not futures):
            faults[Fault.NO_SNAPSHOT.value] += 1
            return 0
        good = first <= snapshot + np.int64(not futures) or before == snapshot
    else:
        good = before == book[LAST] if futures else first == book[LAST] + 1
        if not good and last <= book[LAST] and event <= book[LAST_TIME]:
            faults[Fault.DUPLICATE.value] += 1
            return 0
    if not good:
        faults[Fault.GAP.value] += 1
        book[SYNC] = WAITING
        return -1
    book[SYNC] = FOLLOWING
    book[LAST], book[LAST_TIME] = last, kept
    return 1


@inner("boolean(int64[::1], int64, int64, int64, int64, int64[::1])")
def _is_repeated(book, word, number, event, kept, faults):
    """Whether a quote or a trade of this number was there before, or comes too late.

    `kept` is its time as it is `remembered`.
    """
    if number <= book[word] and event <= book[word + 1]:
        faults[Fault.DUPLICATE.value] += 1
        return True
    book[word], book[word + 1] = number, kept
    return False


@inner("int64(int64[:,::1], int64, int64, int64)")
def _shifted(out, row, last, sequence):
    """Makes room for the BOOK_SNAPSHOT in front of its levels: the next row."""
    for one in range(last, row, -1):
        for word in range(8):
            out[one, word] = out[one - 1, word]
        out[one, 5] = sequence
    single(out, row, head(0, 5, 0, MORE), sequence, 0, 0, 0, 0)
    return last + 1


@inner("int64(int64[::1], int64)")
def time_of(fields, received):
    """The venue's time of a message, ns; that of receipt where it carries none."""
    if fields[_T] != ABSENT:
        return fields[_T] * 1_000_000
    return fields[_E] * 1_000_000 if fields[_E] != ABSENT else received


@inner(
    "int64(int64, int64, int64, int64, int64, int64[:,::1], int64, int64[::1], int64[::1],"
    " int64[::1])"
)
def settle(kind, last, event, received, clock_ns, out, row, fields, book, faults):
    """What `message` left in rows `row` to `last` becomes events of its instrument: the next row.

    A change that cannot follow becomes a FEED gap. One that waits for a snapshot keeps its first
    id and the one before in its last words. The venue's clock is `clock_ns` ahead of ours.
    """
    kept = remembered(event, received, clock_ns)
    if kind == DEAL:
        number = max(fields[_TRADE_ID], 0)
        if number > 0 and _is_repeated(book, TRADE, number, event, kept, faults):
            return row
        word = head(0, 3, 2 if fields[_MAKER] == 1 else 1, 0)
        single(out, row, word, fields[_PRICE], fields[_SIZE], number, 0, 0)
        last = row + 1
    elif kind == BEST:
        if _is_repeated(book, QUOTE, fields[_U2], event, kept, faults):
            return row
        sizes = fields[_BID_SIZE], fields[_ASK_SIZE]
        single(out, row, head(0, 2, 0, 0), fields[_BID], fields[_ASK], *sizes, fields[_U2])
        last = row + 1
    elif kind == SNAP:
        book[SNAPSHOT] = fields[_ID]
        last = _shifted(out, row, last, fields[_ID])
    elif kind != DIFF:
        return row
    else:
        fate = _follows(book, fields, event, kept, faults)
        if fate == 0 or (fate > 0 and last == row):
            return row  # one that changes nothing counts for the sequence alone
        if fate < 0:
            single(out, row, head(0, 12, 2, 0), 0, 0, fields[_U2], 0, 0)
            last = row + 1
        else:
            for one in range(row, last):
                out[one, 5] = fields[_U2]
                if book[SYNC] == WAITING:
                    out[one, 6] = fields[_U1]
                    out[one, 7] = fields[_PU]
    for one in range(row, last):
        out[one, 0] = event
        out[one, 1] = received
    out[last - 1, 2] &= ~(np.int64(MORE) << 48)
    return last


def waits(events: Events) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Which events are changes of a book that wait for a snapshot: they still have a first id."""
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = (events["kind"] == Kind.BOOK_DELTA) & (
        events["payload"][:, 3] != 0
    )
    return found


def splice(
    pending: list[Events], book: Int64s, received: int, clock_ns: int = 0
) -> tuple[Events, int]:
    """Changes received before the snapshot that go beyond it, as received with it.

    Also how many lay before it. Where they do not reach it the book waits again, behind a gap.
    """
    book[SYNC] = FIRST
    if not pending:
        return np.empty(0, EVENT), 0
    events = np.concatenate(pending)
    last, first, before = (events["payload"][:, n].copy() for n in (2, 3, 4))
    spot = before[0] == ABSENT
    kept = last >= book[SNAPSHOT] + int(spot)
    ends = events["flags"] & MORE == 0
    older = int(np.count_nonzero(ends & ~kept))
    events, ends = events[kept], ends[kept]
    if not len(events):
        return events, older
    last, first, before = last[kept][ends], first[kept][ends], before[kept][ends]
    follows = first[1:] == last[:-1] + 1 if spot else before[1:] == last[:-1]
    reaches = first[0] <= book[SNAPSHOT] + int(spot) or before[0] == book[SNAPSHOT]
    if not reaches or not follows.all():
        book[SYNC] = WAITING
        return gap(received, int(last[-1])), older
    events["payload"][:, 3:] = 0
    events["ts_recv"] = received
    book[SYNC], book[LAST] = FOLLOWING, last[-1]
    book[LAST_TIME] = min(int(events["ts_event"][-1]), received + clock_ns + AHEAD_NS_MAX)
    return events, older


def gap(ts: int, sequence: int) -> Events:
    event = np.zeros(1, EVENT)
    event["ts_event"] = event["ts_recv"] = ts
    event["kind"], event["side"] = Kind.FEED, Feed.GAP
    event["payload"][0, 2] = sequence
    return event
