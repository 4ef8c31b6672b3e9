"""Where the points of a sweep start to trade: at one bar, at which each of them is warm.

Trading may begin at the first instant at which every clock has ticked as often as the handlers
of every point need. A single run equals its point of the sweep when it starts there (`--from`).
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from quantdsl.backtest.program import Memory
from quantdsl.check import Checked
from quantdsl.check.ticks import SOURCES
from quantdsl.check.values import PANEL_SHIFT
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import load
from quantdsl.codegen.target import native
from quantdsl.data.times import Interval
from quantdsl.errors import DataError
from quantdsl.events.layout import Kind

Int64s = npt.NDArray[np.int64]
NEVER = np.iinfo(np.int64).max
PART_EVENTS = 1 << 20
"""Events that are looked through at once: they may lie on disk."""


def clock_count(checked: Checked) -> int:
    """How many clocks the strategy's instruments have in all: the length of `needs`.

    On a universe: clocks of all, then from PANEL_SHIFT on those of each.
    """
    if checked.strategy.universe is not None:
        return PANEL_SHIFT + checked.strategy.width
    return len(checked.strategy.instruments) * checked.strategy.width


def sweep_start(
    checked: Checked,
    clocks: Sequence[Interval],
    needs: npt.NDArray[np.int64],
    chunks: Iterable[npt.NDArray[np.void]],
) -> int:
    """The time for `trade_from`, ns since 1970: the first instant at which all points are warm.

    `needs` is what the entry `warm` left of all admitted points: ticks of clock c of instrument i
    at [i * width + c]. `clocks` are the bars of the run. Raises DataError where the data end before
    that. An instrument of a universe waits for its own bars anyway: there it is the instant at
    which the first one is warm.
    """
    if checked.strategy.universe is not None:
        return _universe_start(checked, clocks, needs, chunks)
    width = checked.strategy.width
    seen = np.zeros_like(needs)
    start: int | None = None
    for events in chunks:
        if start is None:
            start = int(events["ts_event"][0])
        bars = events[events["kind"] == Kind.BAR]
        ticked = bars["instrument"].astype(np.int64) * width + bars["side"]
        for bit in np.flatnonzero(seen < needs):
            times = bars["ts_event"][ticked == bit]
            missing = int(needs[bit] - seen[bit])
            if missing <= len(times):
                start = max(start, int(times[missing - 1]))
            seen[bit] += len(times)
        if (seen >= needs).all():
            return start
    raise _too_short(checked, clocks, needs, seen)


def _universe_start(
    checked: Checked,
    clocks: Sequence[Interval],
    needs: Int64s,
    chunks: Iterable[npt.NDArray[np.void]],
) -> int:
    """As `sweep_start`: a clock of all ticks where any instrument has a bar of it."""
    events = np.concatenate(list(chunks))
    bars = events[events["kind"] == Kind.BAR]
    start, seen = int(events["ts_event"][0]), np.zeros_like(needs)
    for bit in np.flatnonzero(needs):
        clock, each = bit % PANEL_SHIFT, bit >= PANEL_SHIFT
        of_clock = bars[bars["side"] == clock]
        times = np.unique(of_clock["ts_event"])
        if each:
            times = _times_of_first(of_clock, int(needs[bit]))
        seen[bit] = len(times)
        if seen[bit] >= needs[bit]:
            start = max(start, int(times[needs[bit] - 1]))
    if (seen < needs).any():
        raise _too_short(checked, clocks, needs, seen)
    return start


def _times_of_first(bars: npt.NDArray[np.void], need: int) -> Int64s:
    """The bars of the instrument that has so many first; of that with most where none has."""
    order = np.argsort(bars["instrument"], kind="stable")
    owner, times = bars["instrument"][order], bars["ts_event"][order]
    parts = np.split(times, np.flatnonzero(np.diff(owner)) + 1)
    return min(parts, key=lambda one: (one[need - 1] if len(one) >= need else NEVER, -len(one)))


def tick_start(
    checked: Checked, uses: frozenset[str], memory: Memory, needs: Int64s, events: Int64s
) -> int:
    """As `sweep_start`, on events[event, word] of ticks; `memory` is the state of a lane.

    It is a time after that instant and before no later one: several instants may share a time.
    """
    module = checked.warming_module(uses)
    own, program = memory.part(module), load(module, native(), Cache())
    program.call("init", own.words)
    seen = np.zeros_like(needs)
    for part in np.array_split(events, len(events) // PART_EVENTS + 1):
        flat = np.ascontiguousarray(part).reshape(-1)
        found = program.call("warming", own.words, flat, len(part), needs, seen)
        if found < len(part):
            return int(part[found, 1]) + 1
    built = [clock.text for clock in checked.strategy.clocks]
    raise _too_short(checked, built, needs, seen)


def _too_short(
    checked: Checked, clocks: Sequence[Interval | str], needs: Int64s, seen: Int64s
) -> DataError:
    short = int(np.argmax(needs - seen))
    return DataError(
        f"the data are too short for this sweep: its points need {needs[short]:,} "
        f"{_name(checked, clocks, short)} before the first trade, and there are {seen[short]:,}\n"
        "help: take longer data, or narrow the ranges of the longest windows"
    )


def _name(checked: Checked, clocks: Sequence[Interval | str], bit: int) -> str:
    """The bars or ticks of a clock, as the run has them."""
    strategy = checked.strategy
    if strategy.universe is not None:
        instrument, clock = 0, bit % PANEL_SHIFT
    else:
        instrument, clock = divmod(bit, strategy.width)
    if clock >= len(strategy.clocks) and strategy.ticks:
        of = strategy.instruments[instrument].name if len(strategy.instruments) > 1 else ""
        event = list(strategy.ticks.sources)[clock - len(strategy.clocks)]
        source = next(item for item, brings in SOURCES.items() if brings == event)
        return f"ticks of its {source}{f' of {of}' if of else ''}"
    of = strategy.instruments[instrument].name if len(strategy.instruments) > 1 else ""
    return f"bars of {clocks[clock]}{f' of {of}' if of else ''}"
