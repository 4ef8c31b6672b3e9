"""What waits for an engine: only quotes are left out, and those alone that newer ones replace."""

import random
import time

import numpy as np
import pytest

from quantdsl.events.layout import EVENT, MORE, Command, Kind
from quantdsl.events.ring import Ring
from quantdsl.live import sequencer as module
from quantdsl.live.backlog import BLOCK, Backlog, replaced
from quantdsl.live.sequencer import STOOD_WAITED_FOR_S_MAX, Lane, Sequencer

GLOBAL = (Kind.SESSION, Kind.TIMER, Kind.COMMAND, Kind.SIGNAL)
WEIGHTS = {Kind.QUOTE: 12, Kind.TRADE: 2, Kind.BOOK_DELTA: 1, Kind.FEED: 1, Kind.TIMER: 1}


def made(seed: int, count: int, instruments: int = 3) -> np.ndarray:
    """Events of a few instruments, numbered by their payload; some messages have several."""
    draw = random.Random(seed)
    events = np.zeros(count, EVENT)
    events["ts_event"] = events["ts_recv"] = np.arange(count) + 1
    events["kind"] = draw.choices([*WEIGHTS], [*WEIGHTS.values()], k=count)
    events["instrument"] = [draw.randrange(instruments) for _ in range(count)]
    events["flags"] = [MORE * (draw.random() < 0.1) for _ in range(count)]
    events["flags"][-1] = 0
    events["payload"][:, 0] = np.arange(count)
    return events


def left_out(events: np.ndarray) -> list[int]:
    """The rule again, word by word."""
    found = []
    for k, one in enumerate(events):
        whole = not one["flags"] & MORE and (k == 0 or not events[k - 1]["flags"] & MORE)
        if one["kind"] != Kind.QUOTE or not whole:
            continue
        for later in events[k + 1 :]:
            if later["kind"] in GLOBAL:
                break
            if later["instrument"] == one["instrument"]:
                if later["kind"] == Kind.QUOTE:
                    found.append(k)
                break
    return found


@pytest.mark.parametrize("seed", range(8))
def test_a_quote_is_replaced_by_the_rule(seed):
    events = made(seed, 400)
    found = np.flatnonzero(replaced(events)).tolist()
    assert found == left_out(events)
    assert len(found) > 50


@pytest.mark.parametrize("conflates", [True, False])
def test_whatever_comes_and_whatever_room_there_is_nothing_else_is_left_out(conflates):
    draw = random.Random(1)
    events = made(9, 5 * BLOCK)
    ends = [0, *(np.flatnonzero((events["flags"] & MORE) == 0) + 1).tolist()]
    backlog, taken, at = Backlog(conflates=conflates), [], 0
    while at < len(ends) - 1 or len(backlog):
        for _ in range(draw.randrange(900)):
            upto = min(at + draw.randrange(1, 4), len(ends) - 1)
            if upto > at:
                backlog.add(events[ends[at] : ends[upto]])
            at = upto
        for _ in range(draw.randrange(4)):
            room = draw.randrange(1, 600)
            part = backlog.take(room)
            assert len(part) <= room or not (part["flags"][:-1] & MORE == 0).any()
            assert not len(part) or not part["flags"][-1] & MORE
            taken.append(part)
    found = np.concatenate(taken)
    assert len(found) + backlog.conflated == len(events)
    assert (np.diff(found["payload"][:, 0]) > 0).all(), "their order is another"
    missing = np.setdiff1d(events["payload"][:, 0], found["payload"][:, 0])
    assert (len(missing) > BLOCK) == conflates
    assert set(missing.tolist()) <= set(np.flatnonzero(replaced(events)).tolist())


class Journal:
    def __init__(self) -> None:
        self.failed: str | None = None
        self.events: list[np.ndarray] = []

    def inputs(self, events: np.ndarray) -> None:
        self.events.append(events.copy())


class Ticks(module.TickClock):
    """Of a market that is always open, without timers."""

    def __init__(self) -> None:
        self.open_ns, self.close_ns, self.next_ns, self.floor = 0, 1 << 62, 1 << 62, 0


def lane(capacity: int = 64, **more: float) -> tuple[Lane, Sequencer, Journal]:
    journal, ring = Journal(), Ring.create(None, capacity)
    kinds = frozenset({Kind.QUOTE, Kind.TRADE})
    one = Lane("a", Ticks(), [0], kinds, journal, ring, conflates=True, **more)
    return one, Sequencer([one]), journal


