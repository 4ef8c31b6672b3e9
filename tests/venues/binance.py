"""Binance spot and USD-M futures as they speak: combined streams, snapshots, symbols, bars."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from tests.venues.market import Market
from tests.venues.server import Client
from tests.venues.tape import Book, Message, received, recorded, unit_of

_INTERVALS_MS = {"1s": 1_000, "1m": 60_000, "3m": 180_000, "5m": 300_000, "15m": 900_000,
                 "30m": 1_800_000, "1h": 3_600_000, "2h": 7_200_000, "4h": 14_400_000,
                 "1d": 86_400_000}
_QUOTES = ("USDT", "USDC", "BUSD", "BTC", "ETH", "EUR")


@dataclass
class Depth:
    """The book of one symbol at any place of the tape, told from one snapshot."""

    snapshot: str
    place: int
    """Messages of the tape that lie before the snapshot."""
    diffs: list[tuple[int, str]] = field(default_factory=list)
    """(place in the tape, text) of each depth message."""

    def __post_init__(self) -> None:
        self._book, self._folded, self._at_ms = Book(), 0, 0
        first = msgspec.json.decode(self.snapshot)
        self._book.sequence = first["lastUpdateId"]
        for side, key in enumerate(("bids", "asks")):
            for price, size in first[key]:
                self._book.set(side, price, size)

    def book(self, cursor: int) -> Book:
        """As it is once `cursor` messages were played; asked for in order of the tape."""
        while self._folded < len(self.diffs) and self.diffs[self._folded][0] < cursor:
            diff = data_of(self.diffs[self._folded][1])
            self._folded += 1
            if diff["u"] > self._book.sequence:
                self._book.sequence, self._at_ms = diff["u"], diff["E"]
                for side, key in enumerate(("b", "a")):
                    for price, size in diff[key]:
                        self._book.set(side, price, size)
        return self._book

    def text(self, cursor: int, limit: int, futures: bool) -> bytes:
        """The answer to a request: the recorded snapshot until a later book is known."""
        book = self.book(cursor) if cursor > self.place else self._book
        answer: dict[str, Any] = {"lastUpdateId": book.sequence}
        if futures:
            answer |= {"E": self._at_ms, "T": self._at_ms}
        answer |= {"bids": book.levels(0, limit), "asks": book.levels(1, limit)}
        return msgspec.json.encode(answer)


def data_of(text: str) -> dict[str, Any]:
    """The message inside a message of a combined stream."""
    found: dict[str, Any] = msgspec.json.decode(text)
    return found.get("data", found)


class _Stream:
    """A client of /stream (combined) or /ws (bare); stream names as Binance writes them."""

    def __init__(self, names: list[str], combined: bool) -> None:
        self._wanted: dict[str, str] = {}
        self._combined = combined
        self._add(names)

    def _add(self, names: list[str]) -> None:
        self._wanted.update({_kind(name): name for name in names})

    @property
    def ready(self) -> bool:
        return bool(self._wanted)

    def opened(self) -> list[str]:
        return []

    def received(self, text: str) -> list[str]:
        try:
            asked = msgspec.json.decode(text)
            if asked["method"] == "SUBSCRIBE":
                self._add(asked["params"])
            elif asked["method"] == "UNSUBSCRIBE":
                for name in asked["params"]:
                    self._wanted.pop(_kind(name), None)
            return [msgspec.json.encode({"result": None, "id": asked["id"]}).decode()]
        except (msgspec.DecodeError, KeyError, TypeError):
            return ['{"error":{"code":3,"msg":"Invalid JSON"}}']

    def rendered(self, message: Message) -> str | None:
        name = self._wanted.get(_kind(message.channel))
        if name is None:
            return None
        if not self._combined:
            return message.text.partition(',"data":')[2].removesuffix("}")
        return message.text.replace(message.channel, name, 1)


def _kind(name: str) -> str:
    """A stream's name without its speed: `btcusdt@depth@100ms` and `@0ms` are one stream."""
    return "@".join(name.split("@")[:2])


