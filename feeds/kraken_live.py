"""Kraken's first websocket, live: books with the checksum of each change verified, and trades.

    [channel, {"as":[[price,size,time],...],"bs":[...]}, "book-1000", "XMR/USD"]
    [channel, {"a":[...]}, {"b":[...],"c":"2583817756"}, "book-1000", "XMR/USD"]
    [channel, [[price,size,time,side,type,misc],...], "trade", "XMR/USD"]

Changes have no number: the checksum of the ten best levels, made of the very digits that Kraken
writes, tells whether one is missing. A book is cut at its depth after each change, for Kraken does
not say what falls out. Trades have no number either. Quotes are the book's touch.
"""

from typing import Any

import msgspec
import numpy as np
from quantdsl.feeds.json_text import (
    OFF_STEP,
    behind_value,
    blank,
    decimal,
    fields,
    levels,
    named,
)
from quantdsl.feeds.kernels import inner, whole_number
from quantdsl.feeds.ladder import PLAIN_DIGITS
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
from quantdsl.data.ticks import Fault
from quantdsl.errors import FeedError, UnreachableError
from quantdsl.live.feed import FeedSpec

_BOOK = np.array([named(key) for key in ("as", "bs", "a", "b", "c")])
_SAID, _PARTS = 16, 24
_PARTS_MAX = 6


@inner("UniTuple(int64, 2)(uint8[::1], int64)")
def _decimals_before(text, at):
    """(digits behind the point of the last quoted decimal before `at`, its first quote)."""
    while text[at] != 34:
        at -= 1
    at -= 1
    count = digits = 0
    while text[at] != 34:
        if text[at] == 46:
            count = digits
        digits += 1
        at -= 1
    return count, at


@part
def _book(one, parts, text, end, received, asked, books, out, row):
    """The parts of a message of a book, whose places stand from numbers[_PARTS] on."""
    _, states, keys, sizes, counts, decimals, edge, room, faults, numbers, digits = books
    state, said = states[one], numbers[_SAID:_PARTS]
    said[M_EVENT] = said[M_SNAPSHOT] = rows = stop = 0
    said[M_SEQUENCE] = said[M_PREVIOUS] = said[M_CHECKSUM] = ABSENT
    for place in range(_PARTS, _PARTS + parts):
        stop = fields(text, numbers[place], end, _BOOK, numbers[0:5])
        if stop < 0:
            break
        for name in range(4):
            if numbers[name] < 0 or stop < 0:
                continue
            if name < 2:
                said[M_SNAPSHOT] = 1
            rows, stop = levels(text, numbers[name], end, room, rows, (name + 1) & 1, decimals[one])
        if stop < 0:
            break
        if numbers[4] >= 0:
            said[M_CHECKSUM], stop = whole_number(text, numbers[4] + 1, end)
    for level in range(rows if stop >= 0 else 0):
        time, stop = decimal(text, blank(text, room[level, 3] + 1, end), end, 9)
        if stop < 0:
            break
        said[M_EVENT] = max(said[M_EVENT], time)
        if level == 0 and said[M_SNAPSHOT]:
            decimals[one, 3], before = _decimals_before(text, room[0, 3] - 1)
            decimals[one, 2], before = _decimals_before(text, before - 1)
    if stop < 0 or rows == 0:
        off = stop == OFF_STEP
        faults[Fault.OFF_TICK.value] += off
        if state[SYNC] == 0:
            return row if off else BAD
        faults[Fault.UNREADABLE.value] += not off
        return lost(out, row, received, received, state, counts[one], edge[one])
    return book(
        said, received, PLAIN_DIGITS, asked, room, rows, state, keys[one], sizes[one], counts[one],
        decimals[one], edge[one], out, row, faults, digits,
    )  # fmt: skip


@part
def _trades(one, text, at, end, received, asked, books, out, row):
    """The list of trades at `at`, each [price, size, time, "b" or "s", ...]."""
    states, decimals, edge, faults, numbers = books[1], books[5], books[6], books[8], books[9]
    whole = asked & (BOOK | QUOTES) == 0 or states[one, SYNC] != 0
    at = blank(text, at + 1, end)
    while at < end and text[at] == 91:
        stop = behind_value(text, at, end)
        if stop < 0:
            return BAD
        place = at
        for value in range(3):
            digits = decimals[one, value] if value < 2 else 9
            numbers[value], place = decimal(text, blank(text, place + 1, stop), stop, digits)
            if place < 0:
                break
            place = blank(text, place, stop)
        side = blank(text, place + 1, stop) + 1
        if place == OFF_STEP:
            faults[Fault.OFF_TICK.value] += 1
        elif place < 0 or side >= stop or numbers[2] <= 0:
            return BAD
        else:
            row = trade(
                numbers[2], received, numbers[0], numbers[1], 1 if text[side] == 98 else 2, 0,
                False, states[one], edge[one], whole, out, row, faults,
            )  # fmt: skip
        at = blank(text, stop, end)
        if at < end and text[at] == 44:
            at = blank(text, at + 1, end)
    return row if at < end and text[at] == 93 else BAD


