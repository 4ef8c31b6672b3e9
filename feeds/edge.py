"""Where a live feed's messages become ticks and lots, and what is wrong with them stops.

    decoder (its own units) -> judge -> ticks and lots -> heard: is the instrument's feed good?

A bad trade is left out, a bad quote becomes one without prices, and a message with a bad change of
a book becomes a gap, after which the book is invalid until a snapshot: as `data/tick_feed.py` does
with recordings. All of it is compiled and called for one message at a time.

An instrument is off (FEED STALE, GAP or RESET) until enough good messages have come, and, where a
book is kept, until that is whole: then it is said to be good. It goes stale when the venue's time
stands still: no message, answers and heartbeats alone, or one old message again and again.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from quantdsl.feeds.kernels import head, inlined, inner

from quantdsl.codegen.decoders import entry
from quantdsl.data.instrument import EXACT_MAX, Instrument, show_fraction
from quantdsl.data.ticks import FAULTS, MISSING, WORDS, Events, Fault, Int64s
from quantdsl.errors import FeedError
from quantdsl.events.layout import EVENT, NO_PRICE, Feed, Kind
from quantdsl.events.layout import WORDS as EVENT_WORDS

JUMP_TIMES = 1_000
"""A price so many times the last good one, or so small a part of it, is no price."""

# Words of an instrument at the edge.
TICK, LOT, REFERENCE, OFF, SEEN, NEEDED, ADVANCED, EVENT_TIME, CLOCK, EDGE_WORDS = range(10)
"""TICK, LOT: in the decoder's units. REFERENCE: ticks of the last good price. OFF: 1 until GOOD.
SEEN of NEEDED good messages. ADVANCED: when the venue's time last moved on, by our clock. CLOCK:
the venue's less ours, as last estimated, ns."""

AHEAD_NS_MAX = 60_000_000_000
"""A message's time that is further ahead of its receipt is wrong; clocks do not differ so much."""

_KIND = 32
_TRADE, _QUOTE, _DELTA = (Kind.TRADE.value, Kind.QUOTE.value, Kind.BOOK_DELTA.value)


@inlined("int64(int64, int64[::1])")
def _jumped(ticks, edge):
    """JUMP where a price cannot follow the last good one, else -1; it is the next reference.

    Ticks are below 2**53, so a thousand times as many still fit.
    """
    last = edge[REFERENCE]
    if last > 0 and (ticks > last * JUMP_TIMES or ticks * JUMP_TIMES < last):
        return Fault.JUMP.value
    edge[REFERENCE] = ticks
    return -1


@inlined("int64(int64[:,::1], int64, int64, int64)")
def _in_lots(out, row, word, lot):
    """Makes lots of a size: -1, or the fault."""
    size = out[row, word]
    if size < 0:
        return Fault.SIZE.value
    lots = size // lot
    out[row, word] = lots
    if lots * lot != size:
        return Fault.OFF_LOT.value
    return Fault.RANGE.value if lots >= EXACT_MAX else -1


@inlined("int64(int64[:,::1], int64, int64, int64)")
def _in_ticks(out, row, word, tick):
    """Makes ticks of a price, rounded down: -1, or the fault."""
    price = out[row, word]
    if price <= 0:
        return Fault.PRICE.value
    ticks = price // tick
    out[row, word] = ticks
    if ticks >= EXACT_MAX:
        return Fault.RANGE.value
    return Fault.OFF_TICK.value if ticks * tick != price else -1


@inner("int64(int64[:,::1], int64, int64[::1], int64[::1])")
def _trade(out, row, edge, faults):
    fault = _in_ticks(out, row, 3, edge[TICK])
    if fault == Fault.OFF_TICK.value:  # a hidden order at the middle
        faults[Fault.MIDPOINT.value] += 1
        fault = -1 if out[row, 3] > 0 else Fault.PRICE.value
    if fault < 0:
        fault = _in_lots(out, row, 4, edge[LOT])
    if fault < 0 and out[row, 4] == 0:
        fault = Fault.SIZE.value
    return fault if fault >= 0 else _jumped(out[row, 3], edge)


@inner("int64(int64[:,::1], int64, int64[::1])")
def _quote(out, row, edge):
    for side in range(2):
        if out[row, 3 + side] == MISSING or (out[row, 3 + side] == 0 and out[row, 5 + side] == 0):
            out[row, 3 + side], out[row, 5 + side] = NO_PRICE, 0
            continue
        fault = _in_ticks(out, row, 3 + side, edge[TICK])
        if fault < 0:
            fault = _in_lots(out, row, 5 + side, edge[LOT])
        if fault >= 0:
            return fault
    bid, ask = out[row, 3], out[row, 4]
    if bid == NO_PRICE or ask == NO_PRICE:
        return -1
    if bid >= ask:
        return Fault.CROSSED.value if bid > ask else Fault.LOCKED.value
    return _jumped(bid, edge)


