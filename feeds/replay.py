"""A recording, or any file that a backtest reads, as a live feed: at its own pace, N times as fast,
or as fast as it goes."""

from collections.abc import Iterator, Mapping
from threading import Event
from typing import Any

import msgspec
import numpy as np
from quantdsl.feeds.bars_of_ticks import AsBars, bars_until, shortest, with_bars
from quantdsl.feeds.simulated_time import SimulatedTime

from quantdsl.data.calendar import SessionSpec
from quantdsl.data.closed_bars import closed_bars, sources
from quantdsl.data.events import Data
from quantdsl.data.instrument import Instrument
from quantdsl.data.spec import DataSpec
from quantdsl.data.tick_data import TickData, open_run_data
from quantdsl.data.ticks import Events
from quantdsl.data.times import Interval
from quantdsl.errors import FeedError
from quantdsl.events.layout import EVENT, Kind
from quantdsl.live.feed import FeedSpec, Health, Sink


def feed(spec: FeedSpec) -> "Replay":
    """The replay of what a session asks for; FeedError where no file is named."""
    options = spec.chosen(
        path="", speed=0.0, calendar="", format="", tz="", time="open", time_format="", columns="{}"
    )
    if not options["path"]:
        raise FeedError(
            f"{spec.feed}: nothing to replay\nhelp: name the file or folder: "
            'options = { path = "recording/" } of the [[feed]], or --data PATH'
        )
    return Replay(spec, options)


class Replay:
    """Messages or bars of a file in its own time. `speed` is 1 if none is asked for.

    Of a file of ticks strategies on bars have those of its trades, or of the middle of its quotes.
    """

    def __init__(self, spec: FeedSpec, options: Mapping[str, Any]) -> None:
        self.name, self.symbols, self._spec = spec.feed, spec.symbols, spec
        self.health = Health(name=spec.feed)
        calendar = options["calendar"]
        self.data = open_run_data(
            DataSpec(
                instruments=sources(options["path"], spec.symbols, [None] * len(spec.symbols)),
                clocks=None if spec.ticks - {"funding"} else spec.bars or None,
                session=SessionSpec(calendar=calendar) if calendar else None,
                ticks=spec.ticks - {"funding"},
                format=options["format"],
                tz=options["tz"],
                time="close" if options["time"] == "close" else "open",
                time_format=options["time_format"] or None,
                columns=msgspec.json.decode(options["columns"], type=dict[str, str]),
                bad_rows="drop",
            )
        )
        self._of_ticks = shortest(spec.feed, spec.bars) if isinstance(self.data, TickData) else None
        self.time = SimulatedTime(self.data.span[0] - 1, options["speed"] or 1.0)

    def instruments(self) -> list[Instrument]:
        """As the data imply them."""
        return self.data.instruments

    def bar_interval(self, symbol: str) -> Interval:
        """The length of the bars of the file, or of those that are built of its ticks."""
        if self._of_ticks is not None:
            return self._of_ticks
        assert isinstance(self.data, Data)
        return self.data.feeds[self.symbols.index(symbol)].scan.interval

    def price_max(self, symbol: str) -> float:
        """The highest price there is."""
        return float(self.data.feeds[self.symbols.index(symbol)].scan.price_max)

    def now_ns(self) -> int:
        """The time in the recording."""
        return self.time.now_ns()

    def seek(self, after_ns: int) -> None:
        """Go on behind a moment."""
        self.time = SimulatedTime(after_ns, self.time.speed)

    def history(self, symbol: str, interval: Interval, since_ns: int) -> Events:
        """Bars that were given before; at the start none, since a replay begins with its file."""
        index, now = self.symbols.index(symbol), self.now_ns()
        if isinstance(self.data, TickData):
            ticks = self.data.feeds[index].chunks(self._spec.first + index)
            return bars_until(ticks, interval, self._kind(index), since_ns, now)
        bars = [*self._bars(self.data, index)]
        every: Events = np.concatenate([np.empty(0, EVENT), *bars])
        return every[(every["ts_recv"] >= since_ns) & (every["ts_event"] <= now)]

    def run(self, sink: Sink, stop: Event) -> None:
        """Give what was recorded when it was received, until `stop`."""
        data, first = self.data, self._spec.first
        if isinstance(data, TickData):
            key, chunks = "ts_recv", [own.chunks(first + k) for k, own in enumerate(data.feeds)]
            if (bars := self._of_ticks) is not None:
                chunks = [with_bars(one, bars, self._kind(k)) for k, one in enumerate(chunks)]
                sink = AsBars(sink, bars)
        else:
            key, chunks = "ts_event", [self._bars(data, k) for k in range(len(data.feeds))]
        if self.time.play(chunks, key, sink, stop, self.health):
            self.health.reason = "the recording has ended"

    def _kind(self, index: int) -> Kind:
        """The ticks that bars are built of."""
        assert isinstance(self.data, TickData)
        return Kind.TRADE if self.data.feeds[index].scan.kinds[Kind.TRADE] else Kind.QUOTE

    def _bars(self, data: Data, index: int) -> Iterator[Events]:
        return closed_bars(data, index, self._spec.first + index)
