"""The engine core in a run on ticks, compiled or interpreted, behind a small Python handle."""

from typing import Any

import numpy as np

from quantdsl.check.library import book_sizes
from quantdsl.events import layout
from quantdsl.events.layout import MORE, Kind
from tests.std.core.core import NONE, PLAY, Core, Sizes, intent_words

QUOTES = frozenset({("USES_TICKS", 1), ("USES_QUOTES", 1), ("USES_TRADES", 1)})
ON_BOOK = frozenset({("USES_TICKS", 1), ("USES_BOOK", 1), ("USES_TRADES", 1)})
BOOK = ON_BOOK | frozenset(book_sizes(ladder=256, far=64).items())
RECORDED = ON_BOOK | frozenset(book_sizes().items())
"""A book wide enough for a recording."""
TRADES = frozenset({("USES_TICKS", 1), ("USES_TRADES", 1)})

Event = tuple[Any, ...]
"""(kind, side, payload...) of one instrument."""


class TickCore(Core):
    """One engine fed with messages; latencies and queue model are those of instrument 0."""

    def __init__(
        self,
        config: dict[str, Any],
        venue: dict[str, float] | None = None,
        *,
        instruments: int = 1,
        interpreted: bool = False,
        sizes: Sizes = QUOTES,
    ) -> None:
        self.venue = venue or {}
        self.instruments = instruments
        super().__init__(config, instruments, interpreted=interpreted, sizes=sizes)

    def run(self, entry: str, *args: Any) -> None:
        """Call one of ENTRIES; the venue's settings are there before init."""
        if entry == "init":
            for i in range(self.instruments):
                for name, value in self.venue.items():
                    self.set(f"venues[{i}].{name}", value)
        super().run(entry, *args)

    def message(
        self,
        ts: int,
        events: list[Event],
        intents: list[dict[str, Any]] | None = None,
        *,
        recv: int | None = None,
        inst: int = 0,
        session_close: bool = False,
    ) -> list[tuple[Any, ...]]:
        """One message that happened at `ts`; returns its records as (kind, reason, a, b, ...)."""
        for n, (kind, side, *payload) in enumerate(events):
            row = self.event[0]
            row["ts_event"], row["ts_recv"] = ts, ts if recv is None else recv
            row["instrument"], row["kind"], row["side"] = inst, kind, side
            row["flags"] = MORE if n + 1 < len(events) else 0
            row["payload"] = (*payload, *[0] * (5 - len(payload)))
            super().run("ingest", self.event.view(np.int64), int(kind), side, inst)
        if session_close:
            self.ingest(ts, ts, 0, Kind.SESSION, 1)
        return self.instant(intents or [])

    def feed(self, events: np.ndarray) -> None:
        """Whole messages, after which nobody sends an order."""
        words = np.ascontiguousarray(events).view(np.int64).reshape(-1)
        self.run(PLAY, words, len(events))

    def instant(self, intents: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        """What follows the events of an instant; returns its records."""
        self.act(intents)
        return self.drain()

    def act(self, intents: list[dict[str, Any]]) -> None:
        """What follows the events of an instant; its records stay in the outbox."""
        self.run("market")
        for intent in intents:
            if intent["verb"] == "quote":
                self.run("quote", *quote_words(intent))
                continue
            if "display" in intent:
                words = intent_words(self.module, intent)
                self.run("place_shown", words, intent["display"])
            else:
                self.place(intent)
        self.run("submit")
        self.run("finish")

    def end(self) -> list[tuple[Any, ...]]:
        """The run ends."""
        self.ingest(self.get("now"), 0, 0, Kind.SESSION, 2)
        return self.instant([])


def quote_words(intent: dict[str, Any]) -> tuple[int, ...]:
    """The arguments of quoting.quote."""
    names = ("inst", "bid", "bid_lots", "ask", "ask_lots", "post_only", "requote", "line")
    return tuple(int(intent.get(name, 0)) for name in names)


def quote(bid: int | None, ask: int | None, bid_lots: int = 10, ask_lots: int = 10) -> Event:
    """Best bid and ask with their lots."""
    low, high = (NONE if bid is None else bid), (NONE if ask is None else ask)
    return (Kind.QUOTE, 0, low, high, bid_lots, ask_lots, 0)


def trade(price: int, lots: int, side: layout.Aggressor) -> Event:
    """A trade and who took."""
    return (Kind.TRADE, int(side), price, lots)


def delta(side: layout.BookSide, price: int, lots: int) -> Event:
    """A level of the book."""
    return (Kind.BOOK_DELTA, int(side), price, lots)


def snapshot(bids: dict[int, int], asks: dict[int, int]) -> list[Event]:
    """A whole book."""
    low = [delta(layout.BookSide.BID, price, lots) for price, lots in bids.items()]
    high = [delta(layout.BookSide.ASK, price, lots) for price, lots in asks.items()]
    return [(Kind.BOOK_SNAPSHOT, 0, 0), *low, *high]
