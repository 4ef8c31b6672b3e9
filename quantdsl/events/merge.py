"""Sorted lanes of events become one stream, in which the events of one instant are marked."""

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from quantdsl.events.layout import EVENT, MORE, OUTSIDE, Kind

Events = npt.NDArray[np.void]
Bools = npt.NDArray[np.bool_]
T = TypeVar("T")

_WHOLE = np.dtype((np.void, EVENT.itemsize))
"""An event of which numpy asks no field when it joins many arrays."""

CHUNK_EVENTS = 65_536
"""Events handed to the core at once: 4 MiB, which stays in a second-level cache."""
SORTED_EVENTS = 4 * CHUNK_EVENTS
"""Events put in order at once: with fewer, slices of thousands of lanes take longer than that."""


def in_turns(
    sources: Sequence[Iterator[T]], add: Callable[[int, T], int | None]
) -> Iterator[int | None]:
    """Reads, again and again, of the source that has come least far; says how far all have come,
    None once all are read.

    `add(index, item)` takes what was read, and says how far that reaches: None is no further.
    """
    reached = [(int(np.iinfo(np.int64).min), index) for index in range(len(sources))]
    while reached:
        before, index = reached[0]
        item = next(sources[index], None)
        if item is None:
            heapq.heappop(reached)
        else:
            reaches = add(index, item)
            heapq.heapreplace(reached, (before if reaches is None else reaches, index))
        yield reached[0][0] if reached else None


class Merge:
    """Merges lanes by time; at one instant the lane with the smaller number comes first.

    `key` is the field that orders: `ts_event` of bars, `ts_recv` of ticks, whose messages it never
    divides, since all events of one have the same. Each lane must be pushed in that order. What
    `take` has given never comes again, so nothing earlier than its bound may be pushed afterwards.
    """

    def __init__(self, lanes: int, key: str = "ts_event") -> None:
        self._lanes: list[list[Events]] = [[] for _ in range(lanes)]
        self._key = key

    def push(self, lane: int, events: Events) -> None:
        if len(events):
            self._lanes[lane].append(events)

    def take(self, before_ns: int | None) -> Iterator[Events]:
        """Every event earlier than `before_ns` (all that are left if None), in order.

        Whole instants only, in pieces of about SORTED_EVENTS, each made when it is asked for.
        """
        ready = []
        for lane in self._lanes:
            if not lane:
                continue
            events = lane[0] if len(lane) == 1 else np.concatenate(lane)
            end = len(events)
            if before_ns is not None:
                end = int(np.searchsorted(events[self._key], before_ns, "left"))
            lane[:] = [events[end:]] if end < len(events) else []
            if end:
                ready.append(events[:end].view(_WHOLE))
        return self._pieces(ready)

    def _pieces(self, lanes: list[Events]) -> Iterator[Events]:
        """The lanes in order, cut where samples tell that about as many events lie between."""
        pieces = sum(map(len, lanes)) // SORTED_EVENTS
        if pieces < 2:
            if lanes:
                yield self._sorted(lanes)
            return
        keys = [np.ascontiguousarray(lane.view(EVENT)[self._key]) for lane in lanes]
        # Of lanes with the same times each gives others.
        sample = np.sort(np.concatenate([key[n % pieces :: pieces] for n, key in enumerate(keys)]))
        bounds = np.unique(sample[:: -(-len(sample) // pieces)])
        ends = np.array([[0, *np.searchsorted(key, bounds), len(key)] for key in keys]).T
        for begin, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            cuts = zip(lanes, begin, end, strict=True)
            parts = [lane[first:last] for lane, first, last in cuts if first < last]
            if parts:
                yield self._sorted(parts)

    def _sorted(self, lanes: list[Events]) -> Events:
        merged = np.concatenate(lanes).view(EVENT)
        ts = merged[self._key]
        if np.any(ts[1:] < ts[:-1]):
            # A stable sort keeps the order of the lanes within one instant.
            merged = merged[np.argsort(ts, kind="stable")]
        return merged


def mark(events: Events) -> Events:
    """The same events; each but the last of its instant now carries the flag MORE.

    Where a session opens as the last one closes, the close ends an instant: the one that opens
    has not begun while the bars, timers and orders of the other are dealt with. So does what comes
    before a split, a dividend or a funding: the bars that end then are from before it.
    """
    ts, kind = events["ts_event"], events["kind"]
    borders, actions = kind == Kind.SESSION, kind == Kind.CORPORATE
    parts = (borders[1:] & borders[:-1]) | (actions[1:] & ~actions[:-1])
    more = (ts[1:] == ts[:-1]) & ~parts
    events["flags"][:-1] |= np.where(more, MORE, 0).astype(np.uint16)
    return events


def cut(events: Events) -> list[Events]:
    """The events in pieces of about CHUNK_EVENTS that never divide an instant."""
    pieces = []
    while len(events) > CHUNK_EVENTS:
        ends = np.flatnonzero((events["flags"][:CHUNK_EVENTS] & MORE) == 0)
        end = int(ends[-1]) + 1 if len(ends) else _instant_end(events)
        pieces.append(events[:end])
        events = events[end:]
    if len(events):
        pieces.append(events)
    return pieces


def _instant_end(events: Events) -> int:
    return int(np.argmax((events["flags"] & MORE) == 0)) + 1


def outside(events: Events, off: Bools) -> Events:
    """The same events, those of a book at `off` marked as outside of the session."""
    marked = off & np.isin(events["kind"], (Kind.BOOK_DELTA, Kind.BOOK_SNAPSHOT))
    if marked.any():
        events = events.copy()
        events["flags"][marked] |= OUTSIDE
    return events


def keep(events: Events, kept: Bools) -> Events:
    """The events chosen; the last one that is left of a message ends it."""
    if kept.all():
        return events
    message = np.cumsum(np.concatenate(([0], (events["flags"][:-1] & MORE) == 0)))[kept]
    chosen = events[kept]
    if len(chosen):
        last = np.append(message[1:] != message[:-1], True)
        chosen["flags"] = np.where(last, chosen["flags"] & ~np.uint16(MORE), chosen["flags"] | MORE)
    return chosen
