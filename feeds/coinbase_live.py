"""Coinbase Exchange, live: level2 books, matches, and quotes of the book or the ticker.

    {"type":"snapshot","product_id":...,"asks":[[price,size],...],"bids":...}
    {"type":"l2update","product_id":...,"changes":[["sell",price,size],...],"time":...}
    {"type":"match","trade_id":...,"side":<the maker's>,"size":...,"price":...,"time":...}
    {"type":"ticker","best_bid":...,"best_ask":...,"time":...}

Changes of a book have neither number nor checksum. What can be seen is a time that runs backward,
a crossed book and a message that cannot be read; each makes the book wait for a new snapshot. A
change that the venue leaves out stays unseen until it crosses the book; matches are counted.
Quotes are the touch of the book where one is asked for, and else the ticker's, one a trade.
"""

from typing import Any

import msgspec
import numpy as np
from quantdsl.feeds.edge import CLOCK, LOT, heard, judge, remembered
from quantdsl.feeds.json_text import (
    OFF_STEP,
    behind_value,
    blank,
    decimal,
    fields,
    levels,
    named,
    utc_ns,
    word,
)
from quantdsl.feeds.kernels import head, inner, put, whole_number
from quantdsl.feeds.ladder import NO_CHECK
from quantdsl.feeds.settle import (
    ABSENT,
    BAD,
    BOOK,
    CONTROL,
    IGNORED,
    M_CHECKSUM,
    M_EVENT,
    M_PREVIOUS,
    M_SEQUENCE,
    M_SNAPSHOT,
    QUOTES,
    SYNC,
    TRADE_ID,
    TRADE_TIME,
    TRADES,
    book,
    decoder,
    lost,
    of_instrument,
    part,
    trade,
    which,
)
from quantdsl.feeds.streamed import StreamedFeed, Venue, answer_of

from quantdsl.data.instrument import Instrument, fraction
from quantdsl.data.ticks import UNSIZED, Fault
from quantdsl.errors import FeedError, UnreachableError
from quantdsl.events.layout import Kind
from quantdsl.live.feed import FeedSpec

_KEYS = (
    "type product_id time asks bids changes price size side trade_id sequence best_bid best_ask "
    "best_bid_size best_ask_size"
).split()
_TOP = np.array([named(key) for key in _KEYS])
(_TYPE, _PRODUCT, _TIME, _ASKS, _BIDS, _CHANGES, _PRICE, _SIZE, _SIDE, _TRADE, _NUMBER, _BID, _ASK,
 _BID_SIZE, _ASK_SIZE) = range(15)  # fmt: skip
_SAID = 16
_SNAPSHOT, _UPDATE, _MATCH, _LAST, _TICKER = (
    named(key) for key in ("snapshot", "l2update", "match", "last_match", "ticker")
)
_TALK = np.array([named(key) for key in ("subscriptions", "error", "heartbeat", "status")])


@inner("UniTuple(int64, 2)(uint8[::1], int64, int64, int64[:,::1], int64[::1])")
def _changes(text, at, end, room, decimals):
    """Reads `[["sell", price, size], ...]`: as `levels`."""
    row = 0
    if at >= end or text[at] != 91:
        return 0, BAD
    at = blank(text, at + 1, end)
    while at < end and text[at] == 91:
        stop = behind_value(text, at, end)
        side = blank(text, at + 1, end)
        if stop < 0 or row >= len(room) or text[side] != 34:
            return 0, BAD
        room[row, 0] = np.int64(text[side + 1] == 115)
        at = behind_value(text, side, stop)
        for value in range(2):
            at = blank(text, at, stop)
            if at < 0 or at >= stop or text[at] != 44:
                return 0, BAD
            room[row, 1 + value], at = decimal(
                text, blank(text, at + 1, stop), stop, decimals[value]
            )
            if at < 0:
                return 0, at
        row += 1
        at = blank(text, stop, end)
        if at < end and text[at] == 44:
            at = blank(text, at + 1, end)
    return row, at if at < end and text[at] == 93 else BAD


