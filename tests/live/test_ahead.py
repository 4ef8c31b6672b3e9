"""Orders are in the outbound ring before their instant is over, and come again with it."""

import numpy as np
import pytest

from quantdsl.backtest.prepare import prepare
from quantdsl.codegen.turn import FULL
from quantdsl.events.codes import Kind
from quantdsl.events.layout import RECORD
from quantdsl.events.ring import AHEAD, PUBLISHED
from quantdsl.live.loop import EventLoop
from tests.backtest.test_lane_entry import checked_text
from tests.live.programs import events, loop, ready

ATOMIC = """language 1
strategy Legs:
    "Two legs that stand or fall together: the second one is too large."
    bars 5m
    on bar:
        if flat:
            atomic:
                buy(1 share, limit = close)
                buy(200 shares, limit = close)
    risk:
        max_order = 100 shares
    backtest:
        cash = 1_000_000 USD
"""


def instants(engine: EventLoop, stream: np.ndarray, most: int):
    """The records of each event, and how many of them AHEAD covered before they were published."""
    feed, drain = engine.inbound.producer(), engine.outbound.consumer()
    cells = engine.outbound.cells
    for event in stream[:most]:
        before = cells[PUBLISHED]
        feed.push(event.reshape(1))
        engine.turns(1)
        yield drain.pop(engine.outbound.capacity).view(RECORD), cells[AHEAD] - before


def until_the_last_order(records: np.ndarray) -> int:
    """So many records stand when the last order of an instant does."""
    found = np.flatnonzero(records["kind"] == Kind.ORDER)
    return int(found[-1]) + 1 if len(found) else 0


@pytest.mark.parametrize("name", ["sma_cross", "skewed_maker"])
def test_all_up_to_the_last_order_stands_before_the_instant_ends(name):
    prepared = ready(name)
    stream = np.concatenate(events(prepared)[:2])
    orders = 0
    # A small ring: its end is passed again and again.
    for records, ahead in instants(loop(prepared, outbound=1 << 13), stream, 20_000):
        expected = until_the_last_order(records)
        assert ahead == expected or (ahead <= 0 and not expected)
        orders += expected > 0
    assert orders > 10


def test_a_leg_that_may_be_taken_back_waits_for_its_instant():
    prepared = prepare(checked_text(ATOMIC))
    stream = np.concatenate(events(prepared)[:1])
    kinds = [
        (records["kind"].tolist(), ahead)
        for records, ahead in instants(loop(prepared), stream, 10)
        if Kind.ORDER in records["kind"]
    ]
    assert len(kinds) > 3
    assert all(ahead <= 0 and Kind.CANCEL in kind for kind, ahead in kinds)


def test_without_room_nothing_is_ahead_and_nothing_is_lost():
    prepared = ready("sma_cross")
    stream = np.concatenate(events(prepared))
    engine = loop(prepared, inbound=1 << 16)
    feed, drain = engine.inbound.producer(), engine.outbound.consumer()
    feed.push(stream)
    engine.outbound.words[32] -= engine.outbound.capacity  # a reader that left no room
    assert engine.turns(1) == FULL
    assert engine.outbound.cells[AHEAD] == engine.outbound.cells[PUBLISHED]
    engine.outbound.words[32] += engine.outbound.capacity
    assert len(drain.ahead()) == 0


def test_what_a_killed_engine_showed_is_what_its_replay_writes():
    """Between the two cursors: the order is seen, its instant is not; the replay has both."""
    prepared = ready("sma_cross")
    stream = np.concatenate(events(prepared))
    engine = loop(prepared)
    replayed = [records.copy() for records, _ in instants(engine, stream, 3000)]
    at = next(k for k, records in enumerate(replayed) if until_the_last_order(records))
    killed = loop(ready("sma_cross"))
    seen = None
    for k, (records, ahead) in enumerate(instants(killed, stream, at + 1)):
        if k == at:
            # As memory was when the order stood and nothing after it.
            killed.outbound.cells[PUBLISHED] -= len(records)
            killed.outbound.cells[32] -= len(records)
            seen = int(ahead)
    killed.outbound.leave_role(64)
    reader = killed.outbound.consumer()
    shown = reader.ahead().view(RECORD).copy()
    assert len(shown) == seen > 0
    assert len(reader.take(8)) == 0
    assert shown.tobytes() == replayed[at][: len(shown)].tobytes()
    assert Kind.ORDER in shown["kind"]
    killed.outbound.leave_role(48)
    killed.outbound.producer()
    assert len(reader.ahead()) == 0, "who takes over begins the instant anew"