@inner("int64(int64[:,::1], int64, int64, int64[::1], int64[::1])")
def judge(out, first, last, edge, faults):
    """Puts the message of rows first to last into ticks and lots: the row behind what is left.

    Its rows have times and flags; there is none where the message changes nothing. A message of a
    book with a fault is one FEED gap from here on, and its reader must wait for a snapshot.
    """
    if first == last:
        return last
    kind = out[first, 2] >> _KIND & 255
    if kind == _TRADE:
        fault = _trade(out, first, edge, faults)
        if fault >= 0:
            faults[fault] += 1
            return first
        return last
    if kind == _QUOTE:
        fault = _quote(out, first, edge)
        if fault >= 0:
            faults[fault] += 1
            out[first, 3] = out[first, 4] = NO_PRICE
            out[first, 5] = out[first, 6] = out[first, 7] = 0
        return last
    for row in range(first, last):
        if out[row, 2] >> _KIND & 255 != _DELTA:
            continue
        fault = _in_ticks(out, row, 3, edge[TICK])
        if fault < 0:
            fault = _in_lots(out, row, 4, edge[LOT])
        if fault >= 0:
            faults[fault] += 1
            sequence = out[row, 5]
            out[first, 2] = head(0, 12, 2, 0)
            out[first, 3] = fault
            out[first, 4] = out[first, 6] = out[first, 7] = 0
            out[first, 5] = sequence
            return first + 1
    return last


@inner("int64(int64[:,::1], int64, int64[::1], int64, int64, boolean)")
def heard(out, row, edge, event, received, whole):
    """A good message came: the row behind the FEED GOOD that it may bring.

    `whole`: no book is kept of the instrument, or that follows the venue's.
    """
    if event > edge[EVENT_TIME]:
        edge[EVENT_TIME], edge[ADVANCED] = event, received
        edge[SEEN] += edge[OFF]
    if edge[OFF] == 0 or edge[SEEN] < edge[NEEDED] or not whole:
        return row
    edge[OFF] = 0
    out[row, 0], out[row, 1] = event, received
    out[row, 2] = head(0, 12, 0, 0)
    out[row, 3] = out[row, 4] = out[row, 5] = out[row, 6] = out[row, 7] = 0
    return row + 1


@inlined("int64(int64, int64, int64)")
def remembered(event, received, clock_ns):
    """The time by which repetitions of a message are told from what comes later.

    One that is wrong, and ahead, does not make repetitions of all that follows for longer than
    AHEAD_NS_MAX.
    """
    return min(event, received + clock_ns + AHEAD_NS_MAX)


@inlined("void(int64[:,::1], int64, int64)")
def by_our_clock(out, row, offset_ns):
    """What `in_our_time` does with one event, for a decoder to do it as it goes."""
    if out[row, 0] != out[row, 1]:
        out[row, 0] = min(out[row, 0] - offset_ns, out[row, 1])


@entry("void(int64[::1], int64)")
def in_our_time(words, offset_ns):
    """Events' venue times by our clock, which the venue's is ahead of; none after its receipt.

    An order that is sent at a time of ours meets what happened at the venue after that time. An
    event that has no venue time has that of its receipt, and keeps it.
    """
    for at in range(0, len(words), EVENT_WORDS):
        if words[at] != words[at + 1]:
            words[at] = min(words[at] - offset_ns, words[at + 1])


@inlined("void(int64[::1])")
def lost(edge):
    """The instrument is off until as many good messages as at the start."""
    edge[OFF], edge[SEEN] = 1, 0


def edges(
    instruments: Sequence[Instrument], digits: Sequence[tuple[int, int]], needed: int
) -> Int64s:
    """The words of instruments whose decoder counts prices and sizes in these decimals.

    FeedError where a tick or a lot is finer than the decimal.
    """
    words = np.zeros((len(instruments), EDGE_WORDS), np.int64)
    for row, one, (price, size) in zip(words, instruments, digits, strict=True):
        for word, step, decimals in ((TICK, one.tick, price), (LOT, one.lot, size)):
            units = step * 10**decimals
            if units.denominator != 1 or units < 1 or units >= EXACT_MAX:
                what = "tick" if word == TICK else "lot"
                raise FeedError(
                    f"{one.name}: a {what} of {show_fraction(Fraction(step))} cannot be counted "
                    f"in steps of 10**-{decimals}, which are the finest of the venue"
                )
            row[word] = int(units)
        row[OFF], row[NEEDED] = 1, needed
    return words


def states(edge: Int64s, chosen: Sequence[int], state: Feed, now_ns: int, first: int) -> Events:
    """FEED events of the rows chosen, which are off from now on; instruments count from `first`."""
    events = np.zeros(len(chosen), EVENT)
    for event, at in zip(events, chosen, strict=True):
        edge[at, OFF], edge[at, SEEN], edge[at, ADVANCED] = 1, 0, now_ns
        edge[at, EVENT_TIME] = 0  # no message comes after one whose time was wrong by years
        event["instrument"] = first + at
    events["ts_event"] = events["ts_recv"] = now_ns
    events["kind"], events["side"] = Kind.FEED, state
    return events


def standing_still(edge: Int64s, now_ns: int, stale_ns_max: int) -> list[int]:
    """The rows that are on and whose venue's time has not moved for so long."""
    silent: list[int] = np.flatnonzero(
        (edge[:, OFF] == 0) & (now_ns - edge[:, ADVANCED] > stale_ns_max)
    ).tolist()
    return silent


def in_words(faults: Int64s) -> dict[str, int]:
    """Counts of faults by what they mean."""
    assert len(faults) >= FAULTS
    return {WORDS[fault]: int(faults[fault]) for fault in Fault if faults[fault]}