@part
def _book(one, event, text, end, received, asked, books, out, row):
    """A snapshot, which may have no time, or changes."""
    _, states, keys, sizes, counts, decimals, edge, room, faults, numbers, digits = books
    state, said = states[one], numbers[_SAID:]
    said[M_SEQUENCE] = said[M_PREVIOUS] = said[M_CHECKSUM] = ABSENT
    said[M_EVENT] = max(event, 0)
    said[M_SNAPSHOT] = np.int64(numbers[_CHANGES] < 0)
    rows, stop = 0, -1
    if numbers[_CHANGES] >= 0:
        if event > 0:
            rows, stop = _changes(text, numbers[_CHANGES], end, room, decimals[one])
    elif numbers[_ASKS] >= 0 and numbers[_BIDS] >= 0:
        rows, stop = levels(text, numbers[_ASKS], end, room, 0, 1, decimals[one])
        if stop >= 0:
            rows, stop = levels(text, numbers[_BIDS], end, room, rows, 0, decimals[one])
    if stop < 0:
        if stop != OFF_STEP:
            return BAD
        faults[Fault.OFF_TICK.value] += 1
        if state[SYNC] == 0:
            return row
        return lost(out, row, received, received, state, counts[one], edge[one])
    return book(
        said, received, NO_CHECK, asked, room, rows, state, keys[one], sizes[one], counts[one],
        decimals[one], edge[one], out, row, faults, digits,
    )  # fmt: skip


@part
def _deal(one, event, text, end, received, asked, books, out, row):
    states, decimals, edge, faults, numbers = books[1], books[5], books[6], books[8], books[9]
    if event <= 0 or min(numbers[_PRICE], numbers[_SIZE], numbers[_SIDE], numbers[_TRADE]) < 0:
        return BAD
    price, a = decimal(text, numbers[_PRICE], end, decimals[one, 0])
    size, b = decimal(text, numbers[_SIZE], end, decimals[one, 1])
    number, c = whole_number(text, numbers[_TRADE], end)
    if a == OFF_STEP or b == OFF_STEP:
        faults[Fault.OFF_TICK.value] += 1
        return row
    if a < 0 or b < 0 or c < 0:
        return BAD
    whole = asked & BOOK == 0 or states[one, SYNC] != 0
    taker = 1 if text[numbers[_SIDE] + 1] == 115 else 2
    return trade(
        event, received, price, size, taker, number, True, states[one], edge[one], whole, out, row,
        faults,
    )  # fmt: skip


@part
def _quote(one, event, text, end, received, asked, books, out, row):
    states, decimals, edge, faults, numbers = books[1], books[5], books[6], books[8], books[9]
    if event <= 0 or numbers[_BID] < 0 or numbers[_ASK] < 0:
        return BAD
    bid, a = decimal(text, numbers[_BID], end, decimals[one, 0])
    ask, b = decimal(text, numbers[_ASK], end, decimals[one, 0])
    bid_size = ask_size = UNSIZED * edge[one, LOT]
    if numbers[_BID_SIZE] >= 0 and numbers[_ASK_SIZE] >= 0 and a >= 0 and b >= 0:
        bid_size, a = decimal(text, numbers[_BID_SIZE], end, decimals[one, 1])
        ask_size, b = decimal(text, numbers[_ASK_SIZE], end, decimals[one, 1])
    if a == OFF_STEP or b == OFF_STEP:
        faults[Fault.OFF_TICK.value] += 1
        return row
    if a < 0 or b < 0:
        return BAD
    number = 0
    if numbers[_NUMBER] >= 0:
        number, _ = whole_number(text, numbers[_NUMBER], end)
    word = head(0, Kind.QUOTE.value, 0, 0)
    put(out, row, event, received, word, bid, ask, bid_size, ask_size, number)
    last = judge(out, row, row + 1, edge[one], faults)
    whole = asked & BOOK == 0 or states[one, SYNC] != 0
    return heard(out, last, edge[one], event, received, whole)