class Binance:
    """One tape of spot or futures; `tape` may be cut, and must not change while it is played."""

    heartbeat = ""

    def __init__(self, tape: Sequence[Message], snapshots: dict[str, tuple[int, str]], *,
                 futures: bool = False) -> None:
        self.tape, self.futures, self.cursor = list(tape), futures, 0
        self.depth = {symbol: Depth(text, place) for symbol, (place, text) in snapshots.items()}
        for place, one in enumerate(self.tape):
            if one.book and one.symbol in self.depth:
                self.depth[one.symbol].diffs.append((place, one.text))
        self.units = {symbol: self._units(symbol) for symbol in self.depth}
        """Tick and lot of each symbol: the coarsest that all numbers of the tape are made of."""

    def _units(self, symbol: str) -> tuple[Fraction, Fraction]:
        prices, sizes = [], []
        for text in (self.depth[symbol].snapshot, *(t for _, t in self.depth[symbol].diffs)):
            found = data_of(text)
            for key in ("bids", "asks", "b", "a"):
                for price, size in found.get(key, ()):
                    prices.append(price)
                    sizes.append(size)
        trades = (one for one in self.tape if one.symbol == symbol and "rade" in one.channel)
        sizes += [data_of(one.text)["q"] for one in trades]
        return unit_of(prices), unit_of(sizes)

    def client(self, path: str) -> Client | None:
        parts = urlsplit(path)
        if parts.path == "/stream":
            names = dict(parse_qsl(parts.query)).get("streams", "")
            return _Stream([one for one in names.split("/") if one], True)
        if parts.path == "/ws" or parts.path.startswith("/ws/"):
            return _Stream([one for one in parts.path[4:].split("/") if one], False)
        return None

    # ---- requests --------------------------------------------------------------------------

    def rest(self, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        root = "/fapi/v1/" if self.futures else "/api/v3/"
        if not path.startswith(root):
            return 404, b'{"code":-1,"msg":"no such path"}'
        match path.removeprefix(root):
            case "time":
                return 200, msgspec.json.encode({"serverTime": self.now_ms()})
            case "ping":
                return 200, b"{}"
            case "exchangeInfo":
                return self._symbols(query)
            case "depth" | "klines" as what:
                if query.get("symbol", "") not in self.depth:
                    return 400, b'{"code":-1121,"msg":"Invalid symbol."}'
                if what == "klines":
                    return self._bars(query)
                limit = int(query.get("limit", 500 if self.futures else 100))
                return 200, self.depth[query["symbol"]].text(self.cursor, limit, self.futures)
            case _:
                return 404, b'{"code":-1,"msg":"no such path"}'

    def now_ms(self) -> int:
        """The venue's clock: that of the message to be played next."""
        return self.tape[min(self.cursor, len(self.tape) - 1)].at_ns // 1_000_000

    def _symbols(self, query: dict[str, str]) -> tuple[int, bytes]:
        asked = list(self.depth)
        if not self.futures and ("symbol" in query or "symbols" in query):
            asked = msgspec.json.decode(query.get("symbols", f'["{query.get("symbol")}"]'))
            if any(one not in self.depth for one in asked):
                return 400, b'{"code":-1121,"msg":"Invalid symbol."}'
        limit = {"rateLimitType": "REQUEST_WEIGHT", "interval": "MINUTE", "intervalNum": 1,
                 "limit": 2400 if self.futures else 6000}
        return 200, msgspec.json.encode({
            "timezone": "UTC", "serverTime": self.now_ms(), "rateLimits": [limit],
            "exchangeFilters": [], "symbols": [self._symbol(one) for one in asked]})

    def _symbol(self, symbol: str) -> dict[str, Any]:
        tick, lot = self.units[symbol]
        quote = next(one for one in _QUOTES if symbol.endswith(one))
        base = symbol.removesuffix(quote)
        filters = [
            {"filterType": "PRICE_FILTER", "minPrice": decimal(tick),
             "maxPrice": decimal(tick * 10**9), "tickSize": decimal(tick)},
            {"filterType": "LOT_SIZE", "minQty": decimal(lot), "maxQty": decimal(lot * 10**9),
             "stepSize": decimal(lot)},
            {"filterType": "MIN_NOTIONAL", "notional": "5"} if self.futures else
            {"filterType": "NOTIONAL", "minNotional": "5.00000000", "applyMinToMarket": True,
             "maxNotional": "9000000.00000000", "applyMaxToMarket": False, "avgPriceMins": 5},
        ]
        common = {"symbol": symbol, "status": "TRADING", "baseAsset": base, "quoteAsset": quote,
                  "filters": filters}
        if self.futures:
            return common | {"pair": symbol, "contractType": "PERPETUAL", "marginAsset": quote,
                             "onboardDate": 1569398400000, "deliveryDate": 4133404800000,
                             "pricePrecision": 2, "quantityPrecision": 3,
                             "orderTypes": ["LIMIT", "MARKET"], "timeInForce": ["GTC", "IOC"]}
        return common | {"baseAssetPrecision": 8, "quotePrecision": 8, "quoteAssetPrecision": 8,
                         "orderTypes": ["LIMIT", "LIMIT_MAKER", "MARKET"], "icebergAllowed": True,
                         "isSpotTradingAllowed": True, "isMarginTradingAllowed": True,
                         "permissions": [], "permissionSets": [["SPOT"]]}

    def _bars(self, query: dict[str, str]) -> tuple[int, bytes]:
        """Made-up bars that follow each other, the same whenever they are asked for."""
        step, now = _INTERVALS_MS.get(query.get("interval", "")), self.now_ms()
        if step is None:
            return 400, b'{"code":-1120,"msg":"Invalid interval."}'
        limit = min(int(query.get("limit", 500)), 1500 if self.futures else 1000)
        end = min(int(query.get("endTime", now)), now)
        start = int(query.get("startTime", end // step * step - (limit - 1) * step))
        first = -(-start // step) * step
        times = range(first, end + 1, step)[:limit]
        tick, lot = self.units[query["symbol"]]
        middle = int(Fraction(self.depth[query["symbol"]].book(0).levels(0, 1)[0][0]) / tick)

        def level(at: int) -> int:
            number = at // step
            return middle + int(middle * (0.01 * math.sin(number / 37) + 0.002 * math.sin(number)))

        rows = []
        for at in times:
            open_, close = level(at), level(at + step)
            high, low = max(open_, close) + 3, min(open_, close) - 2
            volume = lot * (1_000 + at // step % 977)
            prices = [decimal(one * tick) for one in (open_, high, low, close)]
            rows.append([at, *prices, decimal(volume), at + step - 1,
                         decimal(volume * close * tick), 42, decimal(volume / 2), "0", "0"])
        return 200, msgspec.json.encode(rows)


def decimal(value: Fraction) -> str:
    return format((Decimal(value.numerator) / value.denominator).quantize(Decimal("1e-8")), "f")


# ---- tapes ---------------------------------------------------------------------------------


def hftbacktest(name: str, lines: int | None = None) -> Binance:
    """`usdm_btcusdt`, `spot_btcusdt` or `spot_ethusdt`: 350,071 lines of 2024-08-08 in all."""
    tape: list[Message] = []
    snapshots: dict[str, tuple[int, str]] = {}
    symbol = name.partition("_")[2].upper()
    for line in recorded(f"binance_hftbacktest/{name}_20240808.gz")[:lines]:
        at, _, text = line.partition(" ")
        if text.startswith('{"lastUpdateId"'):
            snapshots.setdefault(symbol, (len(tape), text))
        else:
            channel = text[11 : text.index('"', 11)]
            tape.append(Message(int(at), symbol, channel, text, "@depth" in channel))
    return Binance(tape, snapshots, futures=name.startswith("usdm"))


def cryptofeed(futures: bool = False) -> Binance:
    """30 seconds of four symbols with their snapshots, bars and aggregated trades."""
    name = "BINANCE_FUTURES" if futures else "BINANCE"
    tape = []
    for at, text in received(f"{name}.ws.1.0"):
        channel = text[11 : text.index('"', 11)]
        tape.append(Message(at, channel.partition("@")[0].upper(), channel, text,
                            "@depth" in channel))
    times = [one.at_ns for one in tape]
    snapshots = {}
    for line in recorded(f"cryptofeed/{name}.http.0.0.gz"):
        url, _, rest = line.partition(" -> ")
        at, _, text = rest.partition(": ")
        if "/depth" in url:
            symbol = dict(parse_qsl(urlsplit(url).query))["symbol"]
            place = bisect_left(times, int(Fraction(at) * 1_000_000_000))
            snapshots[symbol] = (place, text)
    return Binance(tape, snapshots, futures=futures)


def made_up(symbol: str = "BTCUSDT", *, seed: int = 1, steps: int = 1_000, futures: bool = False,
            market: Market | None = None, before: int = 0) -> Binance:
    """A made-up market in Binance's words; tick 0.01, lot 0.001, update ids that leap.

    The snapshot lies `before` depth messages behind the tape's start.
    """
    market = market or Market(seed)
    tape: list[Message] = []
    snapshots: dict[str, tuple[int, str]] = {}
    last, trades, low = 1_000, 0, symbol.lower()

    def price(ticks: int) -> str:
        return f"{ticks // 100}.{ticks % 100:02d}"

    def size(lots: int) -> str:
        return f"{lots // 1000}.{lots % 1000:03d}"

    def keep(at_ns: int, kind: str, fields: dict[str, Any], book: bool = False) -> None:
        channel = f"{low}@{kind}"
        text = msgspec.json.encode({"stream": channel, "data": fields}).decode()
        tape.append(Message(at_ns, symbol, channel, text, book))

    for number, step in enumerate(market.steps(steps)):
        ms = step.at_ns // 1_000_000
        first, before_id, last = last + 1, last, last + 1 + step.at_ns // 1_000 % 5
        sides: list[list[list[str]]] = [[], []]
        for side, ticks, lots in step.changes:
            sides[side].append([price(ticks), size(lots)])
        fields: dict[str, Any] = {"e": "depthUpdate", "E": ms}
        fields |= {"T": ms - 1} if futures else {}
        fields |= {"s": symbol, "U": first, "u": last}
        fields |= {"pu": before_id} if futures else {}
        keep(step.at_ns, "depth@100ms", fields | {"b": sides[0], "a": sides[1]}, True)
        bid, ask = max(market.bids), min(market.asks)
        quote: dict[str, Any] = {"e": "bookTicker"} if futures else {}
        quote |= {"u": last, "s": symbol, "b": price(bid), "B": size(market.bids[bid]),
                  "a": price(ask), "A": size(market.asks[ask])}
        keep(step.at_ns + 1_000, "bookTicker", quote | ({"T": ms, "E": ms} if futures else {}))
        if step.trade:
            ticks, lots, sells = step.trade
            trades += 1
            body = {"e": "trade", "E": ms, "s": symbol, "t": trades, "p": price(ticks),
                    "q": size(lots), "T": ms, "m": sells}
            keep(step.at_ns + 2_000, "trade", body | ({"X": "MARKET"} if futures else {"M": True}))
            agg = {"e": "aggTrade", "E": ms, "s": symbol, "a": trades, "p": price(ticks),
                   "q": size(lots), "f": trades, "l": trades, "T": ms, "m": sells}
            keep(step.at_ns + 2_000, "aggTrade", agg | ({} if futures else {"M": True}))
        if number + 1 == max(before, 1):
            levels = {key: [[price(p), size(q)] for p, q in sorted(side.items())]
                      for key, side in (("bids", market.bids), ("asks", market.asks))}
            levels["bids"].reverse()
            answer = {"lastUpdateId": last} | ({"E": ms, "T": ms} if futures else {})
            snapshots[symbol] = (len(tape), msgspec.json.encode(answer | levels).decode())
    return Binance(tape, snapshots, futures=futures)
