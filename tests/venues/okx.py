"""OKX v5 as it speaks: one socket of subscriptions, ping and pong as text."""

import zlib
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec

from tests.venues.binance import decimal
from tests.venues.market import Market
from tests.venues.server import Client
from tests.venues.tape import Book, Message, received, unit_of


def checksum(book: Book) -> int:
    """CRC-32 of the 25 best levels, bid and ask in turn, as a signed number."""
    parts: list[str] = []
    for level in range(25):
        for side in (0, 1):
            levels = book.levels(side, 25)
            if level < len(levels):
                parts += levels[level]
    crc = zlib.crc32(":".join(parts).encode())
    return crc - (1 << 32) if crc >= 1 << 31 else crc


class _Stream:
    def __init__(self, venue: "Okx") -> None:
        self._venue = venue
        self._wanted: set[tuple[str, str]] = set()

    @property
    def ready(self) -> bool:
        return bool(self._wanted)

    def opened(self) -> list[str]:
        return []

    def received(self, text: str) -> list[str]:
        if text == "ping":
            return ["pong"]
        try:
            asked = msgspec.json.decode(text)
            said = []
            for arg in asked["args"]:
                one = (arg["channel"], arg["instId"])
                said.append(msgspec.json.encode({"event": asked["op"], "arg": arg}).decode())
                if asked["op"] == "unsubscribe":
                    self._wanted.discard(one)
                elif one[1] not in self._venue.units:
                    said[-1] = ('{"event":"error","code":"60018","msg":"Wrong URL or channel or '
                                f'instId:{one[1]} doesn\'t exist","connId":"a4d3ae55"}}')
                else:
                    self._wanted.add(one)
                    if one[0] == "books":
                        said += self._venue.snapshot(one[1])
            return said
        except (msgspec.DecodeError, KeyError, TypeError):
            return ['{"event":"error","code":"60012","msg":"Invalid request"}']

    def rendered(self, message: Message) -> str | None:
        return message.text if (message.channel, message.symbol) in self._wanted else None


