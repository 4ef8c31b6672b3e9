"""What a venue said of a book or a trade becomes events, or a gap: for venues that send snapshots.

Coinbase, OKX and Kraken send a snapshot on subscribing and levels as they then are, with a sequence
of ids (OKX), a checksum (Kraken, OKX until 2025) or nothing to count by (Coinbase). A change is
laid into a ladder first and believed after: a broken sequence, a wrong checksum, a crossed book
or a time that runs backward leaves a FEED gap, and the book waits for a snapshot, which the feed
asks for.
"""

from typing import Any

import numpy as np
from numba import njit
from quantdsl.feeds.edge import CLOCK, heard, judge, remembered
from quantdsl.feeds.edge import lost as off
from quantdsl.feeds.kernels import head, inner, put
from quantdsl.feeds.ladder import NO_CHECK, checksum, crossed, fill, set_level

from quantdsl.codegen.decoders import entry
from quantdsl.data.ticks import Fault
from quantdsl.events.layout import MORE, Feed, Kind

# Words of an instrument's state.
(SYNC, SEQUENCE, EVENT, TRADE_ID, BID, BID_SIZE, ASK, ASK_SIZE, RESYNC, CHECKED, TRADE_TIME,
 WORDS) = range(12)  # fmt: skip
WAITING, FOLLOWING = range(2)
"""SYNC. RESYNC is 1 where a snapshot has to be asked for; CHECKED counts checksums that held."""

# Words of what a message says, beside its levels. M_EVENT: the venue's time, 0 where it is untold.
M_EVENT, M_SEQUENCE, M_PREVIOUS, M_CHECKSUM, M_SNAPSHOT, M_WORDS = range(6)
ABSENT = -(2**63)

BOOK, QUOTES, TRADES = 1, 2, 4
"""What is asked for; a sum of these."""


@inner("int64(int64[:,::1], int64, int64, int64, int64[::1], int64[::1], int64[::1])")
def lost(out, row, event, received, state, counts, edge):
    """The book is worth nothing until the next snapshot: the row behind the gap."""
    counts[:] = 0
    state[SYNC] = WAITING
    state[RESYNC] = 1
    off(edge)
    word = head(0, Kind.FEED.value, Feed.GAP.value, 0)
    put(out, row, event, received, word, 0, 0, max(state[SEQUENCE], 0), 0, 0)
    return row + 1


@inner("int64(int64[::1], int64[::1], int64, int64[::1])")
def _follows(said, state, style, faults):
    """What becomes of a change: 1 it follows, 0 it is left out, -1 something is missing."""
    if state[SYNC] == WAITING:
        faults[Fault.NO_SNAPSHOT.value] += 1
        return 0
    if said[M_PREVIOUS] != ABSENT:
        if said[M_PREVIOUS] == state[SEQUENCE]:
            return 1
        if said[M_SEQUENCE] <= state[SEQUENCE] and said[M_EVENT] <= state[EVENT]:
            faults[Fault.DUPLICATE.value] += 1
            return 0
        faults[Fault.GAP.value] += 1
        return -1
    if style == NO_CHECK and said[M_EVENT] < state[EVENT]:
        faults[Fault.BACKWARD.value] += 1
        return -1
    return 1


@inner("boolean(int64[:,::1], int64, int64[::1])")
def _are_levels(levels, rows, faults):
    """Whether all prices are positive and no size is negative."""
    for one in range(rows):
        if levels[one, 1] <= 0 or levels[one, 2] < 0:
            faults[Fault.PRICE.value if levels[one, 1] <= 0 else Fault.SIZE.value] += 1
            return False
    return True


@inner(
    "int64(int64[:,::1], int64, int64[::1], int64, int64[:,::1], int64[:,::1], int64[::1],"
    " int64[:,::1], int64)"
)
def _lay(levels, rows, said, received, keys, sizes, counts, out, row):
    """Lays changes into the ladder, each that changes something into `out`: the next row."""
    for one in range(rows):
        side, price, size = levels[one, 0], levels[one, 1], levels[one, 2]
        key = -price if side else price
        counts[side], changed, pushed = set_level(keys[side], sizes[side], counts[side], key, size)
        word = head(0, Kind.BOOK_DELTA.value, side, MORE)
        number = max(said[M_SEQUENCE], 0)
        if pushed != 0:
            put(out, row, said[M_EVENT], received, word, abs(pushed), 0, number, 0, 0)
            row += 1
        if changed:
            put(out, row, said[M_EVENT], received, word, price, size, number, 0, 0)
            row += 1
    return row


