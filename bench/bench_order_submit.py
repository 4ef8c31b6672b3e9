"""Promise: from the return of a handler to the record of its order 40 ns at the median."""

import numpy as np

from bench.latency import noted, same_bits, sized
from quantdsl.live.stages import STAGES, stage_probes


def test_order_submit(benchmark, full):
    """The difference of the step with and without the gate, of events that send an order."""
    made = sized(full)
    assert len(made.ordering) == len(np.unique(made.ordering)) > 10
    probe = stage_probes(made.module)[STAGES.index("risk and orders")]
    assert same_bits(made, probe, made.stream[:300])
    rows = benchmark.pedantic(made.submission, rounds=3 if full else 1)
    assert noted(benchmark, rows).count > 10
