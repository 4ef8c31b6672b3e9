"""Coinbase Exchange as it speaks: level2, matches, ticker; products and its clock by request."""

from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import msgspec

from tests.venues.binance import decimal
from tests.venues.market import Market
from tests.venues.server import Client
from tests.venues.tape import Book, Message, received, unit_of

_CHANNELS = {"snapshot": "level2", "l2update": "level2", "match": "matches",
             "last_match": "matches", "ticker": "ticker"}


class _Stream:
    def __init__(self, venue: "Coinbase") -> None:
        self._venue = venue
        self._wanted: set[tuple[str, str]] = set()

    @property
    def ready(self) -> bool:
        return bool(self._wanted)

    def opened(self) -> list[str]:
        return []

    def received(self, text: str) -> list[str]:
        try:
            asked = msgspec.json.decode(text)
            books = []
            for product in asked["product_ids"]:
                if product not in self._venue.units:
                    return [msgspec.json.encode({
                        "type": "error", "message": "Failed to subscribe",
                        "reason": f"{product} is not a valid product"}).decode()]
                for channel in asked["channels"]:
                    one = (channel.removesuffix("_batch"), product)
                    if asked["type"] == "unsubscribe":
                        self._wanted.discard(one)
                        continue
                    self._wanted.add(one)
                    books += self._venue.snapshot(product) if one[0] == "level2" else []
            answer = {"type": "subscriptions", "channels": asked["channels"]}
            return [msgspec.json.encode(answer).decode(), *books]
        except (msgspec.DecodeError, KeyError, TypeError):
            return ['{"type":"error","message":"Malformed JSON"}']

    def rendered(self, message: Message) -> str | None:
        return message.text if (message.channel, message.symbol) in self._wanted else None


class Coinbase:
    """One tape."""

    heartbeat = ""

    def __init__(self, tape: Sequence[Message]) -> None:
        self.tape = list(tape)
        self.books: dict[str, Book] = {}
        self._folded = self.cursor = 0
        self.units = {symbol: self._units(symbol) for symbol in
                      dict.fromkeys(one.symbol for one in self.tape)}

    def _units(self, symbol: str) -> tuple[Fraction, Fraction]:
        prices, sizes = [], []
        for one in self.tape:
            if one.symbol == symbol:
                found = msgspec.json.decode(one.text)
                levels = [level[-2:] for key in ("asks", "bids", "changes")
                          for level in found.get(key, ())]
                prices += [level[0] for level in levels]
                sizes += [level[1] for level in levels] + [found.get("size", "0")]
        return unit_of(prices), unit_of(sizes)

    def fold(self, cursor: int) -> None:
        for one in self.tape[self._folded : cursor]:
            if one.book:
                book = self.books.setdefault(one.symbol, Book())
                if one.snapshot:
                    book.clear()
                lay(book, msgspec.json.decode(one.text))
        self._folded = max(self._folded, cursor)

    def snapshot(self, product: str) -> list[str]:
        self.fold(self.cursor)
        book = self.books.get(product)
        if book is None:
            return []
        text = {"type": "snapshot", "product_id": product, "asks": book.levels(1),
                "bids": book.levels(0)}
        return [msgspec.json.encode(text).decode()]

    def client(self, path: str) -> Client | None:
        return _Stream(self)

    def rest(self, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        if path == "/time":
            at = self.tape[min(self.cursor, len(self.tape) - 1)].at_ns / 1e9
            return 200, msgspec.json.encode({"iso": time_of(int(at * 1e9)), "epoch": at})
        product = path.removeprefix("/products/")
        if product not in self.units:
            return 404, b'{"message":"NotFound"}'
        tick, lot = self.units[product]
        base, quote = product.split("-")
        return 200, msgspec.json.encode({
            "id": product, "base_currency": base, "quote_currency": quote,
            "quote_increment": decimal(tick), "base_increment": decimal(lot),
            "display_name": f"{base}/{quote}", "status": "online", "trading_disabled": False})


def lay(book: Book, found: dict[str, Any]) -> None:
    for side, key in ((1, "asks"), (0, "bids")):
        for price, size in found.get(key, ()):
            book.set(side, price, size)
    for side, price, size in found.get("changes", ()):
        book.set(int(side == "sell"), price, size)


def time_of(at_ns: int) -> str:
    whole = datetime.fromtimestamp(at_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{at_ns % 10**9 // 1000:06d}Z"


def cryptofeed() -> Coinbase:
    """30 seconds of ten products."""
    tape = []
    for at, text in received("COINBASE.ws.28.0"):
        found = msgspec.json.decode(text)
        if channel := _CHANNELS.get(found["type"]):
            tape.append(Message(at, found["product_id"], channel, text, channel == "level2",
                                found["type"] == "snapshot"))
    return Coinbase(tape)


def made_up(symbol: str = "BTC-USD", *, seed: int = 1, steps: int = 1_000) -> Coinbase:
    """A made-up market in Coinbase's words; tick 0.01, lot 0.001, one message a change."""
    market, trades = Market(seed), 0
    tape: list[Message] = []

    def texts(ticks: int, lots: int) -> list[str]:
        return [f"{ticks // 100}.{ticks % 100:02d}", f"{lots // 1000}.{lots % 1000:03d}"]

    def keep(at_ns: int, fields: dict[str, Any]) -> None:
        channel = _CHANNELS[fields["type"]]
        tape.append(Message(at_ns, symbol, channel, msgspec.json.encode(fields).decode(),
                            channel == "level2", fields["type"] == "snapshot"))

    keep(market.start_ns, {
        "type": "snapshot", "product_id": symbol,
        "asks": [texts(*one) for one in sorted(market.asks.items())],
        "bids": [texts(*one) for one in sorted(market.bids.items(), reverse=True)],
        "time": time_of(market.start_ns)})
    for step in market.steps(steps):
        at = step.at_ns + market.step_ns
        changes = [["sell" if side else "buy", *texts(p, q)] for side, p, q in step.changes]
        keep(at, {"type": "l2update", "product_id": symbol, "changes": changes,
                  "time": time_of(at)})
        bid, ask = max(market.bids), min(market.asks)
        if step.trade:
            trades += 1
            ticks, lots, sells = step.trade
            price, size = texts(ticks, lots)
            keep(at, {"type": "match", "trade_id": trades, "maker_order_id": "a",
                      "taker_order_id": "b", "side": "buy" if sells else "sell", "size": size,
                      "price": price, "product_id": symbol, "sequence": trades + 500,
                      "time": time_of(at)})
            keep(at, {"type": "ticker", "sequence": trades + 500, "product_id": symbol,
                      "price": price, "best_bid": texts(bid, 0)[0],
                      "best_bid_size": texts(0, market.bids[bid])[1],
                      "best_ask": texts(ask, 0)[0],
                      "best_ask_size": texts(0, market.asks[ask])[1],
                      "side": "sell" if sells else "buy", "time": time_of(at),
                      "trade_id": trades, "last_size": size})
    return Coinbase(tape)
