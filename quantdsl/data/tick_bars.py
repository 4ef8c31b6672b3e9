"""Bars of ticks: of trades, or of the middle between bid and ask."""

import numpy as np
import numpy.typing as npt

from quantdsl.data.times import FIXED_NS
from quantdsl.events.layout import BAR, NO_PRICE, Kind

Int64s = npt.NDArray[np.int64]
Events = npt.NDArray[np.void]

_LENGTHS = tuple(
    count * FIXED_NS[unit] for count, unit in ((1, "s"), (10, "s"), (1, "m"), (10, "m"), (1, "h"))
)
BARS_MAX = 20_000
"""More are not seen on a chart; a longer bar is taken instead."""


def chart_length_ns(span: tuple[int, int]) -> int:
    """The shortest of a few lengths that keeps the number of bars within BARS_MAX."""
    first, last = span
    fits = (length for length in _LENGTHS if (last - first) // length < BARS_MAX)
    return next(fits, _LENGTHS[-1])


class TickBars:
    """Bars of one instrument, each `length_ns` long by the times of receipt of its ticks."""

    def __init__(self, length_ns: int) -> None:
        self._length = length_ns
        self._parts: list[Events] = []

    def add(self, events: Events) -> None:
        """Trades or quotes of one instrument in order of receipt; one side alone is no quote."""
        payload = events["payload"]
        quotes = events["kind"] == Kind.QUOTE
        known = ~quotes | ((payload[:, 0] != NO_PRICE) & (payload[:, 1] != NO_PRICE))
        events, payload, quotes = events[known], payload[known], quotes[known]
        if not len(events):
            return
        prices = np.where(quotes, (payload[:, 0] + payload[:, 1]) // 2, payload[:, 0])
        volume = np.where(quotes, 0, payload[:, 1])
        bucket = events["ts_recv"] // self._length
        at = np.flatnonzero(np.concatenate(([True], bucket[1:] != bucket[:-1])))
        bars = np.zeros(len(at), BAR)
        bars["ts_recv"] = bucket[at] * self._length
        bars["ts_event"] = bars["ts_recv"] + self._length
        bars["kind"] = Kind.BAR
        bars["open"], bars["close"] = prices[at], prices[np.append(at[1:], len(prices)) - 1]
        bars["high"] = np.maximum.reduceat(prices, at)
        bars["low"] = np.minimum.reduceat(prices, at)
        bars["volume"] = np.add.reduceat(volume, at)
        if self._parts and self._parts[-1]["ts_event"][-1] == bars["ts_event"][0]:
            _join(self._parts[-1][-1:], bars[:1])
            bars = bars[1:]
        if len(bars):
            self._parts.append(bars)

    def closed(self, upto_ns: int) -> Events:
        """The bars that closed by then, as layout.BAR; each is given once."""
        bars = np.concatenate([np.empty(0, BAR), *self._parts])
        end = int(np.searchsorted(bars["ts_event"], upto_ns, "right"))
        self._parts = [bars[end:]] if end < len(bars) else []
        return bars[:end]

    def table(self, instrument: int) -> Events:
        """All bars, as layout.BAR."""
        bars = np.concatenate([np.empty(0, BAR), *self._parts])
        bars["instrument"] = instrument
        return bars


def _join(bar: Events, more: Events) -> None:
    """Let a bar that a block of events cut in two be one."""
    bar["high"] = np.maximum(bar["high"], more["high"])
    bar["low"] = np.minimum(bar["low"], more["low"])
    bar["close"] = more["close"]
    bar["volume"] += more["volume"]
