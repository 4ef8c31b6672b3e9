"""The answers to asynchronous signals in a backtest: an event some time after what asked for them.

The core knows which signals it has asked for; the stream only says when the answers to the
requests of an instant are there. Such an event is an instant of its own, after all events of its
time, for what is computed is never had in the instant of its inputs.
"""

from collections.abc import Iterator

import msgspec
import numpy as np
import numpy.typing as npt

from quantdsl.events.layout import EVENT, MORE, Kind
from quantdsl.events.merge import Events

ALL = -1
"""Answers of all signals."""


class Awaited(msgspec.Struct, frozen=True, kw_only=True):
    """What asks for signals: bars of these clocks, events of these kinds; and how long it takes."""

    clocks: frozenset[int] = frozenset()
    kinds: frozenset[int] = frozenset()
    delay_ns: int = 0


def answered(chunks: Iterator[Events], awaited: Awaited, key: str) -> Iterator[Events]:
    """The chunks with the answers among them; `key` is the field that orders the events."""
    waiting = np.empty(0, EVENT)
    for events in chunks:
        found = answers(asked(events, awaited, key), awaited.delay_ns)
        waiting = np.concatenate((waiting, found))
        # What has the time of the last event may be followed by more of that time.
        due = int(np.searchsorted(waiting["ts_event"], events[key][-1], "left"))
        yield placed(events, waiting[:due], key)
        waiting = waiting[due:]
    if len(waiting):
        yield waiting


def asked(events: Events, awaited: Awaited, key: str) -> npt.NDArray[np.int64]:
    """The instants at which something is asked for, one entry for each, in order."""
    kinds = events["kind"]
    bars = (kinds == Kind.BAR) & np.isin(events["side"], list(awaited.clocks))
    asks = bars | np.isin(kinds, list(awaited.kinds))
    ends = (events["flags"] & MORE) == 0
    instant = np.cumsum(ends) - ends
    _, first = np.unique(instant[asks], return_index=True)
    times: npt.NDArray[np.int64] = events[key][asks][first]
    return times


def answers(times: npt.NDArray[np.int64], delay_ns: int) -> Events:
    """The events that answer what was asked for at these times."""
    events = np.zeros(len(times), EVENT)
    events["ts_event"] = events["ts_recv"] = times + delay_ns
    events["kind"] = Kind.SIGNAL
    events["payload"][:, 0], events["payload"][:, 1] = ALL, times
    return events


def placed(events: Events, answers_: Events, key: str) -> Events:
    """Both in one order, each answer after all events of its time."""
    if not len(answers_):
        return events
    at = np.searchsorted(events[key], answers_["ts_event"], "right")
    size = len(events) + len(answers_)
    own = at + np.arange(len(answers_))
    merged = np.empty(size, EVENT)
    rest = np.ones(size, bool)
    rest[own] = False
    merged[own], merged[rest] = answers_, events
    return merged
