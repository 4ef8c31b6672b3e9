"""Promise: a record goes through a ring from one core to another in 200 ns at the median."""

import numpy as np
import pytest

from bench.latency import noted, sized
from quantdsl.live.latency import PINGS


def test_ring_hop(benchmark, full):
    """There and back between two threads of machine code; every event came back."""
    made = sized(full)
    if made.feed_core is None:
        pytest.skip("it takes two cores")
    rows = benchmark.pedantic(made.between_cores, rounds=3 if full else 1)
    ordered = np.count_nonzero(made.ordering < PINGS)
    assert rows[-1].count == ordered
    assert rows[1].count + ordered == min(len(made.stream), PINGS)
    assert noted(benchmark, rows[:1]).count == rows[1].count + ordered
