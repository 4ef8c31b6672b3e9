"""What a live feed is to a session, and where the shipped ones and those of users are found.

    venue -> LiveFeed.run on a thread of its own -> Sink.push -> the session

A feed knows its venue and nothing of sessions; a session knows this protocol and no venue. A feed
of one's own is a package with an entry point of the group `quantdsl.feeds`: its name is what
configs say, its object is called with a FeedSpec and returns a LiveFeed.
"""

import difflib
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from threading import Event
from typing import Any, Literal, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from quantdsl.data.instrument import Instrument
from quantdsl.data.times import Interval
from quantdsl.errors import FeedError
from quantdsl.wanted import TYPES

Events = npt.NDArray[np.void]

GROUP = "quantdsl.feeds"

SHIPPED: Mapping[str, str] = {
    "binance": "quantdsl.feeds.binance_live:spot",
    "binance_futures": "quantdsl.feeds.binance_live:futures",
    "coinbase": "quantdsl.feeds.coinbase_live:feed",
    "okx": "quantdsl.feeds.okx_live:feed",
    "kraken": "quantdsl.feeds.kraken_live:feed",
    "replay": "quantdsl.feeds.replay:feed",
    "synthetic": "quantdsl.feeds.synthetic_live:feed",
}


_EPOCH_NS = time.time_ns() - time.monotonic_ns()


def now_ns() -> int:
    """The time of receipt: ns since 1970 that never go back.

    The system's clock is read once a process; from there on it is a steady clock, so that a step
    of the system's (an operator, a leap second) moves no event.
    """
    return _EPOCH_NS + time.monotonic_ns()


class FeedSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a session asks of one feed.

    An event's instrument is `first` plus the place of its symbol in `symbols`. `ticks` and `bars`
    are what strategies listen to; a feed subscribes to no more. An empty address means the
    venue's own; `ca_file` holds certificates that are trusted in place of the system's.
    `options` are the feed's own (`path` and `speed` of a replay, `seed` of the synthetic market).
    `history` is a file of bars that the session, not the feed, warms up from, and `history_read`
    what is said of how it is read, by the names of DataSpec.
    """

    feed: str
    symbols: tuple[str, ...]
    first: int = 0
    ticks: frozenset[Literal["quotes", "trades", "book", "funding"]] = frozenset()
    bars: tuple[str, ...] = ()
    stream_url: str = ""
    rest_url: str = ""
    ca_file: str = ""
    history: str = ""
    history_read: dict[str, Any] = {}
    stale_ns_max: int = 5_000_000_000
    good_messages_min: int = 3
    options: dict[str, str | int | float | bool] = {}

    def chosen(self, **usual: Any) -> dict[str, Any]:
        """The options over the usual ones, of the same types; FeedError where there are others."""
        found = dict(usual)
        for name, value in self.options.items():
            if name not in usual:
                near = difflib.get_close_matches(name, usual, 1)
                mean = f"; did you mean {near[0]!r}?" if near else "."
                known = f" It has {', '.join(usual)}" if usual else " It has none"
                raise FeedError(f"the feed {self.feed} has no option {name!r}{mean}{known}")
            kind = type(usual[name])
            try:
                found[name] = msgspec.convert(value, kind)
            except msgspec.ValidationError:
                shape = TYPES[msgspec.json.schema(kind)["type"]]
                raise FeedError(
                    f"the option {name!r} of the feed {self.feed} is {value!r} but must be {shape}"
                ) from None
        return found


class Health(msgspec.Struct, kw_only=True):
    """Counters of one feed: written by its thread alone, read by any at any time.

    `received` counts messages of market data, each of which ends in one of `processed` (pushed),
    `ignored` (known and not asked for, an answer, a duplicate) or `dropped` (bad; `faults` says
    why in words). `clock_offset_ns` is the venue's clock less ours, as last estimated, to
    `clock_error_ns`. `latency_ns` is receipt less venue time of the last message, offset
    corrected.
    """

    name: str
    state: Literal["starting", "connecting", "syncing", "live", "stale", "waiting", "stopped"] = (
        "starting"
    )
    reason: str = ""
    received: int = 0
    processed: int = 0
    ignored: int = 0
    dropped: int = 0
    bytes_received: int = 0
    gaps: int = 0
    resyncs: int = 0
    stales: int = 0
    connects: int = 0
    disconnects: int = 0
    last_recv_ns: int = 0
    last_event_ns: int = 0
    latency_ns: int = 0
    clock_offset_ns: int = 0
    clock_error_ns: int = 0
    faults: dict[str, int] = {}


class Sink(Protocol):
    """Where a feed puts what it received. Called by the feed's thread alone."""

    def push(self, events: Events) -> None:
        """Take whole messages: `layout.EVENT`, ticks and lots, ts_event, ts_recv stamped.

        They are copied before this returns, for the feed uses its buffer again. Times of receipt
        never go back from one push to the next.
        """
        ...


class LiveFeed(Protocol):
    """One connection to one venue, several symbols; a feed is started once."""

    name: str
    symbols: tuple[str, ...]
    health: Health

    def instruments(self) -> list[Instrument]:
        """Ask the venue for tick, lot and currency of each symbol, in their order.

        Called before anything else; may compile decoders. FeedError says where, what, why and
        how to mend.
        """
        ...

    def history(self, symbol: str, interval: Interval, since_ns: int) -> Events:
        """Whole bars of `symbol` that opened at `since_ns` or later, oldest first; may be empty.

        BAR events as in a backtest: ts_event is the close, ts_recv the open. FeedError where the
        venue refuses.
        """
        ...

    def run(self, sink: Sink, stop: Event) -> None:
        """Receive until `stop` is set, on the calling thread; returns within a second of it.

        Reconnects by itself and never raises for what a network or a venue does; what happens to
        a book reaches the sink as FEED events, for each instrument (GAP, STALE, RESET, GOOD).
        """
        ...


def open_feed(spec: FeedSpec) -> LiveFeed:
    """The feed that `spec.feed` names; FeedError where there is none of that name."""
    feed: LiveFeed = factory_of(spec.feed)()(spec)
    return feed


def factory_of(name: str) -> Callable[[], Any]:
    """What imports the factory of a feed; FeedError where there is none of that name."""
    factory = _factories().get(name)
    if factory is None:
        known = sorted(_factories())
        near = difflib.get_close_matches(name, known, 1)
        mean = f"; did you mean {near[0]!r}?" if near else "."
        raise FeedError(
            f"there is no feed {name!r}{mean} Known: {', '.join(known)}\nhelp: a feed of your "
            f"own is a package with an entry point of the group {GROUP}"
        )
    return factory


def _factories() -> dict[str, Callable[[], Any]]:
    """Name -> what imports the factory. A shipped name cannot be taken by another package."""

    def shipped(place: str) -> Callable[[], Any]:
        module, _, name = place.partition(":")
        return lambda: getattr(import_module(module), name)

    found: dict[str, Callable[[], Any]] = {one.name: one.load for one in entry_points(group=GROUP)}
    return found | {name: shipped(place) for name, place in SHIPPED.items()}
