"""A recording made like what a session was told, one kind of difference after the other.

    the recording --> less what the session missed, with what it alone had      missed data
                  --> prices and sizes as the session had them                  price
                  --> times as the session had them, answers to signals too     latency

A run on each says what that kind of difference did: what has changed from one to the next has that
cause, however long before it lies.
"""

from collections.abc import Iterator

import numpy as np

from quantdsl.events.layout import Kind
from quantdsl.events.merge import keep
from quantdsl.journal.matching import Bools, Int64s, Matched, Rows, of_market
from quantdsl.journal.told import Cause


def steps(session: Rows, recorded: Rows, found: Matched) -> Iterator[tuple[Cause, Rows]]:
    """Each stream of events with what is new in it; `found` says what of the two is the same.

    Times are the recorder's until the last. The answers to asynchronous signals are in none but
    the last, where they stand as the session had them.
    """
    session = keep(session, session["kind"] != Kind.COMMAND)
    whole = session
    session, recorded = (keep(own, own["kind"] != Kind.SIGNAL) for own in (session, recorded))
    theirs = np.flatnonzero(of_market(session))
    ours = np.flatnonzero(of_market(recorded))
    ticks = not (recorded["kind"] == Kind.BAR).any()
    built = _built(session[theirs], recorded[ours], found)
    if len(found.alone[0]) or len(found.alone[1]):
        if ticks:
            yield "missed data", _filled(session, recorded, theirs, ours, found)
        else:  # whose place in an instant only the session's own stream tells
            kept = found.changed[~built]
            yield "missed data", _told(session, recorded, theirs, ours, (found.both, kept))
    pairs = np.concatenate([found.both, found.changed])
    here, there = theirs[pairs[:, 0]], ours[pairs[:, 1]]
    if len(found.changed):
        changed = recorded.copy()
        changed["payload"][there] = session["payload"][here]
        yield "price", _filled(session, changed, theirs, ours, found) if ticks else session
    late = any((session[name][here] != recorded[name][there]).any() for name in _TIMES)
    if (ticks and late) or len(whole) != len(session):
        yield "latency", whole


_TIMES = ("ts_event", "ts_recv")


def _built(session: Rows, recorded: Rows, found: Matched) -> Bools:
    """Which of the changed are bars of a coarser clock, over bars that only one of the runs had."""
    changed = session[found.changed[:, 0]]
    alone = np.concatenate([session[found.alone[0]], recorded[found.alone[1]]])
    alone = alone[(alone["kind"] == Kind.BAR) & (alone["side"] == 0)]
    built = np.zeros(len(changed), bool)
    for instrument in np.unique(alone["instrument"]).tolist():
        times = np.sort(alone["ts_event"][alone["instrument"] == instrument])
        own = (changed["instrument"] == instrument) & (changed["side"] > 0)
        opened, closed = changed["ts_recv"][own], changed["ts_event"][own]
        before = np.searchsorted(times, opened, "right")
        built[own] = np.searchsorted(times, closed, "right") > before
    built &= changed["kind"] == Kind.BAR
    return built


def _told(
    session: Rows, recorded: Rows, theirs: Int64s, ours: Int64s, pairs: tuple[Int64s, ...]
) -> Rows:
    """The session's bars with the recording's prices, where these pairs stand in both."""
    both = np.concatenate(pairs)
    told = session.copy()
    told["payload"][theirs[both[:, 0]]] = recorded["payload"][ours[both[:, 1]]]
    return told


def _filled(session: Rows, recorded: Rows, theirs: Int64s, ours: Int64s, found: Matched) -> Rows:
    """The recording of ticks without what the session missed, and with what it alone had."""
    kept = np.ones(len(recorded), bool)
    kept[ours[found.alone[1]]] = False
    left = keep(recorded, kept)
    more = np.zeros(len(session), bool)
    more[theirs[found.alone[0]]] = True
    both = np.concatenate([left, keep(session, more)])
    return both[np.argsort(both["ts_recv"], kind="stable")]