def ticks(first: int, count: int, kind: Kind = Kind.QUOTE) -> np.ndarray:
    events = np.zeros(count, EVENT)
    events["ts_event"] = events["ts_recv"] = events["payload"][:, 0] = first + np.arange(count)
    events["kind"] = kind
    return events


def test_under_overload_every_event_is_accounted_for():
    """Twenty times what the engine takes: it sees every trade, and of quotes the newest."""
    one, sequencer, journal = lane()
    consumer, got, count = one.inbound.consumer(), [], 40_000
    for k in range(0, count, 20):
        sequencer.push(ticks(k + 1, 19))
        sequencer.push(ticks(k + 20, 1, Kind.TRADE))
        got.append(consumer.pop(2))
        sequencer.relieve()
    assert one.behind <= 2 * count / 20 + BLOCK, "quotes pile up"
    assert one.count + one.backlog.conflated + len(one.backlog) == count
    while one.behind or one.inbound.waiting:
        got.append(consumer.pop(64))
        sequencer.relieve()
    found = np.concatenate(got).view(EVENT)
    assert (one.failed, one.dropped) == ("", 0)
    assert len(found) + one.backlog.conflated == count
    trades = found["payload"][found["kind"] == Kind.TRADE, 0]
    assert np.array_equal(trades, np.arange(20, count + 1, 20))
    assert np.concatenate(journal.events).tobytes() == found.tobytes()
    before = found["payload"][np.flatnonzero(found["kind"] == Kind.TRADE) - 1, 0]
    assert np.array_equal(before, trades - 1), "a trade meets another quote than it met"


def test_an_engine_too_far_behind_is_halted_and_what_it_misses_is_counted(monkeypatch):
    monkeypatch.setattr(module, "BEHIND_MAX", 500)
    one, sequencer, journal = lane()
    for k in range(1_000):
        sequencer.push(ticks(k + 1, 1, Kind.TRADE))
    assert one.failed == "the engine is more than 500 events behind"
    kept = sum(map(len, journal.events))
    assert (kept, one.dropped) == (65, 1_000 - 65), "one found the ring full"
    assert one.behind == 0


def test_a_command_overtakes_what_waits():
    """A kill switch behind a million events would be none."""
    one, sequencer, journal = lane()
    sequencer.push(ticks(1, 100, Kind.TRADE))  # of which 36 wait and are in the journal
    sequencer.push(ticks(101, 100, Kind.TRADE))
    sequencer.command([one], Command.KILL, 1, 1_000)
    consumer = one.inbound.consumer()
    found = []
    while one.inbound.waiting or one.behind:
        found.append(consumer.pop(10))
        sequencer.relieve()
    seen = np.concatenate(found).view(EVENT)
    assert np.flatnonzero(seen["kind"] == Kind.COMMAND).tolist() == [100]
    assert (np.diff(seen["ts_recv"]) >= 0).all()
    assert len(seen) == 201
    assert np.concatenate(journal.events).tobytes() == seen.tobytes()


def test_time_in_which_nobody_looked_is_not_held_against_an_engine(monkeypatch):
    """A machine that slept for an hour."""
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    one, sequencer, _ = lane()
    sequencer.push(ticks(1, 1))
    for _ in range(20):
        clock[0] += 3_600.0
        sequencer.relieve()
        assert one.failed == ""
    for _ in range(30):
        clock[0] += 0.05
        sequencer.relieve()
    assert one.failed == "the engine has taken no event for 2 s"


def test_an_engine_that_its_market_waits_for_has_more_time(monkeypatch):
    """A soak on a machine that thirty programs shared halted a strategy for nothing."""
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    one, sequencer, _ = lane(stood_s_max=STOOD_WAITED_FOR_S_MAX)
    sequencer.push(ticks(1, 1))
    looks = round(STOOD_WAITED_FOR_S_MAX / 0.05)
    for _ in range(looks - 1):
        clock[0] += 0.05
        sequencer.relieve()
        assert one.failed == ""
    for _ in range(3):
        clock[0] += 0.05
        sequencer.relieve()
    assert one.failed == "the engine has taken no event for 60 s"