@inner(
    "int64(int64[::1], int64, int64, int64[:,::1], int64[:,::1], int64[::1], int64[:,::1], int64)"
)
def _snapshot(said, event, received, keys, sizes, counts, out, row):
    """The ladder as a snapshot: the next row."""
    number = max(said[M_SEQUENCE], 0)
    word = head(0, Kind.BOOK_SNAPSHOT.value, 0, MORE)
    put(out, row, event, received, word, number, 0, 0, 0, 0)
    row += 1
    for side in range(2):
        word = head(0, Kind.BOOK_DELTA.value, side, MORE)
        for place in range(counts[side] - 1, -1, -1):
            price, size = abs(keys[side, place]), sizes[side, place]
            put(out, row, event, received, word, price, size, number, 0, 0)
            row += 1
    return row


@inner("boolean(int64[::1], int64[:,::1], int64[:,::1], int64[::1])")
def _touch_moved(state, keys, sizes, counts):
    """Remembers the best of both sides; whether they were others before, and are there."""
    if counts[0] == 0 or counts[1] == 0:
        return False
    bid, ask = counts[0] - 1, counts[1] - 1
    same = (
        state[BID] == keys[0, bid]
        and state[BID_SIZE] == sizes[0, bid]
        and state[ASK] == -keys[1, ask]
        and state[ASK_SIZE] == sizes[1, ask]
    )
    state[BID], state[BID_SIZE] = keys[0, bid], sizes[0, bid]
    state[ASK], state[ASK_SIZE] = -keys[1, ask], sizes[1, ask]
    return not same


@inner("boolean(int64[::1], int64, int64[:,::1], int64[:,::1], int64[::1], int64[::1], int64[::1],"
       " uint8[::1])")
def _holds(said, style, keys, sizes, counts, decimals, faults, text):
    """Whether the book as it now is has the venue's checksum and is not crossed."""
    if style != NO_CHECK and said[M_CHECKSUM] != ABSENT:
        made = checksum(keys, sizes, counts, decimals, style, text)
        if made != said[M_CHECKSUM] & np.int64(0xFFFFFFFF):
            faults[Fault.CHECKSUM.value] += 1
            return False
    if crossed(keys, counts):
        faults[Fault.CROSSED.value] += 1
        return False
    return True


@inner(
    "int64(int64[::1], int64, int64, int64, int64[:,::1], int64, int64[::1], int64[:,::1],"
    " int64[:,::1], int64[::1], int64[::1], int64[::1], int64[:,::1], int64, int64[::1],"
    " uint8[::1])"
)
def book(
    said, received, style, asked, levels, rows, state, keys, sizes, counts, decimals, edge, out,
    row, faults, text,
):  # fmt: skip
    """A message of the book becomes events in ticks and lots: the next row.

    `decimals` are those of the ladder's prices and sizes, and then those that the venue writes.
    """
    first, fate = row, -1
    event = said[M_EVENT] if said[M_EVENT] > 0 else received
    if not _are_levels(levels, rows, faults):
        fate = -1
    elif said[M_SNAPSHOT]:
        if fill(levels, rows, keys, sizes, counts):
            fate = 1
            row = _snapshot(said, event, received, keys, sizes, counts, out, row)
        else:
            faults[Fault.UNREADABLE.value] += 1
    else:
        fate = _follows(said, state, style, faults)
        if fate == 0:
            return first
        if fate > 0:
            row = _lay(levels, rows, said, received, keys, sizes, counts, out, row)
    if fate < 0 or not _holds(said, style, keys, sizes, counts, decimals, faults, text):
        return lost(out, first, event, received, state, counts, edge)
    state[CHECKED] += style != NO_CHECK and said[M_CHECKSUM] != ABSENT
    state[SYNC], state[SEQUENCE] = FOLLOWING, said[M_SEQUENCE]
    state[EVENT] = max(state[EVENT], remembered(said[M_EVENT], received, edge[CLOCK]))
    if row > first:
        out[row - 1, 2] &= ~(np.int64(MORE) << 48)
    row = judge(out, first, row, edge, faults)
    if row == first + 1 and out[first, 2] >> 32 & 255 == Kind.FEED.value:
        return lost(out, first, event, received, state, counts, edge)
    if not asked & BOOK:
        row = first
    if asked & QUOTES and _touch_moved(state, keys, sizes, counts):
        word = head(0, Kind.QUOTE.value, 0, 0)
        bid, ask, number = state[BID], state[ASK], max(said[M_SEQUENCE], 0)
        put(out, row, event, received, word, bid, ask, state[BID_SIZE], state[ASK_SIZE], number)
        row = judge(out, row, row + 1, edge, faults)
    return heard(out, row, edge, said[M_EVENT], received, True)


