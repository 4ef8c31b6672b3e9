"""The 64-byte event and the 64-byte record: written down once, sizes and offsets asserted.

An event is what the core reads, a record is what it writes. Both are eight 8-byte words: a
24-byte head (two times, then instrument, kind, side and flags packed in one word) and five
payload words. Prices are ticks, sizes are lots, money is money units, times are ns since 1970.
`std/engine.qdsl` declares the same words and codes; a test compares the two.

Bars are ordered by `ts_event`, their close. A stream of ticks (QUOTE, TRADE, BOOK_DELTA,
BOOK_SNAPSHOT, FEED) is ordered by `ts_recv`, stable: `ts_event` is the venue's time, `ts_recv`
is when we had it. One message of a venue (a depth diff, a trade, a quote) is one instant: all its
events but the last carry MORE. Two messages never share an instant, whatever their times.
"""

import numpy as np

from quantdsl.events.codes import (
    MORE,
    NO_PRICE,
    OUTSIDE,
    WORDS,
    Action,
    Aggressor,
    BookSide,
    Command,
    Feed,
    KilledBy,
    Kind,
    Trait,
)

__all__ = [
    "BAR",
    "DELTA",
    "EVENT",
    "HEAD",
    "MORE",
    "NO_PRICE",
    "OUTSIDE",
    "QUOTE",
    "RECORD",
    "TRADE",
    "WORDS",
    "Action",
    "Aggressor",
    "BookSide",
    "Command",
    "Feed",
    "KilledBy",
    "Kind",
    "Trait",
]

HEAD = [
    ("ts_event", "<i8"),  # when it happened at the venue
    ("ts_recv", "<i8"),  # when we had it; of a bar in a backtest, its open time
    ("instrument", "<u4"),  # index into the run's instruments
    ("kind", "u1"),
    ("side", "u1"),  # by kind: clock of a bar, side of a trade, open or close of a session
    ("flags", "<u2"),
]
EVENT = np.dtype([*HEAD, ("payload", "<i8", (5,))])
BAR = np.dtype(
    [*HEAD, ("open", "<i8"), ("high", "<i8"), ("low", "<i8"), ("close", "<i8"), ("volume", "<i8")]
)
QUOTE = np.dtype(
    [
        *HEAD,
        ("bid", "<i8"),
        ("ask", "<i8"),
        ("bid_lots", "<i8"),
        ("ask_lots", "<i8"),
        ("sequence", "<i8"),
    ]
)
TRADE = np.dtype(
    [
        *HEAD,
        ("price", "<i8"),
        ("lots", "<i8"),
        ("trade_id", "<i8"),
        ("sequence", "<i8"),
        ("order_id", "<i8"),
    ]
)
DELTA = np.dtype(
    [
        *HEAD,
        ("price", "<i8"),
        ("level_lots", "<i8"),
        ("sequence", "<i8"),
        ("order_id", "<i8"),
        ("order_lots", "<i8"),
    ]
)
RECORD = np.dtype([*HEAD, ("a", "<i8"), ("b", "<i8"), ("c", "<i8"), ("d", "<i8"), ("e", "<i8")])

for dtype in (EVENT, BAR, QUOTE, TRADE, DELTA, RECORD):
    assert dtype.itemsize == 8 * WORDS
    assert dtype.fields is not None
    assert [dtype.fields[name][1] for name, _ in HEAD] == [0, 8, 16, 20, 21, 22]
