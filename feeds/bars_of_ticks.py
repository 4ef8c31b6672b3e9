"""Bars among the ticks of a market of its own time, for strategies on bars beside those on ticks.

    ticks --> with_bars --> SimulatedTime.play --> AsBars --> session
                each bar stands where it closed        and there gets its begin back
"""

from collections.abc import Iterator, Sequence

import numpy as np

from quantdsl.data.tick_bars import TickBars
from quantdsl.data.ticks import Events
from quantdsl.data.times import Interval
from quantdsl.errors import FeedError
from quantdsl.events.layout import BAR, EVENT, Kind
from quantdsl.live.feed import Sink

MINUTE = Interval.parse("1m")


def shortest(feed: str, bars: Sequence[str]) -> Interval | None:
    """The bars that all the lengths asked for are built of; None where none is asked for."""
    if not bars:
        return None
    asked = [Interval.parse(text) for text in bars]
    finest = min(asked, key=lambda one: one.nominal_ns)
    found = MINUTE if finest.nominal_ns % MINUTE.nominal_ns == 0 else finest
    for one in asked:
        if one.nominal_ns % found.nominal_ns:
            raise FeedError(
                f"{feed}: bars of {one} cannot be built from those of {found}\n"
                "help: let the strategies of a session have bars that divide each other"
            )
    return found


def with_bars(ticks: Iterator[Events], interval: Interval, kind: Kind) -> Iterator[Events]:
    """Ticks of one instrument in order of receipt, and bars of its events of this kind.

    A bar comes before the ticks of its close, and has that as its time of receipt.
    """
    bars = TickBars(interval.nominal_ns)
    for events in ticks:
        bars.add(events[events["kind"] == kind])
        closed = bars.closed(int(events["ts_recv"][-1])) if len(events) else np.empty(0, BAR)
        closed["ts_recv"] = closed["ts_event"]
        closed["instrument"] = events["instrument"][0] if len(events) else 0
        both = np.concatenate([closed.view(EVENT), events])
        yield both[np.argsort(both["ts_recv"], kind="stable")]


def bars_until(
    ticks: Iterator[Events], interval: Interval, kind: Kind, since_ns: int, now_ns: int
) -> Events:
    """The whole bars that opened at `since_ns` or later and have closed by now."""
    bars = TickBars(interval.nominal_ns)
    for events in ticks:
        bars.add(events[events["kind"] == kind])
        if len(events) and int(events["ts_recv"][-1]) > now_ns:
            break
    found = bars.closed(now_ns)
    own: Events = found[found["ts_recv"] >= since_ns].view(EVENT)
    return own


class AsBars:
    """A sink that passes on what `with_bars` made, each bar with its begin as in any feed."""

    def __init__(self, sink: Sink, interval: Interval) -> None:
        self._sink, self._length = sink, interval.nominal_ns

    def push(self, events: Events) -> None:
        bars = events["kind"] == Kind.BAR
        if bars.any():
            events = events.copy()
            events["ts_recv"][bars] -= self._length
        self._sink.push(events)
