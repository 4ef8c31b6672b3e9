"""The cycle counter as a clock, beside the system's."""

import time

from quantdsl.live.clock import CALIBRATION_S, calibrate, counter


def test_the_counter_never_goes_back():
    read = counter()
    readings = [read() for _ in range(1000)]
    assert readings == sorted(readings)


def test_a_span_is_what_the_system_says():
    """It lies between what the system says from within and from without, but for what two moments
    of the calibration are in doubt, and a hundredth of a percent."""
    clock, read = calibrate(), counter()
    around, first, within = time.monotonic_ns(), read(), time.monotonic_ns()
    time.sleep(0.02)
    within_end, last, around_end = time.monotonic_ns(), read(), time.monotonic_ns()
    span, doubt = clock.ns(last - first), 1e-4 + 2 * clock.doubt_ns / (CALIBRATION_S * 1e9)
    assert (within_end - within) * (1 - doubt) <= span <= (around_end - around) * (1 + doubt)
    assert clock.doubt_ns >= 0


def test_the_time_is_that_of_the_system():
    clock, read = calibrate(), counter()
    before = time.time_ns()
    now = clock.time_ns(read())
    assert before - 10**9 <= now <= time.time_ns() + 10**9
