"""The engine's thread against the backtest of the same events: records and state to the byte."""

import ctypes
import os
import sys
import threading
import time

import numpy as np
import pytest

from quantdsl.codegen.turn import DRY, FULL, STOP, STOPPED
from quantdsl.errors import RingError
from quantdsl.events.layout import RECORD
from quantdsl.events.ring import BEAT, CONSUMER, PRODUCER, Ring, Watch
from quantdsl.live.loop import EventLoop, Pace, carry
from quantdsl.live.machine import usable
from tests.live.programs import backtested, events, loop, ready, settled
from tests.waiting import WAIT_S, until

CORE = max(usable())
KEEPS_THE_LOCK = ctypes.PyDLL(None)


def through(engine: EventLoop, chunks: list) -> bytes:
    found = [engine.run.all_records().tobytes()]
    carry(engine, chunks, lambda records: found.append(records.tobytes()))
    return b"".join(found)


@pytest.mark.parametrize("pace", [Pace("yield", 10), Pace("spin")], ids=["yield", "spin"])
def test_a_replay_gives_the_records_and_the_state_of_the_backtest(pace):
    prepared = ready("sma_cross")
    engine = loop(prepared)
    engine.start(CORE, pace)
    assert through(engine, events(prepared)) == backtested("sma_cross")[0]
    assert np.array_equal(settled(prepared), backtested("sma_cross")[1])


def test_sessions_and_timers_go_the_same_way():
    """Instants of several events, timers and a session's close; rings that wrap all the time."""
    prepared = ready("opening_range")
    engine = loop(prepared, inbound=256)
    engine.start(CORE)
    assert through(engine, events(prepared)) == backtested("opening_range")[0]


def test_a_full_outbound_ring_holds_the_engine_and_loses_nothing():
    prepared = ready("sma_cross")
    chunks = np.concatenate([chunk.view(RECORD) for chunk in events(prepared)])
    engine = loop(prepared, inbound=1 << 16)
    first = engine.run.all_records().tobytes()
    feed, drain = engine.inbound.producer(), engine.outbound.consumer()
    sent = feed.push(chunks.view(engine.inbound.records.dtype))
    reader = engine.outbound
    reader.words[32] -= reader.capacity - 40  # a reader that left little room
    assert engine.turns(1) == FULL
    stuck = engine.inbound.waiting
    assert 0 < stuck < sent
    assert engine.turns(1) == FULL
    assert engine.inbound.waiting == stuck
    reader.words[32] += reader.capacity - 40
    found = [first]
    while engine.turns(1) == FULL or engine.outbound.waiting:
        found.append(drain.pop(reader.capacity).tobytes())
    assert b"".join(found) == backtested("sma_cross")[0]


def test_stop_dry_and_the_heart():
    engine = loop(ready("sma_cross"))
    consumer, producer = Watch(engine.inbound, CONSUMER), Watch(engine.outbound, PRODUCER)
    assert engine.turns(100) == DRY
    engine.inbound.take_role(CONSUMER)
    engine.outbound.take_role(PRODUCER)
    assert consumer.alive()
    assert producer.alive()
    assert consumer.beat > 99
    assert producer.beat > 99
    engine.control[STOP] = 1
    assert engine.turns(100) == STOPPED


def test_the_engine_owns_its_ends_while_it_runs():
    engine = loop(ready("sma_cross"))
    engine.start(CORE)
    while not engine.inbound.cells[CONSUMER]:
        time.sleep(0.001)
    with pytest.raises(RingError, match="has a consumer already"):
        engine.inbound.consumer()
    engine.stop()
    engine.inbound.consumer()


def test_what_goes_wrong_on_the_thread_is_raised_by_stop():
    engine = loop(ready("sma_cross"))
    engine.inbound.consumer()
    engine.start(CORE)
    with pytest.raises(RingError, match="has a consumer already"):
        engine.stop()


def test_an_outbound_ring_too_small_for_an_instant():
    with pytest.raises(RingError, match="records of one instant\nhelp: at least 4096"):
        loop(ready("sma_cross"), outbound=64)


def test_the_thread_is_pinned_and_others_run_meanwhile():
    """Spinning does not hold Python's lock: this thread goes on."""
    engine = loop(ready("sma_cross"))
    seen = []
    drive = engine.drive

    def pinned(pace: Pace) -> None:
        seen.append(os.sched_getaffinity(0))
        drive(pace)

    engine.drive = pinned
    engine.start(CORE, Pace("spin"), priority=1, lock_memory=False)
    turns = sum(1 for _ in range(1000))
    engine.stop()
    assert seen == [{CORE}]
    assert turns == 1000
    assert os.sched_getaffinity(0) == usable()
    assert all("SCHED_FIFO" in line for line in engine.refused)
    assert threading.active_count() >= 1


@pytest.mark.parametrize("pace", [Pace("yield", 10), Pace("spin")], ids=["yield", "spin"])
def test_an_engine_waits_for_nobody_who_has_pythons_lock(pace):
    """A thread that shows a session, or collects garbage, has it for milliseconds."""
    prepared = ready("sma_cross")
    engine = loop(prepared)
    engine.start(CORE, pace)
    until(lambda: engine.inbound.cells[CONSUMER + BEAT])
    feed, switch_s = engine.inbound.producer(), sys.getswitchinterval()
    sys.setswitchinterval(10 * WAIT_S)
    try:
        for event in events(prepared)[0][:20].reshape(-1, 1):
            feed.push(event)
            end_s = time.monotonic() + WAIT_S
            while engine.inbound.waiting and time.monotonic() < end_s:
                KEEPS_THE_LOCK.usleep(100)
            assert not engine.inbound.waiting
    finally:
        sys.setswitchinterval(switch_s)
        engine.stop()


def test_a_ring_in_a_file_joins_two_processes(tmp_path):
    """The engine's rings may lie in files that other processes feed and read."""
    prepared = ready("sma_cross")
    engine = loop(prepared)
    engine.inbound = Ring.create(tmp_path / "in", 64)
    engine.outbound = Ring.create(tmp_path / "out", 1 << 13)
    engine.start(CORE)
    feed, drain = Ring.open(tmp_path / "in"), Ring.open(tmp_path / "out")
    producer, consumer = feed.producer(), drain.consumer()
    chunk = events(prepared)[0]
    sent, got = 0, [engine.run.all_records().tobytes()]
    while sent < len(chunk) or feed.waiting:
        sent += producer.push(chunk[sent:])
        got.append(consumer.pop(drain.capacity).tobytes())
    engine.stop()
    got.append(consumer.pop(drain.capacity).tobytes())
    whole = backtested("sma_cross")[0]
    assert whole.startswith(b"".join(got))
    assert len(b"".join(got)) > len(whole) // 2
