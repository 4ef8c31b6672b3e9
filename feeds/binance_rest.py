"""What is asked of Binance rather than listened to: symbols, clock, snapshots, bars."""

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import msgspec
import numpy as np
from quantdsl.feeds.binance_messages import DIGITS

from quantdsl.data.instrument import Instrument, fraction
from quantdsl.data.times import Interval
from quantdsl.errors import FeedError, UnreachableError
from quantdsl.live.fetch import Bars
from quantdsl.live.rest import Answer, VenueClock, get

INTERVALS = "1s 1m 3m 5m 15m 30m 1h 2h 4h 6h 8h 12h 1d 3d 1w".split()
_MS = 1_000_000


class Market(NamedTuple):
    """One of the venue's markets and its addresses."""

    name: str
    stream_url: str
    rest_url: str
    root: str
    bars_max: int
    depth_limit: int
    trades: str


SPOT = Market(
    "binance",
    "wss://stream.binance.com:9443",
    "https://api.binance.com",
    "/api/v3",
    1_000,
    1_000,
    "trade",
)
FUTURES = Market(
    "binance_futures",
    "wss://fstream.binance.com",
    "https://fapi.binance.com",
    "/fapi/v1",
    1_500,
    1_000,
    "aggTrade",
)

_ENDED = frozenset({"CLOSE", "DELIVERING", "DELIVERED", "DELISTED"})
"""What a symbol that is never traded again is said to be; others come back after a break."""


class _Filter(msgspec.Struct):
    filterType: str  # noqa: N815 (the venue's word)
    tickSize: str = ""  # noqa: N815
    stepSize: str = ""  # noqa: N815


class _Symbol(msgspec.Struct):
    symbol: str
    status: str
    quoteAsset: str  # noqa: N815
    filters: list[_Filter]


class _Info(msgspec.Struct):
    symbols: list[_Symbol]


class _Clock(msgspec.Struct):
    serverTime: int  # noqa: N815


class Rest:
    """The venue's answers, checked; FeedError says what was asked and what came."""

    digits = DIGITS

    def __init__(self, market: Market, rest_url: str = "", ca_file: str = "") -> None:
        self.market = market
        self._url = (rest_url or market.rest_url).rstrip("/") + market.root
        self._ca_file = ca_file

    def _ask(self, what: str, **query: str | int) -> Answer:
        return get(f"{self._url}/{what}", query, ca_file=self._ca_file)

    def _answer(self, kind: Any, what: str, **query: str | int) -> Any:
        try:
            return msgspec.json.decode(self._ask(what, **query).body, type=kind)
        except msgspec.DecodeError as error:
            raise FeedError(f"{self._url}/{what}: an answer not understood: {error}") from None

    def instruments(self, symbols: tuple[str, ...]) -> list[Instrument]:
        """Tick, lot and currency of each symbol; FeedError for one that is not traded."""
        asked = {}
        if self.market is SPOT:  # futures have no such query, and answer with all
            asked["symbols"] = msgspec.json.encode(list(symbols)).decode()
        info: _Info = self._answer(_Info, "exchangeInfo", **asked)
        known = {one.symbol: one for one in info.symbols}
        return [self._instrument(name, known.get(name)) for name in symbols]

    def _instrument(self, name: str, found: _Symbol | None) -> Instrument:
        if found is None:
            raise FeedError(f"{self._url}: {self.market.name} has no symbol {name!r}")
        if found.status != "TRADING":
            kind = FeedError if found.status in _ENDED else UnreachableError
            raise kind(f"{self._url}: {name} is not traded now: {found.status}")
        tick = next((f.tickSize for f in found.filters if f.filterType == "PRICE_FILTER"), "")
        lot = next((f.stepSize for f in found.filters if f.filterType == "LOT_SIZE"), "")
        return Instrument(
            symbol=name,
            venue=self.market.name.upper(),
            tick=fraction(tick, f"{self._url}: {name}: tickSize"),
            lot=fraction(lot, f"{self._url}: {name}: stepSize"),
            currency=found.quoteAsset,
            named=frozenset({"symbol", "venue", "tick", "lot", "currency"}),
        )

    def clock(self) -> VenueClock:
        """One question for the time; the answer is as old as half of what it took."""
        answer = self._ask("time")
        try:
            theirs = msgspec.json.decode(answer.body, type=_Clock).serverTime * _MS + _MS // 2
        except msgspec.DecodeError as error:
            raise FeedError(f"{self._url}/time: an answer not understood: {error}") from None
        return answer.clock(theirs, _MS // 2)

    def depth(self, symbol: str) -> Answer:
        """A snapshot of the book, as text."""
        return self._ask("depth", symbol=symbol, limit=self.market.depth_limit)

    def bars(self, symbol: str, interval: Interval, first_ns: int, end_ns: int) -> Iterator[Bars]:
        """Bars that opened from `first_ns` on and closed by `end_ns`, a page at a time."""
        if str(interval) not in INTERVALS:
            raise FeedError(
                f"{self.market.name} has no bars of {interval}; it has {', '.join(INTERVALS)}"
            )
        length = interval.nominal_ns
        start = -(-first_ns // length) * length
        while start + length <= end_ns:
            rows: list[list[Any]] = self._answer(
                list[list[str | int]],
                "klines",
                symbol=symbol,
                interval=str(interval),
                startTime=start // _MS,
                endTime=(end_ns - length) // _MS,
                limit=self.market.bars_max,
            )
            rows = [row for row in rows if start <= int(row[0]) * _MS <= end_ns - length]
            if not rows:
                return
            page = self._page(symbol, rows)
            yield page
            start = int(page.open_ns[-1]) + length

    def _page(self, symbol: str, rows: list[list[Any]]) -> Bars:
        try:
            open_ns = np.array([int(row[0]) * _MS for row in rows], np.int64)
            columns = [np.array([units(row[n]) for row in rows], np.int64) for n in range(1, 6)]
        except (IndexError, TypeError, ValueError, OverflowError) as error:
            raise FeedError(
                f"{self._url}/klines: bars of {symbol} not understood: {error}"
            ) from None
        if np.any(np.diff(open_ns) <= 0):
            raise FeedError(f"{self._url}/klines: the bars of {symbol} are out of order")
        return Bars(open_ns, *columns)


def units(text: str) -> int:
    """A decimal of the venue in units of 10**-DIGITS; ValueError where it is none, or finer."""
    try:
        scaled = Decimal(text).scaleb(DIGITS)
    except InvalidOperation:
        scaled = Decimal("nan")
    if not scaled.is_finite() or scaled != scaled.to_integral_value():
        raise ValueError(f"{text!r} is no decimal of {DIGITS} digits")
    return int(scaled)


def spot(rest_url: str, ca_file: str) -> Rest:
    """Binance spot."""
    return Rest(SPOT, rest_url, ca_file)


def futures(rest_url: str, ca_file: str) -> Rest:
    """Binance USD-M futures."""
    return Rest(FUTURES, rest_url, ca_file)
