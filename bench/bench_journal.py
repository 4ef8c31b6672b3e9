"""Promise: 1,000,000 events are recovered in 2 s; journalling costs the hot loop 20 ns an event."""

import statistics
import time
from pathlib import Path

import numpy as np
import pytest

from bench.oracle import Prepared
from quantdsl.codegen.turn import DRY
from quantdsl.events.layout import EVENT, MORE, RECORD
from quantdsl.events.ring import Producer, Ring
from quantdsl.journal.recovery import recover
from quantdsl.journal.writer import Journal, Policy
from quantdsl.live.loop import EventLoop, open_loop

MILLION = 1_000_000
RECOVERY_S_MAX = 2.0
OVERHEAD_NS_MAX = 20.0
DIGEST = bytes(32)
GROUP = 512
ROUNDS = 9


def instants(prepared: Prepared) -> np.ndarray:
    """The run's events but for its end, which a session that is recovered has not seen."""
    return np.concatenate(prepared.events[:-1]).view(EVENT)


def journalled(prepared: Prepared, folder: Path, group: int) -> int:
    """A journal of the run in frames of about so many events; how many there are."""
    run, events = prepared.engine, instants(prepared)
    journal = Journal.open(
        folder, manifest_digest=DIGEST, policy=Policy(fsync="never"), threaded=False
    )
    ends = np.flatnonzero((events["flags"] & MORE) == 0) + 1
    for part in np.split(events, ends[group - 1 : -1 : group]):
        journal.inputs(part)
        before = run.records.count
        run.feed(part)
        journal.outputs(run.all_records()[before:].view(RECORD))
        journal.commit()
    journal.close()
    assert journal.failed is None
    return len(events)


@pytest.mark.parametrize("group", [64, GROUP], ids="groups_of_{}".format)
def test_recovery(benchmark, full, tmp_path, group):
    """Without a checkpoint: every event is read, checked, fed again and its records compared."""
    prepared = Prepared(MILLION if full else 10_000)
    prepared.engine.memory.set("curve_on", False)
    prepared.fresh = prepared.engine.memory.words.copy()
    count = journalled(prepared, tmp_path, group)
    state = prepared.engine.memory.words.copy()

    def again() -> int:
        for part in prepared.kept:
            prepared.engine.memory.words[part] = prepared.fresh[part]
        prepared.engine.records.clear()
        return recover(prepared.engine, tmp_path, manifest_digest=DIGEST).inputs

    assert benchmark.pedantic(again, rounds=5 if full else 1) == count
    for part in prepared.kept:
        assert np.array_equal(prepared.engine.memory.words[part], state[part])
    if full:
        assert benchmark.stats["median"] <= RECOVERY_S_MAX


def engine_ns(loop: EventLoop, feed: Producer, events: np.ndarray, journal: Journal | None) -> int:
    """The time of the loop's own calls for these events, which other threads hand to a journal."""
    spent = 0
    for at in range(0, len(events), GROUP):
        part = events[at : at + GROUP]
        if journal is not None:
            journal.inputs(part)
        assert feed.push(part) == len(part)
        start = time.perf_counter_ns()
        while loop.turns(1) != DRY:
            pass
        spent += time.perf_counter_ns() - start
    return spent


def test_overhead_on_the_hot_loop(benchmark, full, tmp_path):
    """The engine knows of no journal: what is left is what its thread takes from the core."""
    prepared = Prepared(200_000 if full else 4_000)
    events = instants(prepared)
    whole = events[(events["flags"] & MORE) == 0]
    inbound, outbound = Ring.create(None, 4 * GROUP), Ring.create(None, 1 << 16)
    loop = open_loop(prepared.prepared, inbound=inbound, outbound=outbound)
    feed, drain = inbound.producer(), outbound.consumer()
    parts = np.array_split(whole, 2 * ROUNDS)
    journal = Journal.open(tmp_path, manifest_digest=DIGEST)
    overheads = []
    for plain, written in zip(parts[::2], parts[1::2], strict=True):
        cost = []
        for part, kept in ((plain, None), (written, journal)):
            cost.append(engine_ns(loop, feed, part, kept) / len(part))
            drain.pop(1 << 16)
        overheads.append(cost[1] - cost[0])
    journal.close()
    assert journal.committed.inputs == sum(map(len, parts[1::2]))
    overhead = statistics.median(overheads)
    benchmark.extra_info["ns_an_event"] = overhead
    benchmark.pedantic(lambda: None)
    if full:
        assert overhead < OVERHEAD_NS_MAX
