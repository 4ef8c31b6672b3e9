"""Promise: from a quote in the venue's socket to its order 60 us at the median, 120 us with TLS.

A venue in a process of its own stamps each quote as it leaves; a whole session receives it, and the
order is there when another thread can read it from the engine's ring. What bare TCP takes on the
same machine, in the same run and at the same pace, stands beside it.
"""

import numpy as np
import pytest

from bench.wire import ECHO, anchored, session, stages, venue
from tests.waiting import until

EVERY_US = 5_000
"""The house lets 256 orders a second pass."""
PROMISED_US = {"plain": 60.0, "tls": 120.0}


@pytest.mark.parametrize("how", PROMISED_US)
def test_socket_to_order(how, benchmark, full, tmp_path):
    count = 3_000 if full else 60
    with venue(count + 2_000, EVERY_US, tls=how == "tls") as quoted:
        bare = anchored(quoted.places, 1_000 if full else 10)
        with session(tmp_path, ECHO, quoted.places, probed=True) as live:
            until(lambda: live.why or (live.probe and live.probe.count >= count))
            assert not live.why, live.why
            took = stages(live.probe, quoted.sent_ns)
            (one,) = live.strategies
            assert one.fault == ""
            assert one.lane.count >= count
    assert min(values.min() for values in took.values()) > 0
    benchmark.pedantic(lambda: None)
    figures = {name: np.percentile(values / 1e3, (50, 90, 99)) for name, values in took.items()}
    for name, (p50, p90, p99) in figures.items():
        benchmark.extra_info[f"{name}_us"] = f"p50 {p50:.1f}  p90 {p90:.1f}  p99 {p99:.1f}"
    benchmark.extra_info["bare_tcp_us"] = f"p50 {np.median(bare) / 1e3:.1f}"
    benchmark.extra_info["promised_us"] = PROMISED_US[how]
