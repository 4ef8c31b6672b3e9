"""The middle of an order book at moments of a run, by the core's own book on the run's messages.

Mark-outs of fills go by it where the data hold no quotes: the last price traded is that of the fill
itself, so that a maker would seem to gain nothing by the spread.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from quantdsl.backtest.turns import Turn, loaded
from quantdsl.check import check_source
from quantdsl.check.signal_turn import ROW_WORDS, Signals
from quantdsl.data.instrument import Instrument, Limits
from quantdsl.data.tick_data import RunData, fill_in
from quantdsl.events.layout import MORE, Kind
from quantdsl.events.merge import cut, keep
from quantdsl.lang.source import Source

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

MIDDLE = """language 1

strategy Middle:
    "The middle of a book."

    book depth = 1

    let middle = mid
"""
OF_A_BOOK = (Kind.BOOK_DELTA, Kind.BOOK_SNAPSHOT, Kind.FEED)
"""A gap of the feed ends a book, too."""


class _One(Struct, frozen=True):
    """What a turn is told of one instrument of a run."""

    instruments: tuple[Instrument]
    bounds: Limits
    money_digits: int

    def limits(self, _: int) -> Limits:
        """As the run's data has them."""
        return self.bounds


def book_middles(data: RunData, instrument: int, moments: Int64s) -> Float64s:
    """The middle in ticks at each moment of the venue's time, NaN where the book has none yet.

    After its last message there is none either.
    """
    found = np.full(len(moments), np.nan)
    end = np.iinfo(np.int64).min
    for ts, middle in _middles(data, instrument):
        fill_in(found, moments, ts, middle)
        end = max(end, int(ts.max()))
    found[moments > end] = np.nan
    return found


def _middles(data: RunData, instrument: int) -> Iterator[tuple[Int64s, Float64s]]:
    """The venue's times of messages behind which the book has two sides, and its middles."""
    turn = _turn(_One((data.instruments[instrument],), data.limits(instrument), data.money_digits))
    state, tick = turn.begin(), float(data.instruments[instrument].tick)
    for chunk in data.chunks():
        own = (chunk["instrument"] == instrument) & np.isin(chunk["kind"], OF_A_BOOK)
        for part in cut(keep(chunk, own)):
            events = part.copy()
            events["instrument"] = 0
            rows = turn.rows(state, events)
            times, price = rows[0], rows[ROW_WORDS].view(np.float64)
            both = np.isfinite(price)
            if both.any():
                ends = events[(events["flags"] & MORE) == 0]
                at = np.searchsorted(ends["ts_recv"], times[both], "right") - 1
                yield ends["ts_event"][at], np.rint(2 * price[both] / tick) / 2


def _turn(one: _One) -> Turn:
    checked, _ = check_source(Source(MIDDLE, "middle.qdsl"))
    assert checked is not None
    return loaded(checked, Signals(checked.assembly), frozenset(), one, {})
