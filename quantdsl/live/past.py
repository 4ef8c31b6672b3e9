"""Bars from before a live session, from a file: what its venue need not be asked for."""

import numpy as np

from quantdsl.data.closed_bars import closed_bars, sources
from quantdsl.data.events import Data, open_data
from quantdsl.data.instrument import Instrument
from quantdsl.data.spec import DataSpec
from quantdsl.data.ticks import Events
from quantdsl.data.times import Interval
from quantdsl.errors import DataError
from quantdsl.events.layout import EVENT
from quantdsl.live.feed import FeedSpec


def open_past(spec: FeedSpec, symbol: str, one: Instrument, bars: Interval) -> Data | None:
    """The file of a feed's history, counted in the instrument's own ticks and lots.

    It is a file of all symbols or one each, a comma between; None where there is none. DataError
    where it cannot be read, or its bars are not as long as those that the feed will give.
    """
    if not spec.history:
        return None
    known = [one] * len(spec.symbols)
    source = sources(spec.history, spec.symbols, known)[spec.symbols.index(symbol)]
    data = open_data(DataSpec(instruments=(source,), **spec.history_read))
    found = data.feeds[0].scan.interval
    if found.nominal_ns != bars.nominal_ns:
        raise DataError(
            f"{source.source}: holds bars of {found}, and the session takes bars of {bars}\n"
            f"help: give a file of {bars} bars; `quantdsl data fetch` makes one"
        )
    return data


def bars_between(data: Data, since_ns: int, now_ns: int) -> Events:
    """The bars that began at or after a moment and have closed by now, oldest first."""
    every: Events = np.concatenate([np.empty(0, EVENT), *closed_bars(data, 0, 0)])
    return every[(every["ts_recv"] >= since_ns) & (every["ts_event"] <= now_ns)]
