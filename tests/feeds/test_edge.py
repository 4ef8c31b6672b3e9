"""What is wrong with a live message stops at the edge, with its code."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numba import njit
from quantdsl.feeds.edge import edges, in_our_time, in_words, standing_still, states

from quantdsl.data.instrument import Instrument
from quantdsl.data.ticks import FAULTS, MISSING, WORDS, Fault
from quantdsl.errors import FeedError
from quantdsl.events.layout import EVENT, MORE, NO_PRICE, Feed, Kind
from quantdsl.feeds import edge as edges_of

ONE = Instrument(symbol="X", tick=Fraction(1, 10), lot=Fraction(1, 1000))
DIGITS = (8, 8)
TICK, LOT = 10**7, 10**5


@njit
def judge(out: Any, first: int, last: int, edge: Any, faults: Any) -> int:
    return edges_of.judge(out, first, last, edge, faults)


@njit
def heard(out: Any, edge: Any, event: int, received: int, whole: bool) -> int:
    return edges_of.heard(out, 0, edge, event, received, whole)


def test_venue_times_are_told_by_our_clock_and_none_lies_behind_its_receipt():
    """Of a venue whose clock is 70 ahead: an event, one of no venue time, one that seems early."""
    rows = np.zeros((3, 8), np.int64)
    rows[:, :2] = [(1_000, 960), (500, 500), (1_100, 1_000)]
    in_our_time(rows.reshape(-1), 70)
    assert rows[:, :2].tolist() == [[930, 960], [500, 500], [1_000, 1_000]]
    rows[0, :2] = 1_000, 50_000
    in_our_time(rows.reshape(-1), -40_000)
    assert rows[0, 0] == 41_000


def message(kind: Kind, *payloads: tuple[int, ...], side: int = 1) -> Any:
    events = np.zeros(len(payloads) + 1, EVENT)
    events["kind"], events["side"], events["flags"] = kind, side, MORE
    events["flags"][len(payloads) - 1] = 0
    for event, payload in zip(events, payloads, strict=False):
        event["payload"][: len(payload)] = payload
    return events


def judged(events: Any, edge: Any = None) -> tuple[Any, dict[str, int]]:
    faults = np.zeros(FAULTS, np.int64)
    edge = edges([ONE], [DIGITS], 3)[0] if edge is None else edge
    left = judge(events.view(np.int64).reshape(-1, 8), 0, len(events) - 1, edge, faults)
    return events[:left], in_words(faults)


def test_a_good_message_is_counted_in_ticks_and_lots():
    trade, found = judged(message(Kind.TRADE, (617 * TICK, 25 * LOT, 7)))
    assert trade["payload"][0].tolist() == [617, 25, 7, 0, 0]
    quote, more = judged(message(Kind.QUOTE, (617 * TICK, 618 * TICK, LOT, 2 * LOT, 9)))
    assert quote["payload"][0].tolist() == [617, 618, 1, 2, 9]
    book, most = judged(message(Kind.BOOK_DELTA, (617 * TICK, 0, 5), (616 * TICK, LOT, 5)))
    assert book["payload"][:, :3].tolist() == [[617, 0, 5], [616, 1, 5]]
    assert (found, more, most) == ({}, {}, {})


BAD = {
    "zero price": (Kind.TRADE, (0, LOT), Fault.PRICE),
    "negative price": (Kind.TRADE, (-TICK, LOT), Fault.PRICE),
    "no size": (Kind.TRADE, (TICK, 0), Fault.SIZE),
    "negative size": (Kind.TRADE, (TICK, -LOT), Fault.SIZE),
    "off the lot": (Kind.TRADE, (TICK, LOT + 1), Fault.OFF_LOT),
    "below a tick": (Kind.TRADE, (TICK - 1, LOT), Fault.PRICE),
    "crossed": (Kind.QUOTE, (2 * TICK, TICK, LOT, LOT, 1), Fault.CROSSED),
    "locked": (Kind.QUOTE, (TICK, TICK, LOT, LOT, 1), Fault.LOCKED),
    "quote off the tick": (Kind.QUOTE, (TICK + 1, 2 * TICK, LOT, LOT, 1), Fault.OFF_TICK),
    "level off the tick": (Kind.BOOK_DELTA, (TICK + 1, LOT, 9), Fault.OFF_TICK),
    "negative level": (Kind.BOOK_DELTA, (TICK, -LOT, 9), Fault.SIZE),
    "level of zero": (Kind.BOOK_DELTA, (0, LOT, 9), Fault.PRICE),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_message_never_reaches_the_core(name):
    kind, payload, fault = BAD[name]
    left, found = judged(message(kind, payload))
    assert found[WORDS[fault]] == 1
    if kind == Kind.TRADE:
        assert len(left) == 0
    elif kind == Kind.QUOTE:
        assert left["payload"].tolist() == [[NO_PRICE, NO_PRICE, 0, 0, 0]]
    else:
        assert (left["kind"][0], left["side"][0], left["flags"][0]) == (Kind.FEED, Feed.GAP, 0)
        assert left["payload"][0].tolist() == [fault, 0, 9, 0, 0]


def test_one_bad_level_makes_a_gap_of_the_whole_message():
    left, _ = judged(message(Kind.BOOK_DELTA, (TICK, LOT, 9), (2 * TICK, 1, 9), (TICK, LOT, 9)))
    assert len(left) == 1
    assert left["kind"][0] == Kind.FEED


def test_a_side_without_a_price_is_no_fault():
    for nobody in ((MISSING, 0), (0, 0)):
        left, found = judged(message(Kind.QUOTE, (nobody[0], 3 * TICK, nobody[1], LOT, 1)))
        assert left["payload"][0].tolist() == [NO_PRICE, 3, 0, 1, 1]
        assert not found


@pytest.mark.parametrize("times", [1_000_000, 1 / 1_000_000])
def test_a_price_does_not_jump_a_millionfold(times):
    edge = edges([ONE], [DIGITS], 3)[0]
    usual = (10**5 if times > 1 else 10**9) * TICK
    assert len(judged(message(Kind.TRADE, (usual, LOT)), edge)[0]) == 1
    left, found = judged(message(Kind.TRADE, (int(usual * times), LOT)), edge)
    assert (len(left), found) == (0, {WORDS[Fault.JUMP]: 1})
    assert len(judged(message(Kind.TRADE, (usual * 2, LOT)), edge)[0]) == 1


def test_an_instrument_is_good_again_after_enough_messages_of_new_times():
    edge = edges([ONE], [DIGITS], 3)
    out = np.zeros((1, 8), np.int64)
    assert [heard(out, edge[0], time, 100, True) for time in (10, 10, 11, 12)] == [0, 0, 0, 1]
    event = out.view(EVENT)[0, 0]
    assert (event["kind"], event["side"], event["ts_event"]) == (Kind.FEED, Feed.GOOD, 12)
    # It stands still: messages come, but of one time.
    assert heard(out, edge[0], 12, 5_000, True) == 0
    assert standing_still(edge, 1_100, 1_000) == []
    assert standing_still(edge, 1_101, 1_000) == [0]
    told = states(edge, [0], Feed.STALE, 1_101, 7)
    assert (told["side"][0], told["instrument"][0]) == (Feed.STALE, 7)
    assert standing_still(edge, 9_999, 1_000) == []
    # Not before its book is whole, however many come.
    assert [heard(out, edge[0], time, 1_200, False) for time in range(13, 20)] == [0] * 7
    assert heard(out, edge[0], 20, 1_300, True) == 1


def test_a_message_of_a_time_far_ahead_does_not_keep_an_instrument_off():
    edge = edges([ONE], [DIGITS], 3)
    out = np.zeros((1, 8), np.int64)
    far = 10**18
    assert [heard(out, edge[0], time, 100, True) for time in (10, 11, far)] == [0, 0, 1]
    assert [heard(out, edge[0], time, 2_000, True) for time in (12, 13)] == [0, 0]
    states(edge, standing_still(edge, 2_000, 1_000), Feed.STALE, 2_000, 0)
    assert [heard(out, edge[0], time, 2_100, True) for time in (14, 14, 15, 16)] == [0, 0, 0, 1]


def test_a_step_finer_than_the_decimals_is_refused():
    with pytest.raises(FeedError, match=r"X: a tick of 0.1 cannot be counted"):
        edges([ONE], [(0, 8)], 3)
