"""The ticks of a test: a flat market until the strategy is warm, then what the test feeds.

Bars that are built of ticks close with each step of the flat market, and those of time with each
step that is fed, so that a test needs no thousand ticks for a bar.
"""

from fractions import Fraction
from math import lcm

import numpy as np
import numpy.typing as npt

from quantdsl.check import Checked
from quantdsl.check.tick_bars import TIME, Built
from quantdsl.check.tick_cases import TickFeed
from quantdsl.check.ticks import BOOK, QUOTE, TRADE
from quantdsl.errors import ConfigError
from quantdsl.events.codes import TimerSide
from quantdsl.events.layout import EVENT, MORE, Aggressor, BookSide, Kind

Events = npt.NDArray[np.void]
STEP_NS = 100_000_000
"""From one message of the touch to the next; a trade comes halfway."""

BEFORE = 4
"""Fewest messages before the test's own, so that a volatility is known."""

LEVELS = 20
"""Levels of a flat book at least: more than any test takes."""


def tick_of(feed: TickFeed) -> Fraction:
    """The tick that the prices of a test lie on: 0.01, or finer where they need it."""
    half = Fraction(1, 2) if feed.in_ticks and feed.spread % 2 else Fraction(1)
    prices = [mid / half for mid in feed.mids] + feed.trades
    prices += [] if feed.in_ticks else [mid - feed.spread / 2 for mid in feed.mids]
    return Fraction(1, lcm(100, *(price.denominator for price in prices)))


def events(checked: Checked, feed: TickFeed, warm: int, start_ns: int) -> tuple[Events, Events]:
    """What comes before: the first mid and a tick above it by turns, until all is warm, and once
    more, by which what is given has filled; and what the test feeds. ConfigError off the grid."""
    if not feed.mids:
        if feed.trades:
            raise ConfigError("the test feeds trades and no market: add 'feed mid = [...]'")
        return np.empty(0, EVENT), np.empty(0, EVENT)
    market = _Market(checked, feed)
    count = max(warm, BEFORE)
    before = market.flat(count + count % 2 + 1, start_ns)
    return np.concatenate(before), np.concatenate(market.fed(start_ns + (count + 3) * STEP_NS))


class _Market:
    def __init__(self, checked: Checked, feed: TickFeed) -> None:
        self.feed = feed
        self.tick = tick_of(feed)
        self.ticks = checked.strategy.ticks
        self.built = checked.strategy.built
        self.levels = max(
            LEVELS, self.ticks.sources[BOOK].depth if BOOK in self.ticks.sources else 0
        )

    def flat(self, count: int, start_ns: int) -> list[Events]:
        """The first mid `count` times, every other time a tick above it."""
        bid, ask = self._touch(self.feed.mids[0])
        found = []
        for n in range(count):
            up, at = n % 2, start_ns + n * STEP_NS
            found += self._messages(at, bid + up, ask + up, whole=n == 0)
            found += self._trade(at, (bid + ask) // 2, 1, Aggressor.UNKNOWN)
            found += self._closings(at, self.built)
        return found

    def fed(self, start_ns: int) -> list[Events]:
        """The first mid once more, then what is fed."""
        bid, ask = self._touch(self.feed.mids[0])
        found = self._messages(start_ns - STEP_NS, bid, ask, whole=True)
        for n in range(max(len(self.feed.mids), len(self.feed.trades))):
            at = start_ns + n * STEP_NS
            if n < len(self.feed.mids):
                bid, ask = self._touch(self.feed.mids[n])
                found += self._messages(at, bid, ask, whole=True)
            price = self.feed.trades[n] / self.tick if n < len(self.feed.trades) else 0
            if price:
                side = Aggressor.BUYS if price >= ask else Aggressor.UNKNOWN
                side = Aggressor.SELLS if price <= bid else side
                found += self._trade(at, int(price), self.feed.trade_lots, side)
            found += self._closings(at, [one for one in self.built if one.kind == TIME])
        return found

    def _touch(self, mid: Fraction) -> tuple[int, int]:
        """Bid and ask in ticks."""
        spread = self.feed.spread if self.feed.in_ticks else self.feed.spread / self.tick
        bid = mid / self.tick - spread / 2
        if bid.denominator != 1:
            raise ConfigError(
                f"a spread of {spread} ticks around {float(mid):g} leaves the grid of "
                f"{float(self.tick):g}\nhelp: take an even number of ticks, or a mid between two"
            )
        return int(bid), int(bid + spread)

    def _messages(self, at: int, bid: int, ask: int, *, whole: bool) -> list[Events]:
        """The touch at a moment, of the quotes and of the book; not `whole`, it moved a tick."""
        found = []
        lots = self.feed.lots
        if QUOTE in self.ticks.sources:
            found.append(_event(Kind.QUOTE, at, bid, ask, lots, lots))
        if BOOK in self.ticks.sources:
            found.append(self._book(at, bid, ask) if whole else self._moved(at, bid, ask))
        return found

    def _book(self, at: int, bid: int, ask: int) -> Events:
        parts = [_event(Kind.BOOK_SNAPSHOT, at)]
        for n in range(self.levels):
            parts.append(self._level(at, BookSide.BID, bid - n, self.feed.lots))
            parts.append(self._level(at, BookSide.ASK, ask + n, self.feed.lots))
        return _message(parts)

    def _moved(self, at: int, bid: int, ask: int) -> Events:
        """By a tick: the levels of the new touch are there, those between are not."""
        lots = self.feed.lots
        gone = [
            self._level(at, BookSide.BID, bid + 1, 0),
            self._level(at, BookSide.ASK, ask - 1, 0),
        ]
        return _message(
            [
                *gone,
                self._level(at, BookSide.BID, bid, lots),
                self._level(at, BookSide.ASK, ask, lots),
            ]
        )

    def _level(self, at: int, side: BookSide, price: int, lots: int) -> Events:
        return _event(Kind.BOOK_DELTA, at, price, lots, side=side)

    def _trade(self, at: int, price: int, lots: int, side: Aggressor) -> list[Events]:
        if TRADE not in self.ticks.sources:
            return []
        return [_event(Kind.TRADE, at + STEP_NS // 2, price, lots, side=side)]

    def _closings(self, at: int, built: list[Built]) -> list[Events]:
        """Bars close after the message and the trade of a step."""
        end, side = at + STEP_NS * 3 // 4, TimerSide.CLOSES
        closed = [_event(Kind.TIMER, end, one.clock, side=side) for one in reversed(built)]
        return [_message(closed)] if closed else []


def _event(kind: Kind, at: int, *payload: int, side: int = 0) -> Events:
    made = np.zeros(1, EVENT)
    made["ts_event"] = made["ts_recv"] = at
    made["kind"], made["side"] = kind, side
    made["payload"][0, : len(payload)] = payload
    return made


def _message(parts: list[Events]) -> Events:
    """All events of one instant."""
    whole = np.concatenate(parts)
    whole["flags"][:-1] = MORE
    return whole