@inner(
    "int64(int64, int64, int64, int64, int64, int64, boolean, int64[::1], int64[::1], boolean,"
    " int64[:,::1], int64, int64[::1])"
)
def trade(
    event, received, price, size, taker, number, counted, state, edge, whole, out, row, faults
):
    """One trade; `number` 0 where it has none. One that was there before is left out.

    Where they are `counted`, a number left out is a gap; the book is none the worse for it. One
    that is refused leaves no number behind but the next.
    """
    if number > 0 and number <= state[TRADE_ID] and event <= state[TRADE_TIME]:
        faults[Fault.DUPLICATE.value] += 1
        return row
    follows = number == state[TRADE_ID] + 1
    word = head(0, Kind.TRADE.value, taker, 0)
    put(out, row, event, received, word, price, size, number, 0, 0)
    last = judge(out, row, row + 1, edge, faults)
    if number > 0 and (follows or last > row):
        faults[Fault.GAP.value] += counted and state[TRADE_ID] > 0 and not follows
        state[TRADE_ID] = number
        state[TRADE_TIME] = remembered(event, received, edge[CLOCK])
    return heard(out, last, edge, event, received, whole) if last > row else row


# ---- a feed's arrays and the loop over what waits in its buffer ----------------------------------

BOOKS = (
    "Tuple((uint8[:,::1], int64[:,::1], int64[:,:,::1], int64[:,:,::1], int64[:,::1],"
    " int64[:,::1], int64[:,::1], int64[:,::1], int64[::1], int64[::1], uint8[::1]))"
)
"""Symbols; words of state; keys, sizes and counts of ladders; decimals; words at the edge; room for
levels; counts of faults; room for numbers and for text. Of the first seven a row an instrument."""

ROW_BYTES = 5
"""A message leaves at most an event for so many of its bytes, and 8 more: two for each level."""

CONTROL, BAD, IGNORED, UNKNOWN = -1, -2, -3, -4
"""What reading a message gives in place of the next row: it is of no market; not understood;
understood and not asked for; of an instrument not asked for."""

RECEIVED, PROCESSED, PASSED, DROPPED, ROWS, TALLY = range(6)
"""Counts of messages as in `Health`, and the events that they left."""


@inner("int64(uint8[::1], int64, int64, uint8[:,::1])")
def which(text, at, end, symbols):
    """The instrument that the string at `at` names, UNKNOWN for none of ours, BAD for no string."""
    if at < 0 or at >= end or text[at] != 34:
        return BAD
    for one in range(len(symbols)):
        size = np.int64(symbols[one, 0])
        if at + 1 + size >= end or text[at + 1 + size] != 34:
            continue
        same = True
        for place in range(size):
            if text[at + 1 + place] != symbols[one, 1 + place]:
                same = False
                break
        if same:
            return one
    return UNKNOWN


part = njit(inline="always")
"""A part of a venue's decoder, compiled within it alone.

LLVM gets what is called once more with each caller, so that parts of their own treble the time.
"""


def decoder(read: Any) -> Any:
    """The compiled loop of a venue over the messages of a batch.

    `read(text, at, end, received, asked, books, out, row)`, a `part`, makes events of the message
    text[at:end] from row `row` of `out` on: the next row, CONTROL, BAD, IGNORED or UNKNOWN.

    decode(text, spans, size, at, received, first, asked, uncounted, books, out, tally) -> the next
    message, which is of no market where it is one of the batch and the tally counts it not.
    Events of instrument n get the number first + n. `uncounted`: the venue numbers no change of a
    book, so that one message that cannot be read makes all books worthless.
    """

    @entry(
        "int64(uint8[::1], int64[:,::1], int64, int64, int64, int64, int64, boolean,"
        f" {BOOKS}, int64[:,::1], int64[::1])"
    )
    def decode(text, spans, size, at, received, first, asked, uncounted, books, out, tally):  # type: ignore[no-untyped-def]
        states, counts, edge, faults = books[1], books[4], books[6], books[8]
        row = 0
        while at < size:
            start, stop = spans[at, 0], spans[at, 1]
            if row > 0 and len(out) - row < (stop - start) // ROW_BYTES + 8:
                break
            last = read(text, start, stop, received, asked, books, out, row)
            if last == CONTROL:
                break
            at += 1
            tally[RECEIVED] += 1
            if last >= 0:
                tally[PROCESSED if last > row else PASSED] += 1
                row = last
            elif last == IGNORED:
                tally[PASSED] += 1
            else:
                tally[DROPPED] += 1
                bad = last == BAD
                faults[Fault.UNREADABLE.value if bad else Fault.UNKNOWN_INSTRUMENT.value] += 1
                for one in range(len(states) if bad and uncounted else 0):
                    if states[one, SYNC] == FOLLOWING:
                        state = states[one]
                        row = lost(out, row, received, received, state, counts[one], edge[one])
                        out[row - 1, 2] |= one
        for one in range(row):
            out[one, 2] += first
        tally[ROWS] = row
        return at

    return decode


@inner("int64(int64[:,::1], int64, int64, int64)")
def of_instrument(out, row, last, instrument):
    """Says whose the events of rows `row` to `last` are; what `read` returns."""
    for one in range(row, last):
        out[one, 2] |= instrument
    return last
