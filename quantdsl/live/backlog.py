"""Events that an engine has had no room for yet: kept in order, quotes that newer ones replace not.

What lies here is not in the journal: that holds what the engine consumes. So what is left out here
is left out of a replay too, and both see the same events.
"""

from collections import deque

import numpy as np
import numpy.typing as npt

from quantdsl.events.layout import EVENT, MORE, Kind

Events = npt.NDArray[np.void]
BLOCK = 4_096
"""Events that are looked through for quotes at once."""
OF_ONE_INSTRUMENT = (Kind.QUOTE, Kind.TRADE, Kind.BOOK_DELTA, Kind.BOOK_SNAPSHOT, Kind.FEED)
_MARKET = np.zeros(256, bool)
_MARKET[[*OF_ONE_INSTRUMENT]] = True


class Backlog:
    """The events of one lane that wait, whole messages in their order; `len` says how many."""

    def __init__(self, *, conflates: bool) -> None:
        """`conflates`: a quote that a newer one of its instrument follows is left out."""
        self.conflates = conflates
        self.conflated = 0
        """Quotes that were left out so far."""
        self._blocks: deque[Events] = deque()
        self._fresh: list[Events] = []
        self._fresh_count = self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, events: Events) -> None:
        """Whole messages behind those that wait; they are copied."""
        self._fresh.append(events.copy())
        self._fresh_count += len(events)
        self._count += len(events)
        if self._fresh_count >= BLOCK:
            self._press()

    def take(self, room: int) -> Events:
        """The oldest whole messages: as many as there is room for, at least one; none where none
        wait."""
        self._press()
        if not self._blocks:
            return np.empty(0, EVENT)
        block = self._blocks.popleft()
        while self._blocks and len(block) < room:
            block = np.concatenate((block, self._blocks.popleft()))
        pressed = self._conflated(block)
        ends = np.flatnonzero((pressed["flags"] & MORE) == 0) + 1
        fit = max(int(np.searchsorted(ends, room, "right")), 1)
        taken, left = pressed[: ends[fit - 1]], pressed[ends[fit - 1] :]
        if len(left):
            self._blocks.appendleft(left)
        self._count -= len(taken)
        return taken

    def clear(self) -> int:
        """Forget all; how many events that were."""
        forgotten, self._count, self._fresh_count = self._count, 0, 0
        self._blocks.clear()
        self._fresh.clear()
        return forgotten

    def _press(self) -> None:
        """Make a block of what has come."""
        if self._fresh:
            self._blocks.append(self._conflated(np.concatenate(self._fresh)))
            self._fresh.clear()
            self._fresh_count = 0

    def _conflated(self, events: Events) -> Events:
        if not self.conflates:
            return events
        kept = ~replaced(events)
        left_out = len(events) - int(np.count_nonzero(kept))
        if not left_out:
            return events
        self.conflated += left_out
        self._count -= left_out
        return events[kept]


def replaced(events: Events) -> npt.NDArray[np.bool_]:
    """Which quotes say nothing that matters once what follows has come: bool[n_events].

    Those that are a message of their own and that another quote of their instrument follows, with
    no trade, change of a book or state of the feed of that instrument between them, and no timer,
    session or command, which would have seen them. No other event is ever one.
    """
    kinds, flags = events["kind"], events["flags"]
    found = np.zeros(len(events), bool)
    quotes = kinds == Kind.QUOTE
    if np.count_nonzero(quotes) < 2:
        return found
    alone = quotes & ((flags & MORE) == 0)
    alone[1:] &= (flags[:-1] & MORE) == 0
    market = _MARKET[kinds]
    between = np.cumsum(~market)
    places = np.flatnonzero(market)
    instruments = events["instrument"][places]
    order = np.argsort(instruments, kind="stable")
    places, instruments = places[order], instruments[order]
    newer = (instruments[1:] == instruments[:-1]) & quotes[places[1:]]
    newer &= between[places[1:]] == between[places[:-1]]
    found[places[:-1]] = newer & alone[places[:-1]]
    return found
