"""Promise: 100,000 messages/s for a minute with nothing lost; at twice the recorded peak for ten
minutes p99 within 3 times of what it is at the recorded mean. A bench run holds the peak for one
minute, with --overload-s 600 for all ten.

A venue in a process of its own floods a whole session, its journal included. What came is what the
engine saw and what newer quotes replaced while it was behind, one by one: nothing is lost unseen.
"""

import time
from pathlib import Path

import numpy as np
import pytest

from bench.wire import ECHO, WATCHER, Measured, session, stages, venue
from quantdsl.events.layout import Kind
from quantdsl.journal.reader import segments
from tests.waiting import WAIT_S, until

RATE, MINUTE_S = 100_000, 60
MEAN, PEAK = 272, 2_466
"""Messages a second in the recording of Binance's futures of 8 August 2024, and in its fullest."""
TIMES_MAX = 3.0


def consumed(live: Measured, count: int, seconds: float) -> float:
    """Wait until the feed has so many messages and the engine what came of them; how long it took.
    """
    (one,), (feed,) = live.strategies, live.feeds
    until(lambda: live.why or feed.health.received > 1)
    began = time.monotonic()
    while not live.why and time.monotonic() - began < 3 * seconds + WAIT_S:
        if feed.health.received > count and not one.lane.behind and not one.inbound.waiting:
            break
        time.sleep(0.01)
    assert not live.why, live.why
    return time.monotonic() - began


def accounted(live: Measured, folder: Path, count: int) -> int:
    """Asserts that no message is lost unseen; how many newer ones replaced."""
    (one,), (feed,) = live.strategies, live.feeds
    health, lane = feed.health, one.lane
    assert (health.gaps, health.dropped, lane.dropped, one.fault) == (0, 0, 0, "")
    quotes = sum(
        int(np.count_nonzero(segment.inputs()["kind"] == Kind.QUOTE))
        for segment in segments(folder / "session" / one.name)
    )
    assert quotes + lane.backlog.conflated == count
    return lane.backlog.conflated


def test_sustained(benchmark, full, tmp_path):
    rate, seconds = (RATE, MINUTE_S) if full else (20_000, 1)
    count = rate * seconds
    with venue(count, 1_000, at_once=rate // 1_000) as quoted:
        with session(tmp_path, WATCHER, quoted.places, wait="yield") as live:
            took_s = consumed(live, count, seconds)
        benchmark.extra_info["replaced"] = accounted(live, tmp_path, count)
    benchmark.extra_info["messages_a_second"] = count / took_s
    benchmark.extra_info["promised_a_second"] = RATE
    benchmark.pedantic(lambda: None)


def p99_us(folder: Path, rate: int, seconds: float) -> float:
    """From the socket to the engine's answer, each quote having one."""
    folder.mkdir()
    count = round(rate * seconds)
    with venue(count, round(1e6 / rate)) as quoted:
        with session(folder, ECHO, quoted.places, wait="yield", probed=True) as live:
            consumed(live, count, seconds)
            assert live.probe is not None
            took = stages(live.probe, quoted.sent_ns)["all"]
        accounted(live, folder, count)
    return float(np.percentile(took, 99)) / 1e3


def test_twice_the_recorded_peak(benchmark, full, request, tmp_path):
    held_s = request.config.getoption("--overload-s") if full else 1
    normal = p99_us(tmp_path / "normal", MEAN, min(held_s, MINUTE_S))
    twice = p99_us(tmp_path / "twice", 2 * PEAK, held_s)
    benchmark.extra_info |= {
        "held_s": held_s, "normal_p99_us": normal, "twice_the_peak_p99_us": twice,
        "times_normal": twice / normal, "promised_times": TIMES_MAX,
    }  # fmt: skip
    benchmark.pedantic(lambda: None)


@pytest.mark.parametrize("wait", ["spin", "yield", "sleep"])
def test_what_came_is_accounted_for_however_the_engine_waits(benchmark, tmp_path, wait):
    count = 20_000
    with venue(count, 1_000, at_once=100) as quoted:
        with session(tmp_path, WATCHER, quoted.places, wait=wait) as live:
            consumed(live, count, 1.0)
        accounted(live, tmp_path, count)
    benchmark.pedantic(lambda: None)
