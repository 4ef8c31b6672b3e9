"""Columns that were computed before the run: events that bring their values to the core.

A value comes just before the bar that it belongs to, in the same instant, as a trait of the
instrument; its bits are the event's first word.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from quantdsl.events.layout import EVENT, MORE, Kind
from quantdsl.events.merge import Events

Float64s = npt.NDArray[np.float64]


class HostColumns:
    """Values of each column for each bar of the finest clock, by instrument."""

    def __init__(self, columns: Sequence[Sequence[Float64s]], first: int) -> None:
        self.columns = columns  # [column][instrument] -> one value a bar
        self.first = first  # the trait of the first column

    def placed(self, chunks: Iterator[Events]) -> Iterator[Events]:
        """The chunks with the values among them."""
        instruments = len(self.columns[0])
        seen = np.zeros(instruments, np.int64)
        starts = np.cumsum([0, *map(len, self.columns[0][:-1])])
        flat = [np.concatenate(column) for column in self.columns]
        for events in chunks:
            bars = np.flatnonzero((events["kind"] == Kind.BAR) & (events["side"] == 0))
            which = events["instrument"][bars].astype(np.int64)
            rows = starts[which] + seen[which] + _before(which)
            seen += np.bincount(which, minlength=instruments)
            yield self._with(events, bars, [column[rows] for column in flat])

    def _with(self, events: Events, bars: npt.NDArray[np.intp], values: list[Float64s]) -> Events:
        count = len(values)
        told = np.zeros(len(bars) * count, EVENT)
        own = events[bars]
        for number, column in enumerate(values):
            part = told[number::count]
            for name in ("ts_event", "ts_recv", "instrument"):
                part[name] = own[name]
            part["side"] = self.first + number
            part["payload"][:, 0] = column.view(np.int64)
        told["kind"], told["flags"] = Kind.TRAIT, MORE
        merged = np.empty(len(events) + len(told), EVENT)
        rest = np.ones(len(merged), bool)
        rest[np.repeat(bars, count) + np.arange(len(told))] = False
        merged[~rest], merged[rest] = told, events
        return merged


def _before(which: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many earlier entries are equal to each."""
    order = np.argsort(which, kind="stable")
    ordered = which[order]
    first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    places = np.arange(len(which)) - np.repeat(first, np.diff(np.append(first, len(which))))
    found = np.empty(len(which), np.int64)
    found[order] = places
    return found
