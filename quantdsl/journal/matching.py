"""Which event of one stream is which of another, where two listened to the same market.

Bars have the venue's own times, and so have ticks of one recording: what is the same is the same by
every word. Of two connections to a venue each has times of receipt of its own and its own estimate
of the venue's clock: there what a message says, and its turn among those that say the same, tell
which one it is.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from quantdsl.events.layout import WORDS, Kind

Rows = npt.NDArray[np.void]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
TICKS = (Kind.QUOTE, Kind.TRADE, Kind.BOOK_DELTA, Kind.BOOK_SNAPSHOT)
APART_NS_MAX = 60_000_000_000
"""What says the same so far apart is not the same event."""
_TS, _RECV, _HEAD = 0, 1, 2
_WHAT = 0xFFFF_FFFF_FFFF
"""Of a head: instrument, kind and side, without flags."""


class Matched(NamedTuple):
    """Places of events in two streams."""

    both: Int64s
    """(place in one, place in two) of each that both have, in order of the first: i64[n, 2]."""
    changed: Int64s
    """The same of each that stands in both at the same place among them and says another thing."""
    alone: tuple[Int64s, Int64s]
    """Those that only the one has, and only the other."""


def of_market(events: Rows) -> Bools:
    """Which events come of a feed: the market, and what the feed says of itself."""
    return np.isin(events["kind"], (Kind.BAR, *TICKS, Kind.FEED))


def had(events: Rows) -> Int64s:
    """When a listener had each: a bar at its close, a tick when it was received."""
    return np.where(events["kind"] == Kind.BAR, events["ts_event"], events["ts_recv"])


def clock_shift_ns(one: Rows, two: Rows) -> int:
    """What the clock by which `one` tells the venue's times is ahead of that of `two`, ns.

    The median over ticks that say what no other tick says; 0 where there are none of them.
    """
    ticks = [events[np.isin(events["kind"], TICKS)] for events in (one, two)]
    ids = _numbered(*(_said(events, timed=False) for events in ticks))
    single = [np.bincount(own)[own] == 1 if len(own) else own == 0 for own in ids]
    pairs = _in_turn(*(own[alone] for own, alone in zip(ids, single, strict=True)))
    first, second = (
        events[alone][pairs[:, side]]
        for side, (events, alone) in enumerate(zip(ticks, single, strict=True))
    )
    # What carries no time of the venue was stamped with that of receipt.
    timed = (first["ts_event"] != first["ts_recv"]) & (second["ts_event"] != second["ts_recv"])
    apart = first["ts_event"] - second["ts_event"]
    apart = apart[timed] if timed.any() else apart
    return round(float(np.median(apart - apart[0]))) + int(apart[0]) if len(apart) else 0


def matched(one: Rows, two: Rows) -> Matched:
    """What of two streams of the market, by one clock, is the same."""
    both = _in_turn(*_numbered(_said(one, timed=True), _said(two, timed=True)))
    left = [np.setdiff1d(np.arange(len(own)), both[:, side]) for side, own in enumerate((one, two))]
    rest = [own[places] for own, places in zip((one, two), left, strict=True)]
    more = _in_turn(*_numbered(*(_said(own, timed=False) for own in rest)))
    apart = rest[0]["ts_event"][more[:, 0]] - rest[1]["ts_event"][more[:, 1]]
    more = more[np.abs(apart) <= APART_NS_MAX]
    found = np.concatenate([both, np.column_stack([left[k][more[:, k]] for k in (0, 1)])])
    found = found[np.argsort(found[:, 0], kind="stable")]
    return _rest_of(one, two, found)


def _rest_of(one: Rows, two: Rows, both: Int64s) -> Matched:
    """What is not the same: changed where a message of its kind stands between the same two."""
    left = [np.setdiff1d(np.arange(len(own)), both[:, side]) for side, own in enumerate((one, two))]
    rank = np.empty(len(both), np.int64)
    order = np.argsort(both[:, 1], kind="stable")
    rank[:] = order
    before = (
        np.searchsorted(both[:, 0], left[0]) - 1,
        _ranked(rank, np.searchsorted(both[order, 1], left[1]) - 1),
    )
    keys = []
    for own, places, between in zip((one, two), left, before, strict=True):
        rows = own[places]
        words = np.zeros((len(rows), 3), np.int64)
        bars = rows["kind"] == Kind.BAR
        words[:, 0] = np.where(bars, rows["ts_event"], 0)
        words[:, 1] = _heads(rows)
        words[:, 2] = np.where(bars, 0, between)
        keys.append(words)
    pairs = _in_turn(*_numbered(*keys))
    feeds = one["kind"][left[0][pairs[:, 0]]] == Kind.FEED
    pairs = pairs[~feeds]
    changed = np.column_stack([left[k][pairs[:, k]] for k in (0, 1)])
    alone = tuple(np.setdiff1d(left[k], changed[:, k]) for k in (0, 1))
    return Matched(both, changed, (alone[0], alone[1]))


def _ranked(rank: Int64s, places: Int64s) -> Int64s:
    """The rank at each place; -1 before the first."""
    if not len(rank):
        return np.full(len(places), -1, np.int64)
    return np.where(places < 0, -1, rank[places])


def _heads(events: Rows) -> Int64s:
    found: Int64s = np.ascontiguousarray(events).view(np.int64).reshape(-1, WORDS)[:, _HEAD]
    return found & _WHAT


def _said(events: Rows, *, timed: bool) -> Int64s:
    """What each event says, but for its receipt and flags; of ticks that are not `timed` not when
    either: i64[n, 7]."""
    rows = np.ascontiguousarray(events).view(np.int64).reshape(-1, WORDS).copy()
    rows[:, _HEAD] &= _WHAT
    if not timed:
        rows[:, _TS] = np.where(events["kind"] == Kind.BAR, rows[:, _TS], 0)
    return np.delete(rows, _RECV, axis=1)


def _numbered(one: Int64s, two: Int64s) -> tuple[Int64s, Int64s]:
    """Equal rows as equal numbers."""
    both = np.ascontiguousarray(np.concatenate([one, two]))
    whole = both.view(np.dtype((np.void, both.itemsize * both.shape[1]))).ravel()
    _, ids = np.unique(whole, return_inverse=True)
    ids = ids.astype(np.int64).ravel()
    return ids[: len(one)], ids[len(one) :]


def _in_turn(one: Int64s, two: Int64s) -> Int64s:
    """(place in one, place in two) of the k-th of each number, for every k that both have."""
    size = max(len(one), len(two)) + 1
    here, there = (ids * size + _turn(ids) for ids in (one, two))
    _, first, second = np.intersect1d(here, there, assume_unique=True, return_indices=True)
    return np.column_stack([first, second]).astype(np.int64)


def _turn(ids: Int64s) -> Int64s:
    """How many of the same number come before each."""
    order = np.argsort(ids, kind="stable")
    fresh = np.append(True, np.diff(ids[order]) != 0)[: len(ids)]
    starts = np.maximum.accumulate(np.where(fresh, np.arange(len(ids)), 0))
    turn = np.empty(len(ids), np.int64)
    turn[order] = np.arange(len(ids)) - starts
    return turn


class Places:
    """Moments of two runs, by how many of the events that both were told they follow.

    Two listeners have the same event at different times; what follows the same events is done at
    the same place of the market.
    """

    def __init__(self, one: Int64s, two: Int64s) -> None:
        """The times of those events in each run, in any order."""
        self._times = np.sort(one), np.sort(two)

    def of(self, run: int, ts: int) -> int:
        """How many of them run `run` had by then."""
        return int(np.searchsorted(self._times[run], ts, "right"))
