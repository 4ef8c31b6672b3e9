"""Sorted lanes of events become one stream, in which the events of one instant are marked."""

import numpy as np
import numpy.typing as npt

from quantdsl.events.layout import EVENT, MORE

Events = npt.NDArray[np.void]
Bools = npt.NDArray[np.bool_]

CHUNK_EVENTS = 65_536
"""Events handed to the core at once: 4 MiB, which stays in a second-level cache."""


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

    def take(self, before_ns: int | None) -> Events:
        """Every event earlier than `before_ns` (all that are left if None), whole instants only."""
        ready = []
        for lane in self._lanes:
            if not lane:
                continue
            events = lane[0] if len(lane) == 1 else np.concatenate(lane)
            end = len(events)
            if before_ns is not None:
                end = int(np.searchsorted(events[self._key], before_ns, "left"))
            lane[:] = [events[end:]] if end < len(events) else []
            ready.append(events[:end])
        if not ready:
            return np.empty(0, EVENT)
        merged = np.concatenate(ready)
        ts = merged[self._key]
        if np.any(ts[1:] < ts[:-1]):
            # A stable sort keeps the order of the lanes within one instant.
            merged = merged[np.argsort(ts, kind="stable")]
        return merged


def mark(events: Events) -> Events:
    """The same events; each but the last of its instant now carries the flag MORE."""
    ts = events["ts_event"]
    events["flags"][:-1] |= np.where(ts[1:] == ts[:-1], MORE, 0).astype(np.uint16)
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