class Okx:
    """One tape; `sequenced` messages carry seqId and prevSeqId, and `checked` ones a checksum."""

    heartbeat = ""

    def __init__(self, tape: Sequence[Message]) -> None:
        self.tape = list(tape)
        self.books: dict[str, Book] = {}
        self._folded = 0
        self._played: dict[str, dict[str, Any]] = {}
        self.units = {symbol: self._units(symbol) for symbol in
                      dict.fromkeys(one.symbol for one in self.tape)}
        self.cursor = 0

    def _units(self, symbol: str) -> tuple[Fraction, Fraction]:
        prices, sizes = [], []
        for one in self.tape:
            if one.symbol == symbol:
                for part in msgspec.json.decode(one.text)["data"]:
                    levels = [*part.get("asks", ()), *part.get("bids", ())] if one.book else [
                        (part["px"], part["sz"])] if "px" in part else []
                    prices += [level[0] for level in levels]
                    sizes += [level[1] for level in levels]
        return unit_of(prices), unit_of(sizes)

    def fold(self, cursor: int) -> None:
        """Bring the books to where the tape is."""
        for one in self.tape[self._folded : cursor]:
            if one.book:
                part = msgspec.json.decode(one.text)["data"][0]
                book = self.books.setdefault(one.symbol, Book())
                if one.snapshot:
                    book.clear()
                lay(book, part)
                self._played[one.symbol] = part
        self._folded = max(self._folded, cursor)

    def snapshot(self, symbol: str) -> list[str]:
        """What a late subscriber gets; one from the tape's start gets the tape's own."""
        self.fold(self.cursor)
        if symbol not in self._played:
            return []
        last, book = self._played[symbol], self.books[symbol]
        part = {"asks": [[*one, "0", "1"] for one in book.levels(1, 400)],
                "bids": [[*one, "0", "1"] for one in book.levels(0, 400)], "ts": last["ts"]}
        part["checksum"] = checksum(book) if last.get("checksum") else 0
        if "seqId" in last:
            part |= {"prevSeqId": -1, "seqId": last["seqId"]}
        text = {"arg": {"channel": "books", "instId": symbol}, "action": "snapshot", "data": [part]}
        return [msgspec.json.encode(text).decode()]

    def client(self, path: str) -> Client | None:
        return _Stream(self) if path.startswith("/ws/v5/public") else None

    def rest(self, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        if path == "/api/v5/public/time":
            ms = self.tape[min(self.cursor, len(self.tape) - 1)].at_ns // 1_000_000
            return 200, msgspec.json.encode({"code": "0", "msg": "", "data": [{"ts": str(ms)}]})
        if path != "/api/v5/public/instruments":
            return 404, b'{"code":"404","msg":"Not Found"}'
        symbol = query.get("instId", "")
        if symbol not in self.units:
            return 200, b'{"code":"51001","msg":"Instrument ID does not exist","data":[]}'
        tick, lot = self.units[symbol]
        base, quote, *rest = symbol.split("-")
        found = {"instType": query["instType"], "instId": symbol, "baseCcy": "" if rest else base,
                 "quoteCcy": "" if rest else quote, "settleCcy": base if rest else "",
                 "ctVal": "10" if rest else "", "ctMult": "1" if rest else "",
                 "ctType": "inverse" if rest else "", "tickSz": decimal(tick).rstrip("0"),
                 "lotSz": decimal(lot).rstrip("0"), "minSz": "0.00001", "state": "live"}
        return 200, msgspec.json.encode({"code": "0", "msg": "", "data": [found]})


def lay(book: Book, part: dict[str, Any]) -> None:
    for side, key in ((1, "asks"), (0, "bids")):
        for price, size, *_ in part[key]:
            book.set(side, price, size)


def cryptofeed() -> Okx:
    """30 seconds of three instruments; messages of 2022: checksums, no sequence."""
    tape = []
    for at, text in received("OKX.ws.1.0"):
        found = msgspec.json.decode(text)
        if "data" in found:
            channel, symbol = found["arg"]["channel"], found["arg"]["instId"]
            tape.append(Message(at, symbol, channel, text, channel == "books",
                                found.get("action") == "snapshot"))
    return Okx(tape)


def made_up(symbol: str = "BTC-USDT", *, seed: int = 1, steps: int = 1_000, levels: int = 40,
            checked: bool = False) -> Okx:
    """A made-up market in OKX's words; tick 0.1, lot 0.01, messages of today: a sequence."""
    market, tape, last = Market(seed, start=levels), [], 100

    def texts(ticks: int, lots: int) -> tuple[str, str]:
        return plain(Fraction(ticks, 10)), plain(Fraction(lots, 100))

    book = Book()

    def keep(at_ns: int, action: str, changes: list[tuple[int, int, int]], previous: int) -> None:
        part: dict[str, Any] = {"asks": [], "bids": []}
        for side, ticks, lots in changes:
            price, size = texts(ticks, lots)
            book.set(side, price, size)
            part["asks" if side else "bids"].append([price, size, "0", "1" if lots else "0"])
        part["ts"] = str(at_ns // 1_000_000)
        part |= {"checksum": checksum(book) if checked else 0, "prevSeqId": previous, "seqId": last}
        text = {"arg": {"channel": "books", "instId": symbol}, "action": action, "data": [part]}
        tape.append(Message(at_ns, symbol, "books", msgspec.json.encode(text).decode(), True,
                            action == "snapshot"))

    start = [(1, p, q) for p, q in sorted(market.asks.items())]
    start += [(0, p, q) for p, q in sorted(market.bids.items(), reverse=True)]
    keep(market.start_ns, "snapshot", start, -1)
    for number, step in enumerate(market.steps(steps)):
        previous, last = last, last + 1 + number % 7
        keep(step.at_ns + market.step_ns, "update", step.changes, previous)
        if step.trade:
            ticks, lots, sells = step.trade
            price, size = texts(ticks, lots)
            trade = {"instId": symbol, "tradeId": str(number + 1), "px": price, "sz": size,
                     "side": "sell" if sells else "buy", "ts": str(step.at_ns // 1_000_000)}
            text = {"arg": {"channel": "trades", "instId": symbol}, "data": [trade]}
            tape.append(Message(step.at_ns + market.step_ns, symbol, "trades",
                                msgspec.json.encode(text).decode()))
    return Okx(tape)


def plain(value: Fraction) -> str:
    """A decimal without zeros at its end, as OKX writes them."""
    return format((Decimal(value.numerator) / value.denominator).normalize(), "f")