@part
def _read(text, at, end, received, asked, books, out, row):
    numbers = books[9]
    at = blank(text, at, end)
    if at < end and text[at] == 123:
        return CONTROL
    if at >= end or text[at] != 91:
        return BAD
    count = 0
    while count < _PARTS_MAX:
        at = blank(text, at + 1, end)
        numbers[_PARTS - 1 + count] = at
        at = behind_value(text, at, end)
        if at < 0:
            return BAD
        count += 1
        at = blank(text, at, end)
        if at >= end or text[at] != 44:
            break
    if at >= end or text[at] != 93 or blank(text, at + 1, end) != end or count < 4:
        return BAD
    name = numbers[_PARTS - 1 + count - 2]
    one = which(text, numbers[_PARTS - 1 + count - 1], end, books[0])
    if one < 0:
        return one
    body = numbers[_PARTS]
    if text[name] != 34 or name + 2 >= end:
        return BAD
    if text[name + 1] == 98 and text[body] == 123:  # book-1000
        if not asked & (BOOK | QUOTES):
            return IGNORED
        last = _book(one, count - 3, text, end, received, asked, books, out, row)
    elif text[name + 1] == 116 and text[name + 2] == 114 and text[body] == 91:  # trade
        if not asked & TRADES:
            return IGNORED
        last = _trades(one, text, body, end, received, asked, books, out, row)
    else:
        return IGNORED
    return of_instrument(out, row, last, one) if last >= 0 else last


_decode = decoder(_read)


class _Pair(msgspec.Struct):
    wsname: str = ""
    pair_decimals: int = 0
    lot_decimals: int = 8
    tick_size: str = ""
    status: str = "online"


class _Answer(msgspec.Struct):
    error: list[str] = []
    result: dict[str, _Pair] = {}


class _Kraken(Venue):
    name, code = "kraken", "KRAKEN"
    stream_url, rest_url = "wss://ws.kraken.com", "https://api.kraken.com"
    clock_path = "/0/public/Time"
    clock_step_ms = 1_000.0
    decode = staticmethod(_decode)

    def __init__(self, depth: int) -> None:
        if depth not in (10, 25, 100, 500, 1000):
            raise FeedError(f"Kraken has no book of depth {depth}: choose 10, 25, 100, 500 or 1000")
        self.levels_max = depth

    def instrument(self, ask: Any, symbol: str) -> Instrument:
        where = "/0/public/AssetPairs"
        answer = answer_of(ask(where, pair=symbol.replace("/", "")), _Answer, where)
        found = next((one for one in answer.result.values() if one.wsname == symbol), None)
        if found is None:
            said = ", ".join(answer.error) or "not listed"
            raise FeedError(f"Kraken trades no {symbol} ({said})\nhelp: symbols are as XBT/USD")
        if found.status != "online":
            raise UnreachableError(f"Kraken does not trade {symbol} now: {found.status}")
        tick = found.tick_size or f"1e-{found.pair_decimals}"
        return Instrument(
            symbol=symbol, venue=self.code, tick=fraction(tick, f"{symbol}: tick_size"),
            lot=fraction(f"1e-{found.lot_decimals}", f"{symbol}: lot_decimals"),
            currency=symbol.partition("/")[2], named=frozenset({"tick", "lot", "currency"}),
        )  # fmt: skip

    def subscribe(self, symbols: tuple[str, ...], asked: int) -> list[str]:
        said = []
        if asked & (BOOK | QUOTES):
            said.append(self._say("subscribe", symbols, name="book", depth=self.levels_max))
        if asked & TRADES:
            said.append(self._say("subscribe", symbols, name="trade"))
        return said

    def resubscribe(self, symbol: str) -> list[str]:
        return [self._say(what, (symbol,), name="book", depth=self.levels_max)
                for what in ("unsubscribe", "subscribe")]

    def _say(self, what: str, symbols: tuple[str, ...], **subscription: str | int) -> str:
        text = {"event": what, "pair": symbols, "subscription": subscription}
        return msgspec.json.encode(text).decode()

    def refusal(self, text: bytes) -> str:
        found = msgspec.json.decode(text, type=dict[str, Any])
        return str(found.get("errorMessage", "")) if found.get("status") == "error" else ""

    def clock_ms(self, body: bytes) -> float:
        return 1e3 * float(msgspec.json.decode(body)["result"]["unixtime"])


def feed(spec: FeedSpec) -> StreamedFeed:
    """Kraken; the option `depth` is that of its books, 1000 unless said."""
    return StreamedFeed(spec, _Kraken(spec.chosen(depth=1000)["depth"]))