@part
def _read(text, at, end, received, asked, books, out, row):
    numbers = books[9]
    stop = fields(text, at, end, _TOP, numbers[0:15])
    kind = numbers[_TYPE]
    if stop < 0 or blank(text, stop, end) != end or kind < 0 or text[kind] != 34:
        return BAD
    name = word(text, kind + 1, behind_value(text, kind, end) - 1)
    for talk in _TALK:
        if name == talk:
            return CONTROL
    one = which(text, numbers[_PRODUCT], end, books[0])
    if one < 0:
        return one
    event = utc_ns(text, numbers[_TIME], end) if numbers[_TIME] >= 0 else 0
    if event < 0:
        return BAD
    if name in (_SNAPSHOT, _UPDATE):
        if (name == _UPDATE) != (numbers[_CHANGES] >= 0):
            return BAD
        if not asked & BOOK:
            return IGNORED
        last = _book(one, event, text, end, received, asked, books, out, row)
    elif name == _MATCH and asked & TRADES:
        last = _deal(one, event, text, end, received, asked, books, out, row)
    elif name == _LAST and numbers[_TRADE] >= 0:
        number, _ = whole_number(text, numbers[_TRADE], end)
        if number > books[1][one, TRADE_ID]:
            books[1][one, TRADE_ID] = number
            books[1][one, TRADE_TIME] = remembered(event, received, books[6][one, CLOCK])
        return IGNORED
    elif name == _TICKER and asked & (BOOK | QUOTES) == QUOTES:
        last = _quote(one, event, text, end, received, asked, books, out, row)
    else:
        return IGNORED
    return of_instrument(out, row, last, one) if last >= 0 else last


_decode = decoder(_read)


class _Product(msgspec.Struct):
    id: str
    quote_currency: str
    quote_increment: str
    base_increment: str
    status: str = "online"


class _Coinbase(Venue):
    name, code = "coinbase", "COINBASE"
    stream_url, rest_url = "wss://ws-feed.exchange.coinbase.com", "https://api.exchange.coinbase.com"
    clock_path = "/time"
    decode = staticmethod(_decode)
    uncounted = True
    keeps = BOOK
    levels_max = 1 << 16
    message_bytes_max = 1 << 23
    """The snapshot of a large book has 45,000 levels."""

    def instrument(self, ask: Any, symbol: str) -> Instrument:
        where = f"/products/{symbol}"
        found = answer_of(ask(where), _Product, where)
        if found.id != symbol or found.status == "delisted":
            raise FeedError(f"Coinbase trades no {symbol}\nhelp: symbols are as BTC-USD")
        if found.status != "online":
            raise UnreachableError(f"Coinbase does not trade {symbol} now: {found.status}")
        return Instrument(
            symbol=symbol, venue=self.code, currency=found.quote_currency,
            tick=fraction(found.quote_increment, f"{symbol}: quote_increment"),
            lot=fraction(found.base_increment, f"{symbol}: base_increment"),
            named=frozenset({"tick", "lot", "currency"}),
        )  # fmt: skip

    def subscribe(self, symbols: tuple[str, ...], asked: int) -> list[str]:
        channels = ["level2_batch"] * bool(asked & BOOK) + ["matches"] * bool(asked & TRADES)
        if asked & (BOOK | QUOTES) == QUOTES:
            channels.append("ticker")
        return [self._say("subscribe", symbols, one) for one in channels]

    def resubscribe(self, symbol: str) -> list[str]:
        return [self._say(what, (symbol,), "level2_batch") for what in ("unsubscribe", "subscribe")]

    def _say(self, what: str, symbols: tuple[str, ...], channel: str) -> str:
        text = {"type": what, "product_ids": symbols, "channels": [channel]}
        return msgspec.json.encode(text).decode()

    def refusal(self, text: bytes) -> str:
        found = msgspec.json.decode(text, type=dict[str, Any])
        if found.get("type") != "error":
            return ""
        return f"{found.get('message', '')} {found.get('reason', '')}".strip()

    def clock_ms(self, body: bytes) -> float:
        return 1e3 * float(msgspec.json.decode(body)["epoch"])


def feed(spec: FeedSpec) -> StreamedFeed:
    """Coinbase Exchange; it has no options."""
    spec.chosen()
    return StreamedFeed(spec, _Coinbase())
