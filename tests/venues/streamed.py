"""What the tests of streamed feeds share: a desk without a network, and the book of its events."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from quantdsl.data.instrument import Instrument
from quantdsl.events.layout import MORE, Feed, Kind
from quantdsl.live.connection import Batch
from quantdsl.live.feed import FeedSpec

ALL = frozenset({"quotes", "trades", "book"})


def desk(feed: Any, units: dict[str, tuple[Fraction, Fraction]], **spec: Any) -> Any:
    """The `Desk` of a feed for instruments of these ticks and lots, without asking a venue."""
    from quantdsl.feeds.edge import CLOCK
    from quantdsl.feeds.streamed import Desk  # it compiles what every streamed feed needs

    instruments = [Instrument(symbol=symbol, tick=tick, lot=lot)
                   for symbol, (tick, lot) in units.items()]
    whole = FeedSpec(feed=feed.name, symbols=tuple(units), ticks=spec.pop("ticks", ALL), **spec)
    asked = sum({"book": 1, "quotes": 2, "trades": 4}[one] for one in whole.ticks)
    made = Desk(feed._venue, whole, asked, instruments)
    made.edges[:, CLOCK] = 2 * 10**18  # what is played to it has times of the tape, received at 1
    return made


def batch(texts: Sequence[str | bytes], recv_ns: int) -> Batch:
    """Messages as a connection gives them."""
    parts = [one.encode() if isinstance(one, str) else one for one in texts]
    stops = np.cumsum([len(one) for one in parts])
    spans = np.column_stack([stops - [len(one) for one in parts], stops]).astype(np.int64)
    data = np.frombuffer(b"".join(parts) or b"\0", np.uint8).copy()
    return Batch(data, np.ascontiguousarray(spans), len(parts), recv_ns)


def play(at: Any, texts: Sequence[str | bytes], recv_ns: int = 1) -> np.ndarray:
    """All events of these messages; those of no market are passed over."""
    found, waiting, place = [], batch(texts, recv_ns), 0
    while place < waiting.size:
        place, events = at.decode(waiting, place)
        if len(events):
            found.append(events.copy())
        elif place < waiting.size:
            place += 1
    return np.concatenate(found) if found else np.empty(0, at.decode(batch([], 0), 0)[1].dtype)


class Books:
    """The books that a session would have of the events it is given, and what else it heard."""

    def __init__(self, first: int = 0) -> None:
        self.sides: dict[int, tuple[dict[int, int], dict[int, int]]] = {}
        self.valid: dict[int, bool] = {}
        self.good: dict[int, bool] = {}
        self.trades: list[tuple[int, int, int, int]] = []
        self.quotes: list[tuple[int, int, int, int, int]] = []
        self.feed: list[tuple[int, Feed]] = []
        self._open: set[int] = set()

    def push(self, events: Iterable[Any]) -> None:
        """As `Sink.push`; asserts what a session may rely on."""
        for event in np.asarray(events):
            self._one(event)
        assert not self._open, "a push ends within a message"

    def _one(self, event: Any) -> None:
        one, kind, payload = int(event["instrument"]), int(event["kind"]), event["payload"].tolist()
        bids, asks = self.sides.setdefault(one, ({}, {}))
        if kind == Kind.BOOK_SNAPSHOT:
            bids.clear()
            asks.clear()
            self.valid[one] = True
        elif kind == Kind.BOOK_DELTA:
            side = asks if event["side"] else bids
            assert 0 < payload[0] < 2**53
            assert 0 <= payload[1] < 2**53
            side[payload[0]] = payload[1]
            if payload[1] == 0:
                del side[payload[0]]
        elif kind == Kind.TRADE:
            assert payload[0] > 0
            assert payload[1] > 0
            self.trades.append((one, payload[0], payload[1], int(event["side"])))
        elif kind == Kind.QUOTE:
            self.quotes.append((one, *payload[:4]))
        else:
            state = Feed(int(event["side"]))
            self.feed.append((one, state))
            self.good[one] = state is Feed.GOOD
            if state in (Feed.GAP, Feed.RESET):
                self.valid[one] = False
        more = bool(event["flags"] & MORE)
        (self._open.add if more else self._open.discard)(one)
        if not more and self.valid.get(one) and bids and asks:
            assert max(bids) < min(asks), "the session sees a crossed book"
