"""Kraken's first websocket as it speaks: numbered channels, heartbeats, checksums of changes."""

import zlib
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import msgspec

from tests.venues.market import Market
from tests.venues.server import Client
from tests.venues.tape import Book, Message, received, unit_of


def digits(text: str) -> str:
    return text.replace(".", "").lstrip("0")


def checksum(book: Book) -> str:
    """CRC-32 of the digits of the ten best levels, asks first."""
    parts = [digits(one) for side in (1, 0) for level in book.levels(side, 10) for one in level]
    return str(zlib.crc32("".join(parts).encode()))


class _Stream:
    def __init__(self, venue: "Kraken") -> None:
        self._venue = venue
        self._wanted: set[tuple[str, str]] = set()

    @property
    def ready(self) -> bool:
        return bool(self._wanted)

    def opened(self) -> list[str]:
        return ['{"connectionID":17843232920108168701,"event":"systemStatus","status":"online",'
                '"version":"1.9.6"}']

    def received(self, text: str) -> list[str]:
        try:
            asked = msgspec.json.decode(text)
            said = []
            for pair in asked["pair"]:
                subscription, name = asked["subscription"], asked["subscription"]["name"]
                answer = {"channelName": name, "event": "subscriptionStatus", "pair": pair,
                          "status": asked["event"] + "d", "subscription": subscription}
                if pair not in self._venue.units:
                    answer |= {"status": "error", "errorMessage": "Currency pair not supported"}
                said.append(msgspec.json.encode(answer).decode())
                if asked["event"] == "unsubscribe":
                    self._wanted.discard((name, pair))
                elif pair in self._venue.units:
                    self._wanted.add((name, pair))
                    said += self._venue.snapshot(pair) if name == "book" else []
            return said
        except (msgspec.DecodeError, KeyError, TypeError):
            return ['{"event":"error","errorMessage":"Malformed request"}']

    def rendered(self, message: Message) -> str | None:
        return message.text if (message.channel, message.symbol) in self._wanted else None


class Kraken:
    """One tape of books and trades."""

    heartbeat = '{"event":"heartbeat"}'

    def __init__(self, tape: Sequence[Message]) -> None:
        self.tape = list(tape)
        self.books: dict[str, Book] = {}
        self._folded = self.cursor = 0
        self.units: dict[str, tuple[Fraction, Fraction]] = {}
        for symbol in dict.fromkeys(one.symbol for one in self.tape if one.book):
            levels = [level for one in self.tape if one.symbol == symbol and one.book
                      for _, level in changes_of(one.text)]
            self.units[symbol] = (unit_of([one[0] for one in levels]), Fraction(1, 10**8))

    def fold(self, cursor: int) -> None:
        for one in self.tape[self._folded : cursor]:
            if one.book:
                book = self.books.setdefault(one.symbol, Book())
                if one.snapshot:
                    book.clear()
                for side, level in changes_of(one.text):
                    book.set(side, level[0], level[1])
        self._folded = max(self._folded, cursor)

    def snapshot(self, pair: str) -> list[str]:
        self.fold(self.cursor)
        book = self.books.get(pair)
        if book is None:
            return []
        at = self.tape[min(self.cursor, len(self.tape)) - 1].at_ns / 1e9
        parts = {key: [[*one, f"{at:.6f}"] for one in book.levels(side, 1000)]
                 for key, side in (("as", 1), ("bs", 0))}
        return [msgspec.json.encode([1664, parts, "book-1000", pair]).decode()]

    def client(self, path: str) -> Client | None:
        return _Stream(self)

    def rest(self, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        if path == "/0/public/Time":
            at = self.tape[min(self.cursor, len(self.tape) - 1)].at_ns // 1_000_000_000
            return 200, msgspec.json.encode({"error": [], "result": {"unixtime": at}})
        if path != "/0/public/AssetPairs":
            return 404, b'{"error":["EGeneral:Unknown method"]}'
        name = query.get("pair", "")
        found = next((one for one in self.units if one.replace("/", "") == name), None)
        if found is None:
            return 200, b'{"error":["EQuery:Unknown asset pair"]}'
        tick, _ = self.units[found]
        pair = {"altname": name, "wsname": found, "base": "X", "quote": "Z", "pair_decimals": 1,
                "lot_decimals": 8, "tick_size": f"{float(tick):.10f}", "status": "online",
                "ordermin": "0.0001"}
        return 200, msgspec.json.encode({"error": [], "result": {"X" + name: pair}})


def changes_of(text: str) -> list[tuple[int, list[str]]]:
    """(side, [price, size, ...]) of each level of a message of a book, in its order."""
    found = []
    for part in msgspec.json.decode(text)[1:-2]:
        for key, levels in part.items():
            if key != "c":
                found += [(int(key[0] == "a"), level) for level in levels]
    return found


def cryptofeed() -> Kraken:
    """30 seconds of ten pairs: 4,269 changes with a checksum, and trades."""
    tape = []
    for number, channel in ((50, "book"), (48, "trade")):
        for at, text in received(f"KRAKEN.ws.{number}.0"):
            if text.startswith("["):
                pair = msgspec.json.decode(text)[-1]
                tape.append(Message(at, pair, channel, text, channel == "book", '"as":' in text))
    return Kraken(sorted(tape, key=lambda one: one.at_ns))


def made_up(symbol: str = "XBT/USD", *, seed: int = 1, steps: int = 1_000) -> Kraken:
    """A made-up market in Kraken's words; tick 0.1 written with five decimals."""
    market, book = Market(seed), Book()
    tape: list[Message] = []

    def level(side: int, ticks: int, lots: int, at_ns: int) -> list[str]:
        price, size = f"{ticks // 10}.{ticks % 10}0000", f"{lots // 1000}.{lots % 1000:03d}00000"
        book.set(side, price, size)
        return [price, size, f"{at_ns // 10**9}.{at_ns % 10**9 // 1000:06d}"]

    def keep(at_ns: int, body: list[Any], channel: str, name: str, snapshot: bool = False) -> None:
        text = msgspec.json.encode([1664, *body, name, symbol]).decode()
        tape.append(Message(at_ns, symbol, channel, text, channel == "book", snapshot))

    at = market.start_ns
    first = {"as": [level(1, p, q, at) for p, q in sorted(market.asks.items())],
             "bs": [level(0, p, q, at) for p, q in sorted(market.bids.items(), reverse=True)]}
    keep(at, [first], "book", "book-1000", True)
    for step in market.steps(steps):
        at = step.at_ns + market.step_ns
        parts: dict[str, Any] = {}
        for side, ticks, lots in step.changes:
            parts.setdefault("a" if side else "b", []).append(level(side, ticks, lots, at))
        bodies = [{key: levels} for key, levels in parts.items()]
        bodies[-1]["c"] = checksum(book)
        keep(at, bodies, "book", "book-1000")
        if step.trade:
            ticks, lots, sells = step.trade
            body = [f"{ticks // 10}.{ticks % 10}0000", f"{lots // 1000}.{lots % 1000:03d}00000",
                    f"{at // 10**9}.{at % 10**9 // 1000:06d}", "s" if sells else "b", "l", ""]
            keep(at, [[body]], "trade", "trade")
    return Kraken(tape)
