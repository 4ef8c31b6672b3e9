"""The codes of events and records: what stands in their kind, side and flags.

They are apart from the layout because the compiler needs codes alone, and no arrays.
`std/engine.qdsl` declares the same codes; a test compares the two.
"""

from enum import IntEnum, IntFlag

WORDS = 8
"""8-byte words of an event, and of a record."""

MORE = 1
"""Event flag: another event of the same instant follows, so the instant is not yet complete."""

OUTSIDE = 2
"""Event flag: a change of a book outside the session. It moves the book, and no clock ticks."""

NO_PRICE = 1 << 53
"""Price ticks of a side of a quote where nobody bids or asks: `orders.NONE` of the core."""


class Aggressor(IntEnum):
    """Side of a TRADE: who took."""

    UNKNOWN = 0
    BUYS = 1
    SELLS = 2


class TimerSide(IntEnum):
    """Side of a TIMER: what it does."""

    FIRES = 0
    CLOSES = 1  # ends the bars of a clock, which it names, where they are built of ticks


class BookSide(IntEnum):
    """Side of a BOOK_DELTA."""

    BID = 0
    ASK = 1


class Action(IntEnum):
    """Side of a CORPORATE event; its payload is a fraction a / b."""

    SPLIT = 0  # new lots for one old
    DIVIDEND = 1  # money units a lot held
    FUNDING = 2  # of the value held, paid by longs to shorts


class Feed(IntEnum):
    """Side of a FEED event; after a gap or a reset the book is invalid until a snapshot."""

    GOOD = 0
    STALE = 1
    GAP = 2
    RESET = 3
    LATENCY = 4  # no state: from here on orders take so long (ns there, ns back)


class Command(IntEnum):
    """Side of a COMMAND."""

    KILL = 1
    REDUCE = 2
    CANCEL = 3
    FLATTEN = 4
    ARM = 5


class KilledBy(IntFlag):
    """Bits of the kill switch: who asked for it."""

    PERSON = 1
    SESSION = 2
    LIMIT = 4
    CLOSING = 8  # nobody: beside the others, a person closes the positions meanwhile


class Trait(IntEnum):
    """Side of a TRAIT event: what is told of an instrument of a universe."""

    MEMBER = 0  # 1: in the universe, 0: not
    ELIGIBLE = 1  # 1: may be traded, 0: not
    SECTOR = 2  # number of the group
    INDUSTRY = 3
    COUNTRY = 4


class Kind(IntEnum):
    """What an event or a record is. Codes are never reused."""

    BAR = 1
    QUOTE = 2  # event: best bid ticks (NO_PRICE: none), best ask ticks, their lots, sequence
    TRADE = 3  # event: price, lots > 0, trade id, sequence, resting order's id (L3) or 0
    BOOK_DELTA = 4  # event, L2: price, lots now there, sequence, 0, 0
    # of L3: price, 0, sequence, order id, the order's lots now (0: it is gone)
    BOOK_SNAPSHOT = 5  # event: sequence. The book is empty from here; deltas that follow fill it
    ORDER = 6  # record: order id, signed lots, limit ticks, stop ticks, line and tag;
    # flags = what is new and what meets its trigger (std/orders_table.qdsl)
    ACK = 7
    FILL = 8  # record: order id, signed lots, price ticks, fee, position after (lots)
    REJECT = 9  # record: order id, signed lots, price ticks, source line, 0; flags = reason
    TIMER = 10  # event: timer id, or the clock whose bars close (side)
    SESSION = 11  # event: side 0 open (midnight, open and close of the session), 1 close
    FEED = 12  # event: state of the feed (side), detail, 0, sequence
    SIGNAL = 13
    CORPORATE = 14  # event: an action (side); numerator, denominator
    CANCEL = 15  # record: order id, remaining signed lots, 0, 0, 0; flags = reason
    ROUND_TRIP = 16  # record: entry ts, entry ticks, exit ticks, signed lots, net profit
    ROUND_TRIP_MORE = 17  # record: entry bar, exit bar, fees, worst and best open profit
    DAY = 18  # record: equity, cash, fees of the day, close ticks of instrument 0, position lots
    RISK = 19  # record: limit code, value, limit, actions taken, 0
    LOG = 20  # record: message id, up to four values
    BRANCH = 21  # record of a trace: source line, 1 where the condition held
    COMMAND = 22  # event: what a person or the session wants (side), bits of the kill switch
    # record: the same as carried out: bits, the switch by now, 1 if only reducing orders pass
    TRAIT = 23  # event: which trait of the instrument (side), its value from now on
