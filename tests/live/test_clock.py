"""The cycle counter as a clock, beside the system's."""

import time

import pytest

from quantdsl.live.clock import calibrate, counter


def test_the_counter_never_goes_back():
    read = counter()
    readings = [read() for _ in range(1000)]
    assert readings == sorted(readings)


def test_a_span_is_what_the_system_says():
    """Within a percent: a busy machine may stop us between two readings."""
    clock, read = calibrate(), counter()
    for _ in range(20):
        cycles, before = read(), time.monotonic_ns()
        time.sleep(0.02)
        span = clock.ns(read() - cycles)
        if span == pytest.approx(time.monotonic_ns() - before, rel=0.01):
            break
    else:
        pytest.fail("twenty spans differ")
    assert clock.time_ns(read()) == pytest.approx(time.time_ns(), abs=1e9)
    assert clock.doubt_ns >= 0
