"""Which event of one stream is which of another: by every word, or by what it says and its turn."""

import random

import numpy as np
import pytest

from quantdsl.events.layout import EVENT, Feed, Kind
from quantdsl.journal.matching import APART_NS_MAX, clock_shift_ns, matched, of_market
from quantdsl.journal.told import Told

START_NS = 1_723_161_256_000_000_000
SECOND_NS = 1_000_000_000


def stream(count: int = 400, seed: int = 1) -> np.ndarray:
    """Quotes and trades of two instruments; every tenth quote says what the one before said."""
    draw = random.Random(seed)
    events = np.zeros(count, EVENT)
    events["ts_event"] = START_NS + np.cumsum([draw.randrange(1, 9_000_000) for _ in range(count)])
    events["ts_recv"] = events["ts_event"] + [draw.randrange(2_000_000) for _ in range(count)]
    events["ts_recv"] = np.maximum.accumulate(events["ts_recv"])
    events["kind"] = [draw.choice([Kind.QUOTE, Kind.TRADE]) for _ in range(count)]
    events["instrument"] = [draw.randrange(2) for _ in range(count)]
    events["payload"][:, 0] = np.arange(count) // 10 * 10
    events["payload"][:, 1] = [draw.randrange(4) for _ in range(count)]
    return events


def heard(events: np.ndarray, seed: int, ahead_ns: int = 0) -> np.ndarray:
    """The same as another listener has it: later by some, and by a clock of its own."""
    draw = random.Random(seed)
    found = events.copy()
    found["ts_event"] += ahead_ns
    late = np.array([draw.randrange(50_000) for _ in range(len(events))])
    found["ts_recv"] = np.maximum.accumulate(found["ts_recv"] + ahead_ns + late)
    return found


def places(count: int, but: set[int] = frozenset()) -> list[int]:  # type: ignore[assignment]
    return [k for k in range(count) if k not in but]


def test_two_listeners_have_the_same_events():
    one, two = stream(), heard(stream(), 2)
    found = matched(one, two)
    assert found.both.tolist() == [[k, k] for k in range(len(one))]
    assert not len(found.changed)
    assert not any(map(len, found.alone))


@pytest.mark.parametrize("ahead_ns", [0, 37_000_001, -70_000_000_000_000_000])
def test_the_shift_of_a_clock_is_found_to_the_nanosecond(ahead_ns):
    one, two = stream(), heard(stream(), 3, ahead_ns)
    assert clock_shift_ns(two, one) == ahead_ns
    assert clock_shift_ns(one, two) == -ahead_ns
    lost = np.delete(two, slice(100, 140))
    assert clock_shift_ns(lost, one) == ahead_ns


def test_nothing_in_common_has_no_shift():
    one, two = stream(40), stream(40, seed=9)
    two["payload"][:, 2] = 7
    assert clock_shift_ns(one, two) == 0
    assert len(matched(one, two).both) == 0
    assert clock_shift_ns(one[:0], two) == 0
    assert matched(one[:0], two[:0]).both.shape == (0, 2)


def test_what_one_lost_is_alone():
    one, two = stream(), heard(stream(), 4)
    lost, other = {50, 51, 52, 200}, {120, 121}
    found = matched(one[places(400, lost)], two[places(400, other)])
    kept = places(400, lost)
    assert [kept[k] for k in found.alone[0]] == sorted(other)
    kept = places(400, other)
    assert [kept[k] for k in found.alone[1]] == sorted(lost)
    assert not len(found.changed)


def test_what_says_another_thing_between_the_same_two_is_changed():
    one, two = stream(), heard(stream(), 5)
    two["payload"][[30, 31, 77], 3] = 99
    found = matched(one, two)
    assert found.changed.tolist() == [[30, 30], [31, 31], [77, 77]]
    assert not any(map(len, found.alone))


def test_the_same_words_a_long_time_apart_are_another_event():
    one = stream(1)
    two = one.copy()
    two["ts_event"] += APART_NS_MAX + 1
    found = matched(one, two)
    assert (len(found.both), len(found.changed)) == (0, 1)


def test_bars_are_the_same_at_the_same_time_alone():
    one = stream(60)
    one["kind"] = Kind.BAR
    one["instrument"] = 0
    two = one.copy()
    two["ts_event"][20] += SECOND_NS
    two["payload"][40, 2] = 5
    found = matched(one, two)
    assert [at for at, _ in found.both] == places(60, {20, 40})
    assert found.changed.tolist() == [[40, 40]]
    assert [k.tolist() for k in found.alone] == [[20], [20]]


def test_a_loss_that_one_feed_tells_of_is_told():
    one, two = stream(), heard(stream(), 6)
    gap = np.zeros(1, EVENT)
    gap["ts_event"] = gap["ts_recv"] = one["ts_recv"][100]
    gap["kind"], gap["side"] = Kind.FEED, Feed.GAP
    good = gap.copy()
    good["side"] = Feed.GOOD
    one = np.concatenate([one[:101], gap, good, one[101:]])
    assert of_market(one).all()
    found = matched(one, two)
    assert [k.tolist() for k in found.alone] == [[101, 102], []]
    said = Told(one, two, found).said("missed data", 0, 0, int(one["ts_recv"][103]))
    assert said is not None
    assert said.words.startswith("the session's feed said gap at 2024-08-08T")


def test_what_was_told_otherwise_is_found_by_its_cause():
    one, two = stream(), heard(stream(), 7)
    two["payload"][60, 3] = 99
    whole = two
    two = np.delete(two, 80)
    told = Told(one, two, matched(one, two))
    assert told.instruments == [0, 1]

    def words(cause: str, last: int, instrument: int, first: int = 0) -> str:
        since, until = int(one["ts_recv"][first]), int(whole["ts_recv"][last])
        said = told.said(cause, instrument, since, until)
        return "" if said is None else said.words

    changed, missed = int(one["instrument"][60]), int(one["instrument"][80])
    assert "earlier in the session" in words("latency", 40, 0, 10)
    assert "has other prices or sizes" in words("price", 70, changed)
    assert words("price", 58, changed) == words("price", 399, 1 - changed) == ""
    assert "is not in the recording" in words("missed data", 90, missed)
    assert words("missed data", 78, missed) == ""
    assert "is not in the recording" in words("missed data", 399, missed, 200), "long before"
    same = Told(one, one, matched(one, one))
    assert all(same.said(cause, 0, 0, 2**62) is None for cause in ("latency", "price"))


def test_an_event_counts_from_when_the_first_to_when_the_last_had_it():
    one = stream(100)
    one["instrument"] = 0
    two = one.copy()
    two["ts_recv"][[20, 40]] += 500, 1_000
    told = Told(one, two, matched(one, two))
    first = int(one["ts_recv"][40])

    def late(since: int, until: int) -> str:
        said = told.said("latency", 0, since, until)
        return "" if said is None else said.words.rpartition("received ")[2]

    assert late(first + 999, first + 5_000) == "1,000 ns earlier in the session"
    assert late(0, first) == "1,000 ns earlier in the session", "what weighs most"
    assert late(first - 1, first - 1) == "500 ns earlier in the session", "else the newest before"
    assert late(0, int(one["ts_recv"][20]) - 1) == ""
