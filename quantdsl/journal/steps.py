"""A recording made like what a session was told, one kind of difference after the other.

    the recording --> less what the session missed, with what it alone had      missed data
                  --> prices and sizes as the session had them                  price
                  --> times as the session had them                             latency

A run on each says what that kind of difference did: what has changed from one to the next has that
cause, however long before it lies.
"""

from collections.abc import Iterator

import numpy as np

from quantdsl.events.layout import Kind
from quantdsl.events.merge import keep
from quantdsl.journal.matching import Int64s, Matched, Rows, of_market
from quantdsl.journal.told import Cause


def steps(session: Rows, recorded: Rows, found: Matched) -> Iterator[tuple[Cause, Rows]]:
    """Each stream of events with what is new in it; `found` says what of the two is the same.

    Times are the recorder's until the last, which there is on ticks alone.
    """
    theirs = np.flatnonzero(of_market(session))
    ours = np.flatnonzero(of_market(recorded))
    ticks = not (recorded["kind"] == Kind.BAR).any()
    if len(found.alone[0]) or len(found.alone[1]):
        yield "missed data", _filled(session, recorded, theirs, ours, found, ticks=ticks)
    pairs = np.concatenate([found.both, found.changed])
    here, there = theirs[pairs[:, 0]], ours[pairs[:, 1]]
    changed = recorded.copy()
    changed["payload"][there] = session["payload"][here]
    if len(found.changed):
        yield "price", _filled(session, changed, theirs, ours, found, ticks=ticks)
    if not ticks:
        return
    for name in ("ts_event", "ts_recv"):
        changed[name][there] = session[name][here]
    if any((changed[name] != recorded[name]).any() for name in ("ts_event", "ts_recv")):
        yield "latency", _filled(session, changed, theirs, ours, found, ticks=ticks)


def _filled(
    session: Rows, recorded: Rows, theirs: Int64s, ours: Int64s, found: Matched, *, ticks: bool
) -> Rows:
    """The recording without what the session missed and, of ticks, with what it alone had."""
    kept = np.ones(len(recorded), bool)
    kept[ours[found.alone[1]]] = False
    left = keep(recorded, kept)
    if not ticks:  # whose place in an instant is the data layer's affair
        return left
    more = np.zeros(len(session), bool)
    more[theirs[found.alone[0]]] = True
    both = np.concatenate([left, keep(session, more)])
    return both[np.argsort(both["ts_recv"], kind="stable")]
