"""Where the points of a sweep start to trade: at one bar, at which each of them is warm.

Trading may begin at the first instant at which every clock has ticked as often as the handlers
of every point need. A single run equals its point of the sweep when it starts there (`--from`).
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from quantdsl.check import Checked
from quantdsl.errors import DataError
from quantdsl.events.layout import Kind


def clock_count(checked: Checked) -> int:
    """How many clocks the strategy's instruments have in all: the length of `needs`."""
    return len(checked.strategy.instruments) * checked.strategy.width


def sweep_start(
    checked: Checked, needs: npt.NDArray[np.int64], chunks: Iterable[npt.NDArray[np.void]]
) -> int:
    """The time for `trade_from`, ns since 1970: the first instant at which all points are warm.

    `needs` is what the entry `warm` left of all admitted points: ticks of clock c of instrument i
    at [i * clocks + c]. Raises DataError where the data end before that.
    """
    clocks = checked.strategy.width
    seen = np.zeros_like(needs)
    start: int | None = None
    for events in chunks:
        if start is None:
            start = int(events["ts_event"][0])
        bars = events[events["kind"] == Kind.BAR]
        ticked = bars["instrument"].astype(np.int64) * clocks + bars["side"]
        for bit in np.flatnonzero(seen < needs):
            times = bars["ts_event"][ticked == bit]
            missing = int(needs[bit] - seen[bit])
            if missing <= len(times):
                start = max(start, int(times[missing - 1]))
            seen[bit] += len(times)
        if (seen >= needs).all():
            return start
    short = int(np.argmax(needs - seen))
    raise DataError(
        f"the data are too short for this sweep: its points need {needs[short]:,} "
        f"{_name(checked, short)} before the first trade, and there are {seen[short]:,}\n"
        "help: take longer data, or narrow the ranges of the longest windows"
    )


def _name(checked: Checked, bit: int) -> str:
    """The bars of a clock, as the strategy names them."""
    strategy = checked.strategy
    instrument, clock = divmod(bit, strategy.width)
    text = strategy.clocks[clock].text if strategy.clocks else ""
    of = strategy.instruments[instrument].name if len(strategy.instruments) > 1 else ""
    return f"bars{f' of {text}' if text else ''}{f' of {of}' if of else ''}"
