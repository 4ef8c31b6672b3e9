"""OKX v5, live: books with sequence and checksum verified, trades, quotes from the book's touch.

    {"arg":{"channel":"books","instId":...},"action":"snapshot"|"update",
     "data":[{"asks":[[price,size,"0",orders],...],"bids":...,"ts":ms,"checksum":...,
              "seqId":...,"prevSeqId":...}]}

A change follows when its `prevSeqId` is the last `seqId`. The checksum (of the 25 best levels) was
made until 2025 and is zero since; zero is taken for none. Contracts that settle in coin are not
offered, for their money is not the currency of their price.
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
    word,
)
from quantdsl.feeds.kernels import inner, whole_number
from quantdsl.feeds.ladder import DECIMALS
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

_TOP = np.array([named(key) for key in ("event", "arg", "action", "data")])
_ARG = np.array([named(key) for key in ("channel", "instId")])
_BOOK = np.array([named(k) for k in ("asks", "bids", "ts", "checksum", "seqId", "prevSeqId")])
_TRADE = np.array([named(key) for key in ("tradeId", "px", "sz", "side", "ts")])
_BOOKS_WORD, _TRADES_WORD = named("books"), named("trades")
_SAID = 16


@inner("int64(uint8[::1], int64, int64)")
def _number(text, at, end):
    """A whole number, bare or quoted; ABSENT where there is none."""
    if at < 0:
        return ABSENT
    value, stop = whole_number(text, at + (text[at] == 34), end)
    return value if stop >= 0 else ABSENT


@inner("int64(uint8[::1], int64, int64, int64)")
def _letter(text, at, end, nothing):
    """The first byte of the string at `at`."""
    return np.int64(text[at + 1]) if 0 <= at < end - 1 and text[at] == 34 else nothing


@part
def _book(one, text, at, end, received, asked, books, out, row):
    """The object of a book that begins at `at`; places[2] is where its action stands."""
    _, states, keys, sizes, counts, decimals, edge, room, faults, numbers, digits = books
    state = states[one]
    snapshot = _letter(text, numbers[2], end, 0) == 115
    stop = fields(text, at, end, _BOOK, numbers[8:14])
    said = numbers[_SAID:]
    rows = 0
    good = stop >= 0 and numbers[8] >= 0 and numbers[9] >= 0
    if good:
        rows, stop = levels(text, numbers[8], end, room, 0, 1, decimals[one])
        if stop >= 0:
            rows, stop = levels(text, numbers[9], end, room, rows, 0, decimals[one])
        said[M_EVENT] = _number(text, numbers[10], end)
        good = stop >= 0 and said[M_EVENT] > 0
    if not good:
        if stop == OFF_STEP:
            faults[Fault.OFF_TICK.value] += 1
        if state[SYNC] == 0:
            return BAD if stop != OFF_STEP else row
        faults[Fault.UNREADABLE.value] += stop != OFF_STEP
        return lost(out, row, received, received, state, counts[one], edge[one])
    said[M_EVENT] *= 1_000_000
    said[M_SNAPSHOT] = np.int64(snapshot)
    said[M_CHECKSUM] = _number(text, numbers[11], end)
    said[M_SEQUENCE] = _number(text, numbers[12], end)
    said[M_PREVIOUS] = _number(text, numbers[13], end) if not snapshot else ABSENT
    if said[M_CHECKSUM] == 0:
        said[M_CHECKSUM] = ABSENT
    return book(
        said, received, DECIMALS, asked, room, rows, state, keys[one], sizes[one], counts[one],
        decimals[one], edge[one], out, row, faults, digits,
    )  # fmt: skip


@part
def _trades(one, text, at, end, received, asked, books, out, row):
    """The objects of trades from the one at `at` on."""
    states, decimals, edge, faults, numbers = books[1], books[5], books[6], books[8], books[9]
    whole = asked & (BOOK | QUOTES) == 0 or states[one, SYNC] != 0
    while True:
        stop = fields(text, at, end, _TRADE, numbers[8:13])
        if stop < 0 or numbers[9] < 0 or numbers[10] < 0:
            return BAD
        price, a = decimal(text, numbers[9], end, decimals[one, 0])
        size, b = decimal(text, numbers[10], end, decimals[one, 1])
        event = _number(text, numbers[12], end)
        if a == OFF_STEP or b == OFF_STEP:
            faults[Fault.OFF_TICK.value] += 1
        elif a < 0 or b < 0 or event <= 0:
            return BAD
        else:
            taker = 1 if _letter(text, numbers[11], end, 0) == 98 else 2
            number = max(0, _number(text, numbers[8], end))
            row = trade(
                event * 1_000_000, received, price, size, taker, number, False, states[one],
                edge[one], whole, out, row, faults,
            )  # fmt: skip
        at = blank(text, stop, end)
        if at >= end or text[at] != 44:
            return row
        at = blank(text, at + 1, end)


@part
def _read(text, at, end, received, asked, books, out, row):
    numbers = books[9]
    stop = fields(text, at, end, _TOP, numbers[0:4])
    if stop < 0 or blank(text, stop, end) != end:
        # The answer to a ping is the bare word pong.
        return CONTROL if end - at == 4 and text[at] == 112 else BAD
    if numbers[0] >= 0:
        return CONTROL
    if numbers[1] < 0 or numbers[3] < 0 or text[numbers[3]] != 91:
        return BAD
    if fields(text, numbers[1], end, _ARG, numbers[4:6]) < 0 or numbers[4] < 0:
        return BAD
    one = which(text, numbers[5], end, books[0])
    if one < 0:
        return one
    first = blank(text, numbers[3] + 1, end)
    channel = numbers[4]
    if text[channel] != 34:
        return BAD
    stop = behind_value(text, channel, end)
    name = word(text, channel + 1, stop - 1)
    if name == _BOOKS_WORD and asked & (BOOK | QUOTES):
        last = _book(one, text, first, end, received, asked, books, out, row)
    elif name == _TRADES_WORD and asked & TRADES:
        last = _trades(one, text, first, end, received, asked, books, out, row)
    else:
        return IGNORED
    return of_instrument(out, row, last, one)


_decode = decoder(_read)


class _Found(msgspec.Struct):
    """An instrument in the answer to a request; numbers as text."""

    instId: str  # noqa: N815 (the venue's name)
    tickSz: str  # noqa: N815
    lotSz: str  # noqa: N815
    quoteCcy: str = ""  # noqa: N815
    settleCcy: str = ""  # noqa: N815
    ctType: str = ""  # noqa: N815
    ctVal: str = ""  # noqa: N815
    ctMult: str = ""  # noqa: N815
    state: str = "live"


class _Answer(msgspec.Struct):
    code: str
    msg: str = ""
    data: list[_Found] = []


class _Okx(Venue):
    name, code = "okx", "OKX"
    stream_url, rest_url = "wss://ws.okx.com:8443/ws/v5/public", "https://www.okx.com"
    decode = staticmethod(_decode)
    clock_path = "/api/v5/public/time"
    beat = "ping"

    def instrument(self, ask: Any, symbol: str) -> Instrument:
        kind = "SPOT"
        if symbol.count("-") == 2:
            kind = "SWAP" if symbol.endswith("-SWAP") else "FUTURES"
        where = "/api/v5/public/instruments"
        answer = answer_of(ask(where, instType=kind, instId=symbol), _Answer, where)
        found = next((one for one in answer.data if one.instId == symbol), None)
        if found is None or found.state == "expired":
            raise FeedError(f"OKX trades no {symbol} ({answer.msg or 'not listed as live'})\n"
                            "help: symbols are written as BTC-USDT or BTC-USDT-SWAP")
        if found.state != "live":
            raise UnreachableError(f"OKX does not trade {symbol} now: {found.state}")
        if found.ctType == "inverse":
            raise FeedError(f"{symbol} settles in {found.settleCcy}, which is no currency that its "
                            "price is in; quantdsl keeps no such accounts\nhelp: choose the "
                            "contract that settles in USDT or USDC")
        size = fraction(found.ctVal or "1", f"{symbol}: ctVal")
        size *= fraction(found.ctMult or "1", f"{symbol}: ctMult")
        return Instrument(
            symbol=symbol, venue=self.code, tick=fraction(found.tickSz, f"{symbol}: tickSz"),
            lot=fraction(found.lotSz, f"{symbol}: lotSz"), multiplier=size,
            currency=found.quoteCcy or found.settleCcy or "USD",
            named=frozenset({"tick", "lot", "currency", "multiplier"}),
        )  # fmt: skip

    def subscribe(self, symbols: tuple[str, ...], asked: int) -> list[str]:
        channels = ["books"] * bool(asked & (BOOK | QUOTES)) + ["trades"] * bool(asked & TRADES)
        return [self._say("subscribe", one, symbols) for one in channels]

    def resubscribe(self, symbol: str) -> list[str]:
        return [self._say(what, "books", (symbol,)) for what in ("unsubscribe", "subscribe")]

    def _say(self, what: str, channel: str, symbols: tuple[str, ...]) -> str:
        args = [{"channel": channel, "instId": one} for one in symbols]
        return msgspec.json.encode({"op": what, "args": args}).decode()

    def refusal(self, text: bytes) -> str:
        if text == b"pong":
            return ""
        found = msgspec.json.decode(text, type=dict[str, Any])
        return str(found.get("msg", "")) if found.get("event") == "error" else ""

    def clock_ms(self, body: bytes) -> float:
        return float(msgspec.json.decode(body)["data"][0]["ts"])


def feed(spec: FeedSpec) -> StreamedFeed:
    """OKX, books of 400 levels; it has no options."""
    spec.chosen()
    return StreamedFeed(spec, _Okx())
