"""Each order or fill in which two runs differ gets one cause: the one that was planted."""

from functools import cache

import numpy as np
import pytest

from quantdsl.backtest.prepare import prepare
from quantdsl.events.layout import EVENT, MORE, Command, KilledBy, Kind
from quantdsl.journal.difference import Compared, Ran
from quantdsl.journal.difference import compare as compared
from tests.live.programs import checked, ready


@cache
def told(name: str) -> np.ndarray:
    """What a run is told, but for its end."""
    return np.concatenate([part.view(EVENT) for part in ready(name).data.chunks()])[:40_000]


def ran(name: str, events: np.ndarray, *, max_order: int = 0, **more: object) -> Ran:
    prepared = prepare(checked(name), more={k.replace("__", "."): v for k, v in more.items()})
    run = prepared.run
    if max_order:
        run.memory.words[run.memory.slot("e.limits.max_order").offset_words] = max_order
    run.memory.set("curve_on", False)
    whole = np.flatnonzero((events["flags"] & MORE) == 0)[-1] + 1
    run.feed(events[:whole])
    return Ran(events[:whole], run.all_records())


def compare(one: Ran, two: Ran, name: str, **more: object) -> Compared:
    """By runs with the settings of the second."""
    return compared(one, two, lambda events: ran(name, events, **more))


def causes(found: Compared) -> set[str]:
    assert found.differences, "what was planted changed nothing: the test shows nothing"
    times = [one.ts for one in found.differences]
    assert times == sorted(times)
    assert all(one.why for one in found.differences)
    return {one.cause for one in found.differences}


def counted(one: Ran, two: Ran, found: Compared) -> None:
    """Each order and fill of the time that both saw is the same or different, and none is both."""
    end = min(max(run.events[-1]["ts_event"], run.events[-1]["ts_recv"]) for run in (one, two))
    for kind in (Kind.ORDER, Kind.FILL):
        own = [one for one in found.differences if one.kind == kind]
        for run, side in ((one, "session"), (two, "recorded")):
            there = sum(getattr(each, side) is not None for each in own)
            shared = run.records[run.records["ts_event"] <= end]
            assert there + found.same[kind] == (shared["kind"] == kind).sum()


@pytest.mark.parametrize("name", ["sma_cross", "skewed_maker"])
def test_the_same_is_the_same(name):
    one = ran(name, told(name))
    found = compare(one, one, name)
    assert found.differences == []
    assert found.same[Kind.ORDER] > 0
    assert found.same[Kind.FILL] > 0


def test_bars_that_the_session_did_not_get():
    events = told("sma_cross")
    orders = ran("sma_cross", events).records
    first = orders["ts_event"][orders["kind"] == Kind.ORDER][10]
    missed = (np.abs(events["ts_event"] - first) < 3_600_000_000_000) & (events["kind"] == Kind.BAR)
    one, two = ran("sma_cross", events[~missed]), ran("sma_cross", events)
    found = compare(one, two, "sma_cross")
    assert causes(found) == {"missed data"}
    assert "is not in the session" in found.differences[0].why
    counted(one, two, found)
    assert causes(compare(two, one, "sma_cross")) == {"missed data"}


def test_bars_at_other_prices():
    events = told("sma_cross")
    other = events.copy()
    bars = np.flatnonzero(events["kind"] == Kind.BAR)[2000:2010]
    other["payload"][bars, 1] += 400
    other["payload"][bars, 3] += 400
    one, two = ran("sma_cross", events), ran("sma_cross", other)
    found = compare(one, two, "sma_cross")
    assert causes(found) == {"price"}
    counted(one, two, found)


def test_ticks_received_later():
    events = told("skewed_maker")
    later = events.copy()
    later["ts_recv"][15_000:] += 40_000_000
    one, two = ran("skewed_maker", later), ran("skewed_maker", events)
    found = compare(one, two, "skewed_maker")
    assert causes(found) == {"latency"}
    assert "received 40,000,000 ns later in the session" in found.differences[0].why
    counted(one, two, found)


def test_the_same_orders_on_the_same_ticks_are_the_same_whenever_they_came():
    """Two listeners: each has every tick some microseconds apart from the other."""
    events = told("skewed_maker")
    other, draw = events.copy(), np.random.default_rng(5)
    late = draw.integers(0, 20_000, len(events))
    other["ts_recv"] = np.maximum.accumulate(events["ts_recv"] + late)
    one, two = ran("skewed_maker", other), ran("skewed_maker", events)
    found = compare(one, two, "skewed_maker")
    orders = (one.records["kind"] == Kind.ORDER).sum()
    assert found.same[Kind.ORDER] > 0.9 * orders
    assert found.same[Kind.FILL] > 0
    counted(one, two, found)


def test_another_queue():
    """The same orders on the same ticks: only how much lay before them is assumed otherwise."""
    events = told("skewed_maker")
    one = ran("skewed_maker", events, venue__queue="pessimistic")
    two = ran("skewed_maker", events, venue__queue="proportional")
    found = compare(one, two, "skewed_maker", venue__queue="proportional")
    assert found.differences[0].kind == Kind.FILL
    assert found.differences[0].cause == "queue"
    assert causes(found) <= {"queue", "latency", "price"}
    counted(one, two, found)


def test_the_queue_that_an_order_met():
    """Quotes on which orders were sent told the session of fewer lots than lay there."""
    events = told("crypto_maker")
    two = ran("crypto_maker", events)
    sent = two.records["ts_event"][two.records["kind"] == Kind.ORDER]
    other = events.copy()
    touched = np.isin(events["ts_recv"], sent[::60]) & (events["kind"] == Kind.QUOTE)
    other["payload"][touched, 2:4] = 1
    one = ran("crypto_maker", other)
    found = compare(one, two, "crypto_maker")
    fills = [each for each in found.differences if each.kind == Kind.FILL]
    first = fills[0]
    assert first.cause == "queue", first.why
    assert "another queue lay before it, since a quote of" in first.why
    assert causes(found) <= {"queue", "price"}
    counted(one, two, found)


def test_a_session_that_was_halted():
    events = told("sma_cross")
    prepared = ready("sma_cross")
    run = prepared.run
    run.memory.set("curve_on", False)
    half = np.flatnonzero((events["flags"][: len(events) // 2] & MORE) == 0)[-1] + 1
    run.feed(events[:half])
    run.memory.set("e.watch.killed", int(KilledBy.PERSON))
    command = np.zeros(1, EVENT)
    command["ts_event"], command["kind"] = events["ts_event"][half - 1], Kind.COMMAND
    command["side"] = Command.KILL
    run.feed(events[half:])
    one = Ran(np.concatenate([events[:half], command, events[half:]]), run.all_records())
    found = compare(one, ran("sma_cross", events), "sma_cross")
    assert causes(found) == {"risk"}


def test_an_order_that_one_run_refused():
    events = told("sma_cross")
    one = ran("sma_cross", events, max_order=1)
    found = compare(one, ran("sma_cross", events), "sma_cross")
    assert found.differences[0].cause == "risk"
    assert found.differences[0].why.startswith("the session refused it: ")
